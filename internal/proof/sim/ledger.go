package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A promise is a statement to the others that a server must remember.
type promise struct {
	term, vote uint64 // the vote given in term, 0 if there is none
	ackTerm    uint64 // term of the leader whose log was acknowledged last
	acked      uint64 // the index up to which it was
	commit     uint64 // highest index it applied
}

// votes is the last vote that a server gave. It survives the loss of the disk:
// after joining again, the server must not vote twice in a term.
type votes struct{ term, vote uint64 }

// The ledger holds what all servers must agree on, as it was first seen.
type ledger struct {
	leaders map[uint64]uint64 // by term
	since   map[uint64]int64  // by term: when its leader began to lead
	entries []applied         // by index, from 1
	vouched uint64            // the newest entry for which a leader's digest is in the log
	zxid    int64             // of the last request in the history's log
	owners  map[int64]place   // by connection: where in the log it was given a session
	begun   map[int64]place   // by session: where in the log it began
	over    map[int64]bool    // sessions that ended in the log
	ended   map[int64]int64   // when a session's end was first applied
	packets map[int64]packet  // by session
	ages    ages
	// restoredAt is when a snapshot last replaced everything: a local session refused since then may have gone with
	// that.
	restoredAt int64
}

// place is a request's position in the log: its entry, and its number in that entry.
type place struct {
	index  uint64
	number int
}

// applied is one entry as the first server to apply it did.
type applied struct {
	term   uint64
	sum    uint32
	digest uint64
	known  bool // whether digest is set
}

// promised records what a raft message promises, before the message is sent.
func (g *ledger) promised(s *host, payload []byte) {
	p, ok := quorum.PromiseOf(payload)
	if !ok {
		return
	}
	have := &s.promise
	if p.Vote != 0 {
		if s.voted.term == p.Term && s.voted.vote != p.Vote {
			s.w.fail("server %d votes for %d in term %d, in which it voted for %d", s.id, p.Vote, p.Term, s.voted.vote)
		}
		if p.Term >= s.voted.term {
			s.voted = votes{p.Term, p.Vote}
		}
	}
	newVote := p.Vote != 0 && (p.Term > have.term || have.vote == 0)
	if p.Vote != 0 {
		switch {
		case p.Term > have.term:
			have.term, have.vote = p.Term, p.Vote
		case p.Term == have.term:
			have.vote = p.Vote
		}
	}
	if p.Acked != 0 {
		if p.Term > have.term {
			have.term, have.vote = p.Term, 0
		}
		if p.Term > have.ackTerm || p.Term == have.ackTerm && p.Acked > have.acked {
			have.ackTerm, have.acked = p.Term, p.Acked
		}
	}
	if newVote || s.w.auditDice.IntN(auditEvery) == 0 {
		g.audit(s)
	}
}

// auditEvery is how rarely promises other than votes are audited: one in
// auditEvery on average.
const auditEvery = 500

// audit checks which promises would survive a power cut now.
func (g *ledger) audit(s *host) {
	w := s.w
	if s.disk.damaged() || w.ended {
		return
	}
	w.stats.Audits++
	left := s.disk.fs.CrashClone(w.auditDice)
	left.Budget = 0
	dir, err := storage.Open(w.storageOptions(s, left, w.auditDice))
	if err != nil {
		w.fail("server %d would not start after a power cut: %v", s.id, err)
		return
	}
	if why := g.recovered(s, dir); why != "" {
		w.fail("promise ledger: after a power cut, server %d would have forgotten: it %s", s.id, why)
	}
}

// lastBatch bounds how many entries a server's last write holds, unless it catches up. If bits rot, recovery may
// mistake only what was written last for a crash's remains.
const lastBatch = 32

// recovered compares the content that a server found on its disk with its promises, and
// returns what is missing, or "".
func (g *ledger) recovered(s *host, dir *storage.Dir) (why string) {
	p, log := &s.promise, dir.Log()
	hard, _, err := log.InitialState()
	if err != nil {
		return "can't read its log's state: " + err.Error()
	}
	last, err := log.LastIndex()
	if err != nil {
		return "can't read its log's end: " + err.Error()
	}
	lastTerm, err := log.Term(last)
	if err != nil && last > 0 {
		return "can't read its log's last term: " + err.Error()
	}
	if s.disk.rotten && !s.disk.lied && last+lastBatch < p.commit && last < s.disk.wrote {
		s.w.fail("server %d recovered a log that ends at %d from a disk on which a bit had flipped, and had applied %d", s.id,
			last, p.commit)
	}
	switch {
	case hard.GetTerm() < p.term:
		return fmt.Sprintf("took part in term %d and recovered term %d", p.term, hard.GetTerm())
	case hard.GetTerm() == p.term && p.vote != 0 && hard.GetVote() != p.vote:
		return fmt.Sprintf("voted for %d in term %d and recovered a vote for %d", p.vote, p.term, hard.GetVote())
	case last < p.acked && lastTerm <= p.ackTerm:
		return fmt.Sprintf("acknowledged index %d in term %d and recovered a log that ends at %d of term %d", p.acked,
			p.ackTerm, last, lastTerm)
	case last < p.commit:
		return fmt.Sprintf("applied index %d and recovered a log that ends at %d", p.commit, last)
	}
	first, err := log.FirstIndex()
	if err != nil {
		return "can't read its log's begin: " + err.Error()
	}
	if s.cluster != s.w.descent.lineage {
		return "" // others have founded, and none has followed this server
	}
	for i := first; i <= min(last, p.commit); i++ {
		if term, err := log.Term(i); err != nil || term != g.entries[i-1].term {
			return fmt.Sprintf("applied entry %d of term %d and recovered it with term %d (%v)", i, g.entries[i-1].term, term,
				err)
		}
	}
	return ""
}

// hold reports whether a majority of the voters now holds an entry, and a
// majority of those before, if there are any.
func (w *World) hold(now, before []uint64, e quorum.Entry) bool {
	for _, voters := range [][]uint64{now, before} {
		holders := 0
		for _, id := range voters {
			if w.servers[id-1].holds(e.Index, e.Term) {
				holders++
			}
		}
		if len(voters) > 0 && holders <= len(voters)/2 {
			return false
		}
	}
	return len(now) > 0
}

// decidedEarlier reports whether a majority of one of the memberships in force since this
// step began holds an entry: the entry may be committed already when a change is applied.
func (l *life) decidedEarlier(e quorum.Entry) bool {
	return slices.ContainsFunc(l.electorates, func(c [2][]uint64) bool { return l.w.hold(c[0], c[1], e) })
}

// decidedByLeader reports whether a majority of the membership by which the leader of an entry's term decides holds it.
// A leader whose disk is slow applies a change of the membership later than others: while its log is being written.
func (w *World) decidedByLeader(e quorum.Entry) bool {
	leader := w.leaderOf(e.Term)
	if leader == nil {
		return false
	}
	now, before := leader.loop.Voters()
	return w.hold(now, before, e)
}

// leaderOf returns the process that leads in a term, or nil.
func (w *World) leaderOf(term uint64) *life {
	for _, s := range w.servers {
		if l := s.life; l != nil && l.loop != nil && !l.ended && l.loop.IsLeader() && l.loop.Status().Term == term {
			return l
		}
	}
	return nil
}

// holds reports whether a server's log has an entry, had it when its disk was lost, or has
// acknowledged it while the disk lied: the others count the entry and can't know better.
func (s *host) holds(index, term uint64) bool {
	if s.wiped && index <= s.lost || s.disk.lied && index <= s.promise.acked {
		return true
	}
	if s.log == nil {
		return false
	}
	last, err := s.log.LastIndex()
	if err != nil || last < index {
		return false
	}
	if t, err := s.log.Term(index); err == nil {
		return t == term
	}
	return true // compacted
}

// apply checks and records an entry that a server is about to apply.
func (g *ledger) apply(l *life, e quorum.Entry) {
	w := l.w
	sum := sumOf(e.Data)
	switch n := uint64(len(g.entries)); {
	case e.Index == n+1:
		g.entries = append(g.entries, applied{term: e.Term, sum: sum})
		w.stats.Entries++
		if len(e.Data) > 8 {
			g.vouched = max(g.vouched, binary.BigEndian.Uint64(e.Data)) // see proposals/entry.go
		}
		// The first entries name the members; each server writes them itself.
		first := e.Term == 1 && e.Index <= uint64(len(w.servers))
		if now, before := l.loop.Voters(); !first && !w.hold(now, before, e) && !l.decidedEarlier(e) &&
			!w.decidedByLeader(e) {
			w.fail("server %d applies entry %d of term %d, which no quorum of %v holds", l.s.id, e.Index, e.Term, now)
		}
	case e.Index > n+1:
		w.fail("server %d applies entry %d, nobody applied %d", l.s.id, e.Index, n+1)
		return
	default:
		if have := &g.entries[e.Index-1]; have.term != e.Term || have.sum != sum && w.poisonAt(e.Index) == nil {
			w.fail("server %d applies entry %d of term %d, another server applied another one, of term %d", l.s.id, e.Index,
				e.Term, have.term)
		}
	}
	l.s.promise.commit = max(l.s.promise.commit, e.Index)
}

// reached compares the digest after an entry with that of the first server that reached it.
func (g *ledger) reached(l *life, index uint64) {
	if l.w.ended {
		return
	}
	digest, ok := l.rep.DigestAt(index)
	if !ok || l.s.diverged {
		return
	}
	if e := &g.entries[index-1]; !e.known {
		e.digest, e.known = digest, true
	} else if e.digest != digest {
		l.w.fail("server %d has digest %016x after entry %d, another server had %016x", l.s.id, digest, index, e.digest)
	}
}

// led records the leader of a term.
func (g *ledger) led(l *life, lead quorum.Leadership) {
	if !lead.IsLeader {
		return
	}
	l.w.stats.Elections++
	l.w.logger(l.s.id).Info("leads", "term", lead.Term)
	if other := g.leaders[lead.Term]; other != 0 && other != l.s.id {
		l.w.fail("servers %d and %d both lead term %d", other, l.s.id, lead.Term)
	}
	if g.leaders[lead.Term] == 0 {
		g.leaders[lead.Term], g.since[lead.Term] = l.s.id, l.w.now
	}
}

// loggingTime is the longest that a decision takes to be on the disk.
const loggingTime = 100 * millisecond

// expired checks the end of a session that the leader of a term decided on.
func (g *ledger) expired(w *World, session int64, term uint64) {
	g.endedUnheard(w, session)
	for _, c := range w.clients {
		if c.session != session {
			continue
		}
		timeout := c.timeout - c.timeout/driftMargin
		if led := w.now - g.since[term]; led < timeout {
			w.fail("session %#x with a timeout of %d ms was ended by a leader that led for %d ms", session, c.timeout/millisecond,
				led/millisecond)
		}
		leader := w.servers[g.leaders[term]-1]
		listened := w.now - c.alive - leader.stoodStill(c.alive)
		// With several servers, another one may have heard the client. A packet that
		// arrives between the decision and its logging is answered, and a slow disk makes
		// that interval long; of a pause, the server notices only what exceeds its tick.
		if len(w.servers) == 1 && w.now > leader.disk.slowUntil+loggingTime && listened+w.plan.Tick+loggingTime < timeout {
			w.fail("session %#x with a timeout of %d ms was ended by a leader that had listened for %d ms since its client's last packet",
				session, c.timeout/millisecond, listened/millisecond)
		}
		g.endedEarly(c, timeout)
		g.endedUnlistened(c, leader, timeout)
	}
}

// attached checks that a connection is given a session only once: a second time, a
// late request has given the session back to a connection that it had left.
func (g *ledger) attached(w *World, res *tree.Result, at place) {
	if first, again := g.owners[res.Cnx]; again && first != at {
		w.fail("S6: connection %#x is given session %#x by request %d of entry %d, and was by request %d of entry %d", res.Cnx,
			res.Session, at.number, at.index, first.number, first.index)
	}
	g.owners[res.Cnx] = at
	delete(g.ended, res.Session) // a restored snapshot may have it again
	if res.Op == tree.OpAttach {
		return
	}
	if first, again := g.begun[res.Session]; again && first != at {
		w.fail("S6: session %#x is begun by request %d of entry %d, and was by request %d of entry %d", res.Session, at.number,
			at.index, first.number, first.index)
	} else if !again && res.Op == tree.OpEnter {
		w.stats.Entered++
	}
	g.begun[res.Session] = at
}

// refused checks a server's claim that a local session is over. The server on
// which it began knows better: it has heard the client all the time, and the
// loss of a leader doesn't end the session.
func (g *ledger) refused(c *client, by *life) {
	w := c.w
	if !w.plan.Local || c.readOnly || c.session == 0 {
		return
	}
	if c.born != by && !c.wrote {
		w.stats.Unknown++
	}
	if c.born == by && !c.wrote && !c.closed {
		w.stats.Faded++
	}
	timeout := c.timeout - c.timeout/driftMargin
	if silent := w.now - c.alive; c.born == by && !g.over[c.session] && !c.closed && silent < timeout &&
		g.restoredAt == 0 {
		w.fail("S3: local session %#x with a timeout of %d ms was refused by its own server %d ms after its client was answered",
			c.session, c.timeout/millisecond, silent/millisecond)
	}
}

// lagPatience is how long a server may be behind without progress when nothing
// is in the way.
const lagPatience = 10 * second

// lags fails the World if a server is behind and makes no progress.
func (g *ledger) lags(l *life) {
	w, s := l.w, l.s
	if l.loop.IsLeader() {
		if path := g.overdue(w); path != "" {
			w.fail("liveness: %s has been there for more than %d s since it may be removed, with nothing in the way", path,
				reapPatience/second)
		}
	}
	index, _, _ := l.rep.Position()
	if s.cluster != w.descent.lineage {
		s.lastIndex, s.lastMoved = index, w.now
		return
	}
	if _, in := find(w.wanted, s.id); !in && !slices.Contains(w.guests(), s) || index != s.lastIndex ||
		index == uint64(len(g.entries)) || s.disk.damaged() || !w.informed(s) || w.outdated(l) {
		s.lastIndex, s.lastMoved = index, w.now
		return
	}
	if stands := w.now - max(s.lastMoved, w.excusedTo(), s.heldTo, s.disk.hung.filesTo); stands > lagPatience {
		w.fail("liveness: server %d has stood at entry %d of %d for %d s, with nothing in the way", s.id, index, len(g.entries),
			stands/second)
	}
}

// check checks a server between two steps.
func (g *ledger) check(l *life) {
	index, _, _ := l.rep.Position()
	if index > uint64(len(g.entries)) {
		l.w.fail("server %d is at entry %d, only %d are known", l.s.id, index, len(g.entries))
	}
}

// watched is the replica as the loop sees it, with the ledger's checks around it.
type watched struct {
	*replica.Replica
	l *life
}

// Apply implements quorum.StateMachine.
func (m *watched) Apply(entries []quorum.Entry) error {
	g := &m.l.w.ledger
	for _, e := range entries {
		if m.l.w.descent.follows(m.l, e) {
			m.l.arm(e)
			g.apply(m.l, e)
		}
	}
	if m.l.s.cluster != m.l.w.descent.lineage {
		// Its founders have applied its first entries, and no leader was elected, or another one was made of it.
		m.l.record.begin(m.l, nil)
		return m.Replica.Apply(entries)
	}
	if m.l.w.ended {
		return nil
	}
	if m.l.twisted && m.l.w.told(m.l.s) {
		entries = m.l.twist(entries)
	}
	m.l.record.begin(m.l, entries)
	if err := m.Replica.Apply(entries); err != nil {
		if missing := (*tree.MissingRuleError)(nil); errors.As(err, &missing) && m.l.mayLackRules() {
			return err
		}
		if panicked := (*quorum.PanicError)(nil); errors.As(err, &panicked) && m.l.w.poisonAt(panicked.Index) != nil {
			return err
		}
		m.l.w.fail("server %d can't apply: %v", m.l.s.id, err)
		return err
	}
	for _, e := range entries {
		g.reached(m.l, e.Index)
	}
	m.l.passes(entries)
	if m.l.w.plan.Ruled {
		m.l.checkRules()
	}
	m.l.counted(entries)
	return nil
}

// Lead implements quorum.StateMachine.
func (m *watched) Lead(lead quorum.Leadership) {
	m.l.w.ledger.led(m.l, lead)
	if m.l.w.plan.Midway {
		// In a server, a separate goroutine does this: at this point a former leader
		// may do it after its last proposal, not knowing yet that it is one.
		m.l.endSilent()
	}
	m.l.ledAt = m.l.w.now
	m.Replica.Lead(lead)
}

// Load implements quorum.StateMachine.
func (m *watched) Load(meta storage.Meta, snap *storage.Snapshot) (restore func(), err error) {
	become, err := m.Replica.Load(meta, snap)
	if err != nil {
		return nil, err
	}
	return func() {
		m.l.w.stats.Installs++
		m.l.s.promise.commit = max(m.l.s.promise.commit, meta.Index)
		m.l.inherit(&meta)
		become()
	}, nil
}

// A recorder adds the requests that replicas evaluate to the history's server
// log, each when it is first seen.
type recorder struct {
	w       *World
	l       *life
	entries []quorum.Entry
	next    int
	number  int // of the request in its entry, from 1
	batch   tree.Records
	reading bool
}

// entryHead is the size of the fields that the server writes before a batch: an index and a digest.
const entryHead = 16

func (r *recorder) begin(l *life, entries []quorum.Entry) {
	r.w, r.l, r.entries, r.next, r.reading = l.w, l, entries, 0, false
}

// attaching are the requests that give a connection its session.
var attaching = []jute.Op{jute.OpCreateSession, tree.OpAttach, tree.OpEnter}

// observe records the result of the next request.
func (r *recorder) observe(res *tree.Result) {
	if r.entries == nil { // those of a lineage that the ledger doesn't follow
		return
	}
	var q tree.Request
	for !r.reading || !r.batch.Next(&q) {
		for len(r.entries[r.next].Data) == 0 {
			r.next++
		}
		r.batch, r.reading = tree.NewRecords(r.entries[r.next].Data[entryHead:]), true
		r.next++
		r.number = 0
	}
	if r.number++; r.number == 1 {
		r.l.poisoned(r.entries[r.next-1].Index)
	}
	r.l.pass()
	switch res.Outcome {
	case tree.Duplicate:
		r.w.stats.Duplicates++
	case tree.Gap:
		r.w.stats.Gaps++
	case tree.Moved:
		r.w.stats.Moved++
	}
	g := &r.w.ledger
	if res.Outcome == tree.Applied && res.Err == jute.OK && slices.Contains(attaching, res.Op) {
		g.attached(r.w, res, place{r.entries[r.next-1].Index, r.number})
	}
	if res.Closed {
		g.over[res.Session] = true
		if _, known := g.ended[res.Session]; !known {
			g.ended[res.Session] = r.w.now
		}
	}
	if res.Outcome != tree.Applied && res.Outcome != tree.Staged || res.Op == tree.OpAttach || res.Op == tree.OpEnter ||
		res.Op == tree.OpSettings || res.Op == tree.OpSecret || res.Op == tree.OpLineage || res.Zxid <= g.zxid {
		return
	}
	g.zxid = res.Zxid
	g.aged(r.w, res, &q)
	g.stamped(r.w, res.Time)
	r.w.noted(res, &q, r.l)
	if !r.w.keeping.applied(r.w, res, &q) {
		return
	}
	e := history.Entry{
		Zxid: res.Zxid, Session: q.Session, Cnx: q.Cnx, Seq: q.Seq, Time: res.Time, Term: int64(r.entries[r.next-1].Term),
		Body: append([]byte(nil), q.Body...), Xid: q.Xid, Op: q.Op, Err: res.Err, Applied: true,
	}
	switch {
	case e.Op == tree.OpRestore && e.Err == jute.OK:
		e.Body = r.w.restored(res, &q)
	case e.Op == tree.OpRestore:
		return
	case e.Op == tree.OpExpire:
		e.Op, e.Cnx = jute.OpCloseSession, 0
		g.expired(r.w, e.Session, uint64(e.Term))
	case e.Op == jute.OpCreateSession && e.Err != jute.OK:
		e.Cnx = 0 // it used up a zxid and did nothing else
	}
	r.w.history.Servers[0].Entries = append(r.w.history.Servers[0].Entries, e)
}
