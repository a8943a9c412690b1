package files

import (
	"encoding/binary"

	"github.com/zooid-project/zooid/jute"
)

// A znode's ephemeralOwner, as Apache stores it, determines the znode's lifetime:
//
//	0                            nothing
//	0x8000000000000000           it is a container
//	0xff | 0x0000 | 40 bits      it is a TTL znode, with that TTL in milliseconds
//	anything else                the id of its session
//
// Apache interprets the third form only with extendedTypesEnabled, without which no such znode can be created. Version
// 3.5.3 wrote TTLs as 0x8000000000000000 | TTL, which later versions read with emulate353TTLNodes.
const (
	ownerContainer = -1 << 63
	ownerTTL       = 0xff << 56
	ownerTTLMask   = 1<<40 - 1
)

// An Owner is a decoded ephemeralOwner.
type Owner struct {
	Container bool
	TTL       int64 // milliseconds; 0 for none
	Session   int64 // 0 for none
}

// readOwner decodes a stored ephemeralOwner. emulate353 is emulate353TTLNodes. known reports whether a session exists:
// the session ids of a server with id 255 look like TTLs.
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

// Owner decodes a znode's ephemeralOwner.
func (s *State) Owner(z *Znode, emulate353 bool) Owner {
	return readOwner(z.Stat.Owner, emulate353, func(id int64) bool { _, ok := s.Sessions[id]; return ok })
}

// Stored returns the encoded ephemeralOwner.
func (o Owner) Stored() int64 {
	switch {
	case o.Container:
		return ownerContainer
	case o.TTL != 0:
		return int64(-1<<56 | o.TTL&ownerTTLMask)
	}
	return o.Session
}

// Passwd returns the password of an Apache session, which is derived from its id: 16 bytes of Java's random generator,
// seeded with the id and a constant.
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
