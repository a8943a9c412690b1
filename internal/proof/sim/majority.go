package sim

import (
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The rules of membership, checked after each event (docs/decisions/006-membership.md).
//
//	M1  Everything applied anywhere is on the disks of a majority of the voters that
//	    /zookeeper/config names.
//	M2  When a change is answered, raft counts the votes of exactly the voters that the change
//	    asked for, and a majority of them has it on disk. The removed servers are stopped for
//	    good when the operator reads the answer, and the others go on.
//
// Both hold for decisions at feature level 2 or above. A server that lost its disk and was
// taken out of raft's membership isn't counted until it has joined again, nor is one whose
// disk lied or rotted. It counts again for entries of a leader that has applied its return:
// a leader elected before it knew of the return commits by the former votes, and a majority
// of the former voters and one of the present voters always share a server.

// noted records a request's effect on the membership when it is first evaluated.
func (w *World) noted(res *tree.Result, q *tree.Request, by *life) {
	switch {
	case res.Outcome == tree.Staged:
		w.stats.Staged++
		w.patient = q.Op == jute.OpReconfig
		w.asked = w.parsed(string(res.Data))
		w.elects(w.asked)
		w.dismiss(w.asked)
	case q.Op == tree.OpChange && res.Op == tree.OpChange: // the change is named now
		w.asked, w.changing, w.strict = nil, true, true
		w.decided(string(res.Data))
	case q.Op == tree.OpChange:
		if w.asked = nil; res.Err != jute.OK {
			w.stats.Dropped++
			return
		}
		w.changing = false
		w.settled(by)
	case q.Op == tree.OpMembers || q.Op == jute.OpReconfig && res.Err == jute.OK:
		w.strict = q.Op == tree.OpMembers && q.Seq == tree.MembersInForce
		w.decided(string(res.Data))
	}
}

func (w *World) parsed(text string) []quorum.Member {
	members, err := parseMembers(text)
	if err != nil {
		w.fail("a change of membership asks for %q: %v", text, err)
	}
	return members
}

// settled checks M2 when a server is about to answer the change that made w.wanted.
func (w *World) settled(by *life) {
	w.stats.Changes++
	now, before := by.loop.Voters()
	if len(before) > 0 {
		w.fail("M2: a change of membership is answered while the votes of %v still count", before)
	}
	for _, id := range now {
		if m, in := find(w.wanted, id); !in || m.Observer {
			w.fail("M2: a change of membership is answered while the vote of server %d counts, which is to have none", id)
		}
	}
	for _, m := range w.wanted {
		s := w.servers[m.ID-1] // one that has not begun yet gives its vote up like one that lost its disk
		if !m.Observer && !slices.Contains(now, m.ID) && !s.replaced && s.begun {
			w.fail("M2: a change of membership is answered while the vote of server %d doesn't count, which is to have one", m.ID)
		}
	}
}

// behindMax is how far behind a server may be when its vote begins to count: a
// leader allows 64 entries, and more are under way.
const behindMax = 160

// prepared checks that a majority of the servers whose votes begin to count
// with the entry at index have caught up: otherwise all writes wait until they
// have. If an operator asked for the change, each of them that had no vote before must
// have been admitted, unless the plan allows absent ones: otherwise there may be no quorum
// if one of the others is lost. The first membership doesn't wait for that.
func (w *World) prepared(voters []uint64, index uint64) {
	if index <= behindMax {
		return
	}
	ready := 0
	for _, id := range voters {
		if s := w.servers[id-1]; s.holds(index-behindMax, w.ledger.entries[index-behindMax-1].term) {
			ready++
		}
		if s := w.servers[id-1]; s.awaits && w.patient && !w.plan.Absent && !slices.Contains(w.voters, id) {
			w.fail("M3: the vote of server %d begins to count at entry %d, and it has yet to be admitted", id, index)
		}
	}
	if ready <= len(voters)/2 {
		w.fail("M1: the votes of %v begin to count at entry %d, and %d of them have caught up", voters, index, ready)
	}
}

// countAgain records which servers that had lost their disks vote again. They
// count from the first entry that no log held yet: older entries may have been
// committed without them. Until a change is named, the voters before it count.
func (w *World) countAgain() {
	voters := w.voters
	if len(w.leaving) > 0 && w.asked != nil {
		voters = w.leaving
	}
	for _, s := range w.servers {
		switch votes := slices.Contains(voters, s.id) && !s.wiped; {
		case !s.replaced:
		case !votes:
			s.countsFrom = 0
		case s.countsFrom == 0:
			s.countsFrom = w.lastIndex()
		}
	}
}

// lastIndex is the index of the last entry in any log.
func (w *World) lastIndex() (last uint64) {
	for _, s := range w.servers {
		if s.log == nil {
			continue
		}
		if i, err := s.log.LastIndex(); err == nil {
			last = max(last, i)
		}
	}
	return last
}

// counts reports whether the leader that wrote an entry counts a server's vote for
// it. A leader that was elected by the former voters has the change in its log and
// may commit entries by their votes until it learns that the change is committed.
func (w *World) counts(id, index uint64) bool {
	by := w.ledger.leaders[w.ledger.entries[index-1].term]
	if by == 0 {
		return true
	}
	leader := w.servers[by-1]
	electorate := leader.electorate
	if index <= leader.formerTo {
		electorate = leader.former
	}
	return len(electorate[0]) == 0 || slices.Contains(electorate[0], id) || slices.Contains(electorate[1], id)
}

// majority checks M1 if anything that it depends on has changed.
func (w *World) majority() {
	if !w.strict || w.ended || len(w.ledger.entries) == w.majorityAt && !w.unsettled {
		return
	}
	w.majorityAt, w.unsettled = len(w.ledger.entries), false
	if w.majorityAt <= w.lostAt {
		return // a majority held it, and one of their disks is lost; another server may be down without it
	}
	last := uint64(len(w.ledger.entries))
	voters, holders := 0, 0
	for _, m := range w.wanted {
		s := w.servers[m.ID-1]
		if s.replaced && s.countsFrom > 0 && last > s.countsFrom {
			s.replaced = false
		}
		holds := s.holds(last, w.ledger.entries[last-1].term)
		out := s.replaced || !s.begun || s.disk.damaged() || s.renewed && !w.counts(m.ID, last)
		if m.Observer || out && !holds {
			continue
		}
		voters++
		if holds {
			holders++
		}
	}
	w.stats.Majorities++
	if voters > 0 && holders <= voters/2 {
		w.fail("M1: entry %d is applied and on the disks of %d of the %d voters that /zookeeper/config names", last, holders,
			voters)
	}
}

// outlives reports whether a majority of each membership that counts, or is about to, is
// left when a server loses its disk. The next membership may be on its way to the leader,
// which can't tell at once that a server which had caught up has just lost everything.
func (w *World) outlives(s *host) bool {
	sets := [][]uint64{w.voters, w.leaving, votersOf(w.wanted), votersOf(w.asked), votersOf(w.operator.asking())}
	for _, voters := range sets {
		fit := 0
		for _, id := range voters {
			if other := w.servers[id-1]; other != s && !other.unfit() {
				fit++
			}
		}
		if fit <= len(voters)/2 && slices.Contains(voters, s.id) {
			return false
		}
	}
	return w.knownWithout(s)
}

func votersOf(members []quorum.Member) (ids []uint64) {
	for _, m := range members {
		if !m.Observer {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
