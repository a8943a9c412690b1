package files

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// LiveOf returns a content as a live state.
func LiveOf(c *Content) (*State, error) {
	s := newState()
	s.live, s.Zxid = true, c.Zxid
	for _, session := range c.Sessions {
		s.Sessions[session.ID] = session.Timeout
	}
	err := c.Znodes(func(path string, data []byte, acl []jute.ACL, stat *Stat) error {
		z := Znode{Path: path, Data: slices.Clone(data), ACL: s.sharedACL(jute.AppendACLs(nil, acl)), Stat: *stat}
		if path == "/" {
			z.Path = ""
		} else {
			parent, _ := SplitPath(path)
			z.Path = s.keepText(path)
			if z.parent = s.nodes[parent]; z.parent == nil {
				return fmt.Errorf("the znode %q comes before its parent", path)
			}
		}
		s.put(z)
		return nil
	})
	return s, err
}

// Send writes a live state as a leader sends it to a learner; see Receive. The state must not change meanwhile.
func (s *State) Send(w io.Writer) error {
	ids := map[*ACL]int64{s.open: openACL}
	b := jute.AppendInt(nil, int32(len(s.Sessions)))
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		b = jute.AppendInt(jute.AppendLong(b, id), s.Sessions[id])
	}
	b = jute.AppendInt(b, int32(len(s.acls)))
	for _, encoded := range slices.Sorted(maps.Keys(s.acls)) {
		id := int64(len(ids))
		ids[s.acls[encoded]] = id
		b = append(jute.AppendLong(b, id), encoded...)
	}
	err := s.Znodes(func(z *Znode) error {
		b = jute.AppendBuffer(jute.AppendString(b, z.Path), z.Data)
		b = z.Stat.append(jute.AppendLong(b, ids[z.ACL]))
		if len(b) < walkBytes {
			return nil
		}
		_, err := w.Write(b)
		b = b[:0]
		return err
	})
	if err == nil {
		_, err = w.Write(jute.AppendString(jute.AppendString(b, "/"), receivedEnd))
	}
	return err
}

// A Txn is the header of a new transaction.
type Txn struct {
	Session  int64
	Xid      int32
	Zxid, Ms int64
}

func (t *Txn) begin(op jute.Op) []byte {
	b := jute.AppendInt(jute.AppendLong(nil, t.Session), t.Xid)
	return jute.AppendInt(jute.AppendLong(jute.AppendLong(b, t.Zxid), t.Ms), int32(op))
}

// Record returns a transaction with one operation, without a digest.
func (t *Txn) Record(o *Operation) []byte { return append(t.begin(o.Op), o.Body...) }

// Multi returns the record of a transaction with several operations, without a digest.
func (t *Txn) Multi(all []Operation) []byte {
	b := jute.AppendInt(t.begin(jute.OpMulti), int32(len(all)))
	for i := range all {
		b = jute.AppendBuffer(jute.AppendInt(b, int32(all[i].Op)), all[i].Body)
	}
	return b
}

// AppendDigest appends the digest of the tree after the transaction to its record.
func AppendDigest(record []byte, digest uint64) []byte {
	return jute.AppendLong(jute.AppendInt(record, DigestVersion), int64(digest))
}

// An Operation is what a transaction does: alone, or as a part of a multi.
type Operation struct {
	Op   jute.Op
	Body []byte
}

// Create returns a create. cversion is the parent's after the create; see Stat.
func Create(path string, data []byte, acl []jute.ACL, owner Owner, cversion int32) Operation {
	b := jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, path), data), acl)
	switch {
	case owner.Container:
		return Operation{jute.OpCreateContainer, jute.AppendInt(b, cversion)}
	case owner.TTL != 0:
		return Operation{jute.OpCreateTTL, jute.AppendLong(jute.AppendInt(b, cversion), owner.TTL)}
	}
	return Operation{jute.OpCreate, jute.AppendInt(jute.AppendBool(b, owner.Session != 0), cversion)}
}

// Delete returns a delete.
func Delete(path string) Operation { return Operation{jute.OpDelete, jute.AppendString(nil, path)} }

// SetData returns a setData; version is the znode's after it.
func SetData(path string, data []byte, version int32) Operation {
	return Operation{jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), data), version)}
}

// SetACL returns a setACL; aversion is the znode's after it.
func SetACL(path string, acl []jute.ACL, aversion int32) Operation {
	return Operation{jute.OpSetACL, jute.AppendInt(jute.AppendACLs(jute.AppendString(nil, path), acl), aversion)}
}

// Check returns a check, which changes nothing.
func Check(path string, version int32) Operation {
	return Operation{jute.OpCheck, jute.AppendInt(jute.AppendString(nil, path), version)}
}

// BeginSession returns the createSession of the transaction's session.
func BeginSession(timeout int32) Operation {
	return Operation{jute.OpCreateSession, jute.AppendInt(nil, timeout)}
}

// EndSession returns the closeSession of the transaction's session, which deletes the znodes at paths.
func EndSession(paths []string) Operation {
	return Operation{jute.OpCloseSession, jute.AppendStrings(nil, paths)}
}

// Failure returns the operation that records a failed request, which only uses up a zxid.
func Failure(code jute.Code) Operation {
	return Operation{jute.OpError, jute.AppendInt(nil, int32(code))}
}
