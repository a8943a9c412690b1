package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// This file decides how a server with an empty data directory begins, and what it must not
// do until it has joined. Package peer's join.go asks the peers, and says why.

// A Beginning is how a server with an empty data directory begins.
type Beginning struct {
	Cluster     uint64 // of the ensemble to join; 0 to begin a new one
	JoinedAfter uint64 // with Cluster: only an entry beyond this index makes it a member
	JoinedTerm  uint64 // term of the entry at JoinedAfter, 0 if unknown: it takes part in no earlier term
}

// Begin decides from the members' answers how server self, whose data directory is empty,
// begins. ask returns a member's answer and the cluster that it belongs to. In an answer,
// New may also mean that the member is empty, and Begun is set only for a member that has
// never asked this server. ok is false while the answers don't decide it; waiting then says
// what is missing. belong holds, from one round to the next, the members that belonged to
// an ensemble when they last answered.
func Begin(self uint64, members []Member, belong map[uint64]bool,
	ask func(Member) (reply JoinReply, cluster uint64, err error)) (b Beginning, waiting []string, ok bool) {
	voters, empty, begun := 0, 0, 0
	known := false // that there is an ensemble
	for _, m := range members {
		if !m.Observer {
			voters++
		}
		if m.ID == self {
			if !m.Observer {
				empty++
			}
			continue
		}
		reply, cluster, err := ask(m)
		if err == nil {
			delete(belong, m.ID)
		}
		switch {
		case err != nil && belong[m.ID]:
			waiting = append(waiting,
				fmt.Sprintf("server %d: %v; it belonged to an ensemble when it last answered (if that is gone for good, start this server again)",
					m.ID, err))
		case err != nil:
			waiting = append(waiting, fmt.Sprintf("server %d: %v", m.ID, err))
		case reply.Go:
			return Beginning{Cluster: cluster, JoinedAfter: reply.Index, JoinedTerm: reply.Term}, nil, true
		case reply.DuplicateID:
			belong[m.ID] = true
			waiting = append(waiting, fmt.Sprintf("server %d: a server %d is running already: %s", m.ID, self, SameID))
		case reply.Hearsay:
			known = true
			waiting = append(waiting,
				fmt.Sprintf("server %d is empty too, and is asking its own peers, or has heard of an ensemble", m.ID))
		case !reply.New:
			belong[m.ID] = true
			waiting = append(waiting, fmt.Sprintf("server %d belongs to an ensemble; its leader must let this server in", m.ID))
		case m.Observer:
		case reply.Begun:
			begun++
			waiting = append(waiting,
				fmt.Sprintf("server %d has begun without this one, maybe long ago: all others must answer", m.ID))
		default:
			empty++
		}
	}
	known = known || len(belong) > 0
	votes := slices.ContainsFunc(members, func(m Member) bool { return m.ID == self && !m.Observer })
	return Beginning{}, waiting, votes && !known && (empty > voters/2 || empty+begun == voters)
}

// A JoinReply answers EventJoin.
type JoinReply struct {
	New   bool // the answering server has only just begun: there was no election yet
	Begun bool // with New: it has a log
	// Hearsay says that the answering server is empty and either has not asked all of its
	// peers yet, or knows that one of them belongs to an ensemble.
	Hearsay     bool
	Go          bool   // the asker may start: its present life was taken out of the membership
	Index       uint64 // with Go: index of the entry that took it out
	Term        uint64 // with Go: term of that entry
	DuplicateID bool   // a server with the asker's id is running and connected
	Ask         bool   // check at the asker's own address that it is empty, then repeat the event with Empty
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
