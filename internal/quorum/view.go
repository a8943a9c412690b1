package quorum

import (
	"log/slog"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// A view is the state that all parts of a Loop share: the options, the progress and the members. The parts read it, and
// only the Loop changes it. The one exception is failed, which a part sets to stop the server.
type view struct {
	id         uint64   // of this server
	configured []Member // LoopOptions.Members
	dir        *storage.Dir
	disk       *storage.Log
	state      StateMachine
	shell      Shell
	log        *slog.Logger
	node       *Node

	ticks    uint64
	applied  uint64 // index of the last entry that the state machine has or is applying
	lastLead Leadership
	failed   error // the server must stop because of it

	conf    *pb.ConfState // raft's membership
	sole    bool          // this server is the only voter
	members []Member      // named by the state machine
	change  *Change       // the change of members under way, or nil
	wanted  []Member      // the decided members: those of change, if there is one
	atStart uint64        // index of the last entry on the disk at the start; changes up to it are old
}

// contains reports whether a server is in raft's membership. During joint consensus
// the outgoing voters are too.
func contains(conf *pb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetLearners(), id) ||
		slices.Contains(conf.GetVotersOutgoing(), id)
}

// membersNamed returns the decided members and those that a change is about to remove. If
// no membership has been decided yet, it returns the members of the configuration.
func (v *view) membersNamed() []Member {
	if len(v.wanted) == 0 {
		return v.configured
	}
	known := slices.Clone(v.wanted)
	for _, m := range v.members {
		if !isMember(known, m.ID) {
			known = append(known, m)
		}
	}
	return known
}

// isGuest reports whether a server has no vote and isn't a named member.
func (v *view) isGuest(id uint64) bool {
	return len(v.wanted) > 0 && !isMember(v.membersNamed(), id) &&
		!slices.Contains(v.conf.GetVoters(), id) && !slices.Contains(v.conf.GetVotersOutgoing(), id)
}

// observes reports whether this server is an observer in the decided membership, or in
// the configuration if none has been decided yet.
func (v *view) observes() bool {
	members := v.wanted
	if len(members) == 0 {
		members = v.configured
	}
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == v.id && m.Observer })
}

// leavesVoter reports whether some voter remains after changes.
func (v *view) leavesVoter(changes []*pb.ConfChangeSingle) bool {
	voters := slices.Clone(v.conf.GetVoters())
	for _, c := range changes {
		voters = slices.DeleteFunc(voters, func(id uint64) bool { return id == c.GetNodeId() })
		if c.GetType() == pb.ConfChangeAddNode {
			voters = append(voters, c.GetNodeId())
		}
	}
	return len(voters) > 0
}

// inForce reports whether raft's voters are those of the configuration that this server
// was started with. They are in a new ensemble: its first membership can be named at
// once.
func (v *view) inForce() bool {
	voters := 0
	for _, m := range v.configured {
		if !m.Observer {
			voters++
			if !slices.Contains(v.conf.GetVoters(), m.ID) {
				return false
			}
		}
	}
	return voters == len(v.conf.GetVoters()) && len(v.conf.GetVotersOutgoing()) == 0
}
