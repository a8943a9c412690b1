//go:build unix

package moving

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// TestFollowCommand: what zooid migrate follow says to wrong arguments.
func TestFollowCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "usage: zooid migrate follow"},
		{[]string{"zk1"}, 2, "name an ensemble and a directory"},
		{[]string{"-x=1", "zk1", "dir"}, 2, "no flag -x"},
		{[]string{"-listen"}, 2, "needs a value"},
		{[]string{"-id", "255", "zk1", "dir"}, 2, "1 to 254"},
		{[]string{"-peer-tls-ca", file + "x", "zk1", "dir"}, 1, file + "x"},
		{[]string{"-peer-tls-cert", file, "zk1", "dir"}, 1, file},
		{[]string{"zk1", filepath.Join(file, "dir")}, 1, "not a directory"},
		{[]string{"-super", "nobody", "zk1", "dir"}, 2, "USER:HASH"},
		{[]string{"-listen", "256.0.0.1:0", "zk1", filepath.Join(t.TempDir(), "dir")}, 1, "listen for clients"},
	} {
		var out bytes.Buffer
		if code := run(append([]string{"migrate", "follow"}, c.args...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("zooid migrate follow %q: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}

// TestFollowTLS: a quorum port with TLS is reached by the certificates that the flags name, and not without.
func TestFollowTLS(t *testing.T) {
	t.Parallel()
	cert, pair := peerCertificate(t)
	listener, err := tls.Listen("tcp", freeport.Address(t),
		&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				conn.Write([]byte("x"))
				conn.Close()
			}()
		}
	}()
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"-peer-tls-ca", cert, "-peer-tls-cert", cert}, true},
		{[]string{"-peer-tls-cert", cert}, false},
		{[]string{"-peer-tls-ca", cert}, false},
	} {
		var f followFlags
		if _, err := f.parse(append(c.args, "zk1", "dir")); err != nil {
			t.Fatal(err)
		}
		dial, err := f.dialer()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dial(t.Context(), listener.Addr().String())
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// peerCertificate makes a self-signed certificate for 127.0.0.1, and a PEM file with it and its key.
func peerCertificate(t *testing.T) (file string, pair tls.Certificate) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certText, keyText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Bytes: key,
	})
	if pair, err = tls.X509KeyPair(certText, keyText); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "peer.pem")
	if err := os.WriteFile(file, append(certText, keyText...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, pair
}
