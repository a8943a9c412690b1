package replica

import (
	"bytes"

	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The leader alone ends silent sessions, and removes empty containers and znodes whose time to live
// is over. The leader proposes; the change happens when the log's entry is applied.

// Lead tells the replica the current leader. With a new leader all unapplied requests are
// sent again; a server that begins to lead gives every session its full timeout.
func (r *Replica) Lead(l quorum.Leadership) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Leader != 0 && !r.alone {
		r.resend()
	}
	now := r.now() / 1e6
	if l.IsLeader && !r.leader.IsLeader {
		r.tree.Sessions().All(func(s tree.Session) bool {
			r.expiry.Heard(s.ID, s.Timeout, now) // only the former leader knew what was heard before
			return true
		})
		r.expiry.Refresh(now, now)
		r.levels.proposeSettings()
		r.members.propose(l.InForce)
	}
	if l.Leader == 0 && r.leader.Leader != 0 {
		r.leaderlessSince = now
	}
	r.progress.led(l, now)
	r.leader, r.loop.proposed.waiting = l, nil
	if !l.IsLeader {
		r.clock.correction.Store(0)
	}
	r.catchUp()
	r.hearing.forgive()
	if r.cutOff && l.Leader != 0 {
		r.rejoin()
	}
}

// catchUp begins to serve if the state has reached the leader's term and, in an ensemble, everything that was
// acknowledged before some moment since the start (UpToDate). The term alone isn't enough: the log of a server that
// restarts while the leader stays may end anywhere in it. catchUp is also called when the leader becomes known, because
// entries of its term may be applied earlier. mu is held for writing.
func (r *Replica) catchUp() {
	r.serving = r.serving || r.leader.Leader != 0 && r.tree.LastTerm() == r.leader.Term &&
		(r.alone || r.freshness.at.Load() != 0)
}

// UpToDate implements quorum.StateMachine. A server begins to serve only after the first call.
func (r *Replica) UpToDate(as int64) {
	first := r.freshness.at.Load() == 0
	if r.freshness.UpToDate(as); first {
		r.mu.Lock()
		r.catchUp()
		r.mu.Unlock()
	}
}

// CheckQuorum closes every client's connection after patience (ms) without a leader: reads here
// get stale, and another server may have a quorum.
func (r *Replica) CheckQuorum(now, patience int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutOff {
		r.endSilent(now)
	}
	if r.leader.Leader != 0 || r.cutOff || now-r.leaderlessSince < patience {
		return
	}
	r.log.Warn("there has been no leader for too long; client connections are closed until there is one",
		"ms", now-r.leaderlessSince, "clients", len(r.clients), "servesReadOnly", r.readOnlyMode)
	r.leave()
}

// CheckReach closes every client's connection once the leader has not answered this server for patience (ms), though
// this server hears it: the clients' writes and pings don't reach the leader, and another server may serve the clients.
func (r *Replica) CheckReach(unanswered, patience int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.leader.Leader == 0:
	case r.cutOff && unanswered < patience:
		r.log.Info("the leader answers this server again")
		r.rejoin()
	case !r.cutOff && unanswered >= patience:
		r.log.Warn("this server hears the leader, but the leader hasn't heard this server for too long; client connections are closed until it does. Check the network from this server to the leader, and whether this server is still a member",
			"leader", r.leader.Leader, "ms", unanswered, "clients", len(r.clients), "servesReadOnly", r.readOnlyMode)
		r.leave()
	}
}

// leave stops serving clients; mu is held for writing.
func (r *Replica) leave() {
	r.cutOff = true
	for _, c := range r.clientsByID() {
		c.CloseAfter("this server is cut off from a quorum")
	}
}

// rejoin serves clients again after leave; mu is held for writing.
func (r *Replica) rejoin() {
	r.cutOff = false
	r.endReadOnly()
}

// proposeSettings proposes this server's settings if the tree has different ones, and a secret for
// the tree's hashes and a lineage if the tree has none and the feature level supports them.
func (l *levels) proposeSettings() {
	have, want := l.tree.Settings(), l.settings
	want.FeatureLevel = max(have.FeatureLevel, l.supported)
	l.agreeOnRules(have.Rules, &want)
	if !bytes.Equal(have.Append(nil), want.Append(nil)) {
		l.proposals.Add(&tree.Request{Op: tree.OpSettings, Body: want.Append(nil)})
		l.kick()
	}
	if !l.tree.Keyed() && want.FeatureLevel >= tree.LevelOf(tree.OpSecret) {
		l.proposals.Add(&tree.Request{Op: tree.OpSecret, Body: l.secret()})
		l.kick()
	}
	if want.FeatureLevel >= tree.LevelOf(tree.OpLineage) {
		l.proposeLineage()
	}
}

// Expire ends the local sessions that are due at now (ms). On a leader it also proposes the end of
// all other sessions that are due. last is the time of the previous call.
func (r *Replica) Expire(now, last int64) {
	r.freshness.LetOutdatedGo(now * 1e6)
	r.mu.Lock()
	defer r.mu.Unlock()
	stalled := now - last - r.expiry.Tick()
	r.locals.expire(now, stalled)
	r.levels.checkRules(now)
	r.freshness.letConnectingGo(now * 1e6)
	if !r.leader.IsLeader {
		return
	}
	if r.expiry.Excuse(now, stalled) {
		r.log.Warn("this server was stalled; every session gets its full timeout again", "ms", now-last)
	}
	if r.cantHear(now) {
		return
	}
	dead := r.expiry.Due(now, r.hearing.heardAt)
	for _, id := range dead {
		r.clientLog.Info("session expired: nothing was heard of its client for its timeout", "session", SessionText(id))
		// Resumptions are queued first too, and must not overtake the end of the session.
		r.proposals.AddFirst(tree.AppendRecord(nil,
			&tree.Request{Op: tree.OpExpire, Session: id, Body: jute.AppendLong(nil, int64(r.leader.Term))}))
	}
	if len(dead) > 0 {
		r.kick()
	}
}

// cantHear reports whether this leader could not hear its servers' reports lately, because its loop stood still or it
// reaches no majority. No session may expire for that. mu is held for writing.
func (r *Replica) cantHear(now int64) bool {
	if r.alone {
		return false
	}
	was, since := r.deafSince, r.freshness.at.Load()/1e6
	if r.deafSince = 0; now-since > expiry.StallMs {
		r.deafSince = max(since, 1)
	}
	if was != 0 && r.deafSince == 0 {
		r.expiry.Refresh(was, now)
		r.log.Warn("this leader could not hear the other servers for a while; every session gets its full timeout again")
	}
	return r.deafSince != 0
}

// reapScan is how many znodes Reapable examines while it blocks writes.
const reapScan = 16 << 10

// reaper finds and removes containers and TTL znodes whose time is over.
type reaper struct {
	*outside
	*state
	proposals *proposals.Queue
	clock     *clock
}

// Reapable returns the paths of containers and TTL znodes that can be removed, from a part of the
// tree that begins at cursor (0 at first). next is the cursor to continue from, 0 at the end.
func (p *reaper) Reapable(cursor uint32, neverUsedMs int64) (paths []string, next uint32) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.leader.IsLeader {
		return nil, 0
	}
	return p.tree.Reapable(cursor, reapScan, p.clock.stamp(), neverUsedMs)
}

// Reap proposes the removal of a path that Reapable returned.
func (p *reaper) Reap(path string, neverUsedMs int64) {
	p.proposals.Add(&tree.Request{Op: jute.OpDeleteContainer, Body: tree.AppendDeleteContainer(nil, path, neverUsedMs)})
	p.kick()
}
