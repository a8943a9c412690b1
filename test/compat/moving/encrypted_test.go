package moving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/verdict"
)

// TestFollowEncrypted follows servers of Apache's that talk TLS among themselves (sslQuorum), and ask for certificates,
// through an election. Without a certificate, with another issuer's, or in plain text nobody follows.
func TestFollowEncrypted(t *testing.T) {
	need(t)
	program, folder := zooid(t), t.TempDir()
	ours, others := newIssuer(t, folder, "ours"), newIssuer(t, folder, "others")
	key := ours.issue(t, "servers", net.IPv4(127, 0, 0, 1))
	mine := ours.issue(t, "observer", net.IPv4(127, 0, 0, 9))
	e := startEncrypted(t, "3.9.5", ours, key, "-Dzookeeper.commitLogCount=100000")
	right := []string{"-peer-tls-ca", ours.file, "-peer-tls-cert", mine}
	for _, c := range []struct {
		says  string
		flags []string
	}{
		{"certificate signed by unknown authority", []string{"-peer-tls-ca", others.file, "-peer-tls-cert", mine}},
		{"following", []string{"-peer-tls-ca", ours.file}},
		{"following",
			[]string{"-peer-tls-ca", ours.file, "-peer-tls-cert", others.issue(t, "stranger", net.IPv4(127, 0, 0, 1))}},
		{"following", nil},
	} {
		followAs(t, program, e, nil, c.says, false, c.flags...)
	}

	l := startLoad(e.connect(), *firstSeed, true)
	defer l.end()
	dir := filepath.Join(t.TempDir(), "copy")
	s := followBy(t, program, e.connect(), dir, right...)
	leads := func(after int) {
		t.Helper()
		if !awaited(func() bool {
			return strings.Count(s.output.String(), "in epoch") > after &&
				strings.Contains(word(s.addr, "srvr"), "Lag in zxids: 0\n")
		}) {
			t.Fatalf("it doesn't follow:\n%s", s.output)
		}
	}
	leads(0)
	killed := e.leader()
	e.servers[killed].kill()
	e.await()
	leads(1)
	differing := int64(-1) // it hasn't said
	if !awaited(func() bool {
		enough := mntr(s, "zk_digests_compared") >= 10
		differing = mntr(s, "zk_digest_mismatches_count")
		return enough && differing >= 0 || differing > 0
	}) {
		t.Fatalf("too few digests are compared\n%s\n%s", word(s.addr, "mntr"), s.output)
	}
	if differing != 0 {
		verdict.Final(t, verdict.Digest)
		t.Errorf("%d digests differ\n%s", differing, s.output)
	}
	s.cmd.Process.Signal(os.Interrupt)
	<-s.exited
	t.Log(s.output)
	e.start(killed)
	l.end()
	runFollower(t, program, e, dir, right...)
}

// startEncrypted is startServers of three servers that talk TLS among themselves, with a certificate and its issuer's.
func startEncrypted(t *testing.T, version string, issuer *issuer, cert string, options ...string) *ensemble {
	t.Helper()
	lines := fmt.Sprintf("sslQuorum=true\nssl.quorum.keyStore.location=%s\nssl.quorum.keyStore.type=PEM\nssl.quorum.trustStore.location=%s\nssl.quorum.trustStore.type=PEM\n",
		cert, issuer.file)
	netty := classPath(t, version) + ":" + javaClient(t) // which 3.9 needs for TLS
	return startServers(t, version, 3, lines, append([]string{"-cp", netty}, options...)...)
}

// TestSwitchEncrypted switches servers that talk TLS among themselves, while a client writes. Without their issuer's
// certificate, the check ends and says why, and nothing is stopped.
func TestSwitchEncrypted(t *testing.T) { withEach(t, both, switchEncrypted) }

func switchEncrypted(t *testing.T, version string) {
	program, folder := zooid(t), t.TempDir()
	ours := newIssuer(t, folder, "ours")
	e := startEncrypted(t, version, ours, ours.issue(t, "servers", net.IPv4(127, 0, 0, 1)))
	z := newZooids(t, program, quickLimits)
	z.seed = true
	told := startWriter(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs))
	told.await(100)
	dir := filepath.Join(t.TempDir(), "copy")
	right := []string{"-peer-tls-ca", ours.file, "-peer-tls-cert", ours.issue(t, "observer", net.IPv4(127, 0, 0, 1))}
	if !testing.Short() { // half a minute is too long for CI
		out, err := z.switching(e, dir, "-peer-tls-ca", newIssuer(t, folder, "others").file, "-check").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no leader is followed: ") ||
			!strings.Contains(string(out), "certificate signed by unknown authority") {
			t.Errorf("-check with another issuer: %v\n%s", err, out)
		}
	}
	if out, err := z.switching(e, dir, append(right, "-check")...).CombinedOutput(); err != nil {
		t.Fatalf("-check: %v\n%s", err, out)
	}
	told.await(100)
	out, err := z.switching(e, dir, append(right, "-stop", z.stopping(e, "", ""))...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	z.serveAlone(e, told, 100)
}

// An issuer signs certificates.
type issuer struct {
	folder string
	file   string // its own certificate
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, folder, name string) *issuer {
	t.Helper()
	i := &issuer{folder: folder, file: filepath.Join(folder, name+".pem")}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var text []byte
	i.cert, i.key, text = i.sign(t, name, template)
	if err := os.WriteFile(i.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// issue writes a file with a certificate for an address, and its key.
func (i *issuer) issue(t *testing.T, name string, address net.IP) string {
	t.Helper()
	_, key, text := i.sign(t, name, &x509.Certificate{IPAddresses: []net.IP{address}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(i.folder, name+".pem")
	if err := os.WriteFile(file, slices.Concat(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sign makes a key and a certificate for it; an issuer without a certificate signs its own.
func (i *issuer) sign(t *testing.T, name string,
	template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter, template.Subject = big.NewInt(time.Now().UnixNano()),
		time.Now().Add(24*time.Hour), pkix.Name{CommonName: name}
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
