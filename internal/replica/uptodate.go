package replica

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// No request of a session is answered long after the session's end (X10): another client may already hold the session's
// locks. A server may learn of the end late, because its disk hangs, its loop stands still, or it is cut off. So it
// must know how late it may be. The loop regularly asks the leader how far the log is committed. Once that is applied
// here, this server knows everything acknowledged to any client before the question, including the ends of sessions
// (Moment, UpToDate).
//
// A session's bound is a third of its timeout, at least boundMinMs. Once the server's knowledge is older than
// that, it
//
//  1. takes no request of the session, a ping included (ErrNotUpToDate),
//  2. holds back the answers to the session's writes, syncs and long reads, which a delayed or long Apply
//     or step may bring,
//  3. closes the connection when half of the timeout has passed: the client has the other half to
//     find a working server. For the same reason it accepts no new clients, and closes those
//     whose connect requests wait.
//
// Exempt are local sessions, which this server itself ends, sessions of read-only clients, which
// are in no table, and the sessions of a standalone server, which end nowhere else.

// ErrNotUpToDate says that the server doesn't know whether the session is still alive. The caller
// passes the input in again later, and writes nothing to the client meanwhile.
var ErrNotUpToDate = errors.New("this server can't tell now whether the session is alive")

// boundMinMs is the least bound of a session. Elections and stalls of up to a second are usual on
// busy machines. It exceeds a third of the timeout for sessions of less than 3 s.
const boundMinMs = 1000

// upToDateBound returns how long (ns) a session with that timeout (ms) is answered after it may
// have ended.
func upToDateBound(timeout int32) int64 { return max(int64(timeout)*1e6/3, boundMinMs*1e6) }

// freshness is how late this server may learn of the end of sessions, and the consequences.
type freshness struct {
	*outside
	*state
	hearing *hearing
	locals  *locals

	at        atomic.Int64 // now (ns): everything acknowledged before it is applied
	letGoAt   atomic.Int64 // now (ns) when clients were last let go, 0 for never
	withholds atomic.Bool  // withheld is not empty
	// withheld are the clients whose output is held back. Guarded by state.mu; who holds that for reading only, also holds
	// withholding.
	withheld    []*Client
	withholding partLock
}

// Moment implements quorum.StateMachine.
func (f *freshness) Moment() int64 { return f.now() }

// UpToDate records that everything acknowledged before as (ns) is applied. It releases answers that were held back.
func (f *freshness) UpToDate(as int64) {
	if as <= f.at.Load() {
		return
	}
	f.at.Store(as)
	if !f.withholds.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, kept := f.now(), f.withheld[:0]
	for _, c := range f.withheld {
		if f.outdated(c, now) {
			kept = append(kept, c)
			continue
		}
		c.mu.Lock()
		if c.out.withheld = false; len(c.out.frames) > 0 || c.closing {
			c.queued()
		}
		c.mu.Unlock()
	}
	clear(f.withheld[len(kept):])
	f.withheld = kept
	f.withholds.Store(len(kept) > 0)
}

// Behind returns the longest time for which this server may have missed the ensemble's changes, or 0 if that isn't
// known yet. It is 0 on a standalone server.
func (f *freshness) Behind() time.Duration {
	as := f.at.Load()
	if f.alone || as == 0 {
		return 0
	}
	return time.Duration(f.now() - as)
}

// age returns the longest time (ns) for which c's session may be over without this server knowing. The session lived
// when it was attached to c.
func (f *freshness) age(c *Client, now int64) int64 {
	return now - max(f.at.Load(), c.attachedAt)
}

// mayBeOutdated reports whether this server's knowledge is so old that some session may not be
// answered.
func (f *freshness) mayBeOutdated(now int64) bool {
	return !f.alone && now-f.at.Load() > boundMinMs*1e6
}

// outdated reports whether c's session may have ended longer ago than its bound. mu is held at least for reading.
func (f *freshness) outdated(c *Client, now int64) bool {
	f.mu.RHeld()
	return f.mayBeOutdated(now) && f.age(c, now) > upToDateBound(c.timeout) && !c.readOnly &&
		c.session != 0 && f.locals.sessions[c.session] == nil
}

// withhold holds c's output back if its session may be over. c.mu is held, and mu at least for reading.
func (f *freshness) withhold(c *Client, now int64) {
	f.mu.RHeld()
	c.mu.Held()
	if c.out.withheld || !f.outdated(c, now) {
		return
	}
	c.out.withheld = true
	f.withholding.Lock()
	defer f.withholding.Unlock()
	f.withheld = append(f.withheld, c)
	f.withholds.Store(true)
}

// LetOutdatedGo closes the connections of sessions about which this server has known nothing for half of their timeout.
// now is in ns. It doesn't wait for mu, since a goroutine that holds mu for long may be the reason why the server knows
// nothing.
func (f *freshness) LetOutdatedGo(now int64) {
	if f.mayBeOutdated(now) {
		f.letLeave(f.hearing.inTable(func(c *Client) bool {
			return !c.readOnly && f.age(c, now) > max(upToDateBound(c.timeout), letGoAfter(c.timeout))
		}), now)
	}
}

// letConnectingGo closes the connections of clients that have waited for an answer to their connect requests as long
// as LetOutdatedGo lets sessions wait. mu is held.
func (f *freshness) letConnectingGo(now int64) {
	if !f.mayBeOutdated(now) {
		return
	}
	var gone []*Client
	for _, c := range f.clients { // any order: sorted below
		if c.arrival.sent && c.session == 0 && f.age(c, now) > letGoAfter(c.timeout) {
			gone = append(gone, c)
		}
	}
	f.letLeave(gone, now)
}

// letGoAfter returns how long (ns) a session with that timeout (ms) may be unknown before its connection is closed.
func letGoAfter(timeout int32) int64 { return max(int64(timeout)*1e6/2, boundMinMs*3/2*1e6) }

// letLeave closes the connections of clients.
func (f *freshness) letLeave(clients []*Client, now int64) {
	clients = slices.DeleteFunc(clients, func(c *Client) bool { return c.Ending() != "" })
	if len(clients) == 0 {
		return
	}
	slices.SortFunc(clients, func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	f.meters.overload[letGo].Add(int64(len(clients)))
	if at := f.letGoAt.Swap(now); at == 0 || now-at > letGoLogNs {
		f.log.Warn("this server doesn't know whether its clients' sessions are alive: their connections are closed, so that they find another server. Its disk hangs, it is busy, or it doesn't reach the leader",
			"ms", (now-f.at.Load())/1e6, "clients", len(clients))
	}
	for _, c := range clients {
		c.CloseAfter("this server could not tell for half of the session's timeout whether the session is alive")
	}
}

// letGoLogNs is the least time between two log lines of letLeave.
const letGoLogNs = 10e9
