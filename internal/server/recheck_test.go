package server

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
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
			logins := sasl.Follow(sasl.NewDigestMD5(users, "", rand.Reader), users, false)
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
			logins.Replace(sasl.NewDigestMD5(c.users, "", rand.Reader), c.users, false)
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

// TestRecheckAsksOnce: a certificate that many clients show is judged once in each look.
func TestRecheckAsksOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	check := func([]*x509.Certificate) error { asked++; return nil }
	j := judged{}
	for range 3 {
		for serial := range byte(5) {
			j.check([]*x509.Certificate{{Raw: []byte{serial}}}, check)
		}
	}
	if asked != 5 {
		t.Errorf("asked %d times", asked)
	}
	for i := range judgedMax + 10 {
		j.check([]*x509.Certificate{{Raw: []byte{byte(i), byte(i >> 8), 1}}}, check)
	}
	if len(j) != judgedMax {
		t.Errorf("%d are remembered", len(j))
	}
}
