package files

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
// Apache checks the last five bytes of an uncompressed file first, so its end is known to be complete. Of a compressed
// file it reads no more than it needs: see end and seal.
const (
	snapshotMagic = 0x5a4b534e
	openACL       = -1 // id of the ACL that isn't in the list
	sealBytes     = 8 + 5
	zxidBytes     = 8 + sealBytes
	digestBytes   = 8 + 4 + 8 + sealBytes

	// tailBytesMax bounds what follows the first seal.
	tailBytesMax = 4 << 10
)

// snapshotEnd is what follows the first seal.
type snapshotEnd struct {
	zxid    int64 // at which the digest was taken
	version int32
	digest  uint64
	there   bool
	damage  error // of the compressed form, behind everything that counts
}

// snapshotReader reads one snapshot into a State.
type snapshotReader struct {
	*stream
	state  *State
	acls   map[int64]*ACL
	parent *Znode // parent of the previous znode
	step   func(znodes int)
}

// readSnapshot reads a snapshot's content, decompressed if its file was compressed. The error describes what is wrong
// at offset.
func readSnapshot(r io.Reader, step func(znodes int)) (s *State, end snapshotEnd, offset int64, err error) {
	read := snapshotReader{stream: newSealed(r), state: newState(), acls: map[int64]*ACL{}, step: step}
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
		return errors.New("it doesn't begin with ZKSN, as a snapshot does")
	}
	return nil // Apache ignores the rest too
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

// progressStep is how many znodes or transactions are read between two calls of Progress.
const progressStep = 8192

func (r *snapshotReader) znode(path string) error {
	z := Znode{Path: path}
	if path != "" {
		if path[0] != '/' {
			return fmt.Errorf("%q isn't a path", path)
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
	z.ACL = r.acls[int64(binary.BigEndian.Uint64(b))] // nil until a replayed create provides it
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

// seal compares the checksum of everything read so far with the stored one. A mark follows: Apache reads it as a string
// and ignores its value, after it has looked at the last mark of an uncompressed snapshot: see tryTail.
func (r *snapshotReader) seal() error {
	sum := r.checksum()
	found, err := r.long()
	if err != nil {
		return err
	}
	if found != int64(sum) {
		return fmt.Errorf("its checksum is %#x, but the bytes before it have %#x", uint64(found), sum)
	}
	_, err = r.buffer()
	return err
}

// errLastZxid says that a snapshot is whole up to the digest, and damaged after it. Apache 3.9 refuses such a snapshot;
// older versions don't read that far. Nothing in the file tells which version wrote it.
var errLastZxid = errors.New("behind the digest")

// end reads what follows the first seal. Its length tells its parts: whether servers write a digest and a zxid depends
// on their version and configuration. A compressed snapshot may have been cut or damaged there. Apache accepts one that
// ends within the first bytes of its digest or its zxid, since older versions write neither. Whether Apache notices
// damage behind what its version reads depends on how far it has decompressed. Everything that counts is sealed before
// such damage, so it is only reported.
func (r *snapshotReader) end() (e snapshotEnd, err error) {
	rest, err := r.rest(tailBytesMax)
	if err != nil && !isCompressionDamage(err) {
		return e, err
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		e.damage = err
	}
	left := len(rest)
	if left < digestBytes-sealBytes {
		return e, nil
	}
	if left != zxidBytes {
		if err := r.digest(&e); err != nil {
			return e, err
		}
		rest, _ = r.rest(tailBytesMax)
		left = len(rest)
		if left > zxidBytes && e.damage == nil {
			e.damage = fmt.Errorf("%d bytes follow its digest", left)
		}
		if left < 8 || e.damage != nil {
			return e, nil
		}
	}
	if _, err = r.take(8); err == nil {
		err = r.seal()
	}
	if err != nil && e.there {
		err = fmt.Errorf("%w: %w", errLastZxid, err)
	}
	return e, err
}

// digest reads the digest and its seal.
func (r *snapshotReader) digest(e *snapshotEnd) error {
	b, err := r.take(digestBytes - sealBytes)
	if err != nil {
		return err
	}
	e.zxid, e.version = int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))
	e.digest, e.there = binary.BigEndian.Uint64(b[12:]), true
	return r.seal()
}
