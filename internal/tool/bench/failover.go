package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

const (
	// writePatience is how long a writer waits for one acknowledgement before it tries the next server.
	writePatience = 2 * time.Second
	// redialPause is how long a writer waits after a refused connection.
	redialPause = 5 * time.Millisecond
	// redialMax bounds one attempt to connect.
	redialMax = time.Second
)

// writer is one client of a failover. It has a single unanswered write, moves to another server after each failure, and
// keeps its session as long as the session lasts.
type writer struct {
	t     *trial
	c     *wire.Conn // nil while not connected
	s     wire.Session
	zxid  int64 // last seen
	next  int   // index of the server to try next
	frame []byte

	acks        []time.Duration // when each write was acknowledged
	disconnects int64           // established connections that were lost
	expired     int64
	errs        map[string]int64
}

// runFailover keeps one writer per connection busy. After -warm it sends -signal to -kill, or without -kill to the
// leader of an ensemble started here. The longest gap is the longest time between any two successive acknowledgements.
// The longest writer gap is the maximum of all writers' gaps.
func runFailover(ctx context.Context, t *trial) (result, error) {
	if t.kill == 0 && t.server != nil && len(t.server.Addrs) > 1 { // now, while no load delays the answer
		var err error
		if t.kill, err = t.server.Leader(); err != nil {
			return result{}, err
		}
	}
	begin := time.Now()
	writers := make([]*writer, t.conns)
	frame := wire.SetFrame(t.base, t.value())
	for i := range writers {
		writers[i] = &writer{t: t, s: t.newSession(), next: i, frame: frame, errs: map[string]int64{}}
	}
	end := t.warm + t.time
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() { w.loop(ctx, begin, end) })
	}
	err := pause(ctx, t.warm)
	if err == nil && t.kill > 0 {
		var undo func()
		undo, err = t.strike()
		defer undo()
	}
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return result{}, err
	}
	return t.gaps(writers, end), nil
}

// loop writes until the end.
func (w *writer) loop(ctx context.Context, begin time.Time, end time.Duration) {
	for time.Since(begin) < end && ctx.Err() == nil {
		if w.c == nil && !w.connect(ctx) {
			continue
		}
		w.c.Net.SetDeadline(time.Now().Add(writePatience))
		w.c.Queue(w.frame)
		err := w.c.Flush()
		if err == nil {
			var h jute.ReplyHeader
			if h, _, err = w.c.Reply(); err == nil && h.Err != jute.OK {
				err = h.Err
			}
		}
		if err != nil {
			w.errs[shortReason(err)]++
			w.disconnects++
			w.s, w.zxid = w.c.Session, w.c.LastZxid
			w.c.Drop()
			w.c = nil
			continue
		}
		w.acks = append(w.acks, time.Since(begin))
	}
	if w.c != nil {
		w.c.Close()
	}
}

// connect tries the next server once.
func (w *writer) connect(ctx context.Context) bool {
	short, cancel := context.WithTimeout(ctx, redialMax)
	defer cancel()
	addr := w.t.servers[w.next%len(w.t.servers)]
	w.next++
	var err error
	if w.c, err = wire.Dial(short, addr, w.s, w.zxid, wire.IdleBuffer); err == nil {
		return true
	}
	w.c = nil
	if errors.Is(err, wire.ErrExpired) {
		w.expired++
		w.s = w.t.newSession()
	}
	w.errs["connect"]++
	pause(ctx, redialPause)
	return false
}

// shortReason reduces an error to one of a few names, for counting.
func shortReason(err error) string {
	var code jute.Code
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &code):
		return code.String()
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer in %v", writePatience)
	default:
		return "connection lost"
	}
}

// gaps finds the longest times without an acknowledgement, including those that last to the end.
func (t *trial) gaps(writers []*writer, end time.Duration) result {
	var all []time.Duration
	var longest, longestOfOne time.Duration
	var disconnects, expired int64
	r := result{Conns: len(writers), Depth: 1}
	for _, w := range writers {
		all = append(all, w.acks...)
		longestOfOne = max(longestOfOne, longestGap(w.acks, end))
		disconnects += w.disconnects
		expired += w.expired
		for reason, n := range w.errs {
			r.addErrors(reason, n)
		}
	}
	slices.Sort(all)
	longest = longestGap(all, end)
	r.Ops = int64(len(all))
	r.setTime(end)
	r.ServerRSS = t.measured.RssMiB()
	r.set("longest_gap_ms", float64(longest.Microseconds())/1e3)
	r.set("longest_writer_gap_ms", float64(longestOfOne.Microseconds())/1e3)
	r.set("disconnects", float64(disconnects))
	r.set("expired", float64(expired))
	return r
}

// longestGap returns the longest time without an acknowledgement between the first one and the end.
func longestGap(acks []time.Duration, end time.Duration) (gap time.Duration) {
	if len(acks) == 0 {
		return end
	}
	for i := 1; i < len(acks); i++ {
		gap = max(gap, acks[i]-acks[i-1])
	}
	return max(gap, end-acks[len(acks)-1])
}
