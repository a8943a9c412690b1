package tree

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestDigestAsBefore: the digest of a state is the same number in all versions, since servers of two versions compare
// theirs while an ensemble is upgraded. If one of these numbers changes, a server of this version stops beside one of
// an earlier version, or that one does.
func TestDigestAsBefore(t *testing.T) {
	t.Parallel()
	const server, now = int64(7) << 56, int64(1_800_000_000_000)
	settings := func(level int32) *Request {
		s := DefaultSettings()
		s.FeatureLevel, s.ExtendedTypes, s.ReconfigEnabled = level, true, true
		return &Request{Op: OpSettings, Body: s.Append(nil)}
	}
	write := func(op jute.Op, seq int64, body []byte) *Request {
		return &Request{Op: op, Session: 1, Cnx: 2, Seq: seq, Identities: identities[1], Body: body}
	}
	long := jute.CreateRequest{Path: "/a/an ephemeral", Data: []byte("more than sixteen bytes of data"), ACL: acls[7],
		Flags: jute.ModeEphemeral}
	setACL := jute.SetACLRequest{Path: "/a", ACL: acls[8], Version: -1}
	var secret [SecretSize]byte
	tree := New(Options{Key: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}})
	for i, step := range []struct {
		what string
		ms   int64
		q    *Request
		want uint64
	}{
		{"the first level", 1000, settings(1), 0x93beb81874172dbf},
		{"a session", 1000, &Request{Op: jute.OpCreateSession, Session: 1, Cnx: 2,
			Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), []byte("sixteen bytes ab"))}, 0xbff4a7ff711edef1},
		{"a znode", 1001, write(jute.OpCreate, 1, createOf("/a", 3)), 0x116fd85f9a02034a},
		{"an ephemeral znode", 1002, write(jute.OpCreate, 2, long.Append(nil)), 0xb76808d75803db24},
		{"changed data", 1003, write(jute.OpSetData, 3, setDataBody("/a")), 0x74e122e2b26da9b5},
		{"a changed ACL", 1004, write(jute.OpSetACL, 4, setACL.Append(nil)),
			0x38d0067429ed457d},
		{"a TTL", 1005, new(createTTL("/ttl", 5000)), 0x331e48be7e82b765},
		{"a level", 1006, settings(levelLineage), 0xdbc01c3b25d04114},
		{"the time set back", -2 * timeBackMin, settings(levelLineage), 0xb6c06de18a0418e0},
		{"a local session", 1007, &Request{Op: OpEnter, Session: server | 5, Cnx: 3, Seq: 1,
			Body: AppendEnter(nil, server|1, Local, make([]byte, jute.PasswdSize), 2000)}, 0x688b75e36588eb2a},
		{"a membership under way", 1008, &Request{Op: OpMembers, Body: []byte("server.1=a:1:2;3")}, 0x186d338b448bd34e},
		{"a lineage", 1009, &Request{Op: OpLineage, Body: AppendLineage(nil, 5)}, 0x4bb5fbb29c3eff00},
		{"a secret", 1010, &Request{Op: OpSecret, Body: secret[:]}, 0xaecc051030527e20},
	} {
		var code jute.Code
		batch := AppendRecord(AppendBatchHeader(nil, now+step.ms), step.q)
		if err := tree.Apply(3, uint64(i+1), batch, func(r *Result) { code = r.Err }); err != nil || code != jute.OK {
			t.Fatalf("%s: %v, %v", step.what, err, code)
		}
		if got := tree.Digest(); got != step.want {
			t.Errorf("%s: the digest is %#x, and was %#x", step.what, got, step.want)
		}
	}
}
