package server

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// fill creates n znodes below path, which it creates too.
func fill(c *rawClient, path string, n int, mode jute.CreateMode) {
	c.t.Helper()
	if h, _ := c.call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
		c.t.Fatalf("create %s: %v", path, h.Err)
	}
	for i := 0; i < n; {
		var ops []jute.MultiOp
		for ; i < n && len(ops) < 1000; i++ {
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprintf("%s/n%06d", path, i), ACL: jute.WorldACL(jute.PermAll), Flags: mode})
		}
		if h, _ := c.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) }); h.Err != jute.OK {
			c.t.Fatalf("create below %s: %v", path, h.Err)
		}
	}
}

// names decodes the vector of strings with which a reply begins.
func names(body []byte) []string { return jute.NewDecoder(body).Strings() }

// longListSize is enough for several steps of a Scan.
const longListSize = 20_000

// TestLongReadShowsOneState reads lists in steps while another client changes them
// all the time: each reply shows exactly the state of its zxid.
func TestLongReadShowsOneState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op   jute.Op
		mode jute.CreateMode
	}{
		"getChildren":   {jute.OpGetChildren, jute.ModePersistent},
		"getChildren2":  {jute.OpGetChildren2, jute.ModePersistent},
		"getEphemerals": {jute.OpGetEphemerals, jute.ModeEphemeral},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Options{})
			addr := s.Addrs()[0].String()
			reader, writer := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
			fill(reader, "/l", longListSize, tc.mode)
			// Each change removes the last of the fixed names that is left, and adds a name,
			// so the length stays and the names tell the change.
			zxids := []int64{0}
			var mu sync.Mutex
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for i := 1; i <= longListSize/2; i++ {
					select {
					case <-stop:
						return
					default:
					}
					ops := []jute.MultiOp{{Op: jute.OpDelete, Path: fmt.Sprintf("/l/n%06d", longListSize-i), Version: -1}}
					h, _ := writer.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
					if h.Err != jute.OK {
						t.Errorf("change %d: %v", i, h.Err)
						return
					}
					mu.Lock()
					zxids = append(zxids, h.Zxid)
					mu.Unlock()
				}
			}()
			for range 40 {
				h, body := reader.call(tc.op, reading("/l", false))
				if h.Err != jute.OK {
					t.Fatal(h.Err)
				}
				got := names(body)
				changes := longListSize - len(got)
				if last := got[len(got)-1]; !strings.HasSuffix(last, fmt.Sprintf("n%06d", len(got)-1)) {
					t.Fatalf("%d names, the last is %s: no state has that", len(got), last)
				}
				mu.Lock()
				if changes < len(zxids) && h.Zxid < zxids[changes] || changes+1 < len(zxids) && h.Zxid >= zxids[changes+1] {
					t.Fatalf("zxid %#x with %d changes, which came with zxids %#x", h.Zxid, changes, zxids[changes:min(changes+2, len(zxids))])
				}
				mu.Unlock()
			}
			close(stop)
			<-done
		})
	}
}

// TestLongReadsInAPipeline mixes long reads with writes, small reads and syncs, all
// sent at once: each reply comes in its turn and shows exactly the writes before it.
func TestLongReadsInAPipeline(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string]func(t *testing.T) []string{
		"alone": func(t *testing.T) []string { return []string{open(t, Options{}).Addrs()[0].String()} },
		"ensemble": func(t *testing.T) (all []string) {
			_, opts := threeServers(t, Options{})
			for _, o := range opts {
				all = append(all, o.Listen[0])
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, addr := range addrs(t) {
				c := connect(t, addr, 0, nil)
				path := fmt.Sprintf("/p%d", i)
				fill(c, path, 2*longReadZnodes, 0)
				pipelineOfLongReads(t, c, path, 2*longReadZnodes)
			}
		})
	}
}

func pipelineOfLongReads(t *testing.T, c *rawClient, path string, size int) {
	const rounds = 60
	var stream []byte
	var wants []func(body []byte) string // says what is wrong
	ask := func(op jute.Op, record func([]byte) []byte, want func(body []byte) string) {
		stream = c.request(stream, op, record)
		wants = append(wants, want)
	}
	any := func([]byte) string { return "" }
	for i := range rounds {
		ask(jute.OpCreate, creating(fmt.Sprintf("%s/more%d", path, i), []byte{byte(i)}, 0), any)
		ask(jute.OpGetChildren, reading(path, i%7 == 0), func(body []byte) string {
			if n := len(names(body)); n != size+i+1 {
				return fmt.Sprintf("%d children, want %d", n, size+i+1)
			}
			return ""
		})
		for j := range i % 5 {
			ask(jute.OpGetData, reading(fmt.Sprintf("%s/more%d", path, i), false), func(body []byte) string {
				if d := jute.NewDecoder(body).Buffer(); len(d) != 1 || d[0] != byte(i) {
					return fmt.Sprintf("data %d behind the long read: % x", j, d)
				}
				return ""
			})
		}
		if i%9 == 0 {
			ask(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, path) }, any)
		}
		ask(jute.OpExists, reading(fmt.Sprintf("%s/more%d", path, i+1), false), nil) // not yet
	}
	go c.conn.Write(stream)
	last := int64(0)
	for i, want := range wants {
		h, body := c.reply()
		for h.Xid == jute.XidNotification {
			h, body = c.reply()
		}
		if h.Xid != c.xid-int32(len(wants))+int32(i)+1 || h.Zxid < last {
			t.Fatalf("reply %d has xid %d, zxid %#x after %#x", i, h.Xid, h.Zxid, last)
		}
		last = h.Zxid
		switch {
		case want == nil && h.Err != jute.ErrNoNode:
			t.Fatalf("reply %d shows a write behind it: %v", i, h.Err)
		case want != nil && h.Err != jute.OK:
			t.Fatalf("reply %d: %v", i, h.Err)
		case want != nil && want(body) != "":
			t.Fatalf("reply %d: %s", i, want(body))
		}
	}
}

// TestTurnLetsOthersIn: a turn of reads lets the replica go before it has done much
// more than readWorkMax, however many requests it has.
func TestTurnLetsOthersIn(t *testing.T) {
	t.Parallel()
	v := serve(t)
	raw := rawClient{t: t}
	turn := turn{r: v.replica, c: v.c, now: v.now()}
	held, released := 0, 0
	for range 5000 {
		before := len(v.c.out)
		request := raw.request(nil, jute.OpGetData, reading("/turn", false))
		if err := turn.request(raw.xid, lookup(jute.OpGetData), request[4+jute.RequestHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		held += len(v.c.out) - before
		if !turn.held {
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
	turn.release()
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
		"large values": {900, jute.OpGetData, reading("/v", false), (queuedReadsMax + 4) * len(value), 100},
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
			c.TakeOutput()
			raw := rawClient{t: t}
			receive := func(stream []byte) {
				if _, err := s.r.Receive(c, stream); err != nil {
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
			c.TakeOutput()

			receive(raw.request(nil, jute.OpSetData, setting("/v", value)))
			for range tc.requests {
				receive(raw.request(nil, tc.op, tc.record))
			}
			receive(raw.request(nil, jute.OpCreate, creating("/behind", nil, 0)))
			records := s.forward()
			s.apply(records...)
			if n := len(c.out); n > tc.inline+1000 {
				t.Errorf("%d bytes were answered while the write was applied, want up to %d", n, tc.inline)
			}
			steps, replies := 0, 0
			for n := 0; c.postponed || len(c.out) > 0; {
				if n = len(c.out); n > outputPauseBytes+tree.ReplyBytesMax {
					t.Fatalf("%d bytes wait to be read", n)
				}
				if replies += countReplies(c.out); c.postponed {
					c.out = nil
					s.r.readMore(c)
					if steps++; !s.r.mu.TryLock() {
						t.Fatal("a step holds the replica")
					}
					s.r.mu.Unlock()
					continue
				}
				c.out = nil
			}
			if steps < tc.steps || replies != tc.requests+1 {
				t.Errorf("%d replies in %d steps, want %d in at least %d", replies, steps, tc.requests+1, tc.steps)
			}
			s.apply(s.forward()...)
			if countReplies(c.out) != 1 || c.unanswered.len() != 0 || c.longReads.Load() != 0 {
				t.Errorf("the write behind: %d replies, %d requests unanswered", countReplies(c.out), c.unanswered.len())
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
	c.TakeOutput()
	raw := rawClient{t: t}
	receive := func(op jute.Op, record func([]byte) []byte) {
		if _, err := s.r.Receive(c, raw.request(nil, op, record)); err != nil {
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
	s.r.readMore(c)
	if !c.postponed || c.unanswered.len() != 3 {
		t.Fatalf("a step has left %d requests", c.unanswered.len())
	}
	s.r.Synced(s.r.Syncs())
	if sent := s.forward(); len(sent) != 0 {
		t.Fatal("the write is sent while a read ahead of it waits")
	}
	for c.postponed {
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

// TestMultiReadLimit: a multiRead whose reply would be too long gets an error, and
// its connection goes on.
func TestMultiReadLimit(t *testing.T) {
	t.Parallel()
	c := connect(t, open(t, Options{}).Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/v", make([]byte, 1_000_000), 0))
	for n, want := range []jute.Code{4: jute.OK, 5: jute.ErrMarshallingError, 1000: jute.ErrMarshallingError} {
		if n != 4 && n != 5 && n != 1000 {
			continue
		}
		ops := make([]jute.MultiOp, n)
		for i := range ops {
			ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/v"}
		}
		h, body := c.call(jute.OpMultiRead, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
		if h.Err != want || want != jute.OK && len(body) != 0 {
			t.Errorf("%d times 1 MB: %v and %d bytes, want %v", n, h.Err, len(body), want)
		}
	}
}

// TestSlowReader: a client that sends many reads of large values and reads nothing
// doesn't make the server keep their replies; once it reads, it gets them all.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/v", make([]byte, 1_000_000), 0))
	const reads = 200
	var stream []byte
	for range reads {
		stream = c.request(stream, jute.OpGetData, reading("/v", false))
	}
	if _, err := c.conn.Write(stream); err != nil {
		t.Fatal(err)
	}
	r := s.replica
	r.mu.RLock()
	cl := r.sessions[c.session]
	r.mu.RUnlock()
	most := 0
	eventually(t, "replies wait", func() bool {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		return cl.flushing
	})
	time.Sleep(100 * time.Millisecond) // for what would be too much
	for i := range reads {
		if h, body := c.reply(); h.Err != jute.OK || len(body) < 1_000_000 {
			t.Fatalf("reply %d: %v, %d bytes", i, h.Err, len(body))
		}
		cl.mu.Lock()
		most = max(most, len(cl.out))
		cl.mu.Unlock()
	}
	if most > outputPauseBytes+2_000_000 {
		t.Errorf("%d bytes waited to be read", most)
	}
}
