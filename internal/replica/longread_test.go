package replica

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// longListSize is enough for several steps of a Scan.
const longListSize = 20_000

// TestReadBatchLetsOthersIn: a batch of reads lets the replica go before it has done much
// more than readWorkMax, however many requests it has.
func TestReadBatchLetsOthersIn(t *testing.T) {
	t.Parallel()
	v := serve(t)
	raw := pipeline{}
	batch := readBatch{r: v.rep, c: v.c, now: v.now.Load()}
	held, released := 0, 0
	for range 5000 {
		before := len(v.c.out.frames)
		request := raw.request(nil, jute.OpGetData, reading("/turn", false))
		if err := batch.request(raw.xid, lookup(jute.OpGetData), request[4+jute.RequestHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		held += len(v.c.out.frames) - before
		if !batch.held {
			held = 0
			released++
		}
		if held > readWorkMax {
			t.Fatalf("the replica is held over replies of %d bytes", held)
		}
	}
	if released == 0 {
		t.Error("the replica is never let go")
	}
	batch.release()
}

// TestLongReadsLetOthersIn: what waits behind a write is answered while the replica
// is held alone only if it is little; the rest is done in steps, between which
// nobody holds the replica.
func TestLongReadsLetOthersIn(t *testing.T) {
	t.Parallel()
	value := make([]byte, 100_000)
	for name, tc := range map[string]struct {
		requests int
		op       jute.Op
		record   func([]byte) []byte
		inline   int // bytes that may be answered at once
		steps    int // at least
	}{
		"large values": {900, jute.OpGetData, reading("/v", false), 0, 900},
		"a long list":  {1, jute.OpGetChildren, reading("/l", false), 0, longListSize / 5000},
		"watches": {1, jute.OpSetWatches, func(b []byte) []byte {
			w := jute.SetWatches{Data: make([]string, 20*setWatchesStep)}
			for i := range w.Data {
				w.Data[i] = fmt.Sprintf("/l/n%06d", i)
			}
			w.RelativeZxid = 1 << 60
			return w.Append(b, jute.OpSetWatches)
		}, 0, 20},
		"many reads in one": {5, jute.OpMultiRead, func(b []byte) []byte {
			ops := make([]jute.MultiOp, 1000)
			for i := range ops {
				ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/l/n000001"}
			}
			return jute.AppendMulti(b, ops)
		}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{})
			c := s.client(nil)
			s.apply(s.forward()...)
			c.TakeOutput(nil)
			raw := pipeline{}
			receive := func(stream []byte) {
				if _, err := s.receive(c, stream); err != nil {
					t.Fatal(err)
				}
			}
			receive(raw.request(nil, jute.OpCreate, creating("/v", value, 0)))
			receive(raw.request(nil, jute.OpCreate, creating("/l", nil, 0)))
			for i := 0; i < longListSize; i += 1000 {
				ops := make([]jute.MultiOp, 1000)
				for j := range ops {
					ops[j] = jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprintf("/l/n%06d", i+j), ACL: jute.WorldACL(jute.PermAll)}
				}
				receive(raw.request(nil, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) }))
			}
			for records := s.forward(); len(records) > 0; records = s.forward() {
				s.apply(records...)
			}
			c.TakeOutput(nil)

			receive(raw.request(nil, jute.OpSetData, setting("/v", value)))
			for range tc.requests {
				receive(raw.request(nil, tc.op, tc.record))
			}
			receive(raw.request(nil, jute.OpCreate, creating("/behind", nil, 0)))
			records := s.forward()
			s.apply(records...)
			if n := len(c.out.frames); n > tc.inline+1000 {
				t.Errorf("%d bytes were answered while the write was applied, want up to %d", n, tc.inline)
			}
			steps, replies := 0, 0
			for n := 0; c.steps.due || len(c.out.frames) > 0; {
				if n = len(c.out.frames); n > outputPauseBytes+tree.ReplyBytesMax {
					t.Fatalf("%d bytes wait to be read", n)
				}
				if replies += countReplies(c.out.frames); c.steps.due {
					c.out.frames = nil
					s.r.readMore(c)
					if steps++; !s.r.mu.TryLock() {
						t.Fatal("a step holds the replica")
					}
					s.r.mu.Unlock()
					continue
				}
				c.out.frames = nil
			}
			if steps < tc.steps || replies != tc.requests+1 {
				t.Errorf("%d replies in %d steps, want %d in at least %d", replies, steps, tc.requests+1, tc.steps)
			}
			s.apply(s.forward()...)
			if countReplies(c.out.frames) != 1 || c.unanswered.len() != 0 || c.ahead.longReads.Load() != 0 {
				t.Errorf("the write behind: %d replies, %d requests unanswered", countReplies(c.out.frames), c.unanswered.len())
			}
		})
	}
}

// TestSyncBehindALongRead: a sync that becomes ready while reads ahead of it are
// still to be answered doesn't let go the write behind it.
func TestSyncBehindALongRead(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	raw := pipeline{}
	receive := func(op jute.Op, record func([]byte) []byte) {
		if _, err := s.receive(c, raw.request(nil, op, record)); err != nil {
			t.Fatal(err)
		}
	}
	receive(jute.OpCreate, creating("/v", make([]byte, 1000), 0))
	receive(jute.OpMultiRead, func(b []byte) []byte {
		ops := make([]jute.MultiOp, 1000)
		for i := range ops {
			ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/v"}
		}
		return jute.AppendMulti(b, ops)
	})
	receive(jute.OpExists, reading("/behind", false))
	receive(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	receive(jute.OpCreate, creating("/behind", nil, 0))
	s.apply(s.forward()...)
	s.r.readMore(c) // finds out how much memory the reply takes
	s.r.readMore(c)
	if !c.steps.due || c.unanswered.len() != 3 {
		t.Fatalf("a step has left %d requests", c.unanswered.len())
	}
	s.r.Synced(s.r.Syncs())
	if sent := s.forward(); len(sent) != 0 {
		t.Fatal("the write is sent while a read ahead of it waits")
	}
	for c.steps.due {
		s.r.readMore(c)
	}
	s.apply(s.forward()...)
	s.want(c, 5, true)
}

// countReplies counts the frames in out that aren't notifications.
func countReplies(out []byte) (n int) {
	for len(out) > 0 {
		if int32(binary.BigEndian.Uint32(out[4:])) != jute.XidNotification {
			n++
		}
		out = out[4+binary.BigEndian.Uint32(out):]
	}
	return n
}

// TestOutputOfASlowReader: a client that sends many reads of large values and takes
// nothing doesn't make the replica keep their replies; once it takes, it gets them all.
func TestOutputOfASlowReader(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	s.call(c, &pipeline{}, jute.OpSetData, setting("/turn", make([]byte, 1_000_000)))
	const reads = 50
	var stream []byte
	raw := pipeline{}
	for range reads {
		stream = raw.request(stream, jute.OpGetData, reading("/turn", false))
	}
	taken, now := make(chan error, 1), s.now.Load()
	go func() {
		_, err := s.rep.Receive(c, stream, now)
		taken <- err
	}()
	most := 0
	waits := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.out.frames)
	}
	eventually(t, "replies wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.steps.due
	})
	for got := 0; got < reads; {
		most = max(most, waits())
		got += len(s.repliesNow(c))
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if most > outputPauseBytes+2_000_000 {
		t.Errorf("%d bytes waited to be taken", most)
	}
}

// TestLargeReplies: whoever asks for large values, for many in one or for a long list gets
// memory for the reply while nobody holds the replica, and a reply that would be too large
// gets none.
func TestLargeReplies(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	value := make([]byte, 900_000)
	s.call(c, &raw, jute.OpSetData, setting("/turn", value))
	s.call(c, &raw, jute.OpCreate, creating("/long", nil, 0))
	for i := range 4 {
		s.call(c, &raw, jute.OpCreate, creating(fmt.Sprintf("/long/%d%s", i, strings.Repeat("n", 300_000)), nil, 0))
	}
	lists := func(n int) func([]byte) []byte {
		ops := slices.Repeat([]jute.MultiOp{{Op: jute.OpGetChildren, Path: "/long"}}, n)
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	reads := func(n int) func([]byte) []byte {
		ops := make([]jute.MultiOp, n)
		for i := range ops {
			ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/turn"}
		}
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	for name, tc := range map[string]struct {
		op     jute.Op
		record func([]byte) []byte
		size   int // of the reply's body, at least
		most   int // bytes of memory for the reply
		code   jute.Code
	}{
		"a value":        {jute.OpGetData, reading("/turn", false), len(value), len(value) * 5 / 4, jute.OK},
		"several in one": {jute.OpMultiRead, reads(4), 4 * len(value), 5 * len(value), jute.OK},
		"too many":       {jute.OpMultiRead, reads(1000), 0, 1000, jute.ErrMarshallingError},
		// The length of a list isn't known in advance: each try has twice as much.
		"long names":     {jute.OpMultiRead, lists(1), 1_200_000, 2_400_000, jute.OK},
		"more of them":   {jute.OpMultiRead, lists(3), 3_600_000, 7_200_000, jute.OK},
		"too many names": {jute.OpMultiRead, lists(4), 0, 5_000_000, jute.ErrMarshallingError},
	} {
		c.out.frames = make([]byte, 0, 1000) // what it is given while it is held shows
		s.send(c, raw.request(nil, tc.op, tc.record))
		if cap(c.out.frames) > 1000 {
			t.Errorf("%s: %d bytes of memory were taken while the replica was held", name, cap(c.out.frames))
		}
		for c.steps.due && len(c.out.frames) == 0 {
			s.rep.readMore(c)
		}
		if size := cap(c.out.frames); size > tc.most {
			t.Errorf("%s: a reply of %d bytes has %d bytes of memory", name, len(c.out.frames), size)
		}
		list := s.repliesNow(c)
		if len(list) != 1 || list[0].Err != tc.code || len(list[0].body) < tc.size {
			t.Errorf("%s: %d replies, the first with code %v", name, len(list), list[0].Err)
		}
	}
}

// TestStepsTakeTurns: who waits for another's step of a long read doesn't hold the replica.
func TestStepsTakeTurns(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	s.call(c, &raw, jute.OpSetData, setting("/turn", make([]byte, 900_000)))
	s.send(c, raw.request(nil, jute.OpGetData, reading("/turn", false)))
	s.rep.heavy.Lock() // another's step
	done := make(chan struct{})
	go func() {
		defer close(done)
		if list := s.repliesNow(c); len(list) != 1 || list[0].Err != jute.OK {
			t.Errorf("replies: %v", list)
		}
	}()
	for range 100 {
		runtime.Gosched()
		if !s.rep.mu.TryLock() {
			t.Error("it holds the replica")
			break
		}
		s.rep.mu.Unlock()
	}
	select {
	case <-done:
		t.Error("it took no turn")
	default:
	}
	s.rep.heavy.Unlock()
	<-done
}

// TestReadWork: what a read counts as, by its request, its reply, and the identities of its client.
func TestReadWork(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	for _, of := range []struct{ request, reply, ids, want int }{
		{0, 0, 1, 256 + 16}, {10, 0, 1, 256 + 80 + 16}, {0, 1000, 1, 1256 + 16}, {1, 1, 3, 256 + 8 + 1 + 48},
	} {
		ids := make([]jute.ID, of.ids)
		c.Identify(ids)
		if got := s.r.reads.readWork(c, of.request, of.reply); got != of.want {
			t.Errorf("%+v: %d", of, got)
		}
	}
	rules := rulesOf("team=glob")
	s.r.levels.rules.Store(&rules)
	c.Identify([]jute.ID{{Scheme: "team", ID: "a"}, {Scheme: "digest", ID: "b"}})
	if got := s.r.reads.readWork(c, 0, 0); got != 256+2*16+1024 {
		t.Errorf("with an identity that a rule is asked about: %d", got)
	}
}

// TestIsLong: which reads that wait for a write are done in steps.
func TestIsLong(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, raw := s.session(), &pipeline{}
	for _, n := range []int{longReadZnodes, longReadZnodes + 1} {
		parent := fmt.Sprintf("/%d", n)
		s.sends(c, raw, jute.OpCreate, creating(parent, nil, 0))
		for made := 0; made < n; {
			var ops []jute.MultiOp
			for ; made < n && len(ops) < 500; made++ {
				path := fmt.Sprint(parent, "/", made)
				ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)})
			}
			s.sends(c, raw, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
		}
	}
	list := func(n int) []byte { return reading(fmt.Sprintf("/%d", n), false)(nil) }
	for _, of := range []struct {
		name string
		op   jute.Op
		body []byte
		want bool
	}{
		{"few children", jute.OpGetChildren, list(longReadZnodes), false},
		{"many children", jute.OpGetChildren, list(longReadZnodes + 1), true},
		{"few children with a Stat", jute.OpGetChildren2, list(longReadZnodes), false},
		{"many children with a Stat", jute.OpGetChildren2, list(longReadZnodes + 1), true},
		{"ephemerals", jute.OpGetEphemerals, reading("/", false)(nil), true},
		{"watches", jute.OpSetWatches, nil, true}, {"watches of five kinds", jute.OpSetWatches2, nil, true},
		{"a short multiRead", jute.OpMultiRead, make([]byte, longReadInput), false},
		{"a long multiRead", jute.OpMultiRead, make([]byte, longReadInput+1), true},
		{"an ACL", jute.OpGetACL, reading("/", false)(nil), false}, {"data", jute.OpGetData, reading("/", false)(nil), false},
		{"a ping", jute.OpPing, nil, false}, {"a refusal", jute.OpError, nil, false},
	} {
		if got := s.r.reads.isLong(c, of.op, of.body); got != of.want {
			t.Errorf("%s: long %t", of.name, got)
		}
	}
	// Of many that wait, those beyond the work of one step.
	exists := reading("/", false)(nil)
	work := s.r.reads.readWork(c, len(exists), s.r.tree.ReadWork(jute.OpExists, "/", c.session))
	c.unanswered.reads = queuedReadsMax - 1
	if s.r.reads.isLong(c, jute.OpExists, exists) || c.unanswered.work != 0 {
		t.Error("with few reads that wait, their work counts")
	}
	c.unanswered.reads = queuedReadsMax
	c.unanswered.work = readWorkMax - work
	if s.r.reads.isLong(c, jute.OpExists, exists) || c.unanswered.work != readWorkMax {
		t.Errorf("with as much work as one step may do: %d", c.unanswered.work)
	}
	if !s.r.reads.isLong(c, jute.OpExists, exists) {
		t.Error("with more work than one step may do, a read isn't long")
	}
}

// TestListTooLong: a list that no reply may hold is refused, with an error that clients know, and sets no watch. The
// refusal is counted, and the connection goes on.
func TestListTooLong(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	raw := pipeline{}
	s.sends(c, &raw, jute.OpCreate, creating("/l", nil, 0))
	name := strings.Repeat("n", 90_000)
	for i := 0; i*len(name) <= tree.ReplyBytesMax; i++ {
		q := tree.Request{Op: jute.OpCreate, Body: creating(fmt.Sprintf("/l/%04d%s", i, name), nil, 0)(nil)}
		s.apply(tree.AppendRecord(nil, &q))
	}
	for _, op := range []jute.Op{jute.OpGetChildren, jute.OpExists} {
		out := s.sends(c, &raw, op, reading("/l", op == jute.OpGetChildren))
		var h jute.ReplyHeader
		h.Decode(jute.NewDecoder(out[frameLengthSize:]))
		want := jute.OK
		if op == jute.OpGetChildren {
			want = jute.ErrMarshallingError
		}
		if h.Err != want || countReplies(out) != 1 || len(out) > 1000 {
			t.Errorf("%v: %v, %d bytes; want %v", op, h.Err, len(out), want)
		}
	}
	if n := s.r.meters.refused[tree.LimitReply].Value(); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	if n := s.r.watches.table.SizeOf(c.id); n != 0 || c.Ending() != "" {
		t.Errorf("%d watches are set, and the connection ends: %q", n, c.Ending())
	}
}
