package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// Servers without a configured secret agree on one. Each server creates a candidate. Every two
// servers meet regularly, and each adopts the lower of their two candidates as its own; it also
// keeps its earlier ones. A server adopts its candidate as the secret when every member has said
// that it holds the same candidate. From then on it talks only to servers that know the secret. The
// others learn of the adoption when they next connect to that server (handshake.ModeTry), or that
// server to them (handshake.ModeSecret).
//
// All servers adopt the same secret, in whatever order they meet. Suppose that one server adopts S,
// and another a lower S'. The first has heard from each member that it held S, and held nothing
// lower itself. The second has heard from the first that it held S'. But then the first would not
// have adopted S.
//
// A server of an older version doesn't take part. While one is among the members, no
// secret is adopted, and connections without a secret are accepted; see decision 009.
//
//	either side    its candidate(32); the listener's comes second, and is the lower one

// agreePause is the time between two rounds.
const agreePause = 500 * time.Millisecond

// passes says which process counts as a server before there is a secret.
func (t *transport) passes() string {
	switch {
	case t.secure.Client == nil:
		return "whoever answers at the address of a server passes for it"
	case t.secure.Named:
		return "whoever holds a server's certificate for the host of a server passes for it"
	}
	return "whoever holds a server's certificate passes for any of them"
}

// agree meets the other servers until this server knows the secret.
func (t *transport) agree() {
	for first := true; !t.keys.Secured(); first = false {
		waiting, err := t.meetAll()
		if err != nil && t.logRate.Due("agree "+err.Error(), time.Now()) {
			t.log.Error("the servers can't agree on a secret", "err", err)
		}
		if text := strings.Join(waiting, "; "); !first && len(waiting) > 0 && t.logRate.Due("agree "+text, time.Now()) {
			t.log.Warn("the servers have not agreed on a secret yet", "waiting", text, "until all have met", t.passes())
		}
		select {
		case <-time.After(agreePause):
		case <-t.ctx.Done():
			return
		}
	}
	t.log.Info("this server knows the ensemble's secret: it talks to no peer that doesn't")
	t.dropLegacy()
}

// meetAll makes one round of meetings, and adopts this server's candidate if all members
// hold it. waiting says which servers could not be met, and why.
func (t *transport) meetAll() (waiting []string, err error) {
	t.mu.Lock()
	members := t.members
	t.mu.Unlock()
	if !slices.ContainsFunc(members, func(m quorum.Member) bool { return m.ID == t.id }) {
		return nil, nil // this server has left, or hasn't joined yet
	}
	if _, err := t.keys.Choice(); err != nil {
		return nil, notAgreed(err)
	}
	held := map[uint64]Secret{}
	for _, m := range members {
		if m.ID == t.id {
			continue
		}
		theirs, err := t.meet(m)
		if err != nil {
			waiting = append(waiting, fmt.Sprintf("server %d: %v", m.ID, err))
			continue
		}
		held[m.ID] = theirs
	}
	if t.keys.Secured() || t.ctx.Err() != nil {
		return nil, nil
	}
	if len(waiting) > 0 {
		return waiting, nil
	}
	ours, err := t.keys.Choice()
	if err != nil {
		return nil, notAgreed(err)
	}
	for _, m := range members {
		if m.ID != t.id && held[m.ID] != ours {
			return nil, nil // needs one more round
		}
	}
	return nil, t.keys.Adopt(ours)
}

// notAgreed returns err, or nil for handshake.ErrAgreed, which ends the rounds and isn't a failure.
func notAgreed(err error) error {
	if errors.Is(err, handshake.ErrAgreed) {
		return nil
	}
	return err
}

// meet exchanges candidates with a member, and returns the candidate that the member holds now.
func (t *transport) meet(m quorum.Member) (theirs Secret, err error) {
	err = errors.New("it has no address")
	for _, addr := range m.Addrs {
		var c greeted
		if c, err = t.greet(t.ctx, addr, hello{connMeet, t.cluster, t.id, m.ID}, true); err != nil {
			continue
		}
		if t.keys.Secured() { // greet may learn the secret from a member that has adopted it
			c.Close()
			return theirs, handshake.ErrAgreed
		}
		if c.legacy {
			c.Close()
			return theirs, errors.New("it is of an older version")
		}
		c.SetDeadline(time.Now().Add(handshakeTimeout))
		theirs, err = t.exchange(c)
		c.Close()
		if err == nil {
			return theirs, nil
		}
	}
	return theirs, err
}

// exchange exchanges candidates as the dialler of a meeting.
func (t *transport) exchange(c net.Conn) (theirs Secret, err error) {
	ours, err := t.keys.Choice()
	if err != nil {
		return theirs, err
	}
	if _, err := c.Write(ours[:]); err != nil {
		return theirs, err
	}
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return theirs, err
	}
	_, err = t.keys.Merge(theirs)
	return theirs, err
}

// met exchanges candidates as the listener of a meeting.
func (t *transport) met(a arrival) {
	var theirs Secret
	if a.mode != handshake.ModePair || t.keys.Secured() {
		return // nothing to agree on
	}
	if _, err := io.ReadFull(a, theirs[:]); err != nil {
		return
	}
	ours, err := t.keys.Merge(theirs)
	if errors.Is(err, handshake.ErrAgreed) {
		return
	}
	if err != nil {
		t.log.Error("the servers can't agree on a secret", "err", err)
		return
	}
	a.Write(ours[:])
}

// setLevel records the feature level in force. At the level at which all servers prove their identity, it closes the
// connections of those that haven't.
func (t *transport) setLevel(level uint32) {
	if before := t.inForce.Swap(level); before < levelProof && level >= levelProof {
		t.dropLegacy()
	}
}

// dropLegacy closes the connections of servers that have not proven their identity.
func (t *transport) dropLegacy() {
	t.gate.dropLegacy()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.remotes { // any order: all of them
		r.mu.Lock()
		if r.conn != nil && r.legacy {
			r.conn.Close()
		}
		r.mu.Unlock()
	}
}

// setMembers sets the membership. A server that reconfig has added gets the secret if it
// asks within admitWindow, because changing the membership requires authorization.
func (t *transport) setMembers(members []quorum.Member) {
	t.mu.Lock()
	before := t.members
	t.members = members
	t.mu.Unlock()
	t.addPeers(members)
	for _, m := range members {
		if before != nil && !slices.ContainsFunc(before, func(b quorum.Member) bool { return b.ID == m.ID }) {
			t.keys.Admit(m.ID)
			t.moved(m)
		}
	}
}
