package apachefiles

import (
	"encoding/binary"

	"github.com/zooid-project/zooid/jute"
)

// A znode's ephemeralOwner, as Apache stores it, says what its life depends on:
//
//	0                            nothing
//	0x8000000000000000           it is a container
//	0xff | 0x0000 | 40 bits      it is a TTL znode, with that TTL in milliseconds
//	anything else                the id of its session
//
// Apache reads the third form so only with extendedTypesEnabled, without which no such
// znode can be created. Version 3.5.3 wrote TTLs as 0x8000000000000000 | TTL, which
// later ones read with emulate353TTLNodes.
const (
	ownerContainer = -1 << 63
	ownerTTL       = 0xff << 56
	ownerTTLMask   = 1<<40 - 1
)

// An Owner is what an ephemeralOwner says.
type Owner struct {
	Container bool
	TTL       int64 // milliseconds; 0 for none
	Session   int64 // 0 for none
}

// readOwner tells what a stored ephemeralOwner says. emulate353 is emulate353TTLNodes, known
// tells which sessions there are: a server whose id is 255 gives them ids that look like TTLs.
func readOwner(owner int64, emulate353 bool, known func(session int64) bool) Owner {
	switch {
	case owner == 0:
		return Owner{}
	case owner == ownerContainer:
		return Owner{Container: true}
	case emulate353 && owner < 0:
		return Owner{TTL: owner &^ ownerContainer}
	case uint64(owner)>>40 == ownerTTL>>40 && owner&ownerTTLMask != 0 && !known(owner):
		return Owner{TTL: owner & ownerTTLMask}
	}
	return Owner{Session: owner}
}

// Owner tells what a znode's ephemeralOwner says.
func (s *State) Owner(z *Znode, emulate353 bool) Owner {
	return readOwner(z.Stat.Owner, emulate353, func(id int64) bool { _, ok := s.Sessions[id]; return ok })
}

// Stored returns the ephemeralOwner that Apache stores.
func (o Owner) Stored() int64 {
	switch {
	case o.Container:
		return ownerContainer
	case o.TTL != 0:
		return int64(-1<<56 | o.TTL&ownerTTLMask)
	}
	return o.Session
}

// Passwd returns the password of a session of Apache's, which follows from its id: 16 bytes
// of Java's random generator, begun with the id and a constant.
func Passwd(session int64) (passwd [jute.PasswdSize]byte) {
	const (
		secret     = 0xB3415C00
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask
	for i := 0; i < len(passwd); i += 4 {
		seed = (seed*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(passwd[i:], uint32(seed>>16))
	}
	return passwd
}
