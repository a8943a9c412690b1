package replica

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// TestCostliestAddress: as memory gets short, new sessions of the address that takes most are refused, others are not,
// and its known sessions are resumed.
func TestCostliestAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	id := s.begin()
	cheap, dear := "127.0.0.1", "127.0.0.2"
	s.unconnected(dear).input.size.Store(1 << 20)
	u := s.r.memoryUse()
	if u.Costliest != dear || u.Input < 1<<20 {
		t.Fatalf("the account: %+v", u)
	}
	s.r.memory.costliest.Store(&u.Costliest)
	try := func(address string, session int64) error {
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: address}, Woken(func() {}))
		return s.r.Connect(c, &jute.ConnectRequest{SessionID: session, Passwd: s.r.secret()}, s.ids)
	}
	for _, c := range []struct {
		step    memory.Step
		address string
		session int64
		refused bool
	}{
		{memory.RefuseNone, dear, 0, false}, {memory.RefuseCostliest, dear, 0, true},
		{memory.RefuseCostliest, cheap, 0, false}, {memory.RefuseCostliest, dear, id, false},
		{memory.RefuseSessions, cheap, 0, true}, {memory.RefuseSessions, dear, id, false},
	} {
		s.r.memory.tight.Store(int32(c.step))
		if err := try(c.address, c.session); (err != nil) != c.refused {
			t.Errorf("step %d, address %s, session %#x: %v", c.step, c.address, c.session, err)
		}
	}
}

// TestUnansweredIsAccountedFor: writes that no quorum takes count as memory, and what
// would grow is refused because of them.
func TestUnansweredIsAccountedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	var all []*Client
	for range 4 {
		all = append(all, s.client(nil))
		s.apply(s.forward()...)
	}
	last := all[len(all)-1]
	last.TakeOutput(nil) // its connect reply
	before, _ := s.r.AccountMemory(0, 0, 1<<40)
	raw := pipeline{}
	for _, c := range all[:len(all)-1] {
		for range 3 {
			if _, err := s.receive(c, raw.request(nil, jute.OpCreate, creating("/a", make([]byte, 900_000), 0))); err != nil {
				t.Fatal(err)
			}
		}
	}
	use, _ := s.r.AccountMemory(0, 0, 1<<40)
	if n := use.Unanswered - before.Unanswered; n < 9*900_000 {
		t.Fatalf("9 requests of 900 KB without an answer are %d bytes in the account", n)
	}
	for len(s.forward()) > 0 { // they leave the proposals, and are kept until they are answered
	}
	use, _ = s.r.AccountMemory(0, 0, 1<<40)
	if n := use.Unanswered - before.Unanswered; n < 9*900_000 {
		t.Fatalf("9 requests of 900 KB that were forwarded are %d bytes in the account", n)
	}
	if _, step := s.r.AccountMemory(0, 0, use.Total()); step < memory.RefuseGrowth {
		t.Fatalf("step %d at the limit", step)
	}
	if _, err := s.receive(last, raw.request(nil, jute.OpCreate, creating("/no", nil, 0))); err != nil {
		t.Fatal(err)
	}
	out, _ := last.TakeOutput(nil)
	var h jute.ReplyHeader
	if len(out) < 4+jute.ReplyHeaderSize {
		t.Fatalf("the create is answered with %d bytes", len(out))
	}
	if h.Decode(jute.NewDecoder(out[4:])); h.Err != jute.ErrThrottledOp {
		t.Errorf("a create while requests wait: %v", h.Err)
	}
}

// TestReadersBufferIsAccountedFor: the buffer in which a connection's writes became records counts for as long as the
// connection keeps it, and so does what gave it its identities.
func TestReadersBufferIsAccountedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	c.TakeOutput(nil)
	before := s.r.memoryUse()
	const size = 100_000
	create := (&pipeline{}).request(nil, jute.OpCreate, creating("/a", make([]byte, size), 0))
	if _, err := s.receive(c, create); err != nil {
		t.Fatal(err)
	}
	s.apply(s.forward()...)
	s.want(c, 1, true)
	kept := int64(cap(c.reader.records))
	if n := s.r.memoryUse().Unanswered - before.Unanswered; kept < size || n < kept {
		t.Errorf("%d bytes are accounted for, of %d that the connection keeps", n, kept)
	}
	c.Quiet()
	if n := s.r.memoryUse().Unanswered - before.Unanswered; n >= size {
		t.Errorf("%d bytes are accounted for after they were given back", n)
	}
	before = s.r.memoryUse()
	s.login(c, strings.Repeat("u", 1000))
	if n := s.r.memoryUse().Identities - before.Identities; n < 2000 {
		t.Errorf("%d bytes are accounted for an identity of 1,000 bytes, and the credential that gave it", n)
	}
}

// TestSessionsAreAccountedFor: sessions count beside what the tree takes for them, local ones too, until they have
// ended.
func TestSessionsAreAccountedFor(t *testing.T) {
	t.Parallel()
	const sessions, least = 1000, 80
	for name, s := range map[string]*localStage{"global": newStage(t, Options{}), "local": newLocalStage(t)} {
		before, inTree := s.r.memoryUse().Sessions, s.r.tree.Memory().Sessions
		for range sessions {
			c := s.client(nil)
			s.apply(s.forward()...)
			s.r.Disconnected(c)
		}
		inTree = s.r.tree.Memory().Sessions - inTree
		if n := s.r.memoryUse().Sessions - before - inTree; n < sessions*least {
			t.Errorf("%s: %d sessions are %d bytes beside the tree's %d", name, sessions, n, inTree)
		}
	}
}

// TestQuietGivesTheQueueBack: a connection that once had many requests under way, and has little to do since, keeps no
// memory for as many.
func TestQuietGivesTheQueueBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	raw := pipeline{}
	var stream []byte
	for range unansweredMax {
		stream = raw.request(stream, jute.OpDelete, deleting("/none"))
	}
	if _, err := s.receive(c, stream); err != nil {
		t.Fatal(err)
	}
	c.Quiet()
	if n := c.unanswered.len(); n != unansweredMax {
		t.Fatalf("%d of %d requests wait", n, unansweredMax)
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	c.TakeOutput(nil)
	c.TakeOutput(nil)
	c.Quiet()
	if n := cap(c.unanswered.items); n > 0 || c.unanswered.len() > 0 {
		t.Errorf("a queue with room for %d requests is kept, %d wait", n, c.unanswered.len())
	}
}

// TestCostliestIsClosed: from 85 % of the limit on, the connections with most unread output, or with the largest
// unfinished frames, are closed until these take less than an eighth of it; those with little are left alone.
func TestCostliestIsClosed(t *testing.T) {
	t.Parallel()
	for what, fill := range map[string]func(*Client, int){
		forReplies: func(c *Client, n int) { c.out.frames = make([]byte, n) },
		forFrames:  func(c *Client, n int) { c.input.NoteInput(n); c.frame.NoteFrame(make([]byte, 5), true, 1) },
	} {
		s := newStage(t, Options{})
		var all []*Client
		for i := range 4 {
			c := s.client(nil)
			s.apply(s.forward()...)
			c.TakeOutput(nil)
			fill(c, 1<<20*(1+10*(i/2))) // two have 1 MiB, two 11
			all = append(all, c)
		}
		const limit = 64 << 20
		s.r.AccountMemory(0, 0, limit)
		for i, c := range all {
			if c.Ending() != "" {
				t.Errorf("%s: connection %d is closed while there is memory: %s", what, i, c.Ending())
			}
		}
		s.r.AccountMemory(limit/100*70, 0, limit)
		for i, c := range all {
			if closed := c.Ending() != ""; closed != (i >= 2) {
				t.Errorf("%s: connection %d is closed: %t", what, i, closed)
			}
		}
		if n := s.r.meters.closedForMemory[what].Value(); n != 2 {
			t.Errorf("%s: %d are counted, want 2", what, n)
		}
	}
}
