package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// This file says what a server must not do until it has joined an ensemble, and how its
// request to join is answered.

// An Admission is what a server that is let in knows about its ensemble before it has the ensemble's state.
type Admission struct {
	Level    uint32 // feature level in force; 0 if the leader, of an older version, didn't say
	Unproven bool   // the leader has not proven its identity: its version is too old
}

// A JoinReply answers EventJoin.
type JoinReply struct {
	Go          bool   // the asker may start: its present life was taken out of the membership
	Index       uint64 // with Go: index of the entry that took it out
	Term        uint64 // with Go: term of that entry
	DuplicateID bool   // a server with the asker's id is running and connected
	Admission
	Ask bool // check at the asker's own address that it is empty, then repeat the event with Empty
}

// bootstrapTerm is the term of a new group before its first election.
const bootstrapTerm = 1

// joining covers the time before a joining server may take part in elections.
type joining struct {
	*view
	after    uint64 // LoopOptions.JoinedAfter; 0 once this server has joined
	onJoined func()

	memberSince uint64 // index of the entry that made this server a member, as far as known
}

// lasts reports whether this server must not take part in elections yet.
func (j *joining) lasts() bool {
	if j.after == 0 {
		return false
	}
	if !contains(j.conf, j.id) || j.memberSince <= j.after {
		return true
	}
	j.after = 0
	if j.observes() {
		j.log.Info("this server has joined the ensemble as an observer")
	} else if !slices.Contains(j.conf.GetVoters(), j.id) {
		j.log.Info("this server was admitted: it follows without a vote, and gets one if it is a member and has caught up")
	}
	if j.onJoined != nil {
		j.onJoined()
	}
	return false
}

// electoral reports whether m asks for a vote or to campaign.
func electoral(m *pb.Message) bool {
	switch m.GetType() {
	case pb.MsgVote, pb.MsgPreVote, pb.MsgTimeoutNow:
		return true
	}
	return false
}

// SameID is the text in a refusal that tells a server that another one has its id. The
// exact words are part of the protocol.
const SameID = "two servers have the same myid"

// beginJoining makes a joining server's promise durable: it takes part in no term before
// the one in which it was taken out.
func (l *Loop) beginJoining() error {
	if l.joining.after == 0 || l.hard.GetTerm() >= l.o.JoinedTerm {
		return nil
	}
	l.hard = pb.HardState{Term: &l.o.JoinedTerm, Vote: new(uint64), Commit: l.hard.Commit}
	if err := l.disk.Append(&pb.HardState{Term: l.hard.Term, Vote: l.hard.Vote, Commit: l.hard.Commit}, nil,
		true); err != nil {
		return fmt.Errorf("write the term in which this server joins: %w", err)
	}
	return nil
}

// keepCommit makes the commit index of entries durable before they are applied, if one
// of them changes the membership. The log alone doesn't tell a restarted server whose
// votes count. If it forgot that a server got a vote, it could keep waiting for the vote
// of another server that has lost its disk meanwhile.
func (l *Loop) keepCommit(entries []*pb.Entry) {
	if l.failed != nil || !slices.ContainsFunc(entries, reconfigures) {
		return
	}
	last := max(l.hard.GetCommit(), entries[len(entries)-1].GetIndex())
	l.hard.Commit = &last
	if err := l.disk.Append(&pb.HardState{Term: l.hard.Term, Vote: l.hard.Vote, Commit: &last}, nil, true); err != nil {
		l.failed = err
	}
}
