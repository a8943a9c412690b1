package server

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// store is one of those the keystore package keeps for tests.
func store(name string) keystore.Store {
	return keystore.Store{Location: filepath.Join("..", "keystore", "testdata", name), Password: "apassword"}
}

// clientSubject is that of client.pem.
const clientSubject = `CN=client,OU=\ a\+b,O=Zoo\, \"Inc\",C=DE`

// openSecure opens a server with a plain port and a TLS port.
func openSecure(t *testing.T, clientAuth string, change func(*Options)) (s *Server, plain, secure string) {
	t.Helper()
	port, err := keystore.NewPort(keystore.Options{
		Keys: store("server.jks"), Trust: store("trust.jks"), ClientAuth: clientAuth,
	})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Auth:            auth.Options{X509: true},
		Secure:          SecureOptions{Listen: []string{"127.0.0.1:0"}, TLS: port.Config()},
		FourLetterWords: []string{"*"},
	}
	if change != nil {
		change(&opt)
	}
	s = open(t, opt)
	addrs := s.Addrs()
	connect(t, addrs[0].String(), 0, nil).conn.Close() // it serves
	return s, addrs[0].String(), addrs[1].String()
}

// dialTLS connects with the certificate of a PEM store, "" for none. An error may
// come as late as at the first read.
func dialTLS(t *testing.T, addr, certificate string) (net.Conn, error) {
	t.Helper()
	pool, err := store("trust.pem").Pool()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if certificate != "" {
		certs, err := store(certificate).Certificates()
		if err != nil {
			t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
	conn, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		return nil, err // not a nil *tls.Conn in an interface
	}
	t.Cleanup(func() { conn.Close() })
	return conn, nil
}

// session opens a session over TLS; nil if the server doesn't want it.
func session(t *testing.T, addr, certificate string) *rawClient {
	t.Helper()
	conn, err := dialTLS(t, addr, certificate)
	if err != nil {
		return nil
	}
	return handshake(t, conn, 0, nil)
}

// whoAmI returns the client's identities, sorted, as scheme:user.
func whoAmI(c *rawClient) []string {
	c.t.Helper()
	h, body := c.call(jute.OpWhoAmI, nil)
	if h.Err != jute.OK {
		c.t.Fatalf("whoAmI: %v", h.Err)
	}
	var res jute.WhoAmIResponse
	res.Decode(jute.NewDecoder(body))
	var ids []string
	for _, id := range res.Clients {
		ids = append(ids, id.Scheme+":"+id.User)
	}
	slices.Sort(ids)
	return ids
}

// TestSecureSession: who gets through, and as whom.
func TestSecureSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		clientAuth, certificate string
		ids                     []string // nil: refused
	}{
		{"need", "client.pem", []string{"ip:127.0.0.1", "x509:" + clientSubject}},
		{"need", "", nil},
		{"want", "client.pem", []string{"ip:127.0.0.1", "x509:" + clientSubject}},
		{"want", "", []string{"ip:127.0.0.1"}},
		{"none", "client.pem", []string{"ip:127.0.0.1"}},
	} {
		s, _, secure := openSecure(t, c.clientAuth, nil)
		client := session(t, secure, c.certificate)
		if c.ids == nil {
			if client != nil {
				t.Errorf("%+v: it has a session", c)
			}
			awaitCount(t, "the handshake is counted as failed", s.meters.HandshakesFailed.Value, 1)
			awaitCount(t, "authentication is counted as failed", func() int64 { return s.replica.View().AuthFailed }, 1)
			continue
		}
		if client == nil {
			t.Errorf("%+v: it has no session", c)
			continue
		}
		if got := whoAmI(client); !slices.Equal(got, c.ids) {
			t.Errorf("%+v: it is %q", c, got)
		}
		if n := s.meters.HandshakesFailed.Value(); n != 0 {
			t.Errorf("%+v: %d handshakes failed", c, n)
		}
	}
}

// TestStranger: a certificate of an issuer that the trust store doesn't hold.
func TestStranger(t *testing.T) {
	t.Parallel()
	s, _, secure := openSecure(t, "need", func(o *Options) {
		port, err := keystore.NewPort(keystore.Options{Keys: store("server.jks"), Trust: store("odd.pem")})
		if err != nil {
			t.Fatal(err)
		}
		o.Secure.TLS = port.Config()
	})
	if session(t, secure, "client.pem") != nil {
		t.Error("it has a session")
	}
	awaitCount(t, "the handshake is counted as failed", s.meters.HandshakesFailed.Value, 1)
}

// TestX509Super: the superuser by certificate may do what no ACL allows.
func TestX509Super(t *testing.T) {
	t.Parallel()
	_, _, secure := openSecure(t, "need", func(o *Options) { o.Auth.X509SuperUser = clientSubject })
	c := session(t, secure, "client.pem")
	if c == nil {
		t.Fatal("no session")
	}
	r := jute.CreateRequest{
		Path: "/locked", ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: "192.0.2.1"}}},
	}
	if h, _ := c.call(jute.OpCreate, r.Append); h.Err != jute.OK {
		t.Fatalf("create: %v", h.Err)
	}
	set := jute.SetDataRequest{Path: "/locked", Data: []byte("x"), Version: -1}
	if h, _ := c.call(jute.OpSetData, set.Append); h.Err != jute.OK {
		t.Errorf("set: %v", h.Err)
	}
}

// TestUnified: one port takes plain and TLS, sessions and four-letter words.
func TestUnified(t *testing.T) {
	t.Parallel()
	s, plain, secure := openSecure(t, "need", func(o *Options) { o.Secure.Unify = true })
	if c := session(t, plain, "client.pem"); c == nil || len(whoAmI(c)) != 2 {
		t.Error("no session over TLS on the plain port")
	}
	if got := whoAmI(connect(t, plain, 0, nil)); !slices.Equal(got, []string{"ip:127.0.0.1"}) {
		t.Errorf("over plain it is %q", got)
	}
	for _, addr := range []string{plain, secure} {
		conn, err := dialTLS(t, addr, "client.pem")
		if err != nil {
			t.Fatal(err)
		}
		if got := askConn(t, conn, "ruok"); got != "imok" {
			t.Errorf("ruok over TLS on %s: %q", addr, got)
		}
	}
	conn, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := askConn(t, conn, "ruok"); got != "imok" {
		t.Errorf("ruok over plain: %q", got)
	}
	if n := s.handshakes.plainLocal.Load(); n < 3 || s.handshakes.plainRemote.Load() != 0 {
		t.Errorf("%d plain connections of this host, %d of others, counted", n, s.handshakes.plainRemote.Load())
	}
}

// askConn sends a four-letter word and reads the answer to its end.
func askConn(t *testing.T, conn net.Conn, word string) string {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNotUnified: without the option a TLS client gets nowhere on the plain port,
// and a plain one never on the TLS port.
func TestNotUnified(t *testing.T) {
	t.Parallel()
	s, plain, secure := openSecure(t, "none", nil)
	if session(t, plain, "") != nil {
		t.Error("a session over TLS on the plain port")
	}
	conn, err := net.Dial("tcp", secure)
	if err != nil {
		t.Fatal(err)
	}
	if c := handshake(t, conn, 0, nil); c != nil && c.session != 0 {
		t.Error("a plain session on the TLS port")
	}
	awaitCount(t, "the handshake is counted as failed", s.meters.HandshakesFailed.Value, 1)
}

// TestSecureWordIsForgotten: the connection of a word over TLS counts no more when
// its answer is out.
func TestSecureWordIsForgotten(t *testing.T) {
	t.Parallel()
	s, _, secure := openSecure(t, "none", nil)
	conn, err := dialTLS(t, secure, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := askConn(t, conn, "srvr"); !strings.Contains(got, "Mode: standalone") {
		t.Errorf("srvr: %q", got)
	}
	awaitCount(t, "no connection is left", func() int64 { return int64(s.connections.count()) }, 0)
}

// TestHandshakeLimit: a handshake that is one too many ends at once, and those
// that dawdle hold no place for ever.
func TestHandshakeLimit(t *testing.T) {
	t.Parallel()
	s, _, secure := openSecure(t, "none", func(o *Options) { o.Secure.HandshakesMax = 1 })
	dawdler, err := net.Dial("tcp", secure)
	if err != nil {
		t.Fatal(err)
	}
	defer dawdler.Close()
	awaitCount(t, "a handshake is under way", s.handshakes.underWay.Load, 1)
	if session(t, secure, "") != nil {
		t.Error("a session beyond the limit")
	}
	if n := s.meters.HandshakesExceeded.Value(); n != 1 {
		t.Errorf("%d handshakes exceeded, want 1", n)
	}
	dawdler.Close()
	awaitCount(t, "no handshake is under way", s.handshakes.underWay.Load, 0)
	if session(t, secure, "") == nil {
		t.Error("no session when there is room again")
	}
}

// TestHandshakesOfAddress: an address has a tenth of the handshakes, or a few if that is less; others have the rest.
func TestHandshakesOfAddress(t *testing.T) {
	t.Parallel()
	s, _, secure := openSecure(t, "none", func(o *Options) { o.Secure.HandshakesMax = 10 * (handshakesOfAddressMin + 1) })
	for range handshakesOfAddressMin + 1 {
		dawdler, err := net.Dial("tcp", secure)
		if err != nil {
			t.Fatal(err)
		}
		defer dawdler.Close()
	}
	awaitCount(t, "as many handshakes are under way as an address may have", s.handshakes.underWay.Load,
		handshakesOfAddressMin+1)
	if session(t, secure, "") != nil {
		t.Error("a session beyond the limit of its address")
	}
	if n := s.meters.HandshakesExceeded.Value(); n != 1 {
		t.Errorf("%d handshakes exceeded, want 1", n)
	}
	s.handshakes.byAddress.add("10.0.0.1", handshakesOfAddressMin+1)
	if err := s.handshakes.crowded("10.0.0.1"); err != nil {
		t.Errorf("another address, with as many as it may have: %v", err)
	}
	s.handshakes.byAddress.add("10.0.0.1", 1)
	if err := s.handshakes.crowded("10.0.0.1"); err == nil {
		t.Error("another address has one handshake too many")
	}
}

// TestSecureDawdler: who never finishes its handshake is cut off.
func TestSecureDawdler(t *testing.T) {
	t.Parallel()
	s, _, secure := openSecure(t, "none", func(o *Options) { o.SessionlessTimeout = 300 * time.Millisecond })
	conn, err := net.Dial("tcp", secure)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte{tlsHandshakeRecord, 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection did not end by itself: %v", err)
	}
	awaitCount(t, "the handshake is counted as failed", s.meters.HandshakesFailed.Value, 1)
}

// TestFirstRecord: a first record that comes byte by byte, or with what follows it, is read as a whole; of one that
// can't be right no more than its head is waited for.
func TestFirstRecord(t *testing.T) {
	t.Parallel()
	whole := append([]byte{tlsHandshakeRecord, 3, 1, 0, 4}, "body"...)
	for _, c := range []struct {
		name       string
		had, comes []byte
		want       []byte // nil for an error
	}{
		{"all comes", nil, whole, whole},
		{"head had", whole[:4], whole[4:], whole},
		{"all had", whole, nil, whole},
		{"more had", append(whole[:len(whole):len(whole)], "more"...), nil, append(whole[:len(whole):len(whole)], "more"...)},
		{"no body", nil, []byte{tlsHandshakeRecord, 3, 1, 0, 0}, []byte{tlsHandshakeRecord, 3, 1, 0, 0}},
		{"the longest", nil, append([]byte{tlsHandshakeRecord, 3, 1, 0x40, 0}, make([]byte, recordMax)...),
			append([]byte{tlsHandshakeRecord, 3, 1, 0x40, 0}, make([]byte, recordMax)...)},
		{"too long", nil, []byte{tlsHandshakeRecord, 3, 1, 0x40, 1}, []byte{tlsHandshakeRecord, 3, 1, 0x40, 1}},
		{"no handshake", nil, []byte("mntr\n"), []byte("mntr\n")},
		{"cut in its head", nil, whole[:4], nil},
		{"cut in its body", nil, whole[:len(whole)-1], nil},
		{"nothing", nil, nil, nil},
	} {
		near, far := net.Pipe()
		go func() {
			for i := range c.comes {
				far.Write(c.comes[i : i+1])
			}
			far.Close()
		}()
		got, err := readRecord(near, bytes.Clone(c.had))
		near.Close()
		if (err == nil) != (c.want != nil) || err == nil && !bytes.Equal(got, c.want) {
			t.Errorf("%s: read %d bytes, %v; want %d", c.name, len(got), err, len(c.want))
		}
	}
}

// TestSecurePipeline: large and many frames, in both directions at once.
func TestSecurePipeline(t *testing.T) {
	t.Parallel()
	_, _, secure := openSecure(t, "need", nil)
	c := session(t, secure, "client.pem")
	if c == nil {
		t.Fatal("no session")
	}
	data := make([]byte, 300_000)
	if h, _ := c.call(jute.OpCreate, creating("/large", data, jute.ModePersistent)); h.Err != jute.OK {
		t.Fatalf("create: %v", h.Err)
	}
	const rounds = 40
	set := jute.SetDataRequest{Path: "/large", Data: data, Version: -1}
	sent := make(chan error, 1)
	var all []byte
	for range rounds {
		all = c.request(all, jute.OpGetData, reading("/large", false))
		all = c.request(all, jute.OpSetData, set.Append)
	}
	go func() {
		_, err := c.conn.Write(all)
		sent <- err
	}()
	for i := range 2 * rounds {
		if h, body := c.reply(); h.Err != jute.OK || h.Xid != int32(i+2) ||
			i%2 == 0 && binary.BigEndian.Uint32(body) != uint32(len(data)) {
			t.Fatalf("reply %d: %+v with %d bytes", i, h, len(body))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// awaitCount waits for what follows from something that has happened.
func awaitCount(t *testing.T, what string, count func() int64, want int64) {
	t.Helper()
	if !within(func() bool { return count() == want }) {
		t.Fatalf("it never came to be that %s: the count is %d, not %d", what, count(), want)
	}
}

// TestEarlyDropOfHandshakes: a server that doesn't serve refuses TLS handshakes if it is told to; otherwise it shakes
// hands.
func TestEarlyDropOfHandshakes(t *testing.T) {
	t.Parallel()
	for _, drop := range []bool{false, true} {
		s, _, secure := openSecure(t, "none", func(o *Options) { o.Secure.DropEarly = drop })
		if session(t, secure, "") == nil {
			t.Errorf("dropped early %t: no session on a server that serves", drop)
		}
		s.replica.Lead(quorum.Leadership{})
		s.replica.CheckQuorum(1<<40, 0)
		if s.Status().Serving {
			t.Fatal("it serves without a leader")
		}
		if _, err := dialTLS(t, secure, ""); (err != nil) != drop {
			t.Errorf("dropped early %t: the handshake on a server that doesn't serve: %v", drop, err)
		}
	}
}
