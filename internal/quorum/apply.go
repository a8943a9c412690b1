package quorum

import (
	"cmp"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// apply applies committed entries while nothing else runs.
func (l *Loop) apply(m *pb.Message) {
	l.keepCommit(m.GetEntries())
	l.applyInTurn(m)
}

// applyHeld applies the entries that waited for a decision to skip one of them, up to the first one still undecided.
func (l *Loop) applyHeld() {
	for m := l.skips.release(); m != nil; m = l.skips.release() {
		if len(m.GetEntries()) > 0 {
			l.apply(m)
		} else {
			l.deliver(m.GetResponses())
		}
	}
}

// applyInTurn applies committed entries. After each entry that changes raft's membership it
// looks at the membership that was decided, because the membership after a later entry may
// no longer name servers whose votes still count.
func (l *Loop) applyInTurn(m *pb.Message) {
	news := false
	for left := m.GetEntries(); len(left) > 0 && l.failed == nil; {
		n := cmp.Or(slices.IndexFunc(left, reconfigures)+1, len(left))
		if l.gather(left[:n]) {
			l.failed = l.state.Apply(l.entries)
		}
		if left = left[n:]; l.failed == nil && len(left) > 0 {
			news = l.decided() || news
		}
	}
	l.finish(m, news)
}

// gather prepares committed entries for the state machine, in l.entries. It carries out changes
// of raft's membership. It returns false if it fails the loop.
func (l *Loop) gather(entries []*pb.Entry) bool {
	l.entries = l.entries[:0]
	for _, e := range entries {
		if e.GetIndex() != l.applied+1 {
			panic(fmt.Sprintf("quorum: entry %d is to be applied after %d", e.GetIndex(), l.applied))
		}
		l.applied = e.GetIndex()
		l.reconciler.ready = l.reconciler.ready || l.lastLead.IsLeader && e.GetTerm() == l.lastLead.Term
		l.snap.logged(len(e.GetData()))
		entry := Entry{Term: e.GetTerm(), Index: e.GetIndex(), Data: e.GetData()}
		if reconfigures(e) {
			conf, err := l.node.ApplyConfChange(e)
			if err != nil {
				l.failed = err
				return false
			}
			l.memberAt(conf, e.GetIndex())
			l.lostDisks.left(e)
			entry.Data = nil
		}
		if l.skips.skipped(e) {
			entry.Data = nil
		}
		if l.failed != nil {
			return false
		}
		l.entries = append(l.entries, entry)
	}
	return true
}

// finish does what is due after the state machine has applied m's entries. news says that
// they changed the membership that was decided.
func (l *Loop) finish(m *pb.Message, news bool) {
	if l.failed != nil {
		return
	}
	clear(l.entries)
	l.deliver(m.GetResponses())
	l.skips.passed(m.GetEntries())
	l.reads.applied(l)
	l.leaderCheck.applied(l)
	if l.state.Doubtful() {
		l.doubts.begin()
	}
	if news = l.decided() || news; (news || l.change != nil && slices.ContainsFunc(m.GetEntries(), reconfigures)) &&
		l.reconciler.knowsAll() {
		l.reconciler.reconcile()
	}
	l.snap.consider(l)
}

// memberAt sets raft's membership as of the entry at index.
func (l *Loop) memberAt(conf *pb.ConfState, index uint64) {
	was, is := contains(l.conf, l.id), contains(conf, l.id)
	if is && !was {
		l.joining.memberSince = index
	}
	learned := slices.Contains(l.conf.GetLearners(), l.id)
	if learned && index > l.atStart && slices.Contains(conf.GetVoters(), l.id) {
		l.log.Info("this server has joined the ensemble: it is a member and votes")
	}
	l.member(conf)
	l.publish() // a client that gets its answer now may ask for the voters
}

// member sets raft's membership.
func (l *Loop) member(conf *pb.ConfState) {
	l.conf = conf
	l.reconciler.proposed = 0
	if conf.GetAutoLeave() { // raft proposes to leave joint consensus at once
		l.reconciler.proposed = l.ticks
	}
	l.sole = soleVoter(conf, l.id)
}

// reconfigures reports whether an entry changes raft's membership.
func reconfigures(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal }
