package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// stallMax is how long a load may go without a reply on any connection before it is aborted. It is longer than any
// useful failover.
const stallMax = 60 * time.Second

// watchPeriod is how often progress is shown and a stall is checked for.
const watchPeriod = 200 * time.Millisecond

// load is steady work on open connections: a closed loop if rate is 0, otherwise an open loop. If run fails, its
// connections are closed; otherwise they stay open.
type load struct {
	name     string
	conns    []*wire.Conn
	depth    func(conn int) int // closed loop: outstanding requests; 0 leaves the connection idle
	source   wire.Source
	warm     time.Duration // time that counts as warm-up and isn't measured
	time     time.Duration // measured time
	ops      int64         // if not 0: this many requests, all measured, instead of warm and time
	limit    time.Duration // with ops: the maximum duration; 0 is no limit
	strict   bool          // end at the first reply with an error code; closed loop only
	rate     float64       // open loop: requests per second over all connections
	servers  servers.Processes
	progress *progress
	samples  [][]sample // if not nil, one list per connection: every measured reply of an open loop

	epoch   time.Time
	issued  atomic.Int64 // with ops: requests claimed
	stopped atomic.Bool  // send no more requests
}

// now returns the time since the load began.
func (l *load) now() time.Duration { return time.Since(l.epoch) }

// window returns the interval in which replies are measured.
func (l *load) window() (from, until time.Duration) {
	switch {
	case l.ops == 0:
		return l.warm, l.warm + l.time
	case l.rate > 0:
		until = time.Duration(float64(l.ops) / l.rate * float64(time.Second))
	default:
		until = math.MaxInt64
	}
	if l.limit > 0 {
		until = min(until, l.limit)
	}
	return 0, until
}

// claim claims up to n of the requests of a counted trial. It returns the number of the first and how many it got.
func (l *load) claim(n int) (first uint64, got int) {
	end := l.issued.Add(int64(n))
	begin := end - int64(n)
	return uint64(begin), int(max(min(end, l.ops)-begin, 0))
}

// lane is one connection's part of a load. Its fields belong to the receiving goroutine unless noted otherwise.
type lane struct {
	load   *load
	c      *wire.Conn
	req    wire.Request // belongs to the sender
	expect int32        // xid of the last reply taken

	rec  *recorder
	errs map[jute.Code]int64
	last time.Duration // when the last measured reply arrived
	lag  *latencies    // open loop: how late requests were sent; set at the end
	done atomic.Int64  // replies, measured or not; for the watcher
}

// recordersMax bounds the histograms, since each pair takes 350 KiB. If there are more connections, several share a
// pair.
const recordersMax = 64

// recorder holds the histograms of one or several lanes.
type recorder struct {
	mu     sync.Mutex
	reads  *latencies
	writes *latencies
}

func (l *load) lane(i int, rec *recorder) *lane {
	c := l.conns[i]
	return &lane{load: l, c: c, req: l.source(i), expect: c.Xid, rec: rec, errs: map[jute.Code]int64{}}
}

// run works until the time is over or the requests are done. It returns the error of the first connection that failed.
func (l *load) run(ctx context.Context) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	context.AfterFunc(ctx, func() {
		for _, c := range l.conns {
			if !errors.Is(context.Cause(ctx), errLoadDone) {
				c.Net.Close()
			}
		}
	})
	lanes := make([]*lane, len(l.conns))
	recs := make([]*recorder, min(len(lanes), recordersMax))
	for i := range recs {
		recs[i] = &recorder{reads: newLatencies(), writes: newLatencies()}
	}
	for i := range lanes {
		lanes[i] = l.lane(i, recs[i%len(recs)])
	}
	if l.epoch.IsZero() {
		l.epoch = time.Now()
	}
	var wg sync.WaitGroup
	for i, ln := range lanes {
		wg.Go(func() {
			var err error
			if l.rate > 0 {
				err = ln.openLoop(ctx, i)
			} else {
				err = ln.closedLoop(l.depth(i))
			}
			if err != nil {
				cancel(fmt.Errorf("%s: connection %d to %s, after %d replies: %w", l.name, i, ln.c.Addr, ln.done.Load(), err))
			}
		})
	}
	allDone := make(chan struct{})
	go func() { wg.Wait(); close(allDone) }()
	used := l.watch(ctx, cancel, lanes, allDone)
	l.stopped.Store(true)
	<-allDone
	if err := context.Cause(ctx); err != nil {
		return result{}, err
	}
	cancel(errLoadDone)
	return l.sum(lanes, recs, used), nil
}

// errLoadDone ends a load's context without closing its connections.
var errLoadDone = errors.New("load done")

// watch waits for the end of the measured window and returns the processor time used in it. It shows progress and
// aborts a stalled load.
func (l *load) watch(ctx context.Context, cancel context.CancelCauseFunc, lanes []*lane,
	allDone <-chan struct{}) (used servers.Cost) {
	from, until := l.window()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	begin := time.NewTimer(from)
	defer begin.Stop()
	end := time.NewTimer(min(until, math.MaxInt64/2))
	defer end.Stop()
	start := l.servers.Cost()
	var total int64
	moved := time.Now()
	for {
		select {
		case <-begin.C:
			start = l.servers.Cost()
		case <-end.C:
			if l.rate == 0 { // an open loop's backlog is part of its work
				used = l.servers.Cost().Minus(start)
			}
			end.Reset(math.MaxInt64 / 2)
		case <-allDone:
			if used == (servers.Cost{}) {
				used = l.servers.Cost().Minus(start)
			}
			return used
		case <-tick.C:
			var n int64
			for _, ln := range lanes {
				n += ln.done.Load()
			}
			if n != total {
				total, moved = n, time.Now()
			} else if time.Since(moved) > stallMax {
				cancel(fmt.Errorf("%s: no reply on any of %d connections for %v", l.name, len(lanes), stallMax))
			}
			l.progress.show(l.name, total, l.now(), until, l.ops)
		case <-ctx.Done():
			<-allDone
			return used
		}
	}
}

// sum combines the lanes' results.
func (l *load) sum(lanes []*lane, recs []*recorder, used servers.Cost) result {
	r := result{Conns: len(lanes), Rate: l.rate}
	reads, writes := newLatencies(), newLatencies()
	lag := newLatencies()
	from, _ := l.window()
	last := from
	if l.ops == 0 {
		last += l.time
	}
	for _, rec := range recs {
		reads.add(rec.reads)
		writes.add(rec.writes)
	}
	for _, ln := range lanes {
		r.countErrors(ln.errs)
		if ln.lag != nil {
			lag.add(ln.lag)
		}
		if l.ops > 0 || l.rate > 0 { // a backlog with late replies extends the time
			last = max(last, ln.last)
		}
	}
	if reads.count() > 0 && writes.count() > 0 {
		r.set("read_p50_ms", reads.quantileMs(.5))
		r.set("read_p99_ms", reads.quantileMs(.99))
		r.set("write_p50_ms", writes.quantileMs(.5))
		r.set("write_p99_ms", writes.quantileMs(.99))
	}
	if l.rate > 0 { // if large although the server keeps up, the generator or its machine is slow
		r.set("sent_late_p50_ms", lag.quantileMs(.5))
		r.set("sent_late_p99_ms", lag.quantileMs(.99))
		r.set("sent_late_p999_ms", lag.quantileMs(.999))
	}
	reads.add(writes)
	r.Ops = reads.count()
	r.setLatency(reads)
	r.setTime(last - from)
	r.setCost(used, r.Ops)
	r.ServerRSS = l.servers.RssMiB()
	return r
}

// record counts n replies of one kind and latency.
func (ln *lane) record(k wire.Kind, d time.Duration, n int64) {
	ln.rec.mu.Lock()
	defer ln.rec.mu.Unlock()
	if k&wire.KindWrite != 0 {
		ln.rec.writes.record(d, n)
	} else {
		ln.rec.reads.record(d, n)
	}
}

// accept checks that a frame is the next reply in order and returns its parts. For a notification it returns only
// notification true.
func (ln *lane) accept(f []byte) (h jute.ReplyHeader, body []byte, notification bool, err error) {
	h, body, err = wire.Header(f)
	if err != nil {
		return h, nil, false, err
	}
	if h.Xid == jute.XidNotification {
		ln.c.Events++
		return h, nil, true, nil
	}
	if ln.expect = wire.NextXid(ln.expect); h.Xid != ln.expect {
		return h, nil, false, fmt.Errorf("reply out of order: it has xid %d, the oldest request without one has %d", h.Xid,
			ln.expect)
	}
	ln.c.LastZxid = max(ln.c.LastZxid, h.Zxid)
	return h, body, false, nil
}

// judge returns the error code that counts for a reply.
func judge(k wire.Kind, h jute.ReplyHeader, body []byte) jute.Code {
	code := h.Err
	if code == jute.OK && k&wire.KindMulti != 0 {
		code = wire.MultiError(body)
	}
	if code == jute.ErrNoNode && k&wire.KindMissingOK != 0 {
		return jute.OK
	}
	return code
}
