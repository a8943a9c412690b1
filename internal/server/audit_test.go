package server

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/audit"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// An auditStage is a server with an audit log in memory.
type auditStage struct {
	*testing.T
	text syncBuffer
	log  *audit.Log
}

func newAuditStage(t *testing.T, a Audit, opt Options) (*auditStage, *Server) {
	t.Helper()
	st := &auditStage{T: t}
	l, err := audit.Open(audit.Options{Stderr: &st.text, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	st.log, a.Log, a.User = l, l, "zoo"
	opt.Audit, opt.Listen = &a, []string{"127.0.0.1:0"}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return st, s
}

// lines ends the log and returns what it has from "operation=" on.
func (st *auditStage) lines() string {
	st.log.Close()
	var b strings.Builder
	for line := range strings.Lines(st.text.String()) {
		b.WriteString(line[strings.Index(line, "operation="):])
	}
	return b.String()
}

func authenticating(scheme, auth string) func([]byte) []byte {
	return (&jute.AuthPacket{Scheme: scheme, Auth: []byte(auth)}).Append
}

// TestAuditBeyondApache: reads, logins and refusals are audited if that is asked for, each by its key.
func TestAuditBeyondApache(t *testing.T) {
	t.Parallel()
	const (
		write   = "operation=create\tznode=/a\tznode_type=persistent\tresult=success\n"
		reads   = "operation=getData\tznode=/a\tresult=success\noperation=exists\tznode=/no\\nsuch\tresult=failure\terror=NoNode\n"
		login   = "operation=auth\tresult=success\tscheme=digest\noperation=auth\tresult=failure\tscheme=no\\tsuch\terror=AuthFailed\n"
		refused = "operation=getData\tznode=/secret\tresult=failure\terror=NoAuth\n"
		secret  = "operation=create\tznode=/secret\tznode_type=persistent\tresult=success\n"
	)
	for _, c := range []struct {
		a    Audit
		want string
	}{
		{Audit{}, write + secret},
		{Audit{Reads: true}, write + reads + secret + refused},
		{Audit{Logins: true}, write + secret + login},
		{Audit{Refusals: true}, write + secret + refused},
	} {
		st, s := newAuditStage(t, c.a, Options{DataDir: t.TempDir()})
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		client.call(jute.OpCreate, creating("/a", nil, jute.ModePersistent))
		client.call(jute.OpGetData, reading("/a", false))
		client.call(jute.OpExists, reading("/no\nsuch", false))
		client.call(jute.OpCreate,
			(&jute.CreateRequest{
				Path: "/secret", ACL: []jute.ACL{{Perms: jute.PermAdmin, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
			}).Append)
		client.call(jute.OpGetData, reading("/secret", false))
		client.call(jute.OpAuth, authenticating("digest", "bob:secret"))
		client.call(jute.OpAuth, authenticating("no\tsuch", "secret"))
		s.Close()
		if got := st.lines(); got != c.want {
			t.Errorf("%+v:\n%s", c.a, got)
		}
		if strings.Contains(st.text.String(), "bob:") || strings.Contains(st.text.String(), "=secret") {
			t.Errorf("a password is in the log:\n%s", st.text.String())
		}
	}
}

// TestAuditNames: a line names as users only those for whom somebody vouches. Whoever gives a digest identity the name
// of another, or of the superuser, with any password, is told from them.
func TestAuditNames(t *testing.T) {
	t.Parallel()
	hash, err := auth.Digest("", "admin:secret")
	if err != nil {
		t.Fatal(err)
	}
	for credential, c := range map[string]struct{ scheme, users string }{
		"admin:secret":   {"digest", "user=127.0.0.1,admin\t"},
		"admin:junk":     {"digest", "user=127.0.0.1,admin?\t"},
		"admin,x:junk":   {"digest", `user=127.0.0.1,admin\u002cx?` + "\t"},
		"127.0.0.1:junk": {"digest", "user=127.0.0.1,127.0.0.1?\t"},
		"admin":          {"club", "user=127.0.0.1,admin,all\t"}, // a provider says so
	} {
		st, s := newAuditStage(t, Audit{}, Options{
			DataDir: t.TempDir(), Auth: auth.Options{SuperDigest: hash, Providers: []authprovider.Provider{club{}}},
		})
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		client.call(jute.OpAuth, authenticating(c.scheme, credential))
		client.call(jute.OpCreate, creating("/a", nil, jute.ModePersistent))
		s.Close()
		st.log.Close()
		if text := st.text.String(); !strings.Contains(text, c.users) {
			t.Errorf("%q: want %q in %q", credential, c.users, text)
		}
	}
}

// TestAuditOfReplacedSuperuser: a superuser's connection that stays after another superuser was configured keeps its
// name. Whoever claims the former superuser's name then is told from it.
func TestAuditOfReplacedSuperuser(t *testing.T) {
	t.Parallel()
	hash, err := auth.Digest("", "admin:secret")
	if err != nil {
		t.Fatal(err)
	}
	st, s := newAuditStage(t, Audit{}, Options{DataDir: t.TempDir(), Auth: auth.Options{SuperDigest: hash}})
	before := connect(t, s.Addrs()[0].String(), 0, nil)
	before.call(jute.OpAuth, authenticating("digest", "admin:secret"))
	for _, super := range []string{"other:hash", ""} {
		s.SetSuperusers(auth.Superusers{Digest: super})
	}
	after := connect(t, s.Addrs()[0].String(), 0, nil)
	after.call(jute.OpAuth, authenticating("digest", "admin:secret"))
	before.call(jute.OpCreate, creating("/before", nil, jute.ModePersistent))
	after.call(jute.OpCreate, creating("/after", nil, jute.ModePersistent))
	s.Close()
	st.log.Close()
	var users []string
	for line := range strings.Lines(st.text.String()) {
		_, rest, _ := strings.Cut(line, "user=")
		user, _, _ := strings.Cut(rest, "\t")
		users = append(users, user)
	}
	if want := []string{"127.0.0.1,admin", "127.0.0.1,admin?"}; !slices.Equal(users, want) {
		t.Errorf("the users are %q, want %q", users, want)
	}
}

// TestAuditOfWrongPassword: a connect request that names a session and has another password than the session is a line
// of audit.refusals. One whose session is over is none.
func TestAuditOfWrongPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a     Audit
		local bool
		want  string
	}{
		"refusals":         {Audit{Refusals: true}, false, "operation=connect\tresult=failure\terror=AuthFailed\n"},
		"a local session":  {Audit{Refusals: true}, true, "operation=connect\tresult=failure\terror=AuthFailed\n"},
		"without refusals": {Audit{Reads: true, Logins: true}, false, ""},
	} {
		st, s := newAuditStage(t, c.a, Options{DataDir: t.TempDir(), Serving: Serving{LocalSessions: c.local}})
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		reconnects := func(passwd []byte) {
			t.Helper()
			conn, err := net.Dial("tcp", s.Addrs()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			if again := handshake(t, conn, client.session, passwd); again == nil || again.session != 0 {
				t.Fatalf("%s: it reconnects: %+v", name, again)
			}
		}
		reconnects([]byte("sixteen bytes...")[:jute.PasswdSize])
		client.call(jute.OpCloseSession, nil)
		reconnects(client.passwd)
		s.Close()
		id := replica.SessionText(client.session)
		if got := st.lines(); got != c.want || c.want != "" && !strings.Contains(st.text.String(), "session="+id) {
			t.Errorf("%s: of session %s\n%s", name, id, st.text.String())
		}
	}
}

// TestAuditOfUndecided: a login whose credential nobody could judge is audited with a result of its own; it is neither
// a success nor a failure.
func TestAuditOfUndecided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Audit
		want string
	}{
		{Audit{Logins: true}, "operation=auth\tresult=undecided\tscheme=pass\n"},
		{Audit{Reads: true, Refusals: true}, ""},
	} {
		st, s := newAuditStage(t, c.a,
			Options{DataDir: t.TempDir(), Auth: auth.Options{Providers: []authprovider.Provider{pass{}}}})
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		if _, err := client.conn.Write(client.request(nil, jute.OpAuth, authPacket("pass", "?"))); err != nil ||
			!client.ends() {
			t.Fatalf("it is answered, or %v", err)
		}
		s.Close()
		if got := st.lines(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.a, got, c.want)
		}
	}
}

// TestAuditOfUnauthenticated: a request of a client that has yet to authenticate is a refused one.
func TestAuditOfUnauthenticated(t *testing.T) {
	t.Parallel()
	st, s := newAuditStage(t, Audit{Refusals: true}, Options{
		DataDir: t.TempDir(), Auth: auth.Options{SASL: true, EnforceSchemes: []string{"sasl"}},
	})
	for _, op := range []jute.Op{jute.OpDelete, jute.OpGetData, jute.OpPing} {
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		if h, _ := client.call(op, deleting("/a")); h.Err != jute.ErrSessionClosedRequireSASLAuth {
			t.Errorf("%v: %v", op, h.Err)
		}
	}
	s.Close()
	const why = "\tznode=/a\tresult=failure\terror=Session closed because client failed to authenticate\n"
	if got := st.lines(); got != "operation=delete"+why+"operation=getData"+why {
		t.Errorf("%s", got)
	}
}

// TestAuditOfThrottled: logins that aren't judged because too many have failed are audited, too.
func TestAuditOfThrottled(t *testing.T) {
	t.Parallel()
	st, s := newAuditStage(t, Audit{Logins: true}, Options{
		DataDir: t.TempDir(), Auth: auth.Options{Providers: []authprovider.Provider{pass{}}},
		Serving: Serving{SessionTimeoutMin: 100 * time.Millisecond, SessionTimeoutMax: 300 * time.Millisecond},
	})
	const logins = auth.FailedLoginsBurst + 4
	for range logins {
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		if _, err := client.conn.Write(client.request(nil, jute.OpAuth, authPacket("pass", "?"))); err != nil ||
			!client.ends() {
			t.Fatalf("it is answered, or %v", err)
		}
	}
	s.Close()
	if got := strings.Count(st.lines(), "operation=auth\tresult=undecided\tscheme=pass\n"); got != logins {
		t.Errorf("%d of %d logins are audited", got, logins)
	}
}

// TestAuditOfRestore: a restore is audited with the caller's names. What the server does for it is the server's doing,
// and not that of a user who is called so.
func TestAuditOfRestore(t *testing.T) {
	t.Parallel()
	hash, err := auth.Digest("", "admin:secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ids  []jute.ID
		user string
	}{
		{nil, "zoo,10.0.0.7"},
		{[]jute.ID{{Scheme: "super"}, {Scheme: "digest", ID: hash}}, "zoo,admin,10.0.0.7"},
		{[]jute.ID{{Scheme: "x509", ID: "CN=ann"}}, "zoo,CN=ann,10.0.0.7"},
	} {
		st, s := newAuditStage(t, Audit{}, Options{
			DataDir: t.TempDir(), Auth: auth.Options{SASL: true, SuperDigest: hash, EnforceSchemes: []string{"sasl"}},
		})
		eventually(t, "the server can restore", func() bool {
			return s.serving() && s.replica.InForce(tree.OpRestore, nil)
		})
		if _, err := s.Restore(t.Context(), "10.0.0.7:4000", c.ids, s.replica.Znodes(nil)); err != nil {
			t.Fatal(err)
		}
		s.Close()
		st.log.Close()
		text := st.text.String()
		if want := "user=" + c.user + "\tip=10.0.0.7\toperation=restore\tresult=success\n"; !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
		all, own := strings.Count(text, "operation=create"), strings.Count(text, "user=zoo\toperation=create")
		if all != own || own < 2 {
			t.Errorf("%d of %d creates are the server's:\n%s", own, all, text)
		}
	}
}

// TestAuditHashes: each change has the hashes of the data before and after it, also within a multi and of a znode that
// goes with its session.
func TestAuditHashes(t *testing.T) {
	t.Parallel()
	st, s := newAuditStage(t, Audit{Hashes: true}, Options{DataDir: t.TempDir()})
	client := connect(t, s.Addrs()[0].String(), 0, nil)
	sum := func(data string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(data))) }
	client.call(jute.OpCreate, creating("/a", []byte("one"), jute.ModePersistent))
	client.call(jute.OpSetData, setting("/a", []byte("two")))
	client.call(jute.OpMulti, func(b []byte) []byte {
		return jute.AppendMulti(b, []jute.MultiOp{
			{Op: jute.OpSetData, Path: "/a", Data: []byte("three"), Version: -1},
			{Op: jute.OpSetData, Path: "/a", Data: []byte("four"), Version: -1},
		})
	})
	client.call(jute.OpMulti, func(b []byte) []byte {
		return jute.AppendMulti(b, []jute.MultiOp{
			{Op: jute.OpSetData, Path: "/a", Data: []byte("lost"), Version: -1}, {Op: jute.OpDelete, Path: "/none", Version: -1},
		})
	})
	client.call(jute.OpDelete, deleting("/a"))
	client.call(jute.OpCreate, creating("/e", []byte("ephemeral"), jute.ModeEphemeral))
	client.call(jute.OpCloseSession, func(b []byte) []byte { return b })
	s.Close()
	set := "operation=setData\tznode=/a\tresult=success\tbefore=%s\tafter=%s\n"
	want := fmt.Sprintf("operation=create\tznode=/a\tznode_type=persistent\tresult=success\tafter=%s\n"+set+set+set+
		"operation=multiOperation\tresult=failure\noperation=delete\tznode=/a\tresult=success\tbefore=%s\n"+
		"operation=create\tznode=/e\tznode_type=ephemeral\tresult=success\tafter=%s\n"+
		"operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\tresult=success\tbefore=%[9]s\n",
		sum("one"), sum("one"), sum("two"), sum("two"), sum("three"), sum("three"), sum("four"), sum("four"),
		sum("ephemeral"))
	if got := st.lines(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestAuditOfTheGone: what is done for a client that sends writes and leaves is audited, and a server that applies its
// log again at the start audits nothing twice.
func TestAuditOfTheGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, s := newAuditStage(t, Audit{}, Options{DataDir: dir})
	client, before := connect(t, s.Addrs()[0].String(), 0, nil), s.Status().Nodes
	var all []byte
	const n = 200
	for i := range n {
		all = client.request(all, jute.OpCreate, creating(fmt.Sprintf("/n%d", i), nil, jute.ModeEphemeral))
	}
	if _, err := client.conn.Write(all); err != nil {
		t.Fatal(err)
	}
	client.reply() // what isn't proposed when it leaves is dropped
	client.conn.Close()
	other := connect(t, s.Addrs()[0].String(), 0, nil)
	eventually(t, "it is gone", func() bool { return len(s.replica.Connections()) == 1 })
	other.call(jute.OpCreate, creating("/last", nil, 0))
	done := s.Status().Nodes - before
	s.Close()
	if got := strings.Count(st.lines(), "operation=create"); got != done || done < 2 {
		t.Errorf("%d of %d creates are audited", got, done)
	}
	again, s := newAuditStage(t, Audit{}, Options{DataDir: dir})
	eventually(t, "it serves", func() bool { return s.Status().Serving })
	s.Close()
	if got := again.lines(); got != "" {
		t.Errorf("the start is audited:\n%s", got)
	}
}

// TestAuditRefusedCertificate: a connection whose certificate isn't accepted is audited; one whose client goes away
// isn't.
func TestAuditRefusedCertificate(t *testing.T) {
	t.Parallel()
	var text syncBuffer
	l, err := audit.Open(audit.Options{Stderr: &text, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, _, secure := openSecure(t, "need", func(o *Options) { o.Audit = &Audit{Log: l, Refusals: true} })
	if session(t, secure, "") != nil {
		t.Error("a client without a certificate has a session")
	}
	left, err := net.Dial("tcp", secure)
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	awaitCount(t, "both handshakes are counted as failed", s.meters.HandshakesFailed.Value, 2)
	s.Close()
	l.Close()
	if got := text.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "ip=127.0.0.1\toperation=connect\tresult=failure\terror=tls: client didn't provide a certificate") {
		t.Errorf("%s", got)
	}
}

// TestAuditRefusedConnection: a connection that was one too many is audited.
func TestAuditRefusedConnection(t *testing.T) {
	t.Parallel()
	st, s := newAuditStage(t, Audit{Refusals: true}, Options{DataDir: t.TempDir(), MaxClientConnections: 1})
	addr := s.Addrs()[0].String()
	connect(t, addr, 0, nil)
	second, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if !ended(t, second) {
		t.Error("a second connection is served")
	}
	s.Close()
	st.log.Close()
	if text := st.text.String(); !regexp.MustCompile(`ip=127\.0\.0\.1\toperation=connect\tresult=failure\terror=there are 1 connections`).
		MatchString(text) {
		t.Errorf("%s", text)
	}
}
