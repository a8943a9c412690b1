package admin

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBadRequests: wrong methods, bodies and headers get an error that says so, up to the
// limit and beyond it.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	for method, want := range map[string]int{
		"TRACE": 403, "PUT": 405, "DELETE": 405, "PATCH": 501, "FOO": 501, "OPTIONS": 200, "HEAD": 200,
	} {
		if res, _ := r.do(method, "/commands/ruok", "", ""); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", method, res.StatusCode, want)
		}
	}
	padded := func(n int) string { return `{"percentage": 0}` + strings.Repeat(" ", n-len(`{"percentage": 0}`)) }
	for body, want := range map[string]int{
		"": 400, "{": 400, "[]": 400, `{"percentage": "a"}`: 400, `{"percentage": -1}`: 400, `{"percentage": 101}`: 400,
		`{"percentage": 1e99}`: 400, `{}`: 400,
		padded(bodyBytesMax): 200, padded(bodyBytesMax + 1): 413,
	} {
		if status, answer := r.command(http.MethodPost, "shed_connections", r.own(), body); status != want ||
			(answer["error"] == nil) != (want == 200) {
			t.Errorf("a body of %d bytes (%.30s): %d, %v; want %d", len(body), body, status, answer["error"], want)
		}
	}
	// net/http counts the request line, and allows 4 KiB on top.
	for n, want := range map[int]int{headerBytesMax: 200, headerBytesMax + 4<<10: 431} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/commands/ruok", nil)
		req.Header.Set("X", strings.Repeat("x", n))
		res, err := r.client.Do(req)
		if err != nil {
			t.Errorf("a header of %d bytes: %v", n, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", n, res.StatusCode, want)
		}
	}
}

// TestSilentConnections: a connection that doesn't send its header in time is closed, whether
// its kind is known or not.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	for _, secure := range []*socket.TLS{
		nil, {Config: tlsConfig(t, "none"), Plain: true}, {Config: tlsConfig(t, "none")},
	} {
		for _, sent := range []string{"", "GET / HTTP/1.1\r\nHos", "\x16\x03\x01"} {
			r := listen(t, Options{TLS: secure, headerTimeout: 50 * time.Millisecond})
			conn := dial(t, r)
			fmt.Fprint(conn, sent)
			conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.ReadAll(conn); err != nil && os.IsTimeout(err) {
				t.Errorf("%v, after %q: it is still open after 30 seconds", secure.Text(), sent)
			}
		}
	}
}

// TestIdleConnection: a connection without a request is closed after admin.idleTimeout.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	r := listen(t, Options{IdleTimeout: 50 * time.Millisecond})
	conn := dial(t, r)
	fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection ends with %v", err)
	}
}

// TestConnectionsMax: one connection too many takes the place of the oldest whose caller has proved nothing. Whoever
// has been found to be permitted stays, and if all have, the next one is closed.
func TestConnectionsMax(t *testing.T) {
	t.Parallel()
	r := start(t, Options{headerTimeout: time.Hour, IdleTimeout: time.Hour})
	var all []net.Conn
	for range connectionsMax {
		all = append(all, dial(t, r))
	}
	ask := func(conn net.Conn) error {
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err
	}
	prove := func(conn net.Conn) {
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(conn, "POST /commands/drain?undo=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n\r\n", r.own())
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if io.Copy(io.Discard, answer.Body); answer.StatusCode != http.StatusOK {
			t.Fatalf("a caller who may: %s", answer.Status)
		}
	}
	for _, conn := range all {
		if err := ask(conn); err != nil {
			t.Fatalf("one of %d connections: %v", connectionsMax, err)
		}
	}
	prove(all[0])
	late := dial(t, r)
	if err := ask(late); err != nil {
		t.Errorf("the connection after %d others: %v", connectionsMax, err)
	}
	if ask(all[0]) != nil || ask(all[1]) == nil || ask(all[2]) != nil {
		t.Error("not the oldest connection without proof has made room")
	}
	for _, conn := range append(all[2:], late) {
		prove(conn)
	}
	if err := ask(dial(t, r)); err == nil {
		t.Error("all callers are known, and there is one more")
	}
	all[0].Close()
	for range 3000 {
		if ask(dial(t, r)) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("there is no room after a connection has gone")
}

func dial(t *testing.T, r *running) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.admin.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// testStore is a store of the keystore package's tests.
func testStore(name string) keystore.Store {
	return keystore.Store{Location: filepath.Join("..", "keystore", "testdata", name), Password: "apassword"}
}

func tlsConfig(t *testing.T, clientAuth string) *tls.Config {
	t.Helper()
	port, err := keystore.NewPort(keystore.Options{
		Keys: testStore("server.jks"), Trust: testStore("trust.jks"), ClientAuth: clientAuth,
	})
	if err != nil {
		t.Fatal(err)
	}
	return port.Config()
}

// secureClient trusts the test's certificates and shows that of a store, "" for none.
func secureClient(t *testing.T, certificate string) *http.Client {
	t.Helper()
	pool, err := testStore("trust.pem").Pool()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if certificate != "" {
		certs, err := testStore(certificate).Certificates()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = certs
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}, Timeout: time.Minute}
}

// reached reports whether a request to /livez is answered with 200.
func reached(t *testing.T, client *http.Client, url string) bool {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/livez", nil)
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// TestBothOnOnePort: admin.portUnification takes TLS and plain.
func TestBothOnOnePort(t *testing.T) {
	t.Parallel()
	r := start(t, Options{TLS: &socket.TLS{Config: tlsConfig(t, "none"), Plain: true}})
	if !reached(t, r.client, r.url) || !reached(t, secureClient(t, ""), "https"+strings.TrimPrefix(r.url, "http")) {
		t.Error("a port for both doesn't take both")
	}
	r.counted(map[string]int64{"insecure_admin_count": 1})
}

// TestTLSAlone: admin.forceHttps takes no plain request.
func TestTLSAlone(t *testing.T) {
	t.Parallel()
	r := listen(t, Options{TLS: &socket.TLS{Config: tlsConfig(t, "none")}})
	if reached(t, r.client, r.url) {
		t.Error("a plain request is answered")
	}
	if !reached(t, secureClient(t, ""), "https"+strings.TrimPrefix(r.url, "http")) {
		t.Error("one over TLS isn't")
	}
}

// TestClientCertificate: admin.needClientAuth refuses who shows no certificate, and the
// scheme x509 proves who has shown one.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	r := start(t, Options{TLS: &socket.TLS{Config: tlsConfig(t, "need")}})
	r.url = "https" + strings.TrimPrefix(r.url, "http")
	if reached(t, secureClient(t, ""), r.url) {
		t.Error("a caller without a certificate is answered")
	}
	stranger := secureClient(t, "")
	stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate =
		func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return selfSigned(t), nil // shown though the server didn't ask for its issuer
		}
	if reached(t, stranger, r.url) {
		t.Error("a caller with a certificate of an unknown issuer is answered")
	}
	r.client = secureClient(t, "client.pem")
	certs, err := testStore("client.pem").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.ParseCertificate(certs[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	subject, err := auth.Subject(shown)
	if err != nil {
		t.Fatal(err)
	}
	c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, id := range map[int]string{http.StatusOK: subject, http.StatusForbidden: subject + "X"} {
		acl := []zk.ACL{
			{Perms: zk.PermAll, ID: zk.ID{Scheme: "x509", ID: id}},
			{Perms: zk.PermAdmin, ID: zk.ID{Scheme: "ip", ID: "127.0.0.1"}},
		}
		if _, err := c.SetACL(t.Context(), "/", acl, -1); err != nil {
			t.Fatal(err)
		}
		if status, answer := r.command(http.MethodGet, "snapshot?streaming=false", "x509", ""); status != want {
			t.Errorf("a caller with a certificate, ACL for %s: %d, %v; want %d", id, status, answer, want)
		}
	}
}

// TestRevokedCaller: a caller whose certificate isn't accepted any more is refused, on an open connection, too.
func TestRevokedCaller(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	r := start(t, Options{TLS: &socket.TLS{Config: tlsConfig(t, "want"), Check: func([]*x509.Certificate) error {
		if revoked.Load() {
			return errors.New("it was revoked")
		}
		return nil
	}}})
	r.url = "https" + strings.TrimPrefix(r.url, "http")
	holder, other := secureClient(t, "client.pem"), secureClient(t, "")
	holder.Transport.(*http.Transport).DisableKeepAlives = false
	if !reached(t, holder, r.url) || !reached(t, other, r.url) {
		t.Fatal("callers aren't answered")
	}
	revoked.Store(true)
	if reached(t, holder, r.url) {
		t.Error("a caller with a revoked certificate is answered")
	}
	if !reached(t, other, r.url) {
		t.Error("a caller without a certificate isn't answered any more")
	}
}

// selfSigned makes a certificate that nobody trusts.
func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth,
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestDrainReason: a drain by force takes a reason of bounded length, and undoing a drain needs none. A standalone
// server refuses, which is a conflict and no failure of the server.
func TestDrainReason(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	for query, want := range map[string]int{
		"why=": 400, "why=" + strings.Repeat("x", reasonBytesMax+1): 400, "why=" + strings.Repeat("x", reasonBytesMax): 409,
		"undo=true": 200,
	} {
		if status, answer := r.command(http.MethodPost, "drain?"+query, r.own(), ""); status != want {
			t.Errorf("drain?%.20s: %d, %v; want %d", query, status, answer, want)
		}
	}
}

// TestDrainTimeout: a drain may take as long as the options say.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	r := start(t, Options{DrainTimeout: time.Hour})
	r.admin.Serve(patient{r.server})
	if status, answer := r.command(http.MethodPost, "drain", r.own(), ""); status != http.StatusOK {
		t.Errorf("%d, %v", status, answer)
	}
}

// patient is a server that is drained if it is given time.
type patient struct{ Server }

func (patient) Drain(ctx context.Context, _ string) error {
	if by, ok := ctx.Deadline(); !ok || time.Until(by) < 30*time.Minute {
		return fmt.Errorf("it must be done by %v", by)
	}
	return ctx.Err()
}

// TestAuthorization: what callers of guarded commands are told, in this order.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	check := func(auth string, want int, why any) {
		t.Helper()
		status, answer := r.command(http.MethodGet, "snapshot?streaming=false", auth, "")
		if status != want || answer["error"] != why {
			t.Errorf("Authorization %.30q: %d, %v; want %d, %v", auth, status, answer["error"], want, why)
		}
	}
	check("", 401, errAuthMissing)
	for _, auth := range []string{
		"digest a:b c", "digest", "nosuch x", "nosuch", "sasl x", "x509", "digest " + strings.Repeat("x", credentialsBytes),
	} {
		check(auth, 401, errNotAuthentic)
	}
	// The ACL of the root admits everybody: that says nothing of a caller, and neither does a name of his own choice.
	for _, auth := range []string{"ip", "digest a:b", "digest who:ever"} {
		check(auth, 403, errOpenRoot)
		for _, command := range []string{"restore", "shed_connections", "drain", "reload"} {
			if status, answer := r.command(http.MethodPost, command, auth, "{}"); status != 403 {
				t.Errorf("%s by %s: %d, %v", command, auth, status, answer)
			}
		}
	}
	check(r.own(), 200, nil)
	for _, auth := range []string{TokenScheme, TokenScheme + " ", TokenScheme + " " + strings.Repeat("0", 2*tokenBytes)} {
		check(auth, 401, errNotAuthentic)
	}
	former := r.own()
	r.admin.Serve(r.server)
	check(former, 401, errNotAuthentic)
	check(r.own(), 200, nil)
	if st, err := os.Stat(filepath.Join(r.dataDir, TokenScheme)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", st, err)
	}
	for path, method := range map[string]string{
		"restore": "POST", "shed_connections": "POST", "drain": "POST", "reload": "POST", "rest": "GET",
	} {
		if status, answer := r.command(method, path, "", ""); status != 401 || answer["error"] != errAuthMissing {
			t.Errorf("%s without a header: %d, %v", path, status, answer)
		}
	}

	c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(),
		zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("a:b")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := zk.PermAll
	for _, lacking := range []zk.Perm{zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete, zk.PermAdmin, 0} {
		acl := []zk.ACL{
			{Perms: all &^ lacking, ID: zk.ID{Scheme: "ip", ID: "127.0.0.1"}}, {Perms: all, ID: zk.ID{Scheme: "auth"}},
		}
		if _, err := c.SetACL(t.Context(), "/", acl, -1); err != nil {
			t.Fatal(err)
		}
		if lacking == 0 {
			check("ip", 200, nil)
		} else {
			check("ip", 403, errUnauthorized)
		}
		check("digest a:b", 200, nil)
		check("digest a:c", 403, errUnauthorized)
	}
	for _, open := range [][]string{{"0.0.0.0/0"}, {"0.0.0.0/1", "128.0.0.0/1"}} { // everybody, in other words
		var acl []zk.ACL
		for _, id := range open {
			acl = append(acl, zk.ACL{Perms: all, ID: zk.ID{Scheme: "ip", ID: id}})
		}
		if _, err := c.SetACL(t.Context(), "/", append(acl, zk.ACL{Perms: all, ID: zk.ID{Scheme: "auth"}}), -1); err != nil {
			t.Fatal(err)
		}
		check("ip", 403, errOpenRoot)
		check("digest a:b", 200, nil)
	}
}

// TestSuperusersRules: whoever the ACL of / names can't read past a policy by a snapshot, nor remove the policy or the
// limits, which only superusers may delete, by a restore.
func TestSuperusersRules(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	connect := func(auth string) *zk.Client {
		c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(),
			zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte(auth)}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	own := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}
	if _, err := connect("a:b").SetACL(t.Context(), "/", own, -1); err != nil {
		t.Fatal(err)
	}
	super := connect("super:test")
	check := func(state, auth string, snapshot, restore int) {
		t.Helper()
		if got, answer := r.command(http.MethodGet, "snapshot?streaming=false", auth, ""); got != snapshot {
			t.Errorf("%s: snapshot by %.20q: %d, %v; want %d", state, auth, got, answer, snapshot)
		}
		if got, answer := r.command(http.MethodPost, "restore", auth, "none"); got != restore {
			t.Errorf("%s: restore by %.20q: %d, %v; want %d", state, auth, got, answer, restore)
		}
		if got, answer := r.command(http.MethodPost, "shed_connections", auth, "{}"); got == http.StatusForbidden {
			t.Errorf("%s: shed_connections by %.20q: %d, %v", state, auth, got, answer)
		}
	}
	const ok, refused = http.StatusOK, http.StatusForbidden
	const permitted = http.StatusServiceUnavailable // this server can't read a snapshot
	check("no rules", "digest a:b", ok, permitted)
	for _, rules := range []struct {
		path, data string
		snapshot   int
	}{{"/zookeeper/limits", "", ok}, {"/zookeeper/policy", "deny all below /secrets\n", refused}} {
		if _, err := super.Create(t.Context(), rules.path, []byte(rules.data), zk.ModePersistent, own); err != nil {
			t.Fatal(err)
		}
		check(rules.path, "digest a:b", rules.snapshot, refused)
		check(rules.path, "digest super:test", ok, permitted)
		check(rules.path, r.own(), ok, permitted)
		if err := super.Delete(t.Context(), rules.path, -1); err != nil {
			t.Fatal(err)
		}
	}
	check("no rules any more", "digest a:b", ok, permitted)
}

// TestNoForwardedAddress: a caller is who its connection says, whatever headers it sends.
func TestNoForwardedAddress(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(),
		zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("a:b")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acl := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: "10.1.2.3"}}, {Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}},
	}
	if _, err := c.SetACL(t.Context(), "/", acl, -1); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/commands/snapshot", nil)
		req.Header.Set("Authorization", "ip")
		req.Header.Set(header, "10.1.2.3")
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s is believed: %d", header, res.StatusCode)
		}
	}
}

var _ Server = (*server.Server)(nil)

// TestGuessesAreThrottled: who guesses the superuser's password here is slowed down as on a
// client port.
func TestGuessesAreThrottled(t *testing.T) {
	t.Parallel()
	s, err := server.Open(server.Options{
		DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Auth: auth.Options{
			SuperDigest: "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i := range auth.FailedLoginsBurst {
		if _, err := s.Authenticate("10.1.2.3:4", nil, "digest", fmt.Appendf(nil, "super:%d", i)); err != nil {
			t.Fatalf("guess %d: %v", i, err)
		}
	}
	address := jute.ID{Scheme: "ip", ID: "10.1.2.3"}
	for i := range 100_000 { // one a second is judged
		if _, err = s.Replica().Authenticate(address, "digest", fmt.Appendf(nil, "super:x%d", i)); err != nil {
			break
		}
	}
	if !errors.Is(err, auth.ErrFailed) || !errors.Is(err, auth.ErrTooMany) {
		t.Errorf("after %d wrong guesses: %v", auth.FailedLoginsBurst, err)
	}
	// The right one waits its turn, and another user has one of its own.
	for _, credential := range []string{"super:test", "ann:x"} {
		if _, err := s.Authenticate("10.1.2.3:4", nil, "digest", []byte(credential)); err != nil {
			t.Errorf("%s after wrong guesses from its address: %v", credential, err)
		}
	}
	if _, err := s.Authenticate("10.1.2.4:4", nil, "digest", []byte("super:x")); err != nil {
		t.Errorf("from another address: %v", err)
	}
}

// A stuck server has a disk that takes a snapshot and never ends.
type stuck struct{ *server.Server }

func (stuck) TakeSnapshot(ctx context.Context) (*storage.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSnapshotTimeout: a caller is answered though the snapshot isn't written.
func TestSnapshotTimeout(t *testing.T) {
	t.Parallel()
	r := start(t, Options{snapshotTimeout: 50 * time.Millisecond})
	r.admin.Serve(stuck{r.server})
	if status, answer := r.command(http.MethodGet, "snapshot", r.own(), ""); status != http.StatusInternalServerError ||
		!strings.Contains(fmt.Sprint(answer["error"]), "deadline exceeded") {
		t.Errorf("%d, %v", status, answer)
	}
	r.counted(map[string]int64{"snapshot_error_count": 1})
}

// large opens a server on which dump has more to list than it may, and returns its Admin.
func large(t *testing.T, opt Options) *running {
	t.Helper()
	r := start(t, opt)
	c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	name := strings.Repeat("x", 1_000_000)
	for i := range listBytesMax/len(name) + 2 {
		if _, err := c.Create(t.Context(), fmt.Sprintf("/%d%s", i, name), nil, zk.ModeEphemeral,
			zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestListIsCut: a list of more than listBytesMax ends early, and the answer says so.
func TestListIsCut(t *testing.T) {
	t.Parallel()
	c := &call{of: large(t, Options{}).server}
	c.watches()
	if c.problem != nil {
		t.Errorf("a list that fits: %v", c.problem)
	}
	c.dump()
	if c.problem == nil {
		t.Error("a list that doesn't fit is said to be whole")
	}
}

// TestLongAnswersTakeTurns: while an address has a long answer, it gets no other, also by another command. Answers that
// can't be long go on, and a long one comes once the first has ended.
func TestLongAnswersTakeTurns(t *testing.T) {
	t.Parallel()
	r := large(t, Options{})
	from := netip.MustParsePrefix("127.0.0.1/32")
	if !r.admin.lists.Begin(from, nil) {
		t.Fatal("no answer can begin")
	}
	get := func(command string) int {
		t.Helper()
		res, err := http.Get("http://" + r.admin.Addr().String() + "/commands/" + command)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	for command, want := range map[string]int{
		"srvr": http.StatusOK, "mntr": http.StatusOK, "dump": http.StatusServiceUnavailable,
	} {
		if got := get(command); got != want {
			t.Errorf("%s beside a long answer: status %d, want %d", command, got, want)
		}
	}
	r.admin.lists.End(from)
	for _, command := range []string{"dump", "wchc", "wchp", "cons", "stat", "mntr", "dump"} {
		if got := get(command); got != http.StatusOK {
			t.Errorf("%s: status %d", command, got)
		}
	}
}

// TestMuteCallersLoseTheirPlaces: callers of two addresses ask for long answers and read nothing. A caller of a third
// address gets its answer nevertheless.
func TestMuteCallersLoseTheirPlaces(t *testing.T) {
	t.Parallel()
	r := large(t, Options{})
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		conn, err := d.Dial("tcp", r.admin.Addr().String())
		if err != nil {
			t.Skipf("this system has no %s: %v", from, err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		conn.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel would take much of the answer
		fmt.Fprint(conn, "GET /commands/dump HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if _, err := conn.Read(make([]byte, 1)); err != nil { // it has its place
			t.Fatal(err)
		}
	}
	if res, body := r.do(http.MethodGet, "/commands/dump", "", ""); res.StatusCode != http.StatusOK ||
		len(body) < listBytesMax-2_000_000 {
		t.Errorf("status %d, %d bytes: %.100q", res.StatusCode, len(body), body)
	}
}

// TestAnswerTimeout: a caller who doesn't read its answer loses its connection. Nothing else
// would end that within an hour.
func TestAnswerTimeout(t *testing.T) {
	t.Parallel()
	r := large(t, Options{answerTimeout: 200 * time.Millisecond, headerTimeout: time.Hour, IdleTimeout: time.Hour})
	conn := dial(t, r)
	conn.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel would take the whole answer
	awaitRoom := func(taken int) {
		t.Helper()
		for range 6000 {
			if r.admin.port.Connections() == taken {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%d connections after a minute, want %d", r.admin.port.Connections(), taken)
	}
	awaitRoom(1)
	fmt.Fprint(conn, "GET /commands/dump HTTP/1.1\r\nHost: h\r\n\r\n")
	awaitRoom(0)
}

// TestListsLookLikeArrays: lists of one type, which take less memory, have the layout of other arrays.
func TestListsLookLikeArrays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list any
		want string
	}{
		{array{"/a<", int64(-1)}, `[ "/a<", -1 ]`}, {[]string{"/a<", "/\"b\""}, `[ "/a<", "/\"b\"" ]`},
		{[]int64{1 << 62, -1}, `[ 4611686018427387904, -1 ]`}, {array{}, `[ ]`}, {[]string(nil), `[ ]`}, {[]int64{}, `[ ]`},
	} {
		got, err := text(c.list)
		if err != nil || string(got) != c.want {
			t.Errorf("%#v: %s, %v; want %s", c.list, got, err, c.want)
		}
	}
}
