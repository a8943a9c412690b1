package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A record of a log:
//
//	long session | int cxid | long zxid | long time in ms | int type | body | since 3.6 int digest version, long digest
type txn struct {
	session  int64
	zxid, ms int64
	op       jute.Op
	body     []byte // including the digest after it
}

const (
	txnHeadBytes   = 8 + 4 + 8 + 8 + 4
	txnDigestBytes = 4 + 8
	opError        = jute.Op(-1)
)

func parseTxn(record []byte) (t txn, err error) {
	if len(record) < txnHeadBytes {
		return t, fmt.Errorf("a transaction of %d bytes", len(record))
	}
	be := binary.BigEndian
	return txn{
		session: int64(be.Uint64(record)), zxid: int64(be.Uint64(record[12:])),
		ms: int64(be.Uint64(record[20:])), op: jute.Op(be.Uint32(record[28:])), body: record[txnHeadBytes:],
	}, nil
}

// SameTxn reports whether two records are of the same transaction: whether they are equal, except for what Apache's
// servers change when they pass a transaction on.
//
//   - Servers on which digests are off leave the digest out. If both records have a digest, the digests must be equal:
//     after the same transactions the trees are the same.
//   - A server that applies a failed multi sets the types of all its operations to error, in the copy of the
//     transaction that it keeps in memory for its followers. Its log has the types as they were proposed.
func SameTxn(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b) == len(a)+txnDigestBytes && len(a) >= txnHeadBytes {
		b = b[:len(a)]
	}
	return bytes.Equal(a, b) || len(a) == len(b) && bytes.Equal(failedMulti(a), failedMulti(b))
}

// failedMulti returns record, with the types of all operations set to error if record is of a multi in which one
// failed.
func failedMulti(record []byte) []byte {
	t, err := parseTxn(record)
	if err != nil || t.op != jute.OpMulti {
		return record
	}
	var d jute.Decoder
	d.Reset(t.body)
	var types []int // where they are in record
	failed := false
	for range max(d.Count(8), 0) {
		types = append(types, len(record)-d.Remaining())
		failed = jute.Op(d.Int()) == opError || failed
		d.Buffer()
	}
	if d.Err() != nil || !failed {
		return record
	}
	record = bytes.Clone(record)
	for _, at := range types {
		copy(record[at:], jute.AppendInt(nil, int32(opError)))
	}
	return record
}

// DescribeTxn says for an error message what a record holds, without any data of znodes.
func DescribeTxn(record []byte) string {
	t, err := parseTxn(record)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v of session %#x at %s in %d bytes", t.op, uint64(t.session),
		time.UnixMilli(t.ms).UTC().Format("2006-01-02 15:04:05.000"), len(record))
}

// txnDigest is the digest of the tree after a transaction, as recorded with it.
type txnDigest struct {
	version int32
	digest  uint64
	there   bool
}

// apply replays a transaction. An error means that its bytes are invalid.
func (s *State) apply(t *txn) (txnDigest, error) {
	var d jute.Decoder
	d.Reset(t.body)
	var err error
	switch t.op {
	case jute.OpCreateSession:
		timeout := d.Int()
		if d.Err() == nil {
			s.Sessions[t.session] = timeout
		}
	case jute.OpCloseSession:
		s.closeSession(t, &d)
	case jute.OpMulti:
		err = s.applyMulti(t, &d)
	default:
		err = s.applyOne(t, &d)
	}
	if err == nil {
		err = d.Err()
	}
	if err != nil {
		return txnDigest{}, fmt.Errorf("transaction %#x of type %d: %w", uint64(t.zxid), t.op, err)
	}
	if t.zxid >= s.Zxid {
		s.Zxid, s.Time = t.zxid, t.ms
	}
	if d.Remaining() < txnDigestBytes {
		return txnDigest{}, nil // written by a version without digests
	}
	return txnDigest{d.Int(), uint64(d.Long()), true}, nil
}

// applyOne replays an operation, alone or in a multi.
func (s *State) applyOne(t *txn, d *jute.Decoder) error {
	switch t.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateTTL, jute.OpCreateContainer:
		return s.applyCreate(t, d)
	case jute.OpDelete, jute.OpDeleteContainer:
		path := d.String()
		if d.Err() == nil {
			s.delete(path, t.zxid)
		}
	case jute.OpSetData, jute.OpReconfig:
		path, data, version := d.String(), d.Buffer(), d.Int()
		if d.Err() == nil {
			s.setData(path, s.keep(data), version, t.zxid, t.ms)
		}
	case jute.OpSetACL:
		path := d.String()
		acl, version := s.decodeACL(d), d.Int()
		if d.Err() == nil {
			s.setACL(path, acl, version)
		}
	case jute.OpCheck:
		_, _ = d.String(), d.Int()
	case opError:
		d.Int()
	default:
		return errors.New("no version of Apache up to 3.9 writes this type")
	}
	return nil
}

// applyCreate replays a create. The first logs of 3.4 have creates without the parent's cversion.
func (s *State) applyCreate(t *txn, d *jute.Decoder) error {
	c := createTxn{path: d.String(), data: d.Buffer(), acl: s.decodeACL(d), cversion: anyCversion, zxid: t.zxid, ms: t.ms}
	ephemeral := t.op != jute.OpCreateTTL && t.op != jute.OpCreateContainer && d.Bool()
	if d.Err() == nil && (t.op != jute.OpCreate || d.Remaining() >= 4) {
		c.cversion = d.Int()
	}
	switch {
	case ephemeral:
		c.owner = t.session
	case t.op == jute.OpCreateTTL:
		c.owner = Owner{TTL: d.Long()}.Stored()
	case t.op == jute.OpCreateContainer:
		c.owner = ownerContainer
	}
	if d.Err() != nil {
		return nil // the caller checks d.Err
	}
	if c.path == "" || c.path[0] != '/' || c.path == "/" {
		return fmt.Errorf("it creates %q, which isn't a path", c.path)
	}
	c.path, c.data = s.keepText(c.path), s.keep(c.data)
	s.create(&c)
	return nil
}

// decodeACL reads a vector of ACL.
func (s *State) decodeACL(d *jute.Decoder) *ACL {
	rest, begin := d.Rest(), d.Offset()
	for range max(d.Count(12), 0) {
		d.Int()
		_, _ = d.String(), d.String()
	}
	if d.Err() != nil {
		return nil
	}
	return s.sharedACL(rest[:d.Offset()-begin])
}

// applyMulti replays the operations of a multi, or none if one of them failed.
//
//	int count | count * (int type | buffer body)
func (s *State) applyMulti(t *txn, d *jute.Decoder) error {
	var subs []txn
	failed := false
	for range max(d.Count(8), 0) {
		sub := *t
		sub.op, sub.body = jute.Op(d.Int()), d.Buffer()
		failed = failed || sub.op == opError
		subs = append(subs, sub)
	}
	if d.Err() != nil || failed {
		return nil // the caller checks d.Err
	}
	for i := range subs {
		var body jute.Decoder
		body.Reset(subs[i].body)
		switch subs[i].op {
		case jute.OpReconfig, jute.OpSetACL:
			return fmt.Errorf("operation %d of a multi has the type %d", i, subs[i].op)
		}
		err := s.applyOne(&subs[i], &body)
		if err == nil {
			err = body.Err()
		}
		if err != nil {
			return fmt.Errorf("operation %d of a multi, of type %d: %w", i, subs[i].op, err)
		}
	}
	return nil
}

// closeSession replays the end of a session. Since 3.6 the transaction lists the session's znodes, unless
// closeSessionTxn.enabled is false; other znodes of the session are deleted too.
func (s *State) closeSession(t *txn, d *jute.Decoder) {
	delete(s.Sessions, t.session)
	rest := d.Rest()
	bare := len(rest) == txnDigestBytes && binary.BigEndian.Uint32(rest) == DigestVersion
	if len(rest) > 0 && !bare {
		for _, path := range d.Strings() {
			s.delete(path, t.zxid)
		}
	}
	if d.Err() == nil {
		s.deleteOwned(t.session, t.zxid)
	}
}
