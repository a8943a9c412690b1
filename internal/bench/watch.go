package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// fanOut is one znode and those who watch it. The goroutines of the watchers
// and that of the changes take turns: arm, change, hear, again.
type fanOut struct {
	path  string
	conns []*conn
	armed chan error    // one per watcher and round: the watch is set
	heard chan error    // one per watcher and round: the event came
	begin atomic.Int64  // when the change was sent, since epoch
	delay []int64       // of each watcher in this round
	epoch time.Time     // clock zero
	over  chan struct{} // closed when the last round is done
}

// watcherLoop arms a watch and waits for its event, over and over, whenever
// next says so.
func (f *fanOut) watcherLoop(i int, next <-chan struct{}) {
	c := f.conns[i]
	arm := getFrame(f.path, true)
	for {
		select {
		case <-next:
		case <-f.over:
			return
		}
		c.queue(arm)
		err := c.flush()
		if err == nil {
			var h jute.ReplyHeader
			if h, _, err = c.reply(); err == nil && h.Err != jute.OK {
				err = h.Err
			}
		}
		f.armed <- err
		if err != nil {
			return
		}
		frame, err := c.frame()
		f.delay[i] = int64(time.Since(f.epoch)) - f.begin.Load()
		if err == nil {
			var h jute.ReplyHeader
			if h, _, err = header(frame); err == nil && h.Xid != jute.XidNotification {
				err = fmt.Errorf("reply with xid %d where a notification was due", h.Xid)
			}
		}
		f.heard <- err
		if err != nil {
			return
		}
	}
}

// gather takes one message of every watcher.
func gather(from <-chan error, n int) error {
	for range n {
		if err := <-from; err != nil {
			return err
		}
	}
	return nil
}

// runWatch changes one znode that -keys connections watch, and measures from
// the change's sending to the last watcher's hearing of it; the extra figures
// have the delay of each.
func runWatch(ctx context.Context, t *trial) (result, error) {
	conns, err := t.dialAll(ctx, t.keys, idleBuffer)
	if err != nil {
		return result{}, err
	}
	defer closeAll(conns)
	writer, err := t.dial(ctx, 0, idleBuffer)
	if err != nil {
		return result{}, err
	}
	defer writer.close()
	f := &fanOut{path: t.base, conns: conns, armed: make(chan error, t.keys), heard: make(chan error, t.keys),
		delay: make([]int64, t.keys), epoch: time.Now(), over: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range append(conns, writer) {
			c.net.Close()
		}
	})
	defer stop()
	next := make(chan struct{}, t.keys)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() { f.watcherLoop(i, next) })
	}
	r, err := t.changes(f, writer, next)
	close(f.over)
	if err != nil { // a watcher may be waiting for an event that won't come
		for _, c := range conns {
			c.net.Close()
		}
	}
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return r, err
}

// changes does the rounds. Those of the warm-up aren't counted.
func (t *trial) changes(f *fanOut, writer *conn, next chan<- struct{}) (result, error) {
	last, each := newLatencies(), newLatencies()
	set := setFrame(f.path, t.value())
	var start cost
	var from time.Duration
	rounds, measured := int64(0), false
	for {
		now := time.Since(f.epoch)
		if !measured && now >= t.warm {
			measured, from, start = true, now, t.measured.cost()
		}
		if measured && (now >= from+t.time && t.ops == 0 || t.ops > 0 && rounds >= t.ops) {
			break
		}
		for range f.conns {
			next <- struct{}{}
		}
		if err := gather(f.armed, len(f.conns)); err != nil {
			return result{}, fmt.Errorf("set a watch: %w", err)
		}
		f.begin.Store(int64(time.Since(f.epoch)))
		writer.queue(set)
		if err := writer.flush(); err != nil {
			return result{}, err
		}
		h, _, err := writer.reply()
		if err == nil && h.Err != jute.OK {
			err = h.Err
		}
		if err != nil {
			return result{}, fmt.Errorf("change the watched znode: %w", err)
		}
		if err := gather(f.heard, len(f.conns)); err != nil {
			return result{}, fmt.Errorf("wait for an event: %w", err)
		}
		if measured {
			rounds++
			var most int64
			for _, d := range f.delay {
				each.record(time.Duration(d), 1)
				most = max(most, d)
			}
			last.record(time.Duration(most), 1)
		}
		t.progress.show(t.name, rounds, now, t.warm+t.time, t.ops)
	}
	r := result{Conns: len(f.conns), Ops: each.count()}
	r.setTime(time.Since(f.epoch) - from)
	r.setLatency(last)
	r.setCost(t.measured.cost().minus(start), r.Ops)
	r.ServerRSS = t.measured.rssMiB()
	r.set("changes", float64(rounds))
	r.set("each_p50_ms", each.quantileMs(.5))
	r.set("each_p99_ms", each.quantileMs(.99))
	return r, nil
}
