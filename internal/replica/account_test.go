package replica

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// unconnected makes a client of an address a client of s.
func (s *localStage) unconnected(address string) *Client {
	c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: address}, Woken(func() {}))
	s.r.mu.Lock()
	s.r.clients[c.id] = c
	s.r.mu.Unlock()
	return c
}

// TestEachUseIsAccountedFor: whatever a client makes a server hold is in its line of the account, in the total, and
// counts for the client's address.
func TestEachUseIsAccountedFor(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	for _, of := range []struct {
		name string
		line func(*memory.Use) int64
		hold func(*localStage, *Client)
		least,
		most int64
	}{
		{"watches", func(u *memory.Use) int64 { return u.Watches }, func(s *localStage, c *Client) {
			for i := range large / 1000 {
				s.r.watches.table.Add(c.id, fmt.Sprintf("/%04d%s", i, strings.Repeat("w", 1000)), watch.Data)
			}
		}, large, 4 * large},
		{"unread replies", func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) {
			c.out.frames = make([]byte, 0, large)
		}, large, large},
		{"a spare buffer", func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) {
			c.out.spare = make([]byte, 0, large)
		}, large, large},
		{"replies being written", func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) {
			c.out.taken = large
		}, large, large},
		{"a list being made", func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) {
			c.steps.read = &longRead{list: true, scan: tree.Scan{Body: make([]byte, 0, large)}}
		}, large, large},
		{"an unfinished request", func(u *memory.Use) int64 { return u.Input }, func(_ *localStage, c *Client) {
			c.input.size.Store(large)
		}, large, large},
		{"the reader's records", func(u *memory.Use) int64 { return u.Unanswered }, func(_ *localStage, c *Client) {
			c.reader.recordsKept.Store(large)
		}, large, large},
	} {
		s := newStage(t, Options{})
		little, much := s.unconnected("127.0.0.1"), s.unconnected("127.0.0.2")
		little.input.size.Store(100) // without it, the first of two equals would be the costliest
		before := s.r.memoryUse()
		of.hold(s, much)
		after := s.r.memoryUse()
		if n := of.line(&after) - of.line(&before); n < of.least || n > of.most {
			t.Errorf("%s: %d bytes are %d in their line of the account", of.name, of.least, n)
		}
		if line, all := of.line(&after)-of.line(&before), after.Total()-before.Total(); line != all {
			t.Errorf("%s: %d bytes in their line are %d in total", of.name, line, all)
		}
		if after.Costliest != "127.0.0.2" {
			t.Errorf("%s: they count for %q", of.name, after.Costliest)
		}
	}
}

// TestProposalsAreAccountedFor: a write that is on its way to the log counts where it waits for its answer, and as the
// record that will be proposed.
func TestProposalsAreAccountedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	before := s.r.memoryUse().Unanswered
	const size, writes = 900_000, 3
	raw := pipeline{}
	for range writes {
		if _, err := s.receive(c, raw.request(nil, jute.OpCreate, creating("/a", make([]byte, size), 0))); err != nil {
			t.Fatal(err)
		}
	}
	kept := c.reader.recordsKept.Load()
	if n := s.r.memoryUse().Unanswered - before - kept; n < 2*writes*size {
		t.Errorf("%d writes of %d bytes, whose records are in the proposals, are %d bytes in the account", writes, size, n)
	}
}

// TestAccountIsPutInForce: what follows from the account follows from all of it: the bound of each kind of buffer, what
// the metrics say, and how many watches a client may set again.
func TestAccountIsPutInForce(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.unconnected("127.0.0.2")
	s.r.watches.table.Add(c.id, "/"+strings.Repeat("w", 5000), watch.Data)
	const limit = 1 << 30
	for n := range 100 {
		guess := auth.SASLGuess(nil, jute.ID{Scheme: "ip", ID: fmt.Sprintf("10.0.0.%d", n)})
		s.r.logins.throttle.Failed(&guess, 1)
		s.r.meters.readsIn.With(fmt.Sprint(n)).Observe(1)
	}
	u, _ := s.r.AccountMemory(1<<20, 1<<21, limit)
	if least := int64(1<<21 + 100*(100+2000)); u.Watches < 5000 || u.Peers != 1<<20 || u.Records < least {
		t.Fatalf("the account: %+v", u)
	}
	if last := s.r.memory.last(); last != u {
		t.Errorf("the metrics say %+v of %+v", last, u)
	}
	if host := s.r.memory.costliest.Load(); host == nil || *host != u.Costliest {
		t.Errorf("the costliest address isn't %s", u.Costliest)
	}
	if n := s.r.memory.used(); n != u.Total() {
		t.Errorf("watches set again are compared with %d bytes of %d", n, u.Total())
	}
	for name, room := range map[string]*memory.Room{"replies": &s.r.rooms.replies, "frames": &s.r.rooms.frames} {
		one, two := room.Holder("a", nil), room.Holder("b", nil)
		if !one.Grow(limit/unreadShare) || two.Grow(1) {
			t.Errorf("room for %s isn't the share of memory.limit", name)
		}
	}
	// With a limit at which u is just short of a step, or has reached it.
	for _, at := range []struct {
		percent float64
		most    int64
	}{
		{84, math.MaxInt64}, {90, limit / watchBytesShare}, {97, watchBytesFew}, {101, watchBytesLeast},
	} {
		s.r.memory.rest.Store(int64(at.percent/100*limit) - u.Watches)
		if n := s.r.memory.watchBytesMax(); n != at.most {
			t.Errorf("with %v %% in use, a client may set watches of %d bytes again, want %d", at.percent, n, at.most)
		}
	}
	s.r.memory.limit.Store(2 << 20)
	s.r.memory.rest.Store(2<<20*9/10 - u.Watches)
	if n := s.r.memory.watchBytesMax(); n != watchBytesFew {
		t.Errorf("a 64th of a small limit is too few watches: %d bytes", n)
	}
}

// TestUnreadIsWhatWaits: what a connection keeps for later doesn't count as unread, and neither does what a connection
// has that ends.
func TestUnreadIsWhatWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	c.TakeOutput(nil)
	c.out.taken, c.out.frames = 0, make([]byte, 0, 1000)
	if n := c.outputBytes(); n != 0 {
		t.Errorf("an empty buffer is %d unread bytes", n)
	}
	c.out.taken = 70
	if n := c.outputBytes(); n != 1070 {
		t.Errorf("70 bytes being written, and a buffer of 1,000: %d", n)
	}
	c.out.taken, c.out.frames = 0, append(c.out.frames, 1)
	if n := c.outputBytes(); n != 1000 {
		t.Errorf("a buffer of 1,000 bytes that isn't empty: %d", n)
	}
	c.input.NoteInput(500)
	if n := c.frameBytes(); n != 0 {
		t.Errorf("a buffer without an unfinished request is %d bytes", n)
	}
	c.frame.NoteFrame(make([]byte, 5), true, 1)
	if n := c.frameBytes(); n != 500 {
		t.Errorf("an unfinished request in a buffer of 500 bytes: %d", n)
	}
	c.closing = true
	if n := c.outputBytes(); n != 0 {
		t.Errorf("a connection that ends has %d unread bytes", n)
	}
}

// TestFewAreClosed: no connection is closed while all of them together have less than their share.
func TestFewAreClosed(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	most := limit / unreadShare
	for _, of := range []struct {
		unread int // by each of two
		closed int
	}{{most / 2, 0}, {most/2 + 1, 1}} {
		s := newStage(t, Options{})
		all := []*Client{s.unconnected("127.0.0.1"), s.unconnected("127.0.0.2"), s.unconnected("127.0.0.3")}
		for _, c := range all[:2] {
			c.out.frames = make([]byte, of.unread)
		}
		s.r.closeCostliest(forReplies, limit, (*Client).outputBytes)
		closed := 0
		for _, c := range all {
			if c.Ending() != "" {
				closed++
			}
		}
		if closed != of.closed || all[2].Ending() != "" {
			t.Errorf("two with %d unread bytes each, of %d: %d are closed, want %d", of.unread, most, closed, of.closed)
		}
	}
}

// TestRefusalsAreCounted: each session refused for lack of memory counts once.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, dear := s.unconnected("127.0.0.2"), "127.0.0.2"
	s.r.memory.costliest.Store(&dear)
	for _, step := range []memory.Step{memory.RefuseCostliest, memory.RefuseSessions} {
		before := s.r.memory.refused.Load()
		s.r.memory.tight.Store(int32(step))
		if why := s.r.memory.refuses(c, &jute.ConnectRequest{}); why == "" {
			t.Errorf("step %d refuses nothing", step)
		}
		if n := s.r.memory.refused.Load() - before; n != 1 {
			t.Errorf("step %d: a refusal counts %d times", step, n)
		}
	}
}

// TestLargeEchoes: while room for replies is short, a request whose reply would repeat paths of more than
// outputFreeBytes is refused. Others are taken, and so are these once what was unread has been read.
func TestLargeEchoes(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("p", outputFreeBytes)
	multi := func(ops ...jute.MultiOp) func([]byte) []byte {
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	create := func(path string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)}
	}
	half := long[:len(long)/2]
	for name, c := range map[string]struct {
		op      jute.Op
		record  func([]byte) []byte
		refused bool
	}{
		"sync":                       {jute.OpSync, deleting(long), true},
		"create":                     {jute.OpCreate, creating(long, nil, 0), true},
		"multi":                      {jute.OpMulti, multi(create(half+"a"), create(half+"b")), true},
		"multi of a shorter name":    {jute.OpMulti, multi(create("/a"), jute.MultiOp{Op: jute.OpDelete, Path: long}), false},
		"multi that can't be read":   {jute.OpMulti, func(b []byte) []byte { return append(b, long...) }, false},
		"create with much data":      {jute.OpCreate, creating("/short", []byte(long), 0), false},
		"create that is long enough": {jute.OpCreate, creating(long[:outputFreeBytes], make([]byte, 100), 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := pipelined(t)
			s.rep.AccountMemory(0, 0, unreadShare*2*outputFreeBytes)
			other := s.rep.rooms.replies.Holder("another", nil)
			other.Note(outputFreeBytes + 1)
			p := &pipeline{}
			s.send(cl, p.request(nil, c.op, c.record))
			replies := s.repliesNow(cl)
			if have := len(replies) == 1 && replies[0].Err == jute.ErrThrottledOp; have != c.refused {
				t.Errorf("with little room: answered %+v", replies)
			}
			if !c.refused {
				return
			}
			other.Note(0)
			s.send(cl, p.request(nil, c.op, c.record))
			if replies := s.repliesNow(cl); len(replies) > 0 {
				t.Errorf("with room again: answered %+v", replies)
			}
		})
	}
}

// TestUnansweredFollowMemory: requests that wait for their answers have a share of memory.limit together, and a request
// larger than that doesn't wait for ever.
func TestUnansweredFollowMemory(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	u := &s.r.unanswered
	for _, at := range []struct {
		limit, waits int64
		size         int
		held         bool
	}{
		{0, 0, 1 << 30, false}, {0, unansweredTotalMax - 2000, 2001, true}, {0, unansweredTotalMax - 2000, 2000, false},
		{unreadShare << 20, 1<<20 - 2000, 2001, true}, {unreadShare << 20, 1<<20 - 2000, 2000, false},
		{unreadShare << 20, 1<<20 - 2000, smallRequestMax, false},
		{unreadShare << 20, 0, 5 << 20, false}, {unreadShare << 20, 1<<19 + 1, 5 << 20, true},
	} {
		s.r.AccountMemory(0, 0, at.limit)
		u.add(1, at.waits)
		if held := u.manyBytes(at.size); held != at.held {
			t.Errorf("limit %d: %d bytes beside %d wait: %t", at.limit, at.size, at.waits, held)
		}
		u.add(-1, -at.waits)
	}
}

// TestAccountIsExact: what the account adds up, byte by byte.
func TestAccountIsExact(t *testing.T) {
	t.Parallel()
	sizeOf := func(o *owner) int64 { return int64(unsafe.Sizeof(*o)) + int64(len(o.name)) + indexEntryBytes }
	for name, of := range map[string]struct {
		line func(*memory.Use) int64
		hold func(s *localStage, c *Client) (bytes int64)
	}{
		"buffers of output": {func(u *memory.Use) int64 { return u.Output }, func(_ *localStage, c *Client) int64 {
			c.out.frames, c.out.spare, c.out.taken = make([]byte, 0, 100), make([]byte, 0, 10), 1
			c.steps.read = &longRead{scan: tree.Scan{Body: make([]byte, 0, 1000)}}
			return 1111
		}},
		"buffers of others": {func(u *memory.Use) int64 { return u.Output }, func(s *localStage, _ *Client) int64 {
			s.r.large = memory.NewBuffers(0, 100)
			s.r.large.Put(make([]byte, 77))
			s.r.large.Put(s.r.large.Get(77)) // so that it was used lately
			return 77
		}},
		"input": {func(u *memory.Use) int64 { return u.Input }, func(_ *localStage, c *Client) int64 {
			c.input.size.Store(9)
			return 9
		}},
		"a connection": {func(u *memory.Use) int64 { return u.Input }, func(s *localStage, _ *Client) int64 {
			s.unconnected("127.0.0.3")
			return clientBytes
		}},
		"unanswered": {func(u *memory.Use) int64 { return u.Unanswered }, func(_ *localStage, c *Client) int64 {
			c.unanswered.bytes, c.unanswered.items = 5, make([]request, 0, 3)
			c.reader.recordsKept.Store(70)
			return 75 + 3*int64(unsafe.Sizeof(request{}))
		}},
		"identities": {func(u *memory.Use) int64 { return u.Identities }, func(_ *localStage, c *Client) int64 {
			id := jute.ID{Scheme: "digest", ID: "bob"}
			c.Identify(append(c.identities(), id))
			return 9 + int64(unsafe.Sizeof(id))
		}},
		"grants": {func(u *memory.Use) int64 { return u.Identities }, func(_ *localStage, c *Client) int64 {
			g := auth.Grant{By: jute.ID{Scheme: "x509", ID: "carol"}}
			c.grants.Store(&[]auth.Grant{g})
			return 9 + int64(unsafe.Sizeof(g))
		}},
		"an attached session": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, c *Client) int64 {
			s.r.hearing.attach(99, c)
			return indexEntryBytes
		}},
		"a session's owners": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			s.r.counts.owners[99] = sessionOwners{}
			return sessionOwnersBytes
		}},
		"a local session": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			s.r.locals.sessions[99] = &localSession{}
			return int64(unsafe.Sizeof(localSession{})) + indexEntryBytes + jute.PasswdSize
		}},
		"an address": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			return sizeOf(s.r.limiter.addresses.of("10.0.0.1", s.r.now(), nil))
		}},
		"an identity": {func(u *memory.Use) int64 { return u.Sessions }, func(s *localStage, _ *Client) int64 {
			return sizeOf(s.r.limiter.identified.of("digest:bob", s.r.now(), nil))
		}},
	} {
		s := newStage(t, Options{})
		c := s.unconnected("127.0.0.2")
		before := s.r.memoryUse()
		want := of.hold(s, c)
		after := s.r.memoryUse()
		if got := of.line(&after) - of.line(&before); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}

// TestCostliestIsTheMost: the address whose connections use most is the costliest, the smaller one of two equals.
func TestCostliestIsTheMost(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		bytes []int64
		want  int
	}{{[]int64{1, 3, 2}, 1}, {[]int64{3, 3, 2}, 0}, {[]int64{1, 3, 3}, 1}, {[]int64{0, 0, 0}, 0}} {
		s := newStage(t, Options{})
		for i, n := range of.bytes {
			s.unconnected(fmt.Sprintf("10.0.0.%d", i)).input.size.Store(n)
		}
		if u := s.r.memoryUse(); u.Costliest != fmt.Sprintf("10.0.0.%d", of.want) {
			t.Errorf("of %v the costliest is %s, want %d", of.bytes, u.Costliest, of.want)
		}
	}
}

// TestCostliestReadersAreClosed: as soon as memory is short, the connection that leaves most unread is closed if all
// together leave much.
func TestCostliestReadersAreClosed(t *testing.T) {
	t.Parallel()
	for percent, want := range map[int64]memory.Step{80: memory.RefuseNone, 90: memory.RefuseCostliest} {
		s := newStage(t, Options{})
		much, little := s.session(), s.session()
		much.out.frames, little.out.frames = make([]byte, 1<<20), make([]byte, 1<<10)
		use, _ := s.r.AccountMemory(0, 0, 1<<40)
		_, step := s.r.AccountMemory(0, 0, use.Total()*100/percent)
		if closed := much.Ending() != ""; step != want || closed != (want != memory.RefuseNone) || little.Ending() != "" {
			t.Errorf("at %d %% of the limit: step %d; the connections end: %q, %q", percent, step, much.Ending(), little.Ending())
		}
	}
}
