package quorum

import (
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The state machine holds the membership that the ensemble has decided; raft holds the
// membership by which votes are counted. The leader changes raft's until both are the
// same. Two rules hold at every moment (docs/decisions/006-membership.md):
//
//	M1  An acknowledged write is on a majority of the membership that the state machine
//	    names, and of every membership named since.
//	M2  A change is answered when raft's membership is the requested one, and a majority of
//	    that membership has it on disk.
//
// A requested change goes through these steps. Each is an entry of the log that the
// current leader proposes once the previous step is applied:
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
// A leader applies each step before it commits the entry of the next one. The leader that proposes
// an entry has applied the previous step, so every message that carries the entry also carries a
// commit index beyond that step. And raft doesn't let a server campaign while it knows of a
// committed change of membership that it hasn't applied.
//
// settle carries out changes that were decided without these steps, at feature level 1 or
// before a server lost its disk.

// A Member is one server of the group, as its configuration names it.
type Member struct {
	ID       uint64
	Addrs    []string // addresses of its peer port, "host:port"; names are resolved at each dial
	Observer bool     // follows the log without a vote (raft calls it a learner)
}

// A Membership is the membership that was decided, as the state machine holds it.
type Membership struct {
	Members []Member // the named members; empty if none have been named yet
	Change  *Change  // the change under way, or nil
}

// A Change is a requested change of membership that is under way.
type Change struct {
	ID       int64
	Members  []Member // the members asked for
	Named    bool     // the state machine names Members
	Patience uint64   // ticks that the requester waits for new servers to catch up; 0 for no limit
	// Replaced says that the change is dropped unless its joint consensus has begun: no client requested it, no membership
	// was ever in force, and this server's configuration names another one.
	Replaced bool
}

// A ChangeStep is a step of a Change that the leader requests from the state machine.
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
	// laggardTicks is how long a change without a waiting client (Patience is 0) waits for
	// all its voters to catch up. After that a majority is enough.
	laggardTicks = 100
	// joinAskTicks is how long a server that has asked to join counts as running. Once it is let in, it connects.
	joinAskTicks = 60
	// handOffsMax is how often a leader that will lose its vote asks another server to lead.
	// Then it continues with the change: raft ends its leadership with the vote.
	handOffsMax = 3
)

// A reconciler makes raft's membership the decided one, while this server leads.
type reconciler struct {
	*view
	lostDisks   *lostDisks
	guests      *guests
	writes      *writes
	leadership  *leadership
	runningOnly bool // LoopOptions.RunningOnly

	course
}

// A course is how far a leader is with the change under way. A new leader begins with an empty one.
type course struct {
	of        int64  // id of the change
	since     uint64 // tick when this leader first saw it
	step      ChangeStep
	stepped   uint64 // tick when step was last requested
	proposed  uint64 // tick when the pending change of raft's membership was proposed; 0 if none is pending
	asked     bool   // joint consensus was proposed; whether raft took it isn't known yet
	committed bool   // the entry that begins joint consensus is in the log: the change can no longer be dropped
	handOffs  int
	ready     bool // an entry of this leader's term was applied, so everything before it was
}

// decided fetches the membership that was decided, and reports whether it is new.
func (l *Loop) decided() bool {
	m, version := l.state.Membership(l.wantedVersion)
	l.wantedVersion = version
	if m == nil {
		return false
	}
	before := l.membersNamed()
	l.guests.named(before)
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
	l.shell.SetPeers(peers)
	l.strays.note(peers)
	l.roster.changed(before)
	l.roster.keep()
	l.roster.introduceAll(before)
	return true
}

func isMember(members []Member, id uint64) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
}

// reconcile takes the next step towards the decided membership, if this server leads.
func (r *reconciler) reconcile() {
	if !r.node.IsLeader() || r.node.Transferring() || !r.ready || r.proposed != 0 && r.ticks-r.proposed < proposalTicks {
		return
	}
	if r.change != nil && r.change.ID != r.of {
		r.course = course{of: r.change.ID, since: r.ticks, ready: true}
	}
	joint := len(r.conf.GetVotersOutgoing()) > 0
	switch c := r.change; {
	case joint && r.conf.GetAutoLeave():
		// Raft proposes the end of joint consensus itself (member), but drops the proposal while leadership is handed over,
		// and tries again only when another entry is applied. If raft has proposed it already, this proposal becomes an empty
		// entry.
		r.propose(&pb.ConfChangeV2{})
	case joint && c != nil && !c.Named:
		if !r.handOff() {
			r.takeStep(ChangeNamed)
		}
	case joint:
		r.propose(&pb.ConfChangeV2{})
	case c == nil:
		r.follow()
	case c.Named:
		r.takeStep(ChangeDone)
	default:
		r.enter(c)
	}
}

// enter takes the steps of a change up to the beginning of joint consensus.
func (r *reconciler) enter(c *Change) {
	if changes := r.joiners(); len(changes) > 0 && !c.Replaced {
		r.propose(&pb.ConfChangeV2{Changes: changes})
		return
	}
	changes := r.difference()
	if len(changes) == 0 && r.step != ChangeDropped {
		r.takeStep(ChangeNamed)
		return
	}
	voters, caughtUp := r.caughtUp()
	waited, grace, ready := r.ticks-r.since, uint64(laggardTicks), caughtUp > voters/2
	if c.Patience > 0 {
		grace, ready = c.Patience/2, ready && !slices.ContainsFunc(r.absent(), r.awaits)
	}
	switch {
	case r.step == ChangeDropped:
		r.takeStep(ChangeDropped) // it was requested before, and may be in the log
	case c.Replaced && !r.asked && !r.committed:
		r.log.Info("the membership that this server was first started with is replaced before it is in force: the server lines name another one now")
		r.takeStep(ChangeDropped)
	case !r.asked && !r.committed && !ready && c.Patience > 0 && waited > c.Patience:
		r.log.Warn("a change of membership is given up: too few of its voters have caught up, or a new one can't vote yet; make sure that they run, and ask again",
			"caughtUp", caughtUp, "voters", voters)
		r.takeStep(ChangeDropped)
	case caughtUp == voters || ready && waited > grace:
		r.asked = true
		if absent := r.absent(); len(absent) > 0 {
			r.log.Warn("servers that don't run have been given votes: start them; until then, fewer of the other voters may fail",
				"servers", absent)
		}
		r.log.Info("the membership changes by joint consensus", "caughtUp", caughtUp, "voters", voters)
		r.propose(&pb.ConfChangeV2{
			Transition: pb.ConfChangeTransition_ConfChangeTransitionJointExplicit.Enum(), Changes: changes,
		})
	}
}

// logged checks the entries that this leader writes to its log for the requested joint consensus. While raft's log
// holds another change of membership that isn't applied, such as the departure of a server that lost its disk, raft
// silently replaces a change by an empty entry.
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
func (r *reconciler) follow() {
	if len(r.members) == 0 {
		return
	}
	changes := r.joiners()
	if len(changes) == 0 {
		changes = r.settle()
	}
	if slices.ContainsFunc(changes, func(c *pb.ConfChangeSingle) bool { return c.GetNodeId() == r.id }) &&
		r.handOffTo(r.othersThatVote()) {
		return
	}
	if id := r.guests.arriving(); len(changes) == 0 && id != 0 {
		r.log.Info("a server that isn't a member follows without a vote", "server", id)
		changes = append(changes, change(pb.ConfChangeAddLearnerNode, id))
	}
	if len(changes) > 0 {
		r.propose(&pb.ConfChangeV2{Changes: changes})
	}
}

// takeStep requests a step of the change under way from the state machine.
func (r *reconciler) takeStep(step ChangeStep) {
	if r.step == step && r.ticks-r.stepped < proposalTicks {
		return
	}
	r.step, r.stepped = step, r.ticks
	r.state.StepChange(r.change.ID, step)
}

// propose proposes a change of raft's membership.
func (r *reconciler) propose(cc *pb.ConfChangeV2) {
	r.proposed = r.ticks
	if err := r.node.ProposeConfChange(cc); err != nil {
		r.asked = false
		r.log.Warn("a change of membership was not accepted; it will be tried again", "err", err)
	}
}

// handOff asks a server that keeps its vote to lead, if this one loses its own. It
// reports whether to wait for that server to take over.
func (r *reconciler) handOff() bool {
	return !slices.Contains(r.conf.GetVoters(), r.id) && r.handOffTo(r.conf.GetVoters())
}

// handOffTo asks one of voters to lead, at most handOffsMax times per leadership. It reports
// whether to wait for that.
func (r *reconciler) handOffTo(voters []uint64) bool {
	if r.handOffs >= handOffsMax {
		return false
	}
	r.handOffs++
	return r.leadership.transferTo(voters)
}

// othersThatVote returns the other voters that keep their votes.
func (r *reconciler) othersThatVote() []uint64 {
	return slices.DeleteFunc(slices.Clone(r.conf.GetVoters()), func(id uint64) bool {
		return id == r.id || !slices.ContainsFunc(r.wanted, func(m Member) bool { return m.ID == id && !m.Observer })
	})
}

// knowsAll reports whether raft knows every server of the decided membership. If so, the
// first step of a change is taken as soon as the change is applied, because operators stop
// a server right after removing it. A joining server isn't urgent, and asks first.
func (r *reconciler) knowsAll() bool {
	return !slices.ContainsFunc(r.wanted, func(m Member) bool { return !contains(r.conf, m.ID) })
}

func change(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(id)}
}

// joiners returns the changes that make the wanted servers that raft doesn't know learners.
func (r *reconciler) joiners() (changes []*pb.ConfChangeSingle) {
	for _, m := range r.wanted {
		if !contains(r.conf, m.ID) {
			r.log.Info("a server joins the ensemble", "server", m.ID)
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		}
	}
	return changes
}

// difference returns the changes that make raft's membership the wanted one. An unwanted
// server loses its vote, and remains a guest while it answers.
func (r *reconciler) difference() (changes []*pb.ConfChangeSingle) {
	for _, m := range r.wanted {
		switch voter := slices.Contains(r.conf.GetVoters(), m.ID); {
		case voter && m.Observer:
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, m.ID))
		case !voter && !m.Observer:
			changes = append(changes, change(pb.ConfChangeAddNode, m.ID))
		}
	}
	for _, id := range slices.Concat(r.conf.GetVoters(), r.conf.GetLearners()) {
		switch {
		case isMember(r.wanted, id):
		case !r.guests.stays(id):
			changes = append(changes, change(pb.ConfChangeRemoveNode, id))
		case slices.Contains(r.conf.GetVoters(), id):
			changes = append(changes, change(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// caughtUp returns how many voters are wanted, and how many of them keep up (see
// keepsUp).
func (r *reconciler) caughtUp() (voters, caughtUp int) {
	for _, m := range r.wanted {
		if m.Observer {
			continue
		}
		voters++
		if r.keepsUp(m.ID) {
			caughtUp++
		}
	}
	return voters, caughtUp
}

// absent returns the servers that are to get a vote and aren't admitted: they don't run, or haven't applied the entry
// that makes them members yet. Until they are admitted their votes are missing: if another voter is lost meanwhile,
// there may be no majority to admit them.
func (r *reconciler) absent() (ids []uint64) {
	for _, m := range r.wanted {
		if !m.Observer && m.ID != r.id && !r.lostDisks.isAdmitted(m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// awaits reports whether a server must be admitted before it gets a vote: a running server soon is. Unless RunningOnly
// is set, the leader doesn't wait for a server that it has never heard: that one may be about to be started. A server
// was heard if there is a connection to it, or if it has acknowledged an entry or asked to join.
func (r *reconciler) awaits(id uint64) bool {
	tried, asks := r.lostDisks.tried[id]
	return r.runningOnly || r.shell.Connected(id) || asks && r.ticks-tried.tick < joinAskTicks ||
		slices.ContainsFunc(r.node.Followers(), func(f Progress) bool { return f.ID == id && (f.Active || f.Match > 0) })
}

// keepsUp reports whether a server holds nearly all of the log, is admitted, and answers.
func (r *reconciler) keepsUp(id uint64) bool {
	if id == r.id {
		return true
	}
	last, _, err := r.writes.lastEntry()
	return err == nil && r.lostDisks.isAdmitted(id) && slices.ContainsFunc(r.node.Followers(), func(f Progress) bool {
		return f.ID == id && f.Active && f.Synced && f.Match+caughtUpEntries >= last
	})
}

// settle returns the changes that give votes to learners that have caught up. Once a
// majority of the wanted voters has caught up, the changes also take votes from observers
// and remove unwanted servers, all by one joint consensus.
func (r *reconciler) settle() (changes []*pb.ConfChangeSingle) {
	voters, caughtUp := r.caughtUp()
	for _, c := range r.difference() {
		switch id := c.GetNodeId(); c.GetType() {
		case pb.ConfChangeAddNode:
			if !r.keepsUp(id) {
				continue
			}
			r.log.Info("a server has caught up and gets a vote", "server", id)
		case pb.ConfChangeRemoveNode:
			if caughtUp <= voters/2 {
				continue
			}
			r.log.Info("a server leaves the ensemble", "server", id)
		default:
			if caughtUp <= voters/2 {
				continue
			}
		}
		changes = append(changes, c)
	}
	if !r.leavesVoter(changes) {
		return nil
	}
	return changes
}

// ProposeConfChange proposes a change of membership. It has no effect while another
// change is under way.
func (n *Node) ProposeConfChange(cc *pb.ConfChangeV2) error {
	if err := n.raw.ProposeConfChange(cc); err != nil {
		return fmt.Errorf("propose a change of membership: %w", err)
	}
	return nil
}
