package replica

import (
	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
)

// progress is what a replica remembers about its way through the log, for metrics and for the
// hash four-letter word; Replica.mu guards it.
type progress struct {
	*outside
	*state

	began     int64            // now (ns) when the log's replay began
	replaying bool             // no entry of a leader's term has been applied since the start
	replayed  int64            // requests applied while replaying
	requests  int64            // requests in the entry being applied
	zxids     invariant.Rising // of the requests applied

	looking      bool  // there is no leader
	lookingSince int64 // now (ms)
	leadingSince int64 // now (ms); 0 if this server doesn't lead
	digests      []Digest
}

// countEntry accounts for an entry that was applied; mu is held for writing.
func (p *progress) countEntry(e quorum.Entry, now int64) {
	m := p.meters
	n := p.requests
	p.requests = 0
	if p.replaying {
		p.replayed += n
		if p.leader.Leader != 0 && e.Term == p.leader.Term {
			p.replaying = false
			m.startTxns.Observe(p.replayed)
			m.startTxnsTime.Observe((now - p.began) / 1e6)
			m.databaseInit.Observe(now / 1e6)
		}
		return
	}
	if n == 0 {
		return
	}
	took := max(p.wall()-p.tree.Time(), 0)
	m.batches.Observe(n)
	m.propagation.Observe(took)
	if p.leader.IsLeader {
		m.proposals.Add(n)
		m.commits.Add(n)
		m.proposed.observe(int64(len(e.Data)), int64(len(e.Data)), int64(len(e.Data)))
		m.agreeing.Observe(took)
	}
}

// Replaying reports whether no entry of a leader's term has been applied yet. It is only for
// Options.Observe, which is called with the replica locked.
func (p *progress) Replaying() bool { return p.replaying }

// led accounts for a change of leader; mu is held for writing, and p.leader is still
// the old one. now is in ms.
func (p *progress) led(l quorum.Leadership, now int64) {
	if c := p.meters.leaderLosses[l.Lost]; c != nil {
		c.Inc()
	}
	switch {
	case l.Leader == 0 && !p.looking:
		p.looking, p.lookingSince = true, now
		p.meters.looked.Inc()
	case l.Leader != 0 && p.looking:
		p.looking = false
		p.meters.electionTime.Observe(now - p.lookingSince)
		p.meters.unavailable.Observe(now - p.lookingSince)
	}
	p.tellLeader(l)
	switch {
	case !l.IsLeader:
		p.leadingSince = 0
	case !p.leader.IsLeader:
		p.leadingSince = max(now, 1)
	}
}

// tellLeader logs a new leader. A standalone server always leads.
func (p *progress) tellLeader(l quorum.Leadership) {
	switch was := p.leader; {
	case p.alone || l.Leader == was.Leader && l.Term == was.Term:
	case l.IsLeader:
		p.log.Info("this server leads", "term", l.Term)
	case l.Leader != 0:
		p.log.Info("this server follows the leader", "leader", l.Leader, "term", l.Term)
	case was.IsLeader:
		p.log.Warn("this server no longer leads, and there is no leader", "reason", string(l.Lost))
	case was.Leader != 0:
		p.log.Warn("this server has lost its leader", "leader", was.Leader, "reason", string(l.Lost))
	}
}

// A Digest is the digest of the whole replicated state after one zxid. It is the
// same on every server of a cluster, and differs between clusters.
type Digest struct {
	Zxid  int64
	Value int64
}

// A digest is kept for every digestEvery-th zxid, and the newest digestsMax of them are kept:
// Apache's numbers.
const (
	digestEvery = 128
	digestsMax  = 1024
)

// noteDigest keeps the digest if it is due at this zxid. The first zxid of an epoch belongs to no
// change.
func (p *progress) noteDigest(zxid int64, t *tree.Tree) {
	n := len(p.digests)
	if zxid%digestEvery != 0 || uint32(zxid) == 0 || n > 0 && p.digests[n-1].Zxid == zxid {
		return
	}
	if n == digestsMax {
		n = copy(p.digests, p.digests[1:])
	}
	p.digests = append(p.digests[:n], Digest{zxid, int64(t.Digest())})
}
