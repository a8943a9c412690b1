package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zooid-project/zooid/jute"
)

// A snapshot, before it is compressed:
//
//	"ZKSN" | int version 2 | long database -1
//	int sessions | sessions * (long id | int timeout)
//	int ACLs     | ACLs * (long id | vector<ACL>)
//	znodes: ustring path | buffer data | long id of the ACL | Stat, parents first, the root's path is ""
//	ustring "/"
//	long Adler-32 of all before it | ustring "/"                        the seal
//	since 3.6: long zxid | int digest version | long digest | a seal    unless digest.enabled=false
//	since 3.9: long zxid | a seal                                       unless switched off
//
// The checksum of a later seal is of everything before it, earlier seals included.
//
// Of a plain file Apache looks at the last five bytes first, so its end is known to be there. Of a compressed one it
// reads no more than it needs: see cutEnd and seal.
const (
	snapshotMagic = 0x5a4b534e
	openACL       = -1 // id of the ACL that is in no list
	sealBytes     = 8 + 5
	zxidBytes     = 8 + sealBytes
	digestBytes   = 8 + 4 + 8 + sealBytes

	// tailBytesMax bounds what may follow the first seal.
	tailBytesMax = 4 << 10
)

// snapshotEnd is what follows the first seal.
type snapshotEnd struct {
	zxid    int64 // at which the digest holds
	version int32
	digest  uint64
	there   bool
}

// snapshotReader reads one snapshot into a State.
type snapshotReader struct {
	*stream
	compressed bool
	state      *State
	acls       map[int64]*ACL
	parent     *Znode // of the znode before
	step       func(znodes int)
}

// readSnapshot reads a snapshot's content, which is decompressed already if its file was compressed. The error says
// what is wrong at the stream's offset.
func readSnapshot(r io.Reader, compressed bool, step func(znodes int)) (s *State, end snapshotEnd, offset int64, err error) {
	read := snapshotReader{stream: newSealed(r), compressed: compressed, state: newState(), acls: map[int64]*ACL{}, step: step}
	read.acls[openACL] = read.state.open
	for _, part := range []func() error{read.head, read.sessions, read.lists, read.znodes, read.seal} {
		if err := part(); err != nil {
			return nil, end, read.offset(), err
		}
	}
	if end, err = read.end(); err != nil {
		return nil, end, read.offset(), err
	}
	return read.state, end, 0, nil
}

func (r *snapshotReader) head() error {
	b, err := r.take(16)
	switch {
	case err != nil:
		return err
	case binary.BigEndian.Uint32(b) != snapshotMagic:
		return errors.New("it doesn't begin with ZKSN, as snapshots do")
	}
	return nil // Apache doesn't look at the rest either
}

func (r *snapshotReader) sessions() error {
	count, err := r.int()
	if err != nil {
		return err
	}
	for range count {
		b, err := r.take(12)
		if err != nil {
			return err
		}
		r.state.Sessions[int64(binary.BigEndian.Uint64(b))] = int32(binary.BigEndian.Uint32(b[8:]))
	}
	return nil
}

func (r *snapshotReader) lists() error {
	count, err := r.int()
	if err != nil {
		return err
	}
	for range count {
		id, err := r.long()
		if err != nil {
			return err
		}
		encoded, err := r.list()
		if err != nil {
			return err
		}
		r.acls[id] = r.state.sharedACL(encoded)
	}
	return nil
}

// list reads a vector of ACL and returns its bytes.
func (r *snapshotReader) list() ([]byte, error) {
	entries, err := r.int()
	if err != nil {
		return nil, err
	}
	encoded := jute.AppendInt(nil, entries)
	for range entries {
		perms, err := r.int()
		if err != nil {
			return nil, err
		}
		encoded = jute.AppendInt(encoded, perms)
		for range 2 { // scheme and id
			text, err := r.buffer()
			if err != nil {
				return nil, err
			}
			encoded = jute.AppendBuffer(encoded, text)
		}
	}
	return encoded, nil
}

func (r *snapshotReader) znodes() error {
	for count := 1; ; count++ {
		path, err := r.buffer()
		if err != nil {
			return err
		}
		if string(path) == "/" {
			break
		}
		if err := r.znode(string(path)); err != nil {
			return err
		}
		if r.step != nil && count%progressStep == 0 {
			r.step(count)
		}
	}
	if r.state.nodes[""] == nil {
		return errors.New("there is no root")
	}
	return nil
}

// progressStep is how many znodes or transactions are read between two calls about progress.
const progressStep = 8192

func (r *snapshotReader) znode(path string) error {
	z := Znode{Path: path}
	if path != "" {
		if path[0] != '/' {
			return fmt.Errorf("%q is no path", path)
		}
		parent, _ := SplitPath(path)
		if r.parent == nil || r.parent.Path != parent {
			if r.parent = r.state.nodes[parent]; r.parent == nil {
				return fmt.Errorf("the znode %q comes before its parent, or has none", path)
			}
		}
		z.parent = r.parent
	}
	data, err := r.buffer()
	if err != nil {
		return err
	}
	z.Data = r.state.keep(data)
	b, err := r.take(8 + statBytes)
	if err != nil {
		return err
	}
	z.ACL = r.acls[int64(binary.BigEndian.Uint64(b))] // nil until a create that is replayed says what it is
	z.Stat = parseStat(b[8:])
	r.state.put(z)
	return nil
}

func parseStat(b []byte) Stat {
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	return Stat{
		Czxid: long(0), Mzxid: long(8), Ctime: long(16), Mtime: long(24),
		Version: int32(binary.BigEndian.Uint32(b[32:])), Cversion: int32(binary.BigEndian.Uint32(b[36:])),
		Aversion: int32(binary.BigEndian.Uint32(b[40:])), Owner: long(44), Pzxid: long(52),
	}
}

func (s *Stat) append(b []byte) []byte {
	for _, v := range [...]int64{s.Czxid, s.Mzxid, s.Ctime, s.Mtime} {
		b = jute.AppendLong(b, v)
	}
	for _, v := range [...]int32{s.Version, s.Cversion, s.Aversion} {
		b = jute.AppendInt(b, v)
	}
	return jute.AppendLong(jute.AppendLong(b, s.Owner), s.Pzxid)
}

// sealMark follows each checksum.
const sealMark = "\x00\x00\x00\x01/"

// seal compares the checksum of all that was read with the one that follows.
func (r *snapshotReader) seal() error {
	sum := r.checksum()
	b, err := r.take(sealBytes)
	if err != nil {
		return err
	}
	if found := binary.BigEndian.Uint64(b); found != uint64(sum) {
		return fmt.Errorf("its checksum is %#x; that of what is before it is %#x", found, sum)
	}
	if string(b[8:]) == sealMark || r.compressed && r.looseMark(int32(binary.BigEndian.Uint32(b[8:]))) {
		return nil
	}
	return errors.New("its checksum isn't followed by the mark of an end")
}

// looseMark reports whether Apache takes a mark that isn't sealMark and has another length, or another byte. It reads a
// string there and doesn't look at it; a checksum that follows finds the difference, so it must be the last one.
func (r *snapshotReader) looseMark(length int32) bool {
	rest, err := r.rest(0)
	return err == nil && len(rest) == 0 && length >= -1 && length <= 1
}

// end reads what follows the first seal, which is told by its length: servers write it or
// not as they are configured.
func (r *snapshotReader) end() (e snapshotEnd, err error) {
	rest, err := r.rest(tailBytesMax)
	left := len(rest)
	if err != nil && !(r.compressed && behindContent(err, left >= digestBytes-sealBytes)) {
		return e, err
	}
	if r.compressed {
		left = cutEnd(left)
	}
	switch left {
	case 0, zxidBytes, digestBytes, digestBytes + zxidBytes:
	default:
		return e, fmt.Errorf("%d bytes follow the znodes' checksum; that is neither a digest nor a zxid", left)
	}
	if left >= digestBytes {
		b, err := r.take(digestBytes - sealBytes)
		if err != nil {
			return e, err
		}
		e = snapshotEnd{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint64(b[12:]), true}
		if err := r.seal(); err != nil {
			return e, err
		}
	}
	if left%digestBytes == zxidBytes {
		if _, err := r.take(8); err != nil {
			return e, err
		}
		return e, r.seal()
	}
	return e, nil
}

// cutEnd returns how many of the bytes count that follow the first seal of a compressed snapshot, which may have been
// cut. Apache takes a snapshot that ends within its digest or its zxid for one that has none, since older versions
// write none, and doesn't read what compression has put behind the content. A seal that isn't whole is damage. Damage
// at the compressed form's end may look like more content, which only 3.9 may read: all that counts is sealed before
// it.
func cutEnd(left int) int {
	switch {
	case left < digestBytes-sealBytes:
		return 0
	case left > digestBytes && left < digestBytes+8, left > digestBytes+zxidBytes:
		return digestBytes
	}
	return left
}
