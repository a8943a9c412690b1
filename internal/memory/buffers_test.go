package memory

import "testing"

const keptAbove, keptMost = 256 << 10, 8 << 20

// TestLargeBuffersAreBounded: what is kept ends, and a small reply gets no huge buffer.
func TestLargeBuffersAreBounded(t *testing.T) {
	t.Parallel()
	l := NewBuffers(keptAbove, keptMost)
	l.Put(make([]byte, keptAbove)) // connections keep these
	for range 20 {
		l.Put(make([]byte, 1<<20))
	}
	if len(l.free) != keptMost>>20 || l.size != keptMost {
		t.Errorf("%d buffers of %d bytes are kept", len(l.free), l.size)
	}
	l = NewBuffers(keptAbove, keptMost)
	l.Put(make([]byte, 4<<20))
	l.Put(make([]byte, 1<<20))
	for _, tc := range []struct{ want, got int }{{5 << 20, 0}, {100, 1 << 20}, {100, 0}, {4 << 20, 4 << 20}} {
		if b := l.Get(tc.want); cap(b) != tc.got || len(b) != 0 {
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
	const k = keptAbove
	for _, of := range []struct {
		n, want int // 0 for none
	}{{1, 2 * k}, {2 * k, 2 * k}, {2*k + 1, 3 * k}, {3*k + 1, 9 * k}, {9 * k, 9 * k}, {9*k + 1, 0}} {
		l := NewBuffers(keptAbove, keptMost)
		for _, size := range []int{9 * k, 3 * k, 2 * k, k} {
			l.Put(make([]byte, 5, size))
		}
		if l.size != 14*k || len(l.free) != 3 {
			t.Fatalf("%d bytes are kept in %d buffers", l.size, len(l.free))
		}
		got := l.Get(of.n)
		if cap(got) != of.want || len(got) != 0 || l.size != 14*k-of.want || l.used != (of.want > 0) {
			t.Errorf("for %d bytes a buffer of %d, %d are left; want %d", of.n, cap(got), l.size, of.want)
		}
	}
	l := NewBuffers(keptAbove, keptMost)
	l.Put(make([]byte, 5*k))
	for n, want := range map[int]int{1: 0, k: 0, 5 * k / 4: 5 * k} {
		if got := l.Get(n); cap(got) != want {
			t.Errorf("for %d bytes a buffer of %d, want %d", n, cap(got), want)
		}
	}
	l = NewBuffers(keptAbove, keptMost)
	l.Put(make([]byte, keptMost-2*k))
	l.Put(make([]byte, 2*k))
	l.Put(make([]byte, k+1))
	if l.size != keptMost {
		t.Errorf("%d bytes are kept", l.size)
	}
	l.used = true
	if first, second := l.Rest(), l.Rest(); first != keptMost || second != 0 || len(l.free) != 0 {
		t.Errorf("after a use %d bytes are kept, and later %d", first, second)
	}
	if (*Buffers)(nil).Get(1) != nil {
		t.Error("what keeps nothing has something")
	}
	(*Buffers)(nil).Put(make([]byte, 2*k))
}
