package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// stormZnodes is how many znodes the sessions watch.
const stormZnodes = 1000

// runStorm opens -keys sessions with -watches each and cuts all connections at once, without closing the sessions; with
// -kill it kills the server instead. Then all sessions are resumed, -conns at a time, and their watches set again.
// Latency is the time from the cut until a session is resumed and its watches are set.
func runStorm(ctx context.Context, t *trial) (r result, err error) {
	sessions := t.keys
	if err := checkFiles(sessions); err != nil {
		return r, err
	}
	t.keys = stormZnodes
	if err := t.prepareKeys(ctx); err != nil {
		return r, err
	}
	conns, err := t.dialAll(ctx, sessions, wire.IdleBuffer)
	if err != nil {
		return r, err
	}
	defer func() { closeAll(conns) }()
	err = inParallel(ctx, sessions, t.conns, func(_ context.Context, i int) error { return t.setWatches(conns[i], i) })
	if err != nil {
		return r, fmt.Errorf("set the watches: %w", err)
	}
	if t.kill > 0 {
		undo, err := t.strike()
		if err != nil {
			return r, err
		}
		defer undo()
	}
	start, cut := t.measured.Cost(), time.Now()
	for _, c := range conns {
		c.Drop()
	}
	back, tries, err := t.allComeBack(ctx, conns, cut)
	if err != nil {
		return r, err
	}
	took := time.Since(cut)
	l := newLatencies()
	for _, d := range back {
		if d > 0 {
			l.record(d, 1)
		}
	}
	expired := int64(sessions) - l.count()
	r = result{Conns: sessions, Ops: l.count(), ServerRSS: t.measured.RssMiB()}
	r.setTime(took)
	r.setLatency(l)
	r.setCost(t.measured.Cost().Minus(start), r.Ops)
	r.addErrors("Session expired", expired)
	r.set("all_back_ms", float64(took.Microseconds())/1e3)
	r.set("watches", float64(t.watches))
	r.set("dials", float64(tries))
	r.set("expired", float64(expired))
	return r, nil
}

// allComeBack replaces each connection with a new one of the same session, nil if the session has expired. It returns
// the time from the cut until each was resumed, 0 for expired ones, and the total number of attempts.
func (t *trial) allComeBack(ctx context.Context, conns []*wire.Conn,
	cut time.Time) (back []time.Duration, tries int64, err error) {
	back = make([]time.Duration, len(conns))
	var done, dials atomic.Int64
	err = inParallel(ctx, len(conns), t.conns, func(ctx context.Context, i int) error {
		c, n, err := t.comeBack(ctx, conns[i], i)
		dials.Add(n)
		if errors.Is(err, wire.ErrExpired) {
			conns[i] = nil
			return nil
		}
		if err != nil {
			return err
		}
		conns[i], back[i] = c, time.Since(cut)
		t.progress.show("coming back", done.Add(1), time.Since(cut), 0, int64(len(conns)))
		return nil
	})
	return back, dials.Load(), err
}

// setWatches sets the watches of session i, as a client does after a reconnect.
func (t *trial) setWatches(c *wire.Conn, i int) error {
	if t.watches == 0 {
		return nil
	}
	w := jute.SetWatches{RelativeZxid: c.LastZxid, Data: make([]string, t.watches), Exist: []string{}, Child: []string{}}
	for j := range w.Data {
		w.Data[j] = t.key((i*t.watches + j) % stormZnodes)
	}
	c.Net.SetDeadline(time.Now().Add(c.Session.Timeout))
	defer c.Net.SetDeadline(time.Time{})
	h, err := ask(c, jute.XidSetWatches,
		wire.Encode(jute.OpSetWatches, func(b []byte) []byte { return w.Append(b, jute.OpSetWatches) }))
	if err == nil && h.Err != jute.OK {
		err = h.Err
	}
	return err
}

// comeBackPoll is how long a session waits after a refused connection.
const comeBackPoll = 5 * time.Millisecond

// comeBack resumes session i and sets its watches again. It tries one server after the other until it succeeds or the
// session has expired; tries counts the attempts. If no server accepts the session for twice its timeout, no server is
// left, and comeBack returns an error.
func (t *trial) comeBack(ctx context.Context, old *wire.Conn, i int) (c *wire.Conn, tries int64, err error) {
	deadline := time.Now().Add(2*old.Session.Timeout + wire.HandshakeTimeout)
	for a := i; ; a++ {
		tries++
		c, err = wire.Dial(ctx, t.servers[a%len(t.servers)], old.Session, old.LastZxid, wire.IdleBuffer)
		if err == nil {
			if err = t.setWatches(c, i); err == nil {
				return c, tries, nil
			}
			c.Drop()
		}
		if errors.Is(err, wire.ErrExpired) || ctx.Err() != nil {
			return nil, tries, err
		}
		if time.Now().After(deadline) {
			return nil, tries, fmt.Errorf("session %d doesn't get back: %w", i, err)
		}
		if err := pause(ctx, comeBackPoll); err != nil {
			return nil, tries, err
		}
	}
}
