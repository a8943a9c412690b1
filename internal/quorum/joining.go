package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// How a server with an empty data directory begins, and what it must not do until it has
// joined; join.go says why, and asks the peers.

// A Beginning is how a server with an empty data directory begins.
type Beginning struct {
	Cluster     uint64 // of the ensemble to join; 0 to begin a new one
	JoinedAfter uint64 // with Cluster: index beyond which it becomes a member
	JoinedTerm  uint64 // of that entry, 0 if not told: it takes part in no earlier term
}

// Begin decides how the server self with an empty data directory begins, by what
// the members answer: ask returns that and the cluster they belong to; New stands
// for an empty peer too, and Begun only for a peer that has never asked this server.
// Until that decides it (ok), waiting says for what. belong holds, from one round to
// the next, the members that belonged to an ensemble when they last answered.
func Begin(self uint64, members []Member, belong map[uint64]bool, ask func(Member) (reply JoinReply, cluster uint64, err error)) (b Beginning, waiting []string, ok bool) {
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
			waiting = append(waiting, fmt.Sprintf("server %d: %v; it belonged to an ensemble when it last answered (if that is gone for good, start this server again)", m.ID, err))
		case err != nil:
			waiting = append(waiting, fmt.Sprintf("server %d: %v", m.ID, err))
		case reply.Go:
			return Beginning{Cluster: cluster, JoinedAfter: reply.Index, JoinedTerm: reply.Term}, nil, true
		case reply.DuplicateID:
			belong[m.ID] = true
			waiting = append(waiting, fmt.Sprintf("server %d: a server %d is running already: %s", m.ID, self, SameID))
		case reply.Hearsay:
			known = true
			waiting = append(waiting, fmt.Sprintf("server %d is empty too, and is asking its own peers, or has heard of an ensemble", m.ID))
		case !reply.New:
			belong[m.ID] = true
			waiting = append(waiting, fmt.Sprintf("server %d belongs to an ensemble; its leader must let this server in", m.ID))
		case m.Observer:
		case reply.Begun:
			begun++
			waiting = append(waiting, fmt.Sprintf("server %d has begun without this one, maybe long ago: all others must answer", m.ID))
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
	New   bool // this server has only just begun: there was no election yet
	Begun bool // New, and it has a log
	// Hearsay says that the server is empty and has not asked all of its peers yet, or
	// that one of them belongs to an ensemble.
	Hearsay     bool
	Go          bool   // the server may start; the life that asks was taken out
	Index       uint64 // with Go: of the entry that took it out
	Term        uint64 // with Go: of that entry
	DuplicateID bool   // a server with this id is running and connected
	Ask         bool   // the asker's own address is to say that it is empty: then tell again, with Empty
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

// observes reports whether this server is to have no vote for good.
func (l *Loop) observes() bool {
	members := l.wanted
	if len(members) == 0 {
		members = l.o.Members
	}
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == l.o.ID && m.Observer })
}

// SameID is the part of a refusal by which a server knows that another one has its
// id. Its words are part of the protocol.
const SameID = "two servers have the same myid"
