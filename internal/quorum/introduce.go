package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A server that was away while the membership changed may know few of the present members.
// It would refuse a new leader that isn't in its configuration, and so never learn more. So
// each server sends its peers the addresses of the members, as it knows them, on connecting
// and whenever they change. A server accepts from a peer that it knows the addresses of
// servers for which it has none. Only the log decides which servers are members.
//
//	frame    for each member: id(8) address count(1), for each address: length(2) text

const (
	// introducedMax bounds the members of one introduction.
	introducedMax = 1 << 10
	// introducedAddrs bounds the addresses of a member, introducedAddr the bytes of an address.
	introducedAddrs = 16
	introducedAddr  = 512
	// strangersMetMax bounds the servers outside raft's membership to which this server connects because peers introduced
	// them, between two changes of the membership. No change adds as many.
	strangersMetMax = 64
	// levelIntroduces is the lowest feature level at which a server knows this frame.
	levelIntroduces = 2
)

// introduceAll sends the addresses of the members to the present and the former members.
func (r *roster) introduceAll(before []Member) {
	for _, m := range before {
		if !slices.ContainsFunc(r.wanted, func(k Member) bool { return k.ID == m.ID }) {
			r.introduce(m.ID)
		}
	}
	for _, m := range r.wanted {
		r.introduce(m.ID)
	}
}

// introduce sends a peer the members' addresses.
func (r *roster) introduce(to uint64) {
	if to != r.id && r.levels.of(to) >= levelIntroduces {
		r.shell.Send(to, FrameMembers, appendIntroduction(nil, r.membersKnown()))
	}
}

// membersKnown returns the members that were decided and the former ones that raft's
// membership still holds.
func (r *roster) membersKnown() []Member {
	return slices.Concat(r.membersNamed(), r.former)
}

// introduced handles a peer's introduction.
func (r *roster) introduced(payload []byte) error {
	members, err := readIntroduction(payload)
	if err != nil {
		return err
	}
	members = slices.DeleteFunc(members, func(m Member) bool {
		return m.ID == r.id || slices.ContainsFunc(r.membersKnown(), func(k Member) bool { return k.ID == m.ID })
	})
	members = slices.DeleteFunc(members, func(m Member) bool { return !r.mayMeet(m.ID) })
	if len(members) > 0 {
		r.shell.AddPeers(members)
		r.strays.note(members)
		// This server may lack addresses of servers in raft's membership: a snapshot may have brought that membership.
		for _, m := range members {
			if contains(r.conf, m.ID) {
				r.former = append(r.former, m)
			}
		}
		r.keep()
	}
	return nil
}

func appendIntroduction(b []byte, members []Member) []byte {
	for _, m := range members[:min(len(members), introducedMax)] {
		if len(b) >= smallFrameSizeMax-AnnouncementMax {
			break
		}
		addrs := m.Addrs[:min(len(m.Addrs), introducedAddrs)]
		b = append(binary.BigEndian.AppendUint64(b, m.ID), byte(len(addrs)))
		for _, a := range addrs {
			a = a[:min(len(a), introducedAddr)]
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(a))), a...)
		}
	}
	return b
}

var (
	errIntroduction = errors.New("it is cut short")
	errNobody       = errors.New("it names a server without an id")
)

func readIntroduction(b []byte) (members []Member, err error) {
	for len(b) > 0 {
		if len(b) < 9 || len(members) == introducedMax {
			return nil, errIntroduction
		}
		m := Member{ID: binary.BigEndian.Uint64(b)}
		n := int(b[8])
		if m.ID == 0 { // not a server id: a corrupt roster file may hold it
			return nil, errNobody
		}
		if b = b[9:]; n > introducedAddrs {
			return nil, fmt.Errorf("server %d has %d addresses; at most %d", m.ID, n, introducedAddrs)
		}
		for range n {
			if len(b) < 2 {
				return nil, errIntroduction
			}
			size := int(binary.BigEndian.Uint16(b))
			if b = b[2:]; size > introducedAddr || size > len(b) {
				return nil, errIntroduction
			}
			m.Addrs = append(m.Addrs, string(b[:size]))
			b = b[size:]
		}
		members = append(members, m)
	}
	return members, nil
}
