package files

import (
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// DigestVersion is the version of Apache's digest that this package computes. Versions before 3.6.0 write no digest,
// and the first 3.6 releases write another version.
const DigestVersion = 2

// statBytes is the size of a stored Stat.
const statBytes = 60

// A Stat is a znode's Stat as Apache stores it.
type Stat struct {
	Czxid, Mzxid, Pzxid int64
	Ctime, Mtime        int64
	Version             int32
	Cversion            int32 // number of children ever created; clients see a value derived from it
	Aversion            int32
	Owner               int64 // ephemeralOwner, see readOwner
}

// Visible returns what clients see of a Stat. session is the owner of an ephemeral znode, else 0.
func (s *Stat) Visible(session int64, data []byte, children int32) jute.Stat {
	return jute.Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Ctime: s.Ctime, Mtime: s.Mtime, Version: s.Version,
		Cversion: 2*s.Cversion - children, Aversion: s.Aversion, EphemeralOwner: session,
		DataLength: int32(len(data)), NumChildren: children, Pzxid: s.Pzxid,
	}
}

// NodeDigest returns a znode's contribution to Apache's digest of the tree, which is the sum of all contributions:
//
//	crc32(path, "" for the root | data | czxid | mzxid | pzxid | ctime | mtime | version | cversion | aversion | owner)
//
// ACLs aren't included, and znodes below /zookeeper contribute 0.
func NodeDigest(path string, data []byte, s *Stat) uint64 {
	if strings.HasPrefix(path, zookeeper+"/") {
		return 0
	}
	var room [256]byte
	b := append(room[:0], strings.TrimSuffix(path, "/")...)
	crc := crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, data)
	b = b[:0]
	for _, v := range [...]int64{s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range [...]int32{s.Version, s.Cversion, s.Aversion} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(s.Owner))
	return uint64(crc32.Update(crc, crc32.IEEETable, b))
}
