package replica

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// No request of a session is answered much later than the session's end (X10): another client may hold
// what the session held. A server may be late to learn of the end, because its disk hangs, its loop
// stands, or it is cut off. So it must know how late it may be. The loop regularly asks the leader how
// far the log is committed, and once that is applied here, everything acknowledged to anyone before the
// question is known here, the ends of sessions included (Moment, UpToDate).
//
// A session's bound is a third of its timeout, at least boundMinMs. Once the server's knowledge is older than
// that, it
//
//  1. takes no request of the session, a ping included (ErrNotUpToDate),
//  2. keeps back the answers to the session's writes, which a delayed or long Apply may bring,
//  3. closes the connection when half of the timeout has passed: the client has the other half to
//     find a server that is able. For the same reason it takes no new clients, and closes those
//     whose connect requests wait.
//
// Local sessions end by this server's own decision, those of read-only clients are in no table, and
// the sessions of a standalone server end nowhere else: all of them are exempt.

// ErrNotUpToDate says that the server doesn't know whether the session is still alive. The caller
// passes the input in again later, and writes nothing to the client meanwhile.
var ErrNotUpToDate = errors.New("this server can't tell now whether the session is alive")

// boundMinMs is the least bound of a session. Elections and stalls of up to a second are usual on
// busy machines. It exceeds a third of the timeout for sessions of less than 3 s.
const boundMinMs = 1000

// upToDateBound returns for how long (ns) a session with that timeout (ms) is answered after it may
// have ended.
func upToDateBound(timeout int32) int64 { return max(int64(timeout)*1e6/3, boundMinMs*1e6) }

// Moment implements quorum.StateMachine.
func (r *Replica) Moment() int64 { return r.now() }

// UpToDate implements quorum.StateMachine. Clients whose answers were kept back get them.
func (r *Replica) UpToDate(as int64) {
	if as <= r.upToDate.Load() {
		return
	}
	r.upToDate.Store(as)
	if !r.withholds.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, kept := r.now(), r.withheld[:0]
	for _, c := range r.withheld {
		if r.outdated(c, now) {
			kept = append(kept, c)
			continue
		}
		c.mu.Lock()
		if c.out.withheld = false; len(c.out.frames) > 0 || c.closing {
			c.queued()
		}
		c.mu.Unlock()
	}
	clear(r.withheld[len(kept):])
	r.withheld = kept
	r.withholds.Store(len(kept) > 0)
}

// Behind returns for how long this server may not have learned what the ensemble does, 0 if that is not known yet. A
// standalone server knows.
func (r *Replica) Behind() time.Duration {
	as := r.upToDate.Load()
	if r.alone || as == 0 {
		return 0
	}
	return time.Duration(r.now() - as)
}

// age returns for how long (ns) this server may not have learned of the end of c's session. The session
// lived when it was attached to c.
func (r *Replica) age(c *Client, now int64) int64 {
	return now - max(r.upToDate.Load(), c.attachedAt)
}

// mayBeOutdated reports whether this server's knowledge is so old that some session may not be
// answered.
func (r *Replica) mayBeOutdated(now int64) bool {
	return !r.alone && now-r.upToDate.Load() > boundMinMs*1e6
}

// outdated reports whether c's session may have ended longer ago than its bound. mu is held.
func (r *Replica) outdated(c *Client, now int64) bool {
	return r.mayBeOutdated(now) && r.age(c, now) > upToDateBound(c.timeout) && !c.readOnly &&
		c.session != 0 && r.locals.sessions[c.session] == nil
}

// withhold keeps c's output back if its session may be over; mu and c.mu are held.
func (r *Replica) withhold(c *Client, now int64) {
	if c.out.withheld || !r.outdated(c, now) {
		return
	}
	c.out.withheld = true
	r.withheld = append(r.withheld, c)
	r.withholds.Store(true)
}

// LetOutdatedGo closes the connections of sessions about which this server has known nothing for half of their
// timeout. now is in ns. It doesn't wait for mu: whoever holds it for long may be why the server knows nothing.
func (r *Replica) LetOutdatedGo(now int64) {
	if r.mayBeOutdated(now) {
		r.letLeave(r.hearing.inTable(func(c *Client) bool {
			return !c.readOnly && r.age(c, now) > max(upToDateBound(c.timeout), letGoAfter(c.timeout))
		}), now)
	}
}

// letConnectingGo closes the connections of clients that have waited for an answer to their connect requests as long
// as LetOutdatedGo lets sessions wait. mu is held.
func (r *Replica) letConnectingGo(now int64) {
	if !r.mayBeOutdated(now) {
		return
	}
	var gone []*Client
	for _, c := range r.clients { // any order: sorted below
		if c.arrival.sent && c.session == 0 && r.age(c, now) > letGoAfter(c.timeout) {
			gone = append(gone, c)
		}
	}
	r.letLeave(gone, now)
}

// letGoAfter returns for how long (ns) nothing may be known of a session with that timeout (ms) before its connection
// is closed.
func letGoAfter(timeout int32) int64 { return max(int64(timeout)*1e6/2, boundMinMs*3/2*1e6) }

// letLeave closes the connections of clients.
func (r *Replica) letLeave(clients []*Client, now int64) {
	clients = slices.DeleteFunc(clients, func(c *Client) bool { return c.Ending() != "" })
	if len(clients) == 0 {
		return
	}
	slices.SortFunc(clients, func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	r.meters.overload[letGo].Add(int64(len(clients)))
	if at := r.letGoAt.Swap(now); at == 0 || now-at > letGoLogNs {
		r.log.Warn("this server can't tell whether its clients' sessions are alive: their connections are closed, so that they find another server. Its disk hangs, it is busy, or it doesn't reach the leader",
			"ms", (now-r.upToDate.Load())/1e6, "clients", len(clients))
	}
	for _, c := range clients {
		c.CloseAfter("this server could not tell for half of the session's timeout whether the session is alive")
	}
}

// letGoLogNs is the least time between two log lines of letLeave.
const letGoLogNs = 10e9
