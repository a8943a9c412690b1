package bench

import (
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// pending is a request that has no reply yet.
type pending struct {
	at   time.Duration // when the write with it began
	kind wire.Kind
}

// pipeline holds the requests of a connection that have no reply yet, oldest first.
type pipeline struct {
	ring       []pending
	head, tail int
	open       int
}

func (p *pipeline) push(k wire.Kind) {
	p.ring[p.head] = pending{kind: k}
	p.head = (p.head + 1) % len(p.ring)
	p.open++
}

// stamp sets the time of the n newest requests.
func (p *pipeline) stamp(n int, at time.Duration) {
	for i := p.head; n > 0; n-- {
		i = (i + len(p.ring) - 1) % len(p.ring)
		p.ring[i].at = at
	}
}

func (p *pipeline) pop() pending {
	s := p.ring[p.tail]
	p.tail = (p.tail + 1) % len(p.ring)
	p.open--
	return s
}

// closedLoop keeps depth requests unanswered: after each read, one write sends as many new requests as there were
// replies.
func (ln *lane) closedLoop(depth int) error {
	if depth == 0 {
		return nil
	}
	p := pipeline{ring: make([]pending, depth)}
	if err := ln.issue(&p, depth); err != nil {
		return err
	}
	for p.open > 0 {
		if err := ln.c.Fill(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		n, err := ln.collect(&p, ln.load.now())
		if err != nil {
			return err
		}
		if err := ln.issue(&p, n); err != nil {
			return err
		}
	}
	return nil
}

// issue sends up to n new requests. It sends none once the time is over or the count is reached.
func (ln *lane) issue(p *pipeline, n int) error {
	l := ln.load
	next := uint64(ln.done.Load()) + uint64(p.open)
	if l.ops > 0 {
		next, n = l.claim(n)
	}
	if n == 0 || l.stopped.Load() {
		return nil
	}
	b := ln.c.Out[:0]
	for i := range n {
		at := len(b)
		var k wire.Kind
		b, k = ln.req(b, next+uint64(i))
		ln.c.Xid = wire.NextXid(ln.c.Xid)
		wire.PutXid(b[at:], ln.c.Xid)
		p.push(k)
	}
	now := l.now()
	if _, until := l.window(); now >= until {
		l.stopped.Store(true) // these are the last; their replies come after the window
	}
	p.stamp(n, now)
	ln.c.Out = b
	if err := ln.c.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// collect takes all replies that have arrived by the time now. Consecutive replies to requests of one write have the
// same latency and are recorded together.
func (ln *lane) collect(p *pipeline, now time.Duration) (n int, err error) {
	from, until := ln.load.window()
	measured := now >= from && now < until
	var group pending
	var size int64
	record := func() {
		if measured && size > 0 {
			ln.record(group.kind, now-group.at, size)
			ln.last = now
		}
	}
	for p.open > 0 {
		f, err := ln.c.Take()
		if err != nil {
			return n, err
		}
		if f == nil {
			break
		}
		h, body, notification, err := ln.accept(f)
		if err != nil {
			return n, err
		}
		if notification {
			continue
		}
		s := p.pop()
		n++
		if s != group {
			record()
			group, size = s, 0
		}
		size++
		code := judge(s.kind, h, body)
		if code != jute.OK && ln.load.strict {
			return n, code
		}
		if code != jute.OK && measured {
			ln.errs[code]++
		}
	}
	record()
	ln.done.Add(int64(n))
	return n, nil
}
