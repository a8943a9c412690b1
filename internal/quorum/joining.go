package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// This file says what a server that joins an ensemble must not do until it has joined, and
// what it is answered when it asks to.

// An Admission is what a server that is let in knows of its ensemble before it has its state.
type Admission struct {
	Level    uint32 // feature level in force; 0 if the leader, of an older version, didn't say
	Unproven bool   // the leader has not proven who it is: it is of an older version
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

// joining reports whether this server must not take part in elections yet.
func (l *Loop) joining() bool {
	if l.o.JoinedAfter == 0 {
		return false
	}
	if !contains(l.conf, l.o.ID) || l.memberSince <= l.o.JoinedAfter {
		return true
	}
	l.o.JoinedAfter = 0
	if l.observes() {
		l.log.Info("this server has joined the ensemble as an observer")
	} else if !slices.Contains(l.conf.GetVoters(), l.o.ID) {
		l.log.Info("this server was let in: it follows without a vote, and gets one if it is a member and has caught up")
	}
	if l.o.OnJoined != nil {
		l.o.OnJoined()
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

// observes reports whether this server is an observer in the membership decided on, or in
// the configuration if none has been decided yet.
func (l *Loop) observes() bool {
	members := l.wanted
	if len(members) == 0 {
		members = l.o.Members
	}
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == l.o.ID && m.Observer })
}

// SameID is the text in a refusal that tells a server that another one has its id. The
// exact words are part of the protocol.
const SameID = "two servers have the same myid"
