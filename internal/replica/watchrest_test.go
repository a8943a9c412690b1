package replica

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// settingWatches is a setWatches2 that sets so many persistent watches.
func settingWatches(n int) func([]byte) []byte {
	return func(b []byte) []byte {
		w := jute.SetWatches{Persistent: make([]string, n)}
		for i := range w.Persistent {
			w.Persistent[i] = fmt.Sprintf("/w%d", i)
		}
		return w.Append(b, jute.OpSetWatches2)
	}
}

// TestWatchesRest has a clock on which each step takes a millisecond. Who sets many watches rests, and so do the ends
// of such connections, and, up to a limit, other connections from the address. Nobody else does.
func TestWatchesRest(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	connect := func(address string) *Client {
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: address}, Woken(func() {}))
		hello := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)}
		if err := s.r.Connect(c, &hello, s.ids); err != nil {
			t.Fatal(err)
		}
		s.apply(s.forward()...)
		c.TakeOutput(nil)
		return c
	}
	first, second, other := connect("10.0.0.1"), connect("10.0.0.1"), connect("10.0.0.2")
	now, rested := int64(1e12), time.Duration(0)
	var heard *Client // whose heartbeats are read meanwhile
	s.r.now = func() int64 { now += 1e6; return now }
	rest := func(d time.Duration) {
		if d < time.Duration(watchRestMin) {
			t.Errorf("a rest of %v", d)
		}
		now += int64(d)
		rested += d
		if heard != nil {
			heard.lastHeard.Store(now / 1e6)
		}
	}
	set := func(c *Client, watches ...int) time.Duration {
		c.Socket, rested = hooked{rest: rest}, 0
		raw, stream := pipeline{}, []byte(nil)
		for _, n := range watches {
			stream = raw.request(stream, jute.OpSetWatches2, settingWatches(n))
		}
		if _, err := s.receive(c, stream); err != nil {
			t.Fatal(err)
		}
		replies := 0
		for out, _ := c.TakeOutput(nil); out != nil; out, _ = c.TakeOutput(nil) {
			replies += countReplies(out)
		}
		if replies != len(watches) {
			t.Fatalf("%d replies, want %d", replies, len(watches))
		}
		return rested
	}
	if d := set(first, 60*setWatchesStep); d != 0 {
		t.Errorf("60 steps: a rest of %v, want none", d)
	}
	most := time.Duration(watchRestsMax)
	if d := set(first, 100*setWatchesStep); d < time.Second/2 || d > most {
		t.Errorf("100 steps: a rest of %v, want 16 times as long as they take but for what is free", d)
	}
	if d := set(second, 10*setWatchesStep); d == 0 {
		t.Error("another connection of the address doesn't rest")
	}
	if d := set(other, 10*setWatchesStep); d != 0 {
		t.Errorf("another address rests for %v", d)
	}
	if d := set(second, setWatchesStep-1); d != 0 {
		t.Errorf("a few watches: a rest of %v, want none", d)
	}
	second.limits.owner().watchRate.Use(now, 1e9, watchTime)
	if d := set(second, 40*setWatchesStep); d < most*9/10 || d > most {
		t.Errorf("others from the address set very many: a rest of %v, want nearly %v", d, most)
	}
	// Two requests that arrive together: nothing is read of the client while it rests for both.
	second.limits.owner().watchRate.Use(now, 1e9, watchTime)
	if d := set(second, 20*setWatchesStep, 20*setWatchesStep); d < most*9/10 || d > most {
		t.Errorf("two requests: a rest of %v, want nearly %v", d, most)
	}
	heard = second
	second.limits.owner().watchRate.Use(now, 1e9, watchTime)
	if d := set(second, 40*setWatchesStep); d < most*9/10 || d > most {
		t.Errorf("a client whose heartbeats are read: a rest of %v for one request, want nearly %v", d, most)
	}
	s.r.Disconnected(second)
	rested = 0
	if s.r.Disconnected(first); rested < time.Second || rested > time.Duration(watchForgetMax) {
		t.Errorf("a connection of many watches ends: a rest of %v", rested)
	}
	if n := s.r.watches.table.SizeOf(first.id); n != 0 {
		t.Errorf("%d of its watches are left", n)
	}
}

// TestSetWatchesNeedRoom: the notifications that a setWatches brings come in steps of few bytes, and while room for
// replies is short, a client is closed in place of one of a path of more than outputFreeBytes.
func TestSetWatchesNeedRoom(t *testing.T) {
	t.Parallel()
	setting := func(n, size int) func([]byte) []byte {
		var w jute.SetWatches
		for i := range n {
			w.Data = append(w.Data, fmt.Sprintf("/%0*d", size, i))
		}
		return func(b []byte) []byte { return w.Append(b, jute.OpSetWatches) }
	}
	for name, c := range map[string]struct {
		n, size int
		short   bool // room
		closed  bool
	}{
		"many, with room": {100, 10_000, false, false}, "many, without": {100, 10_000, true, false},
		"long, with room": {1, 100_000, false, false}, "long, without": {1, 100_000, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := pipelined(t)
			if s.rep.AccountMemory(0, 0, unreadShare*2*outputFreeBytes); c.short {
				s.rep.rooms.replies.Holder("another", nil).Note(outputFreeBytes + 1)
			}
			p := &pipeline{}
			if _, err := s.receive(cl, p.request(nil, jute.OpSetWatches, setting(c.n, c.size))); err != nil {
				t.Fatal(err)
			}
			frames := 0
			for out, _ := cl.TakeOutput(nil); out != nil; out, _ = cl.TakeOutput(nil) {
				if len(out) > outputFreeBytes+c.size+1000 {
					t.Errorf("a step has %d bytes", len(out))
				}
				for ; len(out) > 0; frames++ {
					out = out[4+binary.BigEndian.Uint32(out):]
				}
			}
			if closed := cl.Ending() != ""; closed != c.closed || !closed && frames != c.n+1 {
				t.Errorf("it ends: %q; %d replies and notifications, want %d", cl.Ending(), frames, c.n+1)
			}
		})
	}
}

// TestTryOutputIsShort: the goroutine that writes to many connections doesn't do a connection's long reads.
func TestTryOutputIsShort(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	c.Socket = hooked{try: func(b []byte) int { return len(b) }}
	raw := pipeline{}
	stream := raw.request(nil, jute.OpExists, reading("/", false))
	if _, err := s.receive(c, raw.request(stream, jute.OpSetWatches2, settingWatches(3*setWatchesStep))); err != nil {
		t.Fatal(err)
	}
	if !c.out.flushing {
		t.Fatal("there is nothing to flush")
	}
	if left := c.TryOutput(); !left.Long || left.Out != nil || left.Last || s.r.watches.table.SizeOf(c.id) != 0 {
		t.Errorf("it leaves %+v, with %d watches set; want a long read that hasn't begun", left, s.r.watches.table.SizeOf(c.id))
	}
	if !c.out.flushing {
		t.Error("the flushing ended with the long read undone")
	}
	if out, _ := c.TakeOutput(nil); countReplies(out) != 1 || s.r.watches.table.SizeOf(c.id) == 0 {
		t.Errorf("%d replies, want one", countReplies(out))
	}
}

// TestSetWatchesIsLimited: a client whose setWatches goes beyond a limit of watches, or sets many while memory is
// short, is closed without an answer, having set hardly more. As many as are allowed are set, also twice.
func TestSetWatchesIsLimited(t *testing.T) {
	t.Parallel()
	const most = 10 * setWatchesStep
	set := func(s *diskShell, n int) (c *Client, replies int) {
		c = s.client()
		raw := pipeline{}
		stream := raw.request(nil, jute.OpSetWatches2, settingWatches(n))
		s.send(c, raw.request(stream, jute.OpSetWatches2, settingWatches(n)))
		for out, _ := c.TakeOutput(nil); out != nil; out, _ = c.TakeOutput(nil) {
			replies += countReplies(out)
		}
		return c, replies
	}
	for _, scope := range []limit.Scope{limit.Connection, limit.Address} {
		s, _, _ := openLimited(t, scope, fmt.Sprint("watches=", most))
		c, replies := set(s, most)
		if n := s.rep.watches.table.SizeOf(c.id); replies != 2 || n != most || c.Ending() != "" {
			t.Errorf("%v: %d watches are allowed; %d are set, with %d answers; closed: %q", scope, most, n, replies, c.Ending())
		}
		s.rep.Disconnected(c)
		c, replies = set(s, 20*most)
		if n := s.rep.watches.table.SizeOf(c.id); replies != 0 || n > most+setWatchesStep || c.Ending() == "" {
			t.Errorf("%v: %d watches are set where %d are allowed, with %d answers; closed: %q",
				scope, n, most, replies, c.Ending())
		}
		if s.rep.meters.exceeded[scope].Value() == 0 {
			t.Errorf("%v: no metric tells of it", scope)
		}
	}
	s, _, _ := openLimited(t, limit.Connection, "watches=1000000")
	for _, at := range []struct {
		percent int64
		watches int
		closed  bool
	}{{80, 50 * setWatchesStep, false}, {96, setWatchesStep / 2, false}, {96, 50 * setWatchesStep, true},
		{101, 3 * setWatchesStep, true}} {
		s.rep.AccountMemory(0, 0, 64<<20)
		s.rep.memory.rest.Store(64 << 20 / 100 * at.percent)
		c, replies := set(s, at.watches)
		if closed := c.Ending() != ""; closed != at.closed || closed != (replies == 0) {
			t.Errorf("at %d %%, %d watches: closed %t, want %t; %d answers", at.percent, at.watches, closed, at.closed, replies)
		}
		s.rep.Disconnected(c)
	}
	if n := s.rep.meters.closedForMemory[forWatches].Value(); n != 2 {
		t.Errorf("%d connections are counted, want 2", n)
	}
}

// TestRestNow: a client that sets watches rests no longer than a quarter of its timeout, since it was last heard and
// for its request, and a client that doesn't never rests.
func TestRestNow(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	const now = int64(5_400e6)
	for name, of := range map[string]struct {
		timeout int32
		rested  int64
		change  func(*Client)
		want    int64
	}{
		"as long as since it was heard": {4000, 0, nil, 600e6},
		"as long as for its request":    {4000, 500e6, nil, 500e6},
		"as the longest rest":           {60_000, 100e6, nil, watchRestsMax - 400e6},
		"hardly any":                    {4000, 1e9 - watchRestMin, nil, watchRestMin},
		"too little to rest":            {4000, 1e9 - watchRestMin + 1, nil, 0},
		"no watches":                    {4000, 0, func(c *Client) { c.steps.read.watches = nil }, 0},
		"no read":                       {4000, 0, func(c *Client) { c.steps.read = nil }, 0},
		"gone":                          {4000, 0, func(c *Client) { c.closed = true }, 0},
		"nothing owed":                  {4000, 0, func(c *Client) { c.limits.watchRate = limit.Rate{} }, 0},
	} {
		c := s.session()
		w := &setWatches{rested: of.rested}
		c.timeout, c.steps.read = of.timeout, &longRead{watches: w}
		c.lastHeard.Store(5000)
		c.limits.watchRate.Use(now, 1e9, watchTime)
		if of.change != nil {
			of.change(c)
		}
		if got := int64(c.restNow(now)); got != of.want || w.rested != of.rested+of.want {
			t.Errorf("%s: it rests for %d ns, want %d; %d in all", name, got, of.want, w.rested)
		}
	}
}

// TestWatchesBetweenTwoAccounts: memory gets short while a client sets its watches again. The connection is closed
// before the account is next added up.
func TestWatchesBetweenTwoAccounts(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	use, _ := s.r.AccountMemory(0, 0, 1<<40)
	if _, step := s.r.AccountMemory(0, 0, use.Total()*100/84); step != memory.RefuseNone {
		t.Fatalf("step %d before a watch is set", step)
	}
	const watches = 10_000
	if out := s.sends(c, &pipeline{}, jute.OpSetWatches2, settingWatches(watches)); len(out) > 0 || c.Ending() == "" {
		t.Errorf("it is answered with %d bytes, and its connection ends: %q", len(out), c.Ending())
	}
	if n := s.r.watches.table.SizeOf(c.id); n == 0 || n > watches/10 {
		t.Errorf("it has set %d watches", n)
	}
}
