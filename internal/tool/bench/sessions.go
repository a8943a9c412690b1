package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// runSessions opens -keys sessions, -conns at a time, as fast as it can. Then it keeps them for -time, and each pings
// as an idle client does.
func runSessions(ctx context.Context, t *trial) (result, error) {
	if err := checkFiles(t.keys); err != nil {
		return result{}, err
	}
	before, start, begin := t.measured.RssMiB(), t.measured.Cost(), time.Now()
	conns := make([]*wire.Conn, t.keys)
	took := make([]time.Duration, t.keys)
	defer func() { closeAll(conns) }()
	err := inParallel(ctx, t.keys, t.conns, func(ctx context.Context, i int) (err error) {
		at := time.Now()
		conns[i], err = t.dial(ctx, i, wire.IdleBuffer)
		took[i] = time.Since(at)
		t.progress.show("opening sessions", int64(i), time.Since(begin), 0, int64(t.keys))
		return err
	})
	if err != nil {
		return result{}, err
	}
	r := result{Conns: t.keys, Ops: int64(t.keys)}
	r.setTime(time.Since(begin))
	r.setCost(t.measured.Cost().Minus(start), r.Ops)
	opened := newLatencies()
	for _, d := range took {
		opened.record(d, 1)
	}
	r.setLatency(opened)
	if err := t.hold(ctx, conns, &r); err != nil {
		return r, err
	}
	if len(t.measured) > 0 {
		r.ServerRSS = t.measured.RssMiB()
		r.set("rss_before_mib", before)
		r.set("kib_per_session", (r.ServerRSS-before)*1024/float64(t.keys))
	}
	return r, nil
}

// pingsPerTimeout is 3, since a client pings after a silence of a third of its timeout.
const pingsPerTimeout = 3

// holders is the number of goroutines that ping for all sessions.
const holders = 16

// hold keeps the sessions alive for -time and adds the cost to r. Each session pings once per period. The pings of all
// sessions are spread evenly over the period.
func (t *trial) hold(ctx context.Context, conns []*wire.Conn, r *result) error {
	start, begin := t.measured.Cost(), time.Now()
	pings := make([]*latencies, holders)
	lost := make([]int64, holders)
	var wg sync.WaitGroup
	for h := range holders {
		pings[h] = newLatencies()
		var mine []*wire.Conn
		for i := h; i < len(conns); i += holders {
			mine = append(mine, conns[i])
		}
		wg.Go(func() { lost[h] = t.pingLoop(ctx, mine, begin.Add(t.time), pings[h]) })
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	all := newLatencies()
	for h := range holders {
		all.add(pings[h])
		r.addErrors("session lost while idle", lost[h])
	}
	if n := all.count(); n > 0 {
		used := t.measured.Cost().Minus(start)
		r.set("pings", float64(n))
		r.set("ping_p50_ms", all.quantileMs(.5))
		r.set("ping_p99_ms", all.quantileMs(.99))
		if len(t.measured) > 0 {
			r.set("server_cpu_us_per_ping", float64(used.Server.Microseconds())/float64(n))
		}
	}
	return nil
}

// pingLoop pings the connections in turn until the end. It returns how many failed; it counts each of them once.
func (t *trial) pingLoop(ctx context.Context, conns []*wire.Conn, end time.Time, l *latencies) (lost int64) {
	if len(conns) == 0 {
		return 0
	}
	period := conns[0].Session.Timeout / pingsPerTimeout
	gap := period / time.Duration(len(conns))
	dead := make([]bool, len(conns))
	due := time.Now()
	for i := 0; time.Now().Before(end); i = (i + 1) % len(conns) {
		if !dead[i] {
			begin := time.Now()
			if err := ping(conns[i], begin.Add(conns[i].Session.Timeout)); err != nil {
				dead[i] = true
				lost++
			} else {
				l.record(time.Since(begin), 1)
			}
		}
		t.progress.show("holding sessions", l.count()*holders, t.time-time.Until(end), t.time, 0)
		due = due.Add(gap)
		if pause(ctx, min(time.Until(due), time.Until(end))) != nil {
			return lost
		}
	}
	return lost
}

// ping sends a ping and waits for its reply until the deadline.
func ping(c *wire.Conn, deadline time.Time) error {
	c.Net.SetDeadline(deadline)
	h, err := ask(c, jute.XidPing, wire.Encode(jute.OpPing, nil))
	if err == nil && h.Xid != jute.XidPing {
		err = fmt.Errorf("reply with xid %d to a ping", h.Xid)
	}
	return err
}

// ask sends a request whose kind has an xid of its own, and waits for the reply.
func ask(c *wire.Conn, xid int32, frame []byte) (jute.ReplyHeader, error) {
	wire.PutXid(frame, xid)
	if _, err := c.Net.Write(frame); err != nil {
		return jute.ReplyHeader{}, err
	}
	h, _, err := c.Reply()
	return h, err
}
