package main

import (
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// greedyConnections send requests at once, each with up to greedyWindow of them unanswered.
	greedyConnections = 100
	greedyWindow      = 64
	// saturationWindow is the window of the closed loop of the attack saturation.
	saturationWindow = 8
)

// attackGreedy sends requests as fast as they are answered, on many connections
// of one identity: reads, and every eighth request a write.
func attackGreedy(f *field) error {
	return f.demand(greedyConnections, greedyWindow, 8, "greedy:x")
}

// demand keeps window requests outstanding on each of n connections; every writes-th request is a write.
func (f *field) demand(n, window, writes int, user string) error {
	f.connected(n, 20_000, func(i int, c *conn) {
		if user != "" {
			c.call(jute.OpAuth, authRecord(user))
		}
		c.unpaced = true
		c.create(hostileRoot, nil, jute.ModePersistent)
		c.keepAsking(window, writes)
	})
	return nil
}

// keepAsking sends requests until the connection ends or the attack is over.
func (c *conn) keepAsking(window, writes int) {
	read, write := readRecord(hostileRoot), setRecord(hostileRoot, "some data of a client")
	sent, answered := 0, 0
	for !c.f.over() {
		var b []byte
		for ; sent-answered < window; sent++ {
			if sent%writes == 0 {
				b = c.appendRequest(b, jute.OpSetData, write)
			} else {
				b = c.appendRequest(b, jute.OpGetData, read)
			}
		}
		if c.write(b) != nil {
			return
		}
		for more := true; more; more = c.r.Buffered() > 0 {
			if _, _, err := c.receive(time.Minute); err != nil {
				return
			}
			answered++
		}
	}
}
