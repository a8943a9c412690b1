package crash

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An issuer of certificates for the servers.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(24 * time.Hour), Subject: pkix.Name{
			CommonName: "issuer",
		},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

// stores writes a new key store with a certificate for the loopback, and a trust
// store with the issuers, each at once.
func (i *issuer) stores(t *testing.T, folder string, trusted ...*issuer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(24 * time.Hour),
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, i.cert, &key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	own := slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	var trust []byte
	for _, other := range trusted {
		trust = append(trust, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.cert.Raw})...)
	}
	for name, text := range map[string][]byte{"key.pem": own, "trust.pem": trust} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
}

// change replaces lines of the server's zoo.cfg, which count from its next start
// on.
func (s *Server) change(t *testing.T, settings map[string]string) {
	t.Helper()
	file := filepath.Join(s.Folder, "zoo.cfg")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		key, _, _ := strings.Cut(line, "=")
		if _, changed := settings[key]; !changed {
			b.WriteString(line)
		}
	}
	for key, value := range settings {
		b.WriteString(key + "=" + value + "\n")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChangeToTLS changes three servers under load from plain text to both, to
// TLS with both accepted, to TLS alone, one server after the other. No step may
// cost anything but the connections of the server that restarts.
func TestChangeToTLS(t *testing.T) {
	seed, _ := hurtful(t)
	ca := newIssuer(t)
	r := Begin(t, trio(seed, 1000))
	for _, s := range r.Servers {
		ca.stores(t, s.Folder, ca)
		s.change(t, map[string]string{
			"ssl.quorum.keyStore.location":   filepath.Join(s.Folder, "key.pem"),
			"ssl.quorum.trustStore.location": filepath.Join(s.Folder, "trust.pem"),
		})
	}
	for _, step := range []map[string]string{
		{"portUnification": "true"},
		{"sslQuorum": "true"},
		{"portUnification": "false"},
	} {
		for i, s := range r.Servers {
			r.WaitAnswered(50)
			r.Down(i)
			fault := time.Now()
			s.change(t, step)
			if code := s.Stop(); code != 0 {
				t.Errorf("server %d ended with code %d on SIGTERM", s.ID, code)
			}
			r.survivors(i, fault)
			r.Collect(i)
			r.Restart(i)
			r.Up(i)
		}
	}
	r.WaitAnswered(200)
	for _, s := range r.Servers {
		for _, sign := range []string{"a peer was refused", "accepts TLS only", "in plain text"} {
			if strings.Contains(s.Log(), sign) {
				t.Errorf("server %d turned a peer away: its log says %q:\n%s", s.ID, sign, s.LogEnd())
			}
		}
	}
	r.undisturbed()
	r.Verdict()
}

// TestNewIssuer replaces the certificates of three running servers by those of
// another issuer: first all trust both, then they show the new ones, then they
// trust nothing else. One server restarts after each step and must find the
// others, which don't, on the new files.
func TestNewIssuer(t *testing.T) {
	seed, _ := hurtful(t)
	old, next := newIssuer(t), newIssuer(t)
	folder := t.TempDir()
	old.stores(t, folder, old, next)
	o := trio(seed, 500)
	o.Config = map[string]string{
		"sslQuorum":                      "true",
		"ssl.quorum.keyStore.location":   filepath.Join(folder, "key.pem"),
		"ssl.quorum.trustStore.location": filepath.Join(folder, "trust.pem"),
	}
	r := Begin(t, o)
	for i, trusted := range [][]*issuer{{old, next}, {next}} {
		r.reload(t, func() { next.stores(t, folder, trusted...) })
		r.WaitAnswered(50)
		r.Down(i)
		fault := time.Now()
		r.Servers[i].Stop()
		r.survivors(i, fault)
		r.Collect(i)
		r.Restart(i)
		r.Up(i)
	}
	r.WaitAnswered(200)
	r.undisturbed()
	r.Verdict()
}

// reloadPause is more than the time between two looks at the files, which servers take as others connect.
const reloadPause = 1500 * time.Millisecond

// reloaded is what a server says that has taken up new files by itself.
const reloaded = "stores of the peer port have changed; new connections use them"

// knock begins a TLS handshake at a server's peer port, which it doesn't complete.
func (s *Server) knock() {
	d := net.Dialer{Timeout: askPatience}
	if c, err := tls.DialWithDialer(&d, "tcp", s.Peer, &tls.Config{InsecureSkipVerify: true}); err == nil {
		c.Close()
	}
}

// reload writes new files and waits until each server says that it uses them, and has no
// more to say: a server that looks while they are written takes them up in two steps.
func (r *Run) reload(t *testing.T, write func()) {
	t.Helper()
	said := func() (counts []int) {
		for _, s := range r.Servers {
			s.knock()
			counts = append(counts, strings.Count(s.Log(), reloaded))
		}
		return counts
	}
	before := said()
	write()
	now, since := said(), time.Now()
	all := func() bool {
		for i := range now {
			if now[i] == before[i] {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(healPatience); !all() || time.Since(since) < reloadPause; time.Sleep(10 * readyPause) {
		if time.Now().After(deadline) {
			t.Fatalf("of the servers, which had said so %v times, not each says within %v that it uses the new files: %v", before,
				healPatience, now)
		}
		if again := said(); !slices.Equal(now, again) {
			now, since = again, time.Now()
		}
	}
}
