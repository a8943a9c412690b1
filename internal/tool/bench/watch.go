package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// fanOut is one znode with its watchers and the connection that changes it. Each round has two halves, so that the work
// of one isn't part of the other's time: first all watches are set, then there is a change and all watchers receive the
// event.
type fanOut struct {
	conns []*wire.Conn // the one that makes the change, then the watchers
	epoll *wire.Poll
	delay []time.Duration // of each watcher in this round

	look, set []byte // the requests of the first connection in the two halves
	arm       []byte // the request of a watcher
}

// round does one round and returns the delay of the last watcher.
func (f *fanOut) round(ctx context.Context) (last time.Duration, err error) {
	request := f.look
	for i := range f.conns {
		if err := f.send(i, request); err != nil {
			return 0, fmt.Errorf("set a watch: %w", err)
		}
		request = f.arm
	}
	if err := f.epoll.Each(ctx, func(_ int, frame []byte) error { return expect(frame, false) }); err != nil {
		return 0, fmt.Errorf("set a watch: %w", err)
	}
	begin := time.Now()
	if err := f.send(0, f.set); err != nil {
		return 0, fmt.Errorf("change the watched znode: %w", err)
	}
	err = f.epoll.Each(ctx, func(i int, frame []byte) error {
		if i > 0 {
			f.delay[i-1] = time.Since(begin)
			last = f.delay[i-1]
		}
		return expect(frame, i > 0)
	})
	if err != nil {
		return 0, fmt.Errorf("change the watched znode, wait for an event: %w", err)
	}
	return last, nil
}

// send writes a request on connection i.
func (f *fanOut) send(i int, frame []byte) error {
	f.conns[i].Queue(frame)
	return f.conns[i].Flush()
}

// expect checks that a frame is a notification, or a reply that isn't an error.
func expect(frame []byte, notification bool) error {
	h, _, err := wire.Header(frame)
	switch {
	case err != nil:
		return err
	case h.Err != jute.OK:
		return h.Err
	case notification && h.Xid != jute.XidNotification:
		return fmt.Errorf("reply with xid %d where a notification was due", h.Xid)
	case !notification && h.Xid == jute.XidNotification:
		return errors.New("a notification where a reply was due")
	}
	return nil
}

// runWatch changes one znode that -keys connections watch. It measures the time from sending the change until the last
// watcher receives the event. The extra figures are the delays of all watchers.
func runWatch(ctx context.Context, t *trial) (result, error) {
	conns, err := t.dialAll(ctx, t.keys+1, wire.IdleBuffer)
	if err != nil {
		return result{}, err
	}
	defer closeAll(conns)
	e, err := wire.NewPoll(ctx, conns)
	if err != nil {
		return result{}, err
	}
	defer e.Close()
	f := &fanOut{conns: conns, epoll: e, delay: make([]time.Duration, t.keys),
		look: wire.GetFrame(t.base, false), set: wire.SetFrame(t.base, t.value()), arm: wire.GetFrame(t.base, true)}
	return t.changes(ctx, f)
}

// changes does the rounds. It doesn't count rounds of the warm-up.
func (t *trial) changes(ctx context.Context, f *fanOut) (result, error) {
	last, each := newLatencies(), newLatencies()
	var start servers.Cost
	var from time.Duration
	epoch := time.Now()
	rounds, measured := int64(0), false
	for {
		now := time.Since(epoch)
		if !measured && now >= t.warm {
			measured, from, start = true, now, t.measured.Cost()
		}
		if measured && (now >= from+t.time && t.ops == 0 || t.ops > 0 && rounds >= t.ops) {
			break
		}
		took, err := f.round(ctx)
		if err != nil {
			return result{}, err
		}
		if measured {
			rounds++
			last.record(took, 1)
			for _, d := range f.delay {
				each.record(d, 1)
			}
		}
		t.progress.show(t.name, rounds, now, t.warm+t.time, t.ops)
	}
	r := result{Conns: t.keys, Ops: each.count()}
	r.setTime(time.Since(epoch) - from)
	r.setLatency(last)
	r.setCost(t.measured.Cost().Minus(start), r.Ops)
	r.ServerRSS = t.measured.RssMiB()
	r.set("changes", float64(rounds))
	r.set("each_p50_ms", each.quantileMs(.5))
	r.set("each_p99_ms", each.quantileMs(.99))
	return r, nil
}
