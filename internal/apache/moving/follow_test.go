//go:build unix

package moving

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/learner"
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

// TestFollowNobody: a follow that has found no leader says so, and doesn't recommend the import.
func TestFollowNobody(t *testing.T) { // not parallel: others would get the signal
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, "server.1=%s:1\n", freeport.Address(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &heard{word: "refused", heard: make(chan struct{})}
	go func() {
		<-said.heard
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}()
	var out bytes.Buffer
	code := run([]string{"migrate", "follow", config, filepath.Join(dir, "copy")}, &out, said)
	if code != followFailed || strings.Contains(out.String(), "zooid import") ||
		!strings.Contains(said.String(), "no leader was followed") {
		t.Errorf("exit %d, %q, %q", code, &out, said)
	}
}

// heard is a writer that tells when it was told a word.
type heard struct {
	mu    sync.Mutex
	b     bytes.Buffer
	word  string
	heard chan struct{}
	once  sync.Once
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b.Write(p)
	if strings.Contains(h.b.String(), h.word) {
		h.once.Do(func() { close(h.heard) })
	}
	return len(p), nil
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// TestFollowDynamic: server lines come from the file that zoo.cfg names, or the error says what to do.
func TestFollowDynamic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dynamic, config := filepath.Join(dir, "zoo.cfg.dynamic.100000000"), filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(dynamic, []byte("server.1=h1:2888:3888;2181\nversion=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, says string }{
		{"dataDir=/d\ndynamicConfigFile = " + dynamic, ""},
		{"dataDir = /d \r\ndynamicConfigFile\\\r\n  : " + dynamic + "\r\n", ""}, // as Java reads it
		{"version 5\nserver.1=old:1:2\nserver.1:h1:2888:3888;2181\n! server.2=h2:2888:3888\n", ""},
		{"dynamicConfigFile=conf/zoo.cfg.dynamic\n", "name it instead"},
		{"dynamicConfigFile=" + dynamic + "x\n", "name it instead"},
	} {
		if err := os.WriteFile(config, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := (&followFlags{words: []string{config, dir}}).config(t.Context())
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		members, version, err2 := learner.ParseConfig(text)
		if err != nil || err2 != nil || len(members) != 1 || version != 5 || members[0].Client != "h1:2181" {
			t.Errorf("%q: %+v, %d, %v, %v", c.text, members, version, err, err2)
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
		flags := newFlags()
		f.register(flags)
		words, err := flags.parse(append(c.args, "zk1", "dir"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.arguments(words); err != nil {
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
