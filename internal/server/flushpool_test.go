package server

import (
	"runtime"
	"testing"
)

// TestFlushPool has a queue that never empties: it keeps its order, and its size.
func TestFlushPool(t *testing.T) {
	t.Parallel()
	p := flushPool{running: runtime.GOMAXPROCS(0)} // so that add starts nobody
	sockets := make([]clientSocket, 3)
	p.add(&sockets[0])
	for i := range 10_000 {
		p.add(&sockets[(i+1)%len(sockets)])
		if c := p.take(); c != &sockets[i%len(sockets)] {
			t.Fatalf("round %d: taken out of order", i)
		}
	}
	if n := cap(p.waiting); n > 16 {
		t.Errorf("room for %d where two waited", n)
	}
	before := p.running
	if last, none := p.take(), p.take(); last == nil || none != nil || p.running != before-1 {
		t.Errorf("the last client is there: %t; nothing behind it: %t; %d of %d goroutines are left", last != nil, none == nil,
			p.running, before)
	}
}
