package server

import (
	"runtime"
	"testing"

	"github.com/zooid-project/zooid/internal/replica"
)

// TestFlushPool has a queue that never empties: it keeps its order, and its size.
func TestFlushPool(t *testing.T) {
	t.Parallel()
	p := flushPool{running: runtime.GOMAXPROCS(0)} // so that add starts nobody
	clients := make([]replica.Client, 3)
	p.add(&clients[0])
	for i := range 10_000 {
		p.add(&clients[(i+1)%len(clients)])
		if c := p.take(); c != &clients[i%len(clients)] {
			t.Fatalf("round %d: taken out of order", i)
		}
	}
	if n := cap(p.waiting); n > 16 {
		t.Errorf("room for %d clients where two waited", n)
	}
	before := p.running
	if last, none := p.take(), p.take(); last == nil || none != nil || p.running != before-1 {
		t.Errorf("the last client is there: %t; nothing behind it: %t; %d of %d goroutines are left", last != nil, none == nil,
			p.running, before)
	}
}
