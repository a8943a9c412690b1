package server

import (
	"runtime"
	"sync"
)

// A flushPool writes to the connections that got output, as far as that doesn't block, on at most
// as many goroutines as there are processors. With one goroutine for each connection, an event with
// 500 watchers cost a sixth more.
type flushPool struct {
	mu      sync.Mutex
	waiting []*clientSocket // first in, first out; those before next are done
	next    int
	running int
}

// add queues a client that Tries, and whose flushing was set.
func (p *flushPool) add(c *clientSocket) {
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

// take removes the client that has waited longest. If none waits, it returns nil and counts the
// calling goroutine as ended.
func (p *flushPool) take() *clientSocket {
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
