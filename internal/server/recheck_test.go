package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// TestRecheck: the connections of those who aren't any more who they have proved to be are closed, if that is looked
// at; others stay.
func TestRecheck(t *testing.T) {
	t.Parallel()
	hash, err := auth.Digest("", "super:test")
	if err != nil {
		t.Fatal(err)
	}
	first := auth.Superusers{Digest: hash, SASL: []string{"root"}, X509: clientSubject, AnySASL: "anybody"}
	users := map[string]string{"bob": "secret", "root": "toor"}
	for name, c := range map[string]struct {
		every       time.Duration
		superusers  auth.Superusers
		users       map[string]string
		certificate error
		gone        []string
	}{
		"never": {0, auth.Superusers{}, nil, errors.New("withdrawn"), nil},
		"same":  {time.Hour, first, users, nil, nil},
		"renamed superuser": {time.Hour,
			auth.Superusers{Digest: "other:hash", SASL: first.SASL, X509: first.X509, AnySASL: first.AnySASL},
			users, nil, []string{"super", "super and member"}},
		"no superusers": {
			time.Hour, auth.Superusers{AnySASL: first.AnySASL}, users, nil,
			[]string{"super", "super and member", "root", "certificate"},
		},
		"not everybody": {
			time.Hour, auth.Superusers{Digest: hash, SASL: first.SASL, X509: first.X509}, users, nil, []string{"root", "bob"},
		},
		"changed password":     {time.Hour, first, map[string]string{"bob": "changed", "root": "toor"}, nil, []string{"bob"}},
		"removed user":         {time.Hour, first, map[string]string{"bob": "secret"}, nil, []string{"root"}},
		"withdrawn":            {time.Hour, first, users, errors.New("withdrawn"), []string{"certificate"}},
		"withdrawn, by itself": {10 * time.Millisecond, first, users, errors.New("withdrawn"), []string{"certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logins := sasl.Follow(sasl.NewDigestMD5(users, "", rand.Reader), users)
			var taken atomic.Pointer[error]
			s, plain, secure := openSecure(t, "want", func(o *Options) {
				o.Auth = auth.Options{
					X509: true, SASL: true, SuperDigest: first.Digest, SASLSuperUsers: first.SASL, X509SuperUser: first.X509,
					AnySASLUser: first.AnySASL, Providers: []authprovider.Provider{club{}},
				}
				o.SASL = replica.SASLOptions{Mechanism: logins}
				o.RecheckInterval = c.every
				o.Secure.Check = func(shown []*x509.Certificate) error {
					if err := taken.Load(); err != nil && len(shown) > 0 {
						return *err
					}
					return nil
				}
			})
			clients := map[string]*rawClient{
				"nobody": connect(t, plain, 0, nil), "super": connect(t, plain, 0, nil), "ann": connect(t, plain, 0, nil),
				"bob": connect(t, plain, 0, nil), "root": connect(t, plain, 0, nil),
				"super and member": connect(t, plain, 0, nil), "member": connect(t, plain, 0, nil),
				"certificate": session(t, secure, "client.pem"), "nobody over TLS": session(t, secure, ""),
			}
			for who, credential := range map[string]string{
				"super": "super:test", "ann": "ann:secret", "super and member": "super:test",
			} {
				if h, _ := clients[who].call(jute.OpAuth, authPacket("digest", credential)); h.Err != jute.OK {
					t.Fatalf("%s: %v", who, h.Err)
				}
			}
			for _, who := range []string{"member", "super and member"} {
				if h, _ := clients[who].call(jute.OpAuth, authPacket("club", "ann")); h.Err != jute.OK {
					t.Fatalf("%s: %v", who, h.Err)
				}
			}
			for who, password := range users {
				if code, _ := login(clients[who], who, password); code != jute.OK {
					t.Fatalf("%s: %v", who, code)
				}
			}
			logins.Replace(sasl.NewDigestMD5(c.users, "", rand.Reader), c.users)
			if c.certificate != nil {
				taken.Store(&c.certificate)
			}
			if c.every == 0 || c.every == time.Hour {
				s.SetSuperusers(c.superusers)
			}
			for _, who := range c.gone {
				if !clients[who].ends() {
					t.Errorf("%s stays", who)
				}
				delete(clients, who)
			}
			for who, client := range clients {
				if h, _ := client.call(jute.OpPing, nil); h.Err != jute.OK {
					t.Errorf("%s: %v", who, h.Err)
				}
			}
		})
	}
}

// TestRecheckInTime: while an issuer doesn't answer for one certificate after another, a former superuser is
// disconnected, and the server stops.
func TestRecheckInTime(t *testing.T) {
	t.Parallel()
	hash, err := auth.Digest("", "super:test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := store("server.jks").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan bool), make(chan bool)
	s := open(t, Options{
		Auth: auth.Options{X509: true, SuperDigest: hash}, RecheckInterval: time.Hour,
		Secure: SecureOptions{
			Listen: []string{"127.0.0.1:0"}, TLS: &tls.Config{Certificates: server, ClientAuth: tls.RequireAnyClientCert},
			Check: func([]*x509.Certificate) error {
				select {
				case asked <- true:
					<-answer
				case <-answer: // closed: the test is over
				}
				return nil
			},
		},
	})
	t.Cleanup(func() { close(answer) })
	super := connect(t, s.Addrs()[0].String(), 0, nil)
	if h, _ := super.call(jute.OpAuth, authPacket("digest", "super:test")); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	for range 3 {
		connectCertified(t, s)
	}
	s.Recheck()
	<-asked
	s.SetSuperusers(auth.Superusers{})
	if !super.ends() {
		t.Error("a former superuser stays while certificates are checked")
	}
	stopped := make(chan bool)
	go func() {
		s.Close()
		close(stopped)
	}()
	eventually(t, "the server stops", s.stopping)
	answer <- true
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Error("the server doesn't stop while certificates are checked")
	}
}

// TestRecheckEnds: a check of all certificates ends although each of them takes longer than the time between two
// requests for a check. One more check follows, whatever the number of requests meanwhile.
func TestRecheckEnds(t *testing.T) {
	t.Parallel()
	server, err := store("server.jks").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan string), make(chan bool)
	over := make(chan bool)
	s := open(t, Options{
		Auth: auth.Options{X509: true}, RecheckInterval: time.Hour,
		Secure: SecureOptions{
			Listen: []string{"127.0.0.1:0"}, TLS: &tls.Config{Certificates: server, ClientAuth: tls.RequireAnyClientCert},
			Check: func(shown []*x509.Certificate) error {
				select {
				case asked <- string(shown[0].Raw):
					<-answer
				case <-over:
				}
				return nil
			},
		},
	})
	t.Cleanup(func() { close(over) })
	connect(t, s.Addrs()[0].String(), 0, nil) // it serves
	const clients = 3
	for range clients {
		connectCertified(t, s)
	}
	s.Recheck()
	for round := range 2 {
		seen := map[string]bool{}
		for range clients {
			seen[<-asked] = true
			for range 2 * (1 - round) {
				s.Recheck()
			}
			answer <- true
		}
		if len(seen) != clients {
			t.Fatalf("check %d: %d of %d certificates are checked before the first is checked again", round, len(seen), clients)
		}
	}
}

// connectCertified opens a session of a client that has a certificate of its own.
func connectCertified(t *testing.T, s *Server) {
	t.Helper()
	conn, err := tls.Dial("tcp", s.Addrs()[1].String(), &tls.Config{
		Certificates: []tls.Certificate{ownCertificate(t)}, InsecureSkipVerify: true, // #nosec G402 -- the test's own server
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if handshake(t, conn, 0, nil) == nil {
		t.Fatal("a client with a certificate has no session")
	}
}

// ownCertificate returns a certificate that nobody else has.
func ownCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	draft := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, draft, draft, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}
