package server

import (
	"runtime"
	"sync"

	"github.com/zooid-project/zooid/internal/replica"
)

// flushPool write to the connections that got output, each as far as that can't
// block: as many goroutines as there are processors, while there is something to
// write. One goroutine for each connection cost a sixth more per event of 500
// watchers.
type flushPool struct {
	mu      sync.Mutex
	waiting []*replica.Client // in order, from next on
	next    int
	running int
}

// add takes a client that has a push and whose flushing was set.
func (p *flushPool) add(c *replica.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next > 0 && len(p.waiting) == cap(p.waiting) {
		p.waiting, p.next = p.waiting[:copy(p.waiting, p.waiting[p.next:])], 0
	}
	p.waiting = append(p.waiting, c)
	if p.running < runtime.GOMAXPROCS(0) {
		p.running++
		go p.run()
	}
}

func (p *flushPool) run() {
	for c := p.take(); c != nil; c = p.take() {
		c.Push()
	}
}

// take removes the client that waited longest; it returns nil, and counts its
// caller as gone, if there is none.
func (p *flushPool) take() *replica.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == len(p.waiting) {
		p.waiting, p.next = p.waiting[:0], 0
		p.running--
		return nil
	}
	c := p.waiting[p.next]
	p.waiting[p.next] = nil
	p.next++
	return c
}
