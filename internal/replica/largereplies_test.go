package replica

import (
	"runtime"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestLargeRepliesLeaveNoGarbage: the memory of a large reply serves the next one, is in the
// account, and goes when there are no more.
func TestLargeRepliesLeaveNoGarbage(t *testing.T) {
	s, c := pipelined(t)
	const size, rounds = 900_000, 40
	raw := pipeline{}
	s.call(c, &raw, jute.OpSetData, setting("/turn", make([]byte, size)))
	in := raw.request(nil, jute.OpGetData, reading("/turn", false))
	read := func() {
		s.send(c, in)
		c.BeginFlush()
		got := 0
		for out, _ := c.TakeOutput(nil); out != nil; out, _ = c.TakeOutput(out) {
			got += len(out)
		}
		if got < size {
			t.Fatalf("the reply has %d bytes", got)
		}
	}
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		read()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > size/10 {
		t.Errorf("a reply of %d bytes takes %d bytes of new memory", size, n)
	}
	if u, _ := s.rep.AccountMemory(0, 0, 0); u.Output < size {
		t.Errorf("the account has %d bytes of output, of at least %d that are kept", u.Output, size)
	}
	if u, _ := s.rep.AccountMemory(0, 0, 0); u.Output >= size {
		t.Errorf("%d bytes of output are kept though nobody wants them", u.Output)
	}
}
