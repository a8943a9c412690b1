package quorum

import (
	"math"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// unappliedBytesMax bounds what formerVoter reads of the log, in bytes of entries.
const unappliedBytesMax = 1 << 20

// formerVoter changes m, a request for a vote, so that raft grants it even if this server's log is longer than the
// candidate's. It does so only if this server has lost its vote, and its uncommitted entries bind it to nothing.
//
// A candidate may need that vote. Suppose that it sent the others the end of joint consensus and the next entry, and
// lost power before it wrote either: it restarts in joint consensus. If it is the only voter that stays, no other
// server can be elected: the others have longer logs, but no vote.
//
// Raft compares whole logs because this server's acknowledgment may be one of those that committed an entry. It can't
// be for entries after the one that took its vote: only voters of the membership since then commit those. A candidate
// whose log has that entry has applied the beginning of the change: the leader proposes the end only then, and each
// server writes the commit index together with the entries of the same message. So the candidate needs a majority of
// these voters, too, and they compare whole logs. Where one vote was taken without joint consensus, a majority of the
// former voters still meets every majority of the others if this server is left out of it. If a later change gives this
// server a vote again, or takes another server's vote, its log holds that change unapplied: then the whole log counts.
func (l *Loop) formerVoter(m *pb.Message) {
	if m.GetType() != pb.MsgVote && m.GetType() != pb.MsgPreVote || votes(l.conf, l.id) ||
		l.writes.pending() || l.node.HasReady() {
		return // or raft has entries that aren't in the log yet
	}
	committed := max(l.applied, l.hard.GetCommit())
	term, err := l.disk.Term(committed)
	if err != nil || m.GetLogTerm() < term || m.GetLogTerm() == term && m.GetIndex() < committed {
		return
	}
	last, err := l.disk.LastIndex()
	if err != nil || last <= l.applied {
		return
	}
	unapplied, err := l.disk.Entries(l.applied+1, last+1, unappliedBytesMax)
	if err != nil || uint64(len(unapplied)) != last-l.applied || slices.ContainsFunc(unapplied, reconfigures) {
		return
	}
	m.LogTerm, m.Index = new(m.GetTerm()), new(uint64(math.MaxInt64))
}

// votes reports whether a server has a vote in raft's membership, or during joint consensus in either part of it.
func votes(conf *pb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetVotersOutgoing(), id)
}
