package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

const (
	// inFlightMax bounds the unanswered requests of a connection in an open loop. A server so far behind is saturated.
	// Further requests wait in the generator, and the wait counts as latency.
	inFlightMax = 1 << 14
	// burstMax bounds the requests written at once when catching up.
	burstMax = 256
	// drainMax is how long the generator waits for replies after the end.
	drainMax = 10 * time.Second
	// windowPoll is how often a sender with inFlightMax unanswered requests checks again.
	windowPoll = time.Millisecond
	// writePause is the minimum time between two writes of a connection. Requests that become due meanwhile are sent
	// together, and their latency includes the wait. A write and a wake-up for each request would cost several times as
	// much as the request itself, on processors that the server needs too. A load at half of the server's capacity
	// would then leave no processor idle.
	writePause = 500 * time.Microsecond
)

// schedule says when each request of an open loop is due. It doesn't depend on the server, which is what makes the loop
// open.
type schedule struct {
	offset   time.Duration // of request 0
	interval float64       // nanoseconds
	until    time.Duration // nothing is due from this time on
}

// at returns when request k is due.
func (s schedule) at(k uint64) time.Duration {
	return s.offset + time.Duration(float64(k)*s.interval)
}

// count returns the number of requests that are due before the end.
func (s schedule) count() uint64 {
	k := uint64(max(float64(s.until-s.offset)/s.interval, 0))
	for s.at(k) < s.until {
		k++
	}
	return k
}

// openLane is a lane of an open loop. One goroutine sends by the schedule, another receives.
type openLane struct {
	*lane
	schedule
	kinds    [inFlightMax]wire.Kind // of request k at k % inFlightMax: written before sent is raised, read afterwards
	sent     atomic.Uint64
	answered atomic.Uint64
	lag      *latencies // belongs to the sender until that ends
	number   int        // of the connection
}

// openLoop sends requests at the load's rate. It measures each latency from the time when the request was due, so that
// a stall of the server counts for every request that should have been sent meanwhile (no coordinated omission).
// Requests without a reply at the end count as errors, with the latency up to then.
func (ln *lane) openLoop(ctx context.Context, i int) error {
	l := ln.load
	_, until := l.window()
	n := float64(len(l.conns))
	interval := n / l.rate * 1e9
	o := &openLane{lane: ln, lag: newLatencies(), number: i,
		schedule: schedule{offset: time.Duration(interval * float64(i) / n), interval: interval, until: until}}
	ln.c.Net.SetDeadline(l.epoch.Add(until + drainMax))
	defer ln.c.Net.SetDeadline(time.Time{})
	sender := make(chan error, 1)
	go func() { sender <- o.send(ctx) }()
	err := o.receive()
	if err != nil {
		ln.c.Net.Close() // makes the sender end too
	}
	if sendErr := <-sender; err == nil {
		err = sendErr
	}
	ln.lag = o.lag
	return err
}

// send writes requests as they become due until all are sent or the draining time is over.
func (o *openLane) send(ctx context.Context) error {
	total := o.count()
	pause := time.NewTimer(0)
	defer pause.Stop()
	wrote := -writePause
	for k := uint64(0); k < total; {
		now := o.load.now()
		wait := max(o.at(k), wrote+writePause) - now
		if k-o.answered.Load() >= inFlightMax {
			wait = windowPoll
		}
		if wait > 0 {
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if o.load.now() > o.until+drainMax {
				return nil
			}
			continue
		}
		room := min(burstMax, inFlightMax-(k-o.answered.Load()))
		b := o.c.Out[:0]
		for end := min(k+room, total); k < end && o.at(k) <= now; k++ {
			at := len(b)
			b, o.kinds[k%inFlightMax] = o.req(b, k)
			o.c.Xid = wire.NextXid(o.c.Xid)
			wire.PutXid(b[at:], o.c.Xid)
			o.lag.record(now-o.at(k), 1)
		}
		o.c.Out = b
		o.sent.Store(k)
		if o.at(k) > now { // otherwise there are more to catch up with
			wrote = now
		}
		if err := o.c.Flush(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// receive takes replies until every due request has one or the draining time is over.
func (o *openLane) receive() error {
	total := o.count()
	k := uint64(0)
	for k < total {
		err := o.c.Fill()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.giveUp(k, total)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if k, err = o.collect(k, o.load.now()); err != nil {
			return err
		}
		o.answered.Store(k)
	}
	return nil
}

// collect takes the replies that have arrived by now, from request k on, and returns the number of the next request
// without a reply.
func (o *openLane) collect(k uint64, now time.Duration) (uint64, error) {
	from, _ := o.load.window()
	for {
		f, err := o.c.Take()
		if f == nil || err != nil {
			return k, err
		}
		h, body, notification, err := o.accept(f)
		if err != nil {
			return k, err
		}
		if notification {
			continue
		}
		if k >= o.sent.Load() {
			return k, fmt.Errorf("reply with xid %d to a request not yet sent", h.Xid)
		}
		kd := o.kinds[k%inFlightMax]
		if due := o.at(k); due >= from {
			o.record(kd, now-due, 1)
			if o.load.samples != nil {
				o.load.samples[o.number] = append(o.load.samples[o.number], sample{due, now - due})
			}
			o.last = now
			if code := judge(kd, h, body); code != jute.OK {
				o.errs[code]++
			}
		}
		k++
		o.done.Add(1)
	}
}

// giveUp counts the requests from k on, sent or not, as errors, with the time for which they have waited.
func (o *openLane) giveUp(k, total uint64) {
	now := o.load.now()
	from, _ := o.load.window()
	sent := o.sent.Load()
	for ; k < total; k++ {
		var kd wire.Kind // a request that was never sent counts like the last one sent
		if sent > 0 {
			kd = o.kinds[min(k, sent-1)%inFlightMax]
		}
		if due := o.at(k); due >= from {
			o.record(kd, now-due, 1)
			o.last = now
			o.errs[jute.ErrOperationTimeout]++
		}
	}
}
