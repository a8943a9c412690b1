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
	if u, _ := s.rep.AccountMemory(0, 0); u.Output < size {
		t.Errorf("the account has %d bytes of output, of at least %d that are kept", u.Output, size)
	}
	if u, _ := s.rep.AccountMemory(0, 0); u.Output >= size {
		t.Errorf("%d bytes of output are kept though nobody wants them", u.Output)
	}
}

// TestLargeBuffersAreBounded: what is kept ends, and a small reply gets no huge buffer.
func TestLargeBuffersAreBounded(t *testing.T) {
	t.Parallel()
	var l largeBuffers
	l.put(make([]byte, outputKeepBytes)) // connections keep these
	for range 20 {
		l.put(make([]byte, 1<<20))
	}
	if len(l.free) != largeKeptBytes>>20 || l.size != largeKeptBytes {
		t.Errorf("%d buffers of %d bytes are kept", len(l.free), l.size)
	}
	l = largeBuffers{}
	l.put(make([]byte, 4<<20))
	l.put(make([]byte, 1<<20))
	for _, tc := range []struct{ want, got int }{{5 << 20, 0}, {100, 1 << 20}, {100, 0}, {4 << 20, 4 << 20}} {
		if b := l.get(tc.want); cap(b) != tc.got || len(b) != 0 {
			t.Errorf("a buffer for %d bytes has %d, want %d", tc.want, cap(b), tc.got)
		}
	}
	if l.size != 0 {
		t.Errorf("%d bytes are kept of none", l.size)
	}
}

// TestLargeBufferIsTheBest: the smallest buffer that is large enough is taken, and none that is far too large.
func TestLargeBufferIsTheBest(t *testing.T) {
	t.Parallel()
	const k = outputKeepBytes
	for _, of := range []struct {
		n, want int // 0 for none
	}{{1, 2 * k}, {2 * k, 2 * k}, {2*k + 1, 3 * k}, {3*k + 1, 9 * k}, {9 * k, 9 * k}, {9*k + 1, 0}} {
		var l largeBuffers
		for _, size := range []int{9 * k, 3 * k, 2 * k, k} {
			l.put(make([]byte, 5, size))
		}
		if l.size != 14*k || len(l.free) != 3 {
			t.Fatalf("%d bytes are kept in %d buffers", l.size, len(l.free))
		}
		got := l.get(of.n)
		if cap(got) != of.want || len(got) != 0 || l.size != 14*k-of.want || l.used != (of.want > 0) {
			t.Errorf("for %d bytes a buffer of %d, %d are left; want %d", of.n, cap(got), l.size, of.want)
		}
	}
	var l largeBuffers
	l.put(make([]byte, 5*k))
	for n, want := range map[int]int{1: 0, k: 0, 5 * k / 4: 5 * k} {
		if got := l.get(n); cap(got) != want {
			t.Errorf("for %d bytes a buffer of %d, want %d", n, cap(got), want)
		}
	}
	l = largeBuffers{}
	l.put(make([]byte, largeKeptBytes-2*k))
	l.put(make([]byte, 2*k))
	l.put(make([]byte, k+1))
	if l.size != largeKeptBytes {
		t.Errorf("%d bytes are kept", l.size)
	}
	l.used = true
	if first, second := l.rest(), l.rest(); first != largeKeptBytes || second != 0 || len(l.free) != 0 {
		t.Errorf("after a use %d bytes are kept, and later %d", first, second)
	}
	if (*largeBuffers)(nil).get(1) != nil {
		t.Error("what keeps nothing has something")
	}
	(*largeBuffers)(nil).put(make([]byte, 2*k))
}
