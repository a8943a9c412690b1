package replica

import (
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
)

// members follows the membership in the log, and proposes its changes.
type members struct {
	*outside
	*state
	proposals *proposals.Queue
	version   atomic.Int64 // that Membership returns
}

// Membership returns the servers in /zookeeper/config and the change of membership under way. It
// returns nil if their version is known.
func (m *members) Membership(known int64) (*quorum.Membership, int64) {
	if v := m.version.Load(); v == known || v == 0 || m.membership.Parse == nil {
		return nil, known // the loop asks at each tick, and must not wait for mu then
	}
	m.mu.RLock()
	text, _ := m.tree.Membership().Members()
	change, changing := m.tree.Membership().Change()
	version := m.tree.Membership().Version()
	m.mu.RUnlock()
	found := &quorum.Membership{}
	var err error
	if text != "" {
		found.Members, err = m.membership.Parse(text)
	}
	if changing && err == nil {
		found.Change = &quorum.Change{ID: change.ID, Named: change.Named, Patience: changePatience(change.Timeout)}
		if change.Asked && change.Timeout == 0 {
			found.Change.Patience = abandonedTicks
		}
		own := m.own(change.Text)
		found.Change.Replaced = !change.Asked && !change.Named && text == "" && own != "" && own != change.Text
		found.Change.Members, err = m.membership.Parse(change.Text)
	}
	if err != nil {
		m.log.Error("the membership in /zookeeper/config can't be parsed; it is ignored", "err", err)
		return nil, version
	}
	if m.membershipChanged != nil {
		m.membershipChanged()
	}
	return found, version
}

// StagedMembers returns the membership that the change under way asks for, or "" if there is no
// change or its membership is already in force.
func (s *state) StagedMembers() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c, ok := s.tree.Membership().Change(); ok && !c.Named {
		return c.Text
	}
	return ""
}

// Changing reports whether a change of membership is under way.
func (s *state) Changing() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.tree.Membership().Change()
	return ok
}

// A reconfig may wait for new servers to catch up for its session's timeout divided by
// patienceShare. A client gives up after two thirds of the timeout without hearing anything, and
// may have heard nothing for one third when it asks.
const patienceShare = 4

// QuorumTick is the tick of elections and heartbeats.
const QuorumTick = 50 * time.Millisecond

// abandonedTicks is how many quorum ticks a reconfig whose session has ended waits for new servers.
// No client reads its answer; meanwhile no other reconfig is accepted.
const abandonedTicks = 100

// changePatience returns how many quorum ticks a reconfig may wait, given its session's timeout
// (ms).
func changePatience(timeout int32) uint64 {
	if timeout == 0 {
		return 0
	}
	return max(uint64(timeout)/patienceShare/uint64(QuorumTick.Milliseconds()), 1)
}

// changeSteps maps the quorum's steps to the tree's.
var changeSteps = map[quorum.ChangeStep]tree.ChangeStep{
	quorum.ChangeNamed: tree.ChangeNamed, quorum.ChangeDone: tree.ChangeDone, quorum.ChangeDropped: tree.ChangeDropped,
}

// StepChange proposes a step of the change of membership under way. If the ensemble's first membership is dropped, the
// configured one replaces it.
func (m *members) StepChange(id int64, step quorum.ChangeStep) {
	m.proposals.Add(&tree.Request{Op: tree.OpChange, Body: tree.AppendChange(nil, id, changeSteps[step])})
	m.mu.RLock()
	text, _ := m.tree.Membership().Members()
	c, _ := m.tree.Membership().Change()
	m.mu.RUnlock()
	if own := m.own(c.Text); step == quorum.ChangeDropped && c.ID == id && !c.Asked && text == "" && own != "" {
		m.proposals.Add(&tree.Request{Op: tree.OpMembers, Body: []byte(own)})
	}
	m.kick()
}

// own returns the configured membership in the form in which it would replace staged.
func (m *members) own(staged string) string {
	if m.membership.Own == nil {
		return m.membership.Text
	}
	return m.membership.Own(m.membership.Text, staged)
}

// propose proposes the membership that this server was started with, if the tree has none.
// inForce says that raft's voters are the ones that this membership names.
func (m *members) propose(inForce bool) {
	text, _ := m.tree.Membership().Members()
	if _, changing := m.tree.Membership().Change(); text == "" && !changing && m.membership.Text != "" {
		q := tree.Request{Op: tree.OpMembers, Body: []byte(m.membership.Text)}
		if inForce {
			q.Seq = tree.MembersInForce
		}
		m.proposals.Add(&q)
		m.kick()
	}
}

// NamesMembers reports whether an entry establishes a membership (tree.OpMembers).
func NamesMembers(data []byte) bool {
	if len(data) < proposals.DigestSize {
		return false
	}
	records := tree.NewRecords(data[proposals.DigestSize:])
	for q := (tree.Request{}); records.Next(&q); {
		if q.Op == tree.OpMembers {
			return true
		}
	}
	return false
}
