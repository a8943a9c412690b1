package server

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// TestPolicy: what a policy denies is denied to sessions in whatever they ask, beside the ACL of
// a znode that everybody may use; a superuser and the exception aren't concerned.
func TestPolicy(t *testing.T) {
	t.Parallel()
	super, err := auth.Digest("SHA-256", "super:secret")
	if err != nil {
		t.Fatal(err)
	}
	pay, err := auth.Digest("SHA-256", "pay:x")
	if err != nil {
		t.Fatal(err)
	}
	var lines logLines
	s := open(t, Options{Auth: auth.Options{SuperDigest: super, DigestAlgorithm: "SHA-256"}, Log: lines.logger()})
	addr := s.Addrs()[0].String()
	root, one, other := connect(t, addr, 0, nil), connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	for credential, c := range map[string]*rawClient{"super:secret": root, "pay:x": one} {
		if h, _ := c.call(jute.OpAuth, authPacket("digest", credential)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	want := func(c *rawClient, what string, code jute.Code, op jute.Op, record func([]byte) []byte) []byte {
		t.Helper()
		h, body := c.call(op, record)
		if h.Err != code {
			t.Errorf("%s: %v, want %v", what, h.Err, code)
		}
		return body
	}
	multi := func(ops ...jute.MultiOp) func([]byte) []byte {
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	only := func(path string) func([]byte) []byte {
		return func(b []byte) []byte { return jute.AppendString(b, path) }
	}
	text := func(lines ...string) []byte { return []byte(strings.Join(lines, "\n")) }
	want(other, "create", jute.OK, jute.OpCreate, creating("/pay", []byte("1"), 0))
	want(other, "create", jute.OK, jute.OpCreate, creating("/pay/a", nil, 0))
	want(other, "watch", jute.OK, jute.OpGetData, reading("/pay", true))
	want(one, "watch", jute.OK, jute.OpGetData, reading("/pay", true))
	last, _ := other.call(jute.OpPing, nil)
	relative := last.Zxid

	want(other, "create of the policy", jute.ErrNoAuth, jute.OpCreate, creating(policy.Path, nil, 0))
	want(root, "create of a bad policy", jute.ErrBadArguments, jute.OpCreate, creating(policy.Path, []byte("deny"), 0))
	deny := "deny all below /pay except digest:" + pay
	want(root, "create of the policy", jute.OK, jute.OpCreate, creating(policy.Path, text(deny), 0))

	for who, c := range map[string]*rawClient{"other": other, "one": one, "root": root} {
		code := jute.OK
		if c == other {
			code = jute.ErrNoAuth
		}
		want(c, who+" getData", code, jute.OpGetData, reading("/pay", false))
		want(c, who+" exists", code, jute.OpExists, reading("/pay/a", false))
		want(c, who+" getChildren", code, jute.OpGetChildren, reading("/pay", false))
		want(c, who+" getACL", code, jute.OpGetACL, only("/pay"))
		want(c, who+" create", code, jute.OpCreate, creating("/pay/"+who, nil, 0))
		want(c, who+" setACL", code, jute.OpSetACL,
			(&jute.SetACLRequest{Path: "/pay/a", ACL: jute.WorldACL(jute.PermAll), Version: -1}).Append)
		body := want(c, who+" multi", jute.OK, jute.OpMulti,
			multi(jute.MultiOp{Op: jute.OpCheck, Path: "/pay/a", Version: -1}))
		if list, err := jute.DecodeMultiResponse(jute.NewDecoder(body)); err != nil || len(list) != 1 || list[0].Err != code {
			t.Errorf("%s multi: %v, %v", who, list, err)
		}
	}

	// A change is told to the one, and not to the other, whose next frame is a reply.
	want(root, "setData", jute.OK, jute.OpSetData, setting("/pay", []byte("2")))
	if h, _ := one.reply(); h.Xid != jute.XidNotification {
		t.Errorf("who may read the znode gets %d instead of a notification", h.Xid)
	}
	want(other, "getData behind the change", jute.ErrNoAuth, jute.OpGetData, reading("/pay", false))

	// Nor is what it missed.
	back, again := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	if h, _ := again.call(jute.OpAuth, authPacket("digest", "pay:x")); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	set := func(b []byte) []byte {
		b = jute.AppendLong(b, relative)
		b = jute.AppendString(jute.AppendInt(b, 1), "/pay")
		b = jute.AppendInt(jute.AppendInt(b, 0), 0)
		return b
	}
	if h, _ := again.call(jute.OpSetWatches, set); h.Xid != jute.XidNotification {
		t.Errorf("setWatches of who may read: %d, want a notification first", h.Xid)
	}
	if h, _ := back.call(jute.OpSetWatches, set); h.Xid == jute.XidNotification {
		t.Error("setWatches tells what the policy hides")
	}

	// A new text is in force at once. A dry run is told to the log alone.
	want(root, "a dry run", jute.OK, jute.OpSetData, setting(policy.Path, text("dryrun "+deny)))
	want(other, "getData in a dry run", jute.OK, jute.OpGetData, reading("/pay", false))
	if log := lines.String(); !strings.Contains(log, "a rule of the policy denied a request") ||
		!strings.Contains(log, "a dry run of a policy's rule would deny a request") || strings.Contains(log, pay) {
		t.Errorf("the log has\n%s", log)
	}
	want(root, "deleting the policy", jute.OK, jute.OpDelete,
		func(b []byte) []byte { return jute.AppendInt(jute.AppendString(b, policy.Path), -1) })
	want(other, "getData without a policy", jute.OK, jute.OpGetData, reading("/pay", false))
}
