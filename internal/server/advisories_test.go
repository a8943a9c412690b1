package server

import (
	"bytes"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// What etcd was told, asked of this server: see SECURITY.md.

// forbidden is a znode with data, a child and an ACL for another identity, beside the open /open.
type forbidden struct {
	t        *testing.T
	addr     string
	owner    *rawClient // may do everything
	stranger *rawClient // may do nothing below /mine
}

func openForbidden(t *testing.T) *forbidden {
	t.Helper()
	s := open(t, Options{})
	f := &forbidden{t: t, addr: s.Addrs()[0].String()}
	f.owner, f.stranger = connect(t, f.addr, 0, nil), connect(t, f.addr, 0, nil)
	if h, _ := f.owner.call(jute.OpAuth, authPacket("digest", "owner:x")); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	f.want(f.owner, jute.OK, jute.OpCreate, creating("/open", []byte("open"), 0))
	own := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	for path, mode := range map[string]jute.CreateMode{"/mine": 0, "/open/mine": 0} {
		f.want(f.owner, jute.OK, jute.OpCreate,
			(&jute.CreateRequest{Path: path, Data: []byte("hidden"), ACL: own, Flags: mode}).Append)
	}
	f.want(f.owner, jute.OK, jute.OpCreate,
		(&jute.CreateRequest{Path: "/mine/e", Data: []byte("hidden"), ACL: own, Flags: jute.ModeEphemeral}).Append)
	return f
}

// want calls one operation, compares the code, and returns the body of the reply.
func (f *forbidden) want(c *rawClient, code jute.Code, op jute.Op, record func([]byte) []byte) []byte {
	f.t.Helper()
	h, body := c.call(op, record)
	if h.Xid == jute.XidNotification {
		f.t.Fatalf("%v: a notification comes first: %q", op, body)
	}
	if h.Err != code {
		f.t.Errorf("%v: %v, want %v", op, h.Err, code)
	}
	return body
}

// TestEtcdNestedTransactions: a transaction gives nothing that its operations alone wouldn't (GHSA-rfx7-8w68-q57q,
// CVE-2026-44283): neither a write, nor data, nor the version of a znode that its client may not read.
func TestEtcdNestedTransactions(t *testing.T) {
	t.Parallel()
	f := openForbidden(t)
	multi := func(ops ...jute.MultiOp) func([]byte) []byte {
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	harmless := jute.MultiOp{Op: jute.OpSetData, Path: "/open", Data: []byte("x"), Version: -1}
	for _, o := range []jute.MultiOp{
		{Op: jute.OpSetData, Path: "/mine", Data: []byte("x"), Version: -1},
		{Op: jute.OpCreate, Path: "/mine/a", ACL: jute.WorldACL(jute.PermAll)},
		{Op: jute.OpDelete, Path: "/mine/e", Version: -1},
		{Op: jute.OpCheck, Path: "/mine", Version: 0},
	} {
		for _, ops := range [][]jute.MultiOp{{o}, {harmless, o}, {o, harmless}} {
			body := f.want(f.stranger, jute.OK, jute.OpMulti, multi(ops...))
			list, err := jute.DecodeMultiResponse(jute.NewDecoder(body))
			if err != nil || len(list) != len(ops) {
				t.Fatalf("%v %s: %v, %v", o.Op, o.Path, list, err)
			}
			refused := false
			for _, r := range list {
				refused = refused || r.Err == jute.ErrNoAuth
				if r.Op != jute.OpError {
					t.Errorf("%v %s: an operation of a refused transaction succeeds: %+v", o.Op, o.Path, r)
				}
			}
			if !refused || bytes.Contains(body, []byte("hidden")) {
				t.Errorf("%v %s: %+v", o.Op, o.Path, list)
			}
		}
	}
	for _, op := range []jute.Op{jute.OpGetData, jute.OpGetChildren} {
		body := f.want(f.stranger, jute.OK, jute.OpMultiRead,
			multi(jute.MultiOp{Op: op, Path: "/mine"}, jute.MultiOp{Op: jute.OpGetData, Path: "/open"}))
		list, err := jute.DecodeMultiResponse(jute.NewDecoder(body))
		if err != nil || len(list) != 2 || list[0].Err != jute.ErrNoAuth || len(list[0].Children) > 0 ||
			string(list[1].Data) != "open" {
			t.Errorf("multiRead of %v: %+v, %v", op, list, err)
		}
	}
	if body := f.want(f.owner, jute.OK, jute.OpGetData, reading("/mine", false)); !bytes.Contains(body, []byte("hidden")) {
		t.Errorf("/mine has changed: %q", body)
	}
	if body := f.want(f.owner, jute.OK, jute.OpGetData, reading("/open", false)); !bytes.Contains(body, []byte("open")) {
		t.Errorf("a refused transaction has changed /open: %q", body)
	}
}

// TestEtcdWatchRange: whoever may read a znode and watches all below it learns nothing of what it may not read
// (GHSA-xg4h-6gfc-h4m8).
func TestEtcdWatchRange(t *testing.T) {
	t.Parallel()
	f := openForbidden(t)
	f.want(f.stranger, jute.OK, jute.OpAddWatch,
		(&jute.AddWatchRequest{Path: "/open", Mode: jute.AddWatchPersistentRecursive}).Append)
	f.want(f.owner, jute.OK, jute.OpSetData, setting("/open/mine", []byte("hidden too")))
	f.want(f.owner, jute.OK, jute.OpDelete,
		func(b []byte) []byte { return jute.AppendInt(jute.AppendString(b, "/open/mine"), -1) })
	f.want(f.stranger, jute.OK, jute.OpGetData, reading("/open", false)) // it comes first, without a notification
	f.want(f.owner, jute.OK, jute.OpSetData, setting("/open", []byte("seen")))
	if h, body := f.stranger.reply(); h.Xid != jute.XidNotification || !bytes.Contains(body, []byte("/open")) ||
		bytes.Contains(body, []byte("mine")) {
		t.Errorf("the first notification: %+v, %q", h, body)
	}
}

// TestEtcdLeaseKeys: a client is not told which ephemeral znodes other sessions have (CVE-2023-32082).
func TestEtcdLeaseKeys(t *testing.T) {
	t.Parallel()
	f := openForbidden(t)
	ephemerals := func(b []byte) []byte { return jute.AppendString(b, "/") }
	if body := f.want(f.stranger, jute.OK, jute.OpGetEphemerals, ephemerals); bytes.Contains(body, []byte("mine")) {
		t.Errorf("another session's: %q", body)
	}
	if body := f.want(f.owner, jute.OK, jute.OpGetEphemerals, ephemerals); !bytes.Contains(body, []byte("/mine/e")) {
		t.Errorf("its own: %q", body)
	}
}
