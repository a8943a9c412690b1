package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The state machine holds the membership that the ensemble has decided on; raft
// holds the membership by which votes are counted. The leader changes raft's until it is
// the one decided on. Two rules hold at every moment (docs/decisions/006-membership.md):
//
//	M1  What is acknowledged is on a majority of the membership that the state
//	    machine names, and of every membership that it has named since.
//	M2  A change is answered when raft's membership is the one asked for, and a
//	    majority of that membership has it on disk.
//
// A change that was asked for goes through these steps. Each is an entry of the log that
// the current leader proposes once the step before is applied:
//
//	staged    the state machine applies the request
//	learners  servers that raft doesn't know get the log, without a vote
//	joint     a majority of the new voters has caught up, and every server that gets a
//	          vote is admitted, unless it doesn't run: from here on a majority of the old
//	          voters and one of the new voters must agree
//	named     the state machine names the new membership (ChangeNamed)
//	left      the old voters no longer count
//	done      the state machine answers the request (ChangeDone)
//
// Before joint the change may be dropped (ChangeDropped); after joint there is no way back.
//
// A leader never commits the entry of a step before it has applied the step before. The
// entry is proposed by a leader that has applied it, so every message that carries the
// entry also carries a commit index beyond the step before. And raft doesn't let a server
// campaign that knows of a committed change of membership and has not applied it.
//
// settle carries out changes that were decided without these steps, at feature level 1 or
// before a server lost its disk.

// A Member is one server of the group, as its configuration names it.
type Member struct {
	ID       uint64
	Addrs    []string // addresses of its peer port, "host:port"; names are resolved at each dial
	Observer bool     // follows the log without a vote (raft calls it a learner)
}

// A Membership is the membership decided on, as the state machine holds it.
type Membership struct {
	Members []Member // the named members; empty if none have been named yet
	Change  *Change  // the change under way, or nil
}

// A Change is a change of membership that was asked for and is under way.
type Change struct {
	ID       int64
	Members  []Member // the members asked for
	Named    bool     // the state machine names Members
	Patience uint64   // ticks that the requester waits for new servers to catch up; 0 for no limit
	// Replaced says that the change is to be dropped unless its joint consensus has begun: no client
	// asked for it, no membership was ever in force, and this server's configuration names another one.
	Replaced bool
}

// A ChangeStep is a step of a Change that the leader requests of the state machine.
type ChangeStep uint8

// The steps.
const (
	ChangeNamed   ChangeStep = iota + 1 // name the change's members
	ChangeDone                          // answer the request, and forget the change
	ChangeDropped                       // answer that too few of its voters caught up, and forget the change
)

const (
	// reconcileTicks is the pause between two calls of reconcile, if no change of
	// membership is applied meanwhile.
	reconcileTicks = 2
	// caughtUpEntries is how many entries a server may be behind and still count as
	// caught up, if it gets entries as they come.
	caughtUpEntries = 64
	// proposalTicks is the number of ticks after which a proposal that isn't applied is
	// repeated: raft may have refused it, or a disk is slow.
	proposalTicks = 20
	// laggardTicks is how long a change that nobody waits for (Patience is 0) waits for
	// all of its voters to catch up. After that a majority is enough.
	laggardTicks = 100
	// joinAskTicks is how long a server that has asked to join counts as running. Once it is let in, it connects.
	joinAskTicks = 60
	// handOffsMax is how often a leader that will lose its vote asks another server to
	// lead. Then it goes on with the change: raft ends its leadership with the vote.
	handOffsMax = 3
)

// A reconciler is a leader's state of the change under way. It is reset at each change of
// leader.
type reconciler struct {
	id        int64  // id of the change
	since     uint64 // tick when this leader first saw it
	step      ChangeStep
	stepped   uint64 // tick when step was last requested
	proposed  uint64 // tick when the pending change of raft's membership was proposed; 0 if none is pending
	asked     bool   // joint consensus was proposed; whether raft took it isn't known yet
	committed bool   // the entry that begins joint consensus is in the log: the change can no longer be dropped
	handOffs  int
	ready     bool // an entry of this leader's term was applied, so everything before it was
}

// decided fetches the membership decided on, and reports whether it is new.
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
	peers := slices.Clone(l.members) // with the old address of a member that moves, until the change is named
	for _, m := range l.wanted {
		if !isMember(l.members, m.ID) {
			peers = append(peers, m)
		}
	}
	l.o.Shell.SetPeers(peers)
	l.strays.note(l, peers)
	l.roster.changed(l, before)
	l.roster.keep(l)
	l.introduceAll(before)
	return true
}

func isMember(members []Member, id uint64) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
}

// reconcile takes the next step towards the membership decided on, if this server
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
	case joint && l.conf.GetAutoLeave():
		// Raft proposes this itself (member), but drops it while it hands leadership over, and tries again only when
		// another entry is applied. If it has proposed it, this becomes an empty entry.
		l.propose(&pb.ConfChangeV2{})
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

// enter takes the steps of a change up to the beginning of joint consensus.
func (l *Loop) enter(c *Change) {
	r := &l.reconciler
	if changes := l.joiners(); len(changes) > 0 && !c.Replaced {
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
		grace, ready = c.Patience/2, ready && !slices.ContainsFunc(l.absent(), l.awaits)
	}
	switch {
	case r.step == ChangeDropped:
		l.takeStep(ChangeDropped) // it was requested before, and may be in the log
	case c.Replaced && !r.asked && !r.committed:
		l.log.Info("the membership that this server was first started with is replaced before it is in force: the server lines name another one now")
		l.takeStep(ChangeDropped)
	case !r.asked && !r.committed && !ready && c.Patience > 0 && waited > c.Patience:
		l.log.Warn("a change of membership is given up: too few of its voters have caught up, or a new one can't vote yet; make sure that they run, and ask again",
			"caughtUp", caughtUp, "voters", voters)
		l.takeStep(ChangeDropped)
	case caughtUp == voters || ready && waited > grace:
		r.asked = true
		if absent := l.absent(); len(absent) > 0 {
			l.log.Warn("servers that don't run have been given votes: start them; until then, fewer of the other voters may fail",
				"servers", absent)
		}
		l.log.Info("the membership changes by joint consensus", "caughtUp", caughtUp, "voters", voters)
		l.propose(&pb.ConfChangeV2{
			Transition: pb.ConfChangeTransition_ConfChangeTransitionJointExplicit.Enum(), Changes: changes,
		})
	}
}

// logged notes, from the entries that this leader writes to its log, whether raft took the joint consensus that was
// asked for. Raft replaces a change of membership by an empty entry while it has another one in its log that isn't
// applied, such as the departure of a server that lost its disk, and tells nobody.
func (r *reconciler) logged(entries []*pb.Entry) {
	if r.asked && len(entries) > 0 {
		r.asked, r.committed = false, r.committed || slices.ContainsFunc(entries, beginsJoint)
	}
}

// beginsJoint reports whether an entry begins joint consensus.
func beginsJoint(e *pb.Entry) bool {
	cc := &pb.ConfChangeV2{}
	return e.GetType() == pb.EntryConfChangeV2 && proto.Unmarshal(e.GetData(), cc) == nil &&
		cc.GetTransition() == pb.ConfChangeTransition_ConfChangeTransitionJointExplicit
}

// follow changes raft's membership towards the one that the state machine names, and adds guests.
func (l *Loop) follow() {
	if len(l.members) == 0 {
		return
	}
	changes := l.joiners()
	if len(changes) == 0 {
		changes = l.settle()
	}
	if slices.ContainsFunc(changes, func(c *pb.ConfChangeSingle) bool { return c.GetNodeId() == l.o.ID }) &&
		l.handOffTo(l.othersThatVote()) {
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

// takeStep requests a step of the change under way from the state machine.
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
		l.reconciler.asked = false
		l.log.Warn("a change of membership was not accepted; it will be tried again", "err", err)
	}
}

// handOff asks a server that keeps its vote to lead, if this one doesn't keep its own. It
// reports whether to wait for that server to take over.
func (l *Loop) handOff() bool {
	return !slices.Contains(l.conf.GetVoters(), l.o.ID) && l.handOffTo(l.conf.GetVoters())
}

// handOffTo asks one of voters to lead, at most handOffsMax times per leadership. It reports
// whether to wait for that.
func (l *Loop) handOffTo(voters []uint64) bool {
	r := &l.reconciler
	if r.handOffs >= handOffsMax {
		return false
	}
	r.handOffs++
	return l.transferLeadershipTo(voters)
}

// othersThatVote returns the other voters that keep their votes.
func (l *Loop) othersThatVote() []uint64 {
	return slices.DeleteFunc(slices.Clone(l.conf.GetVoters()), func(id uint64) bool {
		return id == l.o.ID || !slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID == id && !m.Observer })
	})
}

// knowsAll reports whether raft knows every server of the membership decided on. If so,
// the first step of a change is taken as soon as the change is applied, because an operator
// who removes a server stops it next. A server that joins isn't urgent, and asks first.
func (l *Loop) knowsAll() bool {
	return !slices.ContainsFunc(l.wanted, func(m Member) bool { return !contains(l.conf, m.ID) })
}

func change(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(id)}
}

// inForce reports whether raft's voters are those of the configuration that this server
// was started with. They are in a new ensemble, whose first membership can be named at
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

// joiners returns the changes that make learners of the wanted servers that raft doesn't know.
func (l *Loop) joiners() (changes []*pb.ConfChangeSingle) {
	for _, m := range l.wanted {
		if !contains(l.conf, m.ID) {
			l.log.Info("a server joins the ensemble", "server", m.ID)
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		}
	}
	return changes
}

// difference returns the changes that make raft's membership the wanted one. A server that
// isn't wanted loses its vote, and remains as a guest while it answers.
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

// caughtUp returns how many voters are wanted, and how many of them keep up (see
// keepsUp).
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

// absent returns the servers that are to get a vote and aren't admitted: they don't run, or haven't applied what makes
// them members yet. Until they are admitted their votes are missing: if another voter is lost meanwhile, there may be
// no majority to admit them.
func (l *Loop) absent() (ids []uint64) {
	for _, m := range l.wanted {
		if !m.Observer && m.ID != l.o.ID && !l.isAdmitted(m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// awaits reports whether a server must be admitted before it gets a vote: one that runs soon will be. One of which this
// leader has never heard isn't waited for, unless RunningOnly is set: it may be about to be started. It was heard if
// there is a connection to it, if it has acknowledged an entry, or if it has asked to join.
func (l *Loop) awaits(id uint64) bool {
	tried, asks := l.lost.tried[id]
	return l.o.RunningOnly || l.o.Shell.Connected(id) || asks && l.ticks-tried.tick < joinAskTicks ||
		slices.ContainsFunc(l.node.Followers(), func(f Progress) bool { return f.ID == id && (f.Active || f.Match > 0) })
}

// keepsUp reports whether a server holds nearly all of the log, is admitted, and answers.
func (l *Loop) keepsUp(id uint64) bool {
	if id == l.o.ID {
		return true
	}
	last, _, err := l.lastEntry()
	return err == nil && l.isAdmitted(id) && slices.ContainsFunc(l.node.Followers(), func(f Progress) bool {
		return f.ID == id && f.Active && f.Synced && f.Match+caughtUpEntries >= last
	})
}

// settle returns the changes that give votes to learners that have caught up. Once a
// majority of the wanted voters has caught up, the changes also take votes from observers
// and remove the servers that aren't wanted, all by one joint consensus.
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

// ProposeConfChange proposes a change of membership. It has no effect while another
// change is under way.
func (n *Node) ProposeConfChange(cc *pb.ConfChangeV2) error {
	if err := n.raw.ProposeConfChange(cc); err != nil {
		return fmt.Errorf("propose a change of membership: %w", err)
	}
	return nil
}
