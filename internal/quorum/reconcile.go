package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// The state machine holds the membership that the ensemble has decided on; raft
// holds the one that counts votes. The leader brings the second to the first. Two
// rules hold at every moment (docs/decisions/006-membership.md):
//
//	M1  What is acknowledged is on a majority of the membership that the state
//	    machine names, and of every one that it named since.
//	M2  A change is answered when raft's membership is the one asked for, and a
//	    majority of that has it on disk.
//
// A change that was asked for goes through these steps, each an entry of the log
// that whoever leads proposes once the one before is applied:
//
//	staged    by the state machine, when it applies the request
//	learners  servers that raft doesn't know get the log, without a vote
//	joint     once a majority of the new voters has caught up, and each of those that
//	          had no vote is admitted: from here on majorities of the old voters and
//	          of the new ones must agree
//	named     the state machine names the new membership (ChangeNamed)
//	left      the old voters count no more
//	done      the state machine answers the request (ChangeDone)
//
// Before joint it may be dropped (ChangeDropped); after it there is no way back.
//
// The entry of a step is never committed by a leader that has not applied the step
// before: it is proposed by one that has, so every message that carries it also
// carries a commit index beyond the step before, and raft lets nobody campaign who
// knows of a committed change of membership and has not applied it.
//
// settle carries out changes that were decided without these steps, at feature level 1 or
// before a server lost its disk.

// A Member is one server of the group, as its configuration names it.
type Member struct {
	ID       uint64
	Addrs    []string // of its peer port, "host:port"; names are resolved at each dial
	Observer bool     // follows the log without a vote (raft calls it a learner)
}

// A Membership is who the servers are to be, as the state machine knows it.
type Membership struct {
	Members []Member // named by the state machine; empty if it names none yet
	Change  *Change  // under way; nil if there is none
}

// A Change is a change of membership that was asked for and is not over.
type Change struct {
	ID       int64
	Members  []Member // asked for
	Named    bool     // by the state machine
	Patience uint64   // ticks that the requester waits for new servers to catch up; 0 is for ever
}

// A ChangeStep is what the leader has the state machine do about a Change.
type ChangeStep uint8

// The steps.
const (
	ChangeNamed   ChangeStep = iota + 1 // name its members
	ChangeDone                          // answer the request, and forget the change
	ChangeDropped                       // answer that too few of its voters caught up, and forget the change
)

const (
	// reconcileTicks is the pause between two looks at what is to be done, if no
	// change of membership is applied meanwhile.
	reconcileTicks = 2
	// caughtUpEntries is how far behind a server that gets entries as they come may
	// be when its vote begins to count.
	caughtUpEntries = 64
	// proposalTicks is after how many ticks a proposal that isn't applied is made
	// again: raft may have refused it, or a disk is slow.
	proposalTicks = 20
	// laggardTicks is for how long a change that nobody waits for gives those of its
	// voters that have not caught up while a majority has.
	laggardTicks = 100
	// handOffsMax is how often a leader that is to lose its vote asks another to lead.
	// Then it goes on: raft ends its leadership when the vote is gone.
	handOffsMax = 3
)

// A reconciler is what a leader remembers of the change under way. It begins anew
// with each leadership.
type reconciler struct {
	id        int64  // of the change
	since     uint64 // tick when this leader first saw it
	step      ChangeStep
	stepped   uint64 // tick when the step was asked for last
	proposed  uint64 // tick of a change of raft's membership that isn't applied; 0 for none
	committed bool   // joint consensus was proposed: the change can't be dropped any more
	handOffs  int
	ready     bool // an entry of this leader's term was applied, so everything before it was
}

// decided takes note of the membership decided on, and reports whether it is new.
func (l *Loop) decided() bool {
	m, version := l.o.State.Membership(l.wantedVersion)
	l.wantedVersion = version
	if m == nil {
		return false
	}
	before := l.membersNamed()
	l.guests.named(l, before)
	l.members, l.change, l.wanted = m.Members, m.Change, m.Members
	if l.change != nil {
		l.wanted = l.change.Members
	}
	peers := slices.Clone(l.members) // one that moves is at its old address until the change is named
	for _, m := range l.wanted {
		if !isMember(l.members, m.ID) {
			peers = append(peers, m)
		}
	}
	l.o.Shell.SetPeers(peers)
	l.roster.changed(l, before)
	l.roster.keep(l)
	l.introduceAll(before)
	return true
}

func isMember(members []Member, id uint64) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
}

// reconcile makes the next step towards the membership decided on, if this server
// leads.
func (l *Loop) reconcile() {
	r := &l.reconciler
	if !l.node.IsLeader() || l.node.Transferring() || !r.ready || r.proposed != 0 && l.ticks-r.proposed < proposalTicks {
		return
	}
	if l.change != nil && l.change.ID != r.id {
		*r = reconciler{id: l.change.ID, since: l.ticks, ready: true}
	}
	joint := len(l.conf.GetVotersOutgoing()) > 0
	switch c := l.change; {
	case joint && l.conf.GetAutoLeave(): // raft leaves it by itself
	case joint && c != nil && !c.Named:
		if !l.handOff() {
			l.takeStep(ChangeNamed)
		}
	case joint:
		l.propose(&pb.ConfChangeV2{})
	case c == nil:
		l.follow()
	case c.Named:
		l.takeStep(ChangeDone)
	default:
		l.enter(c)
	}
}

// enter does what a change needs until joint consensus has begun.
func (l *Loop) enter(c *Change) {
	r := &l.reconciler
	if changes := l.joiners(); len(changes) > 0 {
		l.propose(&pb.ConfChangeV2{Changes: changes})
		return
	}
	changes := l.difference()
	if len(changes) == 0 && r.step != ChangeDropped {
		l.takeStep(ChangeNamed)
		return
	}
	voters, caughtUp := l.caughtUp()
	waited, grace, ready := l.ticks-r.since, uint64(laggardTicks), caughtUp > voters/2
	if c.Patience > 0 {
		grace, ready = c.Patience/2, ready && l.allAdmitted()
	}
	switch {
	case r.step == ChangeDropped:
		l.takeStep(ChangeDropped) // it was asked for, and may be in the log
	case !r.committed && !ready && c.Patience > 0 && waited > c.Patience:
		l.log.Warn("a change of membership is given up: too few of the voters it asks for have caught up, or a new one can't vote yet; see that they run, and ask again",
			"caughtUp", caughtUp, "voters", voters)
		l.takeStep(ChangeDropped)
	case caughtUp == voters || ready && waited > grace:
		r.committed = true
		l.log.Info("the membership changes by joint consensus", "caughtUp", caughtUp, "voters", voters)
		l.propose(&pb.ConfChangeV2{Transition: pb.ConfChangeTransition_ConfChangeTransitionJointExplicit.Enum(), Changes: changes})
	}
}

// follow brings raft's membership to the one that the state machine names.
func (l *Loop) follow() {
	if len(l.members) == 0 {
		return
	}
	changes := l.joiners()
	if len(changes) == 0 {
		changes = l.settle()
	}
	if slices.ContainsFunc(changes, func(c *pb.ConfChangeSingle) bool { return c.GetNodeId() == l.o.ID }) && l.handOffTo(l.othersThatVote()) {
		return
	}
	if id := l.arrivingGuest(); len(changes) == 0 && id != 0 {
		l.log.Info("a server that is no member follows without a vote", "server", id)
		changes = append(changes, change(pb.ConfChangeAddLearnerNode, id))
	}
	if len(changes) > 0 {
		l.propose(&pb.ConfChangeV2{Changes: changes})
	}
}

// takeStep asks the state machine for a step of the change under way.
func (l *Loop) takeStep(step ChangeStep) {
	r := &l.reconciler
	if r.step == step && l.ticks-r.stepped < proposalTicks {
		return
	}
	r.step, r.stepped = step, l.ticks
	l.o.State.StepChange(l.change.ID, step)
}

// propose proposes a change of raft's membership.
func (l *Loop) propose(cc *pb.ConfChangeV2) {
	l.reconciler.proposed = l.ticks
	if err := l.node.ProposeConfChange(cc); err != nil {
		l.log.Warn("a change of membership was not accepted; it is tried again", "err", err)
	}
}

// handOff asks a server whose vote will count to lead, if this one's won't. It
// reports whether to wait for that.
func (l *Loop) handOff() bool {
	return !slices.Contains(l.conf.GetVoters(), l.o.ID) && l.handOffTo(l.conf.GetVoters())
}

// handOffTo asks one of some voters to lead, a few times in a leadership.
func (l *Loop) handOffTo(voters []uint64) bool {
	r := &l.reconciler
	if r.handOffs >= handOffsMax {
		return false
	}
	r.handOffs++
	return l.transferLeadershipTo(voters)
}

// othersThatVote are the voters that remain ones.
func (l *Loop) othersThatVote() []uint64 {
	return slices.DeleteFunc(slices.Clone(l.conf.GetVoters()), func(id uint64) bool {
		return id == l.o.ID || !slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID == id && !m.Observer })
	})
}

// knowsAll reports whether raft knows every server of the membership decided on.
// If so the first step is made as soon as it is applied: an operator who removes a server
// stops it next. A server that joins has time, and asks first.
func (l *Loop) knowsAll() bool {
	return !slices.ContainsFunc(l.wanted, func(m Member) bool { return !contains(l.conf, m.ID) })
}

func change(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(id)}
}

// inForce reports whether raft's voters are those of the configuration that this server
// was started with. So it is in a new ensemble, whose first membership can be named at
// once.
func (l *Loop) inForce() bool {
	voters := 0
	for _, m := range l.o.Members {
		if !m.Observer {
			voters++
			if !slices.Contains(l.conf.GetVoters(), m.ID) {
				return false
			}
		}
	}
	return voters == len(l.conf.GetVoters()) && len(l.conf.GetVotersOutgoing()) == 0
}

// joiners makes learners of the wanted servers that raft doesn't know.
func (l *Loop) joiners() (changes []*pb.ConfChangeSingle) {
	for _, m := range l.wanted {
		if !contains(l.conf, m.ID) {
			l.log.Info("a server joins the ensemble", "server", m.ID)
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		}
	}
	return changes
}

// difference returns what makes raft's membership the one wanted. Who isn't wanted loses
// its vote, and goes on as a guest while it answers.
func (l *Loop) difference() (changes []*pb.ConfChangeSingle) {
	for _, m := range l.wanted {
		switch voter := slices.Contains(l.conf.GetVoters(), m.ID); {
		case voter && m.Observer:
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		case !voter && !m.Observer:
			changes = append(changes, change(pb.ConfChangeAddNode, m.ID))
		}
	}
	for _, id := range slices.Concat(l.conf.GetVoters(), l.conf.GetLearners()) {
		switch {
		case isMember(l.wanted, id):
		case !l.stays(id):
			changes = append(changes, change(pb.ConfChangeRemoveNode, id))
		case slices.Contains(l.conf.GetVoters(), id):
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// caughtUp returns how many voters are wanted, and how many of them hold nearly
// all of the log and answer.
func (l *Loop) caughtUp() (voters, caughtUp int) {
	for _, m := range l.wanted {
		if m.Observer {
			continue
		}
		voters++
		if l.keepsUp(m.ID) {
			caughtUp++
		}
	}
	return voters, caughtUp
}

// allAdmitted reports whether all servers that are to get a vote are admitted. The vote
// of one that isn't would be missed if a server is lost before it is.
func (l *Loop) allAdmitted() bool {
	return !slices.ContainsFunc(l.wanted, func(m Member) bool { return !m.Observer && m.ID != l.o.ID && !l.isAdmitted(m.ID) })
}

// keepsUp reports whether a server holds nearly all of the log, is admitted, and answers.
func (l *Loop) keepsUp(id uint64) bool {
	if id == l.o.ID {
		return true
	}
	last, err := l.disk.LastIndex()
	return err == nil && l.isAdmitted(id) && slices.ContainsFunc(l.node.Followers(), func(f Progress) bool {
		return f.ID == id && f.Active && f.Synced && f.Match+caughtUpEntries >= last
	})
}

// settle gives votes to learners that have caught up. Once they and the voters that
// stay and have caught up are a majority of those wanted, it also takes votes from
// observers and removes who isn't wanted, all by one joint consensus.
func (l *Loop) settle() (changes []*pb.ConfChangeSingle) {
	voters, caughtUp := l.caughtUp()
	for _, c := range l.difference() {
		switch id := c.GetNodeId(); c.GetType() {
		case pb.ConfChangeAddNode:
			if !l.keepsUp(id) {
				continue
			}
			l.log.Info("a server has caught up and gets a vote", "server", id)
		case pb.ConfChangeRemoveNode:
			if caughtUp <= voters/2 {
				continue
			}
			l.log.Info("a server leaves the ensemble", "server", id)
		default:
			if caughtUp <= voters/2 {
				continue
			}
		}
		changes = append(changes, c)
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
