package crash

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/zk"
)

// A recommended ensemble is one of three servers with the files of zooid init -tls.
type recommended struct {
	*Ensemble
	dir    string
	client *zk.Client // the superuser's
}

// layOutRecommended writes the files, on an address for each server, and starts none.
func layOutRecommended(t *testing.T) *recommended {
	t.Helper()
	r := &recommended{Ensemble: &Ensemble{}, dir: t.TempDir()}
	ports := freeport.Take(t, 15)
	o := setup.Options{Dir: r.dir, TLS: true, Now: time.Now()}
	for i := range 3 {
		own, host := ports[5*i:], fmt.Sprintf("127.0.0.%d", i+1)
		o.Hosts = append(o.Hosts, fmt.Sprintf("%s:%d:%d", host, own[1], own[2]))
		o.Ports = append(o.Ports, setup.Ports{Client: own[0], Admin: own[3], Metrics: own[4]})
		r.Servers = append(r.Servers, &Server{
			ID: i + 1, Addr: fmt.Sprintf("%s:%d", host, own[0]), Peer: fmt.Sprintf("%s:%d", host, own[1]),
			program: Build(t), log: filepath.Join(r.dir, fmt.Sprintf("%d.log", i+1)),
		})
	}
	folders, err := setup.Write(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Servers {
		s.Folder = folders[i]
	}
	t.Cleanup(func() { r.end(t) })
	return r
}

// open starts servers and connects the superuser to them.
func (r *recommended) open(t *testing.T, servers ...*Server) {
	t.Helper()
	startThem(t, servers...)
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	own := r.shows(t, "client/client.pem")
	own.RootCAs = r.trust(t)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	c, err := zk.Open(ctx, strings.Join(addrs, ","), zk.Options{TLSConfig: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r.client = c
}

func (r *recommended) trust(t *testing.T) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "ca", "ca.pem"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%q, %v", text, err)
	}
	return pool
}

// shows returns the TLS of somebody with the certificate and key in a file.
func (r *recommended) shows(t *testing.T, file string) *tls.Config {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(r.dir, file), filepath.Join(r.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// secrets is a keyring with the secret that init has written.
func (r *recommended) secrets(t *testing.T) *peer.Keyring {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Servers[0].Folder, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text)) // the first line is a comment
	return keysOf(t, lines[len(lines)-1])
}

func keysOf(t *testing.T, secret string) *peer.Keyring {
	t.Helper()
	keys, err := peer.OpenKeyring("", []peer.Secret{peer.SecretOf(secret)})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// expired issues a certificate for a host by the authority that init made, which was valid until an hour ago.
func (r *recommended) expired(t *testing.T, host string) *tls.Config {
	t.Helper()
	private, err := tls.LoadX509KeyPair(filepath.Join(r.dir, "ca", "ca.pem"), filepath.Join(r.dir, "ca", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := x509.ParseCertificate(private.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.ParseIP(host)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	own := r.shows(t, "3/server.pem").Certificates[0]
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, issuer, leaf.PublicKey, private.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own.PrivateKey}}}
}

// enters reports whether somebody with a secret and a certificate is taken for server from by server to, on a
// connection for messages.
func enters(t *testing.T, keys *peer.Keyring, over *tls.Config, cluster uint64, from int,
	to *Server) (net.Conn, error) {
	t.Helper()
	return entersBy(t, peer.Dial, keys, over, cluster, from, to)
}

// A dial is peer.Dial or peer.DialSnapshot.
type dial func(ctx context.Context, addr string, secure peer.Secure, cluster, from, to uint64) (net.Conn, error)

// kinds are the connections of members that a peer port takes.
var kinds = map[string]dial{"messages": peer.Dial, "a snapshot": peer.DialSnapshot}

// entersBy is enters on a connection of either kind.
func entersBy(t *testing.T, by dial, keys *peer.Keyring, over *tls.Config, cluster uint64, from int,
	to *Server) (net.Conn, error) {
	t.Helper()
	secure := peer.Secure{Keys: keys}
	if over != nil {
		secure.Client = func(string) *tls.Config {
			own := over.Clone()
			own.InsecureSkipVerify = true
			return own
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	return by(ctx, to.Peer, secure, cluster, uint64(from), uint64(to.ID))
}

// TestInsideRecommended attacks the peer ports of servers with the files of zooid init -tls, which ask for a
// certificate and, inside TLS, for the secret: with one of the two, with both of another server, with a certificate
// that has expired or is withdrawn, with everything that server 3 has, while that runs and as server 2, which doesn't,
// and with a recording of a connection that was accepted.
func TestInsideRecommended(t *testing.T) {
	hurtful(t)
	t.Parallel()
	r := layOutRecommended(t)
	first, second, third := r.Servers[0], r.Servers[1], r.Servers[2]
	r.open(t, first, second)
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	acl := []zk.ACL{{Perms: zk.PermRead, ID: zk.ID{Scheme: "auth"}}}
	if _, err := r.client.Create(ctx, "/protected", []byte("as it was"), zk.ModePersistent, acl); err != nil {
		t.Fatal(err)
	}
	victim := &protected{first.Addr, r.client.Session().ID, r.client}
	cluster := clusterOf(t, first)
	first.zooid(t, "cert", "issue", "-dir", r.dir, "server", "127.0.0.9")
	foreign := "servers/127.0.0.9/server.pem"

	tried, accepted := 0, 0
	for what, file := range map[string]string{
		"a client's certificate": "client/client.pem", "a certificate of its own address": foreign,
	} {
		shown := r.shows(t, file)
		shown.InsecureSkipVerify = true
		s := stranger{what, shown, "127.0.0.9"}
		for _, to := range r.Servers[:2] {
			for from := 1; from <= 4; from++ {
				tried += strangeClaim
				accepted += intrude(t, s, to, cluster, from, victim)
			}
		}
	}
	t.Logf("without the secret: %d connections, %d accepted", tried, accepted)

	known, guessed := r.secrets(t), keysOf(t, "guessed")
	own := r.shows(t, "3/server.pem")
	try := func(what string, keys *peer.Keyring, over *tls.Config, from int, enter bool, to ...*Server) {
		t.Helper()
		for _, to := range to {
			for kind, by := range kinds {
				c, err := entersBy(t, by, keys, over, cluster, from, to)
				if (err == nil) != enter {
					t.Errorf("%s, as server %d to server %d, for %s: %v", what, from, to.ID, kind, err)
				}
				if err == nil {
					c.Close()
				}
				t.Logf("%s, as server %d to server %d, for %s: %v", what, from, to.ID, kind, err)
			}
		}
	}
	up := r.Servers[:2]
	try("server 3's certificate, a wrong secret", guessed, own, 3, false, up...)
	try("the secret, no certificate", known, &tls.Config{}, 3, false, up...)
	try("the secret, in plain text", known, nil, 3, false, up...)
	try("the secret, a client's certificate", known, r.shows(t, "client/client.pem"), 3, false, up...)
	try("the secret, a certificate of another address", known, r.shows(t, foreign), 3, false, up...)
	try("the secret, an expired certificate", known, r.expired(t, "127.0.0.3"), 3, false, up...)
	try("all of server 3's, which is down, as another", known, own, 2, false, first)
	try("all of server 3's, which is down, as another", known, own, 1, false, second)
	try("all of server 3's, which is down", known, own, 3, true, up...)
	wire, err := NewProxy(first.Peer)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	wire.Record()
	try("all of server 3's, which is down, recorded", known, own, 3, true, &Server{ID: first.ID, Peer: wire.Addr()})
	for _, to := range []*Server{first, first, second} {
		for _, rec := range wire.Recordings() {
			if answer := playBack(t, to.Peer, rec.dialler); len(answer) >= len(rec.target) {
				t.Errorf("server %d answers a replayed TLS connection with %d bytes, and said %d when it accepted it", to.ID,
					len(answer), len(rec.target))
			}
		}
	}

	r.open(t, third)
	for _, to := range up {
		to.awaitConnected(t, third)
	}
	try("all of server 3's, which runs", known, own, 3, false, up...)
	second.Kill()
	try("all of server 3's, as server 2, which is down", known, own, 2, false, first, third)
	r.open(t, second)

	third.Stop()
	first.zooid(t, "cert", "revoke", "-dir", r.dir, filepath.Join(third.Folder, "server.pem"))
	list, err := os.ReadFile(filepath.Join(r.dir, "ca", "crl.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range up {
		file := filepath.Join(to.Folder, "crl.pem")
		if err := os.WriteFile(file+".new", list, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		for kind, by := range kinds {
			await(t, "a withdrawn certificate is refused for "+kind, func() bool {
				c, err := entersBy(t, by, known, own, cluster, 3, to)
				if err == nil {
					c.Close()
				}
				return err != nil
			})
		}
	}
	victim.check(t)
}

// awaitConnected waits until s has connected to another server.
func (s *Server) awaitConnected(t *testing.T, other *Server) {
	t.Helper()
	s.awaitLog(t, fmt.Sprintf("msg=\"a peer is reached\" peer=%d", other.ID))
}
