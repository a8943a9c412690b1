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
)

// Servers without a configured secret agree on one. Each creates a candidate. Every two
// servers meet now and then, and both keep the lower of their candidates, with those they
// held before. A server adopts its candidate when every member has told it that it holds the
// same: from then on it talks only to servers that know the secret. The others learn of it
// when they next ask that server (modeTry), or it asks them (modeSecret).
//
// There is one secret, in whatever order servers meet: a server that adopts S heard from
// each member that it held S, and held nothing lower itself. Another server that adopts a
// lower S' heard the same from this one, which then would have held S' and not adopted S.
//
// A server of an older version doesn't take part. While there is one among the members,
// nothing is adopted, and connections without a secret are accepted; see decision 009.
//
//	either side    its candidate(32); the listener's comes second, and is the lower

// agreePause is the time between two rounds.
const agreePause = 500 * time.Millisecond

// agree meets the other servers until there is a secret.
func (t *transport) agree() {
	if t.secure.Client != nil {
		return // certificates prove who they are
	}
	for first := true; !t.keys.secured(); first = false {
		waiting, err := t.meetAll()
		if err != nil && t.logRate.due("agree "+err.Error(), time.Now()) {
			t.log.Error("the servers can't agree on a secret", "err", err)
		}
		if text := strings.Join(waiting, "; "); !first && len(waiting) > 0 && t.logRate.due("agree "+text, time.Now()) {
			t.log.Warn("the servers have not agreed on a secret yet: until all have met, whoever reaches the peer port may say that it is a server of an older version", "waiting", text)
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

// meetAll makes one round and adopts the candidate that all members hold. waiting says which
// servers it waits for.
func (t *transport) meetAll() (waiting []string, err error) {
	t.mu.Lock()
	members := t.members
	t.mu.Unlock()
	if !slices.ContainsFunc(members, func(m quorum.Member) bool { return m.ID == t.id }) {
		return nil, nil // it has left, or has yet to join
	}
	if _, err := t.keys.choice(); err != nil {
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
	if t.keys.secured() || len(waiting) > 0 || t.ctx.Err() != nil {
		return waiting, nil
	}
	ours, err := t.keys.choice()
	if err != nil {
		return nil, notAgreed(err)
	}
	for _, m := range members {
		if m.ID != t.id && held[m.ID] != ours {
			return nil, nil // one more round
		}
	}
	return nil, t.keys.adopt(ours)
}

// notAgreed drops errAgreed, which ends the rounds and isn't a failure.
func notAgreed(err error) error {
	if errors.Is(err, errAgreed) {
		return nil
	}
	return err
}

// meet exchanges candidates with a member, and returns which it holds now.
func (t *transport) meet(m quorum.Member) (theirs Secret, err error) {
	err = errors.New("it has no address")
	for _, addr := range m.Addrs {
		var c greeted
		if c, err = t.greet(t.ctx, addr, hello{connMeet, t.cluster, t.id, m.ID}, true); err != nil {
			continue
		}
		if c.legacy || t.keys.secured() {
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

// exchange is a meeting from the dialler's side.
func (t *transport) exchange(c net.Conn) (theirs Secret, err error) {
	ours, err := t.keys.choice()
	if err != nil {
		return theirs, err
	}
	if _, err := c.Write(ours[:]); err != nil {
		return theirs, err
	}
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return theirs, err
	}
	_, err = t.keys.merge(theirs)
	return theirs, err
}

// met is a meeting from the listener's side.
func (t *transport) met(a arrival) {
	var theirs Secret
	if a.mode != modePair || t.keys.secured() {
		return // nothing to agree on
	}
	if _, err := io.ReadFull(a, theirs[:]); err != nil {
		return
	}
	ours, err := t.keys.merge(theirs)
	if errors.Is(err, errAgreed) {
		return
	}
	if err != nil {
		t.log.Error("the servers can't agree on a secret", "err", err)
		return
	}
	a.Write(ours[:])
}

// dropLegacy ends the connections on which nobody has proven anything.
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

// setMembers takes note of the membership. A server that reconfig has added may have
// the secret for a while: the membership was decided by somebody who may decide it.
func (t *transport) setMembers(members []quorum.Member) {
	t.mu.Lock()
	before := t.members
	t.members = members
	t.mu.Unlock()
	t.addPeers(members)
	for _, m := range members {
		if before != nil && !slices.ContainsFunc(before, func(b quorum.Member) bool { return b.ID == m.ID }) {
			t.keys.admit(m.ID)
			t.moved(m)
		}
	}
}
