package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// The state machine holds the membership that the ensemble has decided on; raft
// holds the one that counts votes. The leader brings the second to the first,
// one change at a time: new servers join as learners, become voters once they
// have caught up, and leave, together where there are several, by joint
// consensus. So a decided change never costs the quorum: what can't be reached
// stays a learner until it can.
const (
	// reconcileTicks is the pause between two steps, in which the last one is
	// usually applied.
	reconcileTicks = 2
	// caughtUpEntries is how far behind a learner that gets entries as they come may
	// be when it becomes a voter.
	caughtUpEntries = 64
)

// decided takes note of the membership decided on, and reports whether it is new.
func (l *Loop) decided() bool {
	members, version := l.o.State.Membership(l.wantedVersion)
	l.wantedVersion = version
	if members == nil {
		return false
	}
	l.wanted = members
	l.o.Shell.SetPeers(members)
	return true
}

// reconcile makes the next step towards the membership decided on, if this server
// leads.
func (l *Loop) reconcile() {
	if len(l.wanted) == 0 || !l.node.IsLeader() || l.node.Transferring() || len(l.conf.GetVotersOutgoing()) > 0 {
		return
	}
	changes := l.joiners()
	if len(changes) == 0 {
		changes = l.settle()
	}
	if len(changes) == 0 {
		return
	}
	if err := l.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err != nil {
		l.log.Warn("a change of membership was not accepted; it is tried again", "err", err)
	}
}

// onlyRemoves reports whether the membership decided on has no server that raft
// doesn't know. Its first step is made as soon as it is applied: whoever removes a
// server stops it next, and until raft knows, its vote is missed. Who joins has
// time, and asks first.
func (l *Loop) onlyRemoves() bool {
	return !slices.ContainsFunc(l.wanted, func(m Member) bool { return !contains(l.conf, m.ID) })
}

func change(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(id)}
}

// joiners makes learners of the wanted servers that raft doesn't know.
func (l *Loop) joiners() (changes []*pb.ConfChangeSingle) {
	for _, m := range l.wanted {
		if !contains(l.conf, m.ID) && (l.held != m.ID || l.ticks >= l.heldUntil) {
			l.log.Info("a server joins the ensemble", "server", m.ID)
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		}
	}
	return changes
}

// settle gives votes to learners that have caught up, takes them from observers
// and removes who isn't wanted.
func (l *Loop) settle() (changes []*pb.ConfChangeSingle) {
	followers := l.node.Followers()
	last, err := l.disk.LastIndex()
	if err != nil {
		return nil
	}
	for _, m := range l.wanted {
		voter := slices.Contains(l.conf.GetVoters(), m.ID)
		at := slices.IndexFunc(followers, func(f Progress) bool { return f.ID == m.ID })
		switch {
		case voter && m.Observer:
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		case !voter && !m.Observer && at >= 0 && followers[at].Active && followers[at].Synced && followers[at].Match+caughtUpEntries >= last:
			l.log.Info("a server has caught up and gets a vote", "server", m.ID)
			changes = append(changes, change(pb.ConfChangeAddNode, m.ID))
		}
	}
	for _, id := range slices.Concat(l.conf.GetVoters(), l.conf.GetLearners()) {
		if !slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID == id }) {
			l.log.Info("a server leaves the ensemble", "server", id)
			changes = append(changes, change(pb.ConfChangeRemoveNode, id))
		}
	}
	if !l.leavesVoter(changes) {
		return nil
	}
	return changes
}

// leavesVoter reports whether some voter remains after changes.
func (l *Loop) leavesVoter(changes []*pb.ConfChangeSingle) bool {
	voters := slices.Clone(l.conf.GetVoters())
	for _, c := range changes {
		voters = slices.DeleteFunc(voters, func(id uint64) bool { return id == c.GetNodeId() })
		if c.GetType() == pb.ConfChangeAddNode {
			voters = append(voters, c.GetNodeId())
		}
	}
	return len(voters) > 0
}

// ProposeConfChange proposes a change of membership; one that comes while
// another is under way does nothing.
func (n *Node) ProposeConfChange(cc *pb.ConfChangeV2) error {
	if err := n.raw.ProposeConfChange(cc); err != nil {
		return fmt.Errorf("propose a change of membership: %w", err)
	}
	return nil
}
