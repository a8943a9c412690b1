package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/zk"
)

// secured is an ensemble of init -tls whose servers run as processes.
type secured struct {
	t     *testing.T
	dir   string
	ports []int // five of each server: its peers', an unused one, its clients', and two more
}

func (s *secured) host(id int) string {
	return fmt.Sprintf("127.0.0.1:%d:%d", s.ports[5*id-5], s.ports[5*id-4])
}

func (s *secured) clients(id int) string { return fmt.Sprintf("127.0.0.1:%d", s.ports[5*id-3]) }

// start runs the server in a folder until the test ends.
func (s *secured) start(id int) {
	folder := filepath.Join(s.dir, fmt.Sprint(id))
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = folder, append(os.Environ(), "ZOOID_TEST_ARGS=server zoo.cfg"), log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		killed := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
		killed.Stop()
		if s.t.Failed() {
			s.t.Logf("server %d:\n%s", id, s.log(id))
		}
	})
}

func (s *secured) log(id int) []byte {
	text, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprint(id), "log"))
	return text
}

// append appends lines to a server's zoo.cfg.
func (s *secured) append(id int, lines string) {
	s.t.Helper()
	file := filepath.Join(s.dir, fmt.Sprint(id), "zoo.cfg")
	text, err := os.ReadFile(file)
	if err := errors.Join(err, os.WriteFile(file, append(text, lines...), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// replace puts a copy of a file in the place of a server's, as docs/operations.md says.
func (s *secured) replace(id int, name, with string) {
	s.t.Helper()
	text, err := os.ReadFile(with)
	place := filepath.Join(s.dir, fmt.Sprint(id), name)
	if err := errors.Join(err, os.WriteFile(place+".new", text, 0o600), os.Rename(place+".new", place)); err != nil {
		s.t.Fatal(err)
	}
}

// withProfile runs a command of zooid with the profiles of the folder client.
func (s *secured) withProfile(args string) (string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS="+args, "ZOOID_CONFIG="+filepath.Join(s.dir, "client", "profile"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// enters reports whether the holder of a key and certificate gets an answer at a port for clients.
func (s *secured) enters(ctx context.Context, id int, own string) bool {
	cert, err := tls.LoadX509KeyPair(own, own)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := clientTLS(s.t, filepath.Join(s.dir, "client")).RootCAs
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}}).DialContext(ctx,
		"tcp", s.clients(id))
	if err != nil {
		return false
	}
	defer c.Close()
	fmt.Fprint(c, "ruok")
	answer := make([]byte, 4)
	n, _ := c.Read(answer)
	return n > 0
}

// serves reports whether a server has served clients. One that waits for an ensemble answers four-letter words as well.
func (s *secured) serves(id int) bool { return bytes.Contains(s.log(id), []byte("msg=serving")) }

// until waits for what must come to be.
func until(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestCertificatesAtWork issues certificates for a running ensemble. An application's lets its holder in as a client
// who is no superuser, and not as a server, although it has the ensemble's secret; once it is revoked, nobody enters
// with it. A server that init -add has written joins and gets a vote.
func TestCertificatesAtWork(t *testing.T) {
	t.Parallel()
	s := &secured{t: t, dir: filepath.Join(t.TempDir(), "new"), ports: freeport.Take(t, 20)}
	o := setup.Options{Dir: s.dir, TLS: true, Now: time.Now()}
	for id := 1; id <= 3; id++ {
		o.Hosts = append(o.Hosts, s.host(id))
		o.Ports = append(o.Ports, setup.Ports{Client: s.ports[5*id-3], Admin: s.ports[5*id-2], Metrics: s.ports[5*id-1]})
	}
	if _, err := setup.Write(o); err != nil { // with metricsProvider.ssl.crlFile and its like
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ {
		s.append(id, "auth.recheckSeconds=1\n")
	}
	if code, text := runZooid("cert", "issue", "-dir", s.dir, "app", "orders"); code != 0 || !strings.Contains(text,
		"x509:CN=orders") {
		t.Fatalf("%d, %s", code, text)
	}
	own := filepath.Join(s.dir, "apps", "orders", "app.pem")
	third, err := os.ReadFile(filepath.Join(s.dir, "3", "server.pem"))
	right := filepath.Join(s.dir, "right.pem")
	if err := errors.Join(err, os.WriteFile(right, third, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.replace(3, "server.pem", own) // whoever runs server 3 has all but a server's certificate
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s.start(1)
	s.start(2)
	root, err := zk.Open(ctx, s.clients(1)+","+s.clients(2), zk.Options{TLSConfig: clientTLS(t, filepath.Join(s.dir,
		"client"))})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	theirs := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "x509", ID: "CN=orders"}}}
	if _, err := root.Create(ctx, "/orders", nil, zk.ModePersistent, theirs); err != nil {
		t.Fatal(err)
	}
	t.Run("peer", func(t *testing.T) {
		s.start(3)
		until(ctx, t, "server 3 is refused for its certificate", func() bool {
			return bytes.Contains(append(s.log(1), s.log(2)...), []byte("incompatible key usage"))
		})
		if s.serves(3) {
			t.Error("server 3 serves, with an application's certificate")
		}
		s.replace(3, "server.pem", right)
		until(ctx, t, "server 3 joins with its own certificate", func() bool { return s.serves(3) })
	})
	cert, err := tls.LoadX509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	config := clientTLS(t, filepath.Join(s.dir, "client"))
	config.Certificates = []tls.Certificate{cert}
	app, err := zk.Open(ctx, s.clients(1)+","+s.clients(2), zk.Options{TLSConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if _, err := app.Set(ctx, "/orders", []byte("x"), -1); err != nil {
		t.Errorf("the application writes its own: %v", err)
	}
	if _, err := app.Create(ctx, "/other", nil, zk.ModePersistent, theirs); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("the application writes what is the superuser's: %v", err)
	}
	if code, text := runZooid("cert", "revoke", "-dir", s.dir, "orders"); code != 0 || !strings.Contains(text,
		"crl.pem.new") {
		t.Fatalf("%d, %s", code, text)
	}
	for id := 1; id <= 3; id++ {
		if !s.enters(ctx, id, own) {
			t.Errorf("server %d refuses a certificate before it has the list", id)
		}
		s.replace(id, "crl.pem", filepath.Join(s.dir, "ca", "crl.pem"))
		if s.enters(ctx, id, own) {
			t.Errorf("server %d lets in who has a revoked certificate", id)
		}
		if !s.enters(ctx, id, filepath.Join(s.dir, "client", "client.pem")) {
			t.Errorf("server %d lets nobody in", id)
		}
		for _, endpoint := range []string{
			fmt.Sprintf("https://127.0.0.1:%d/metrics", s.ports[5*id-1]),
			fmt.Sprintf("https://127.0.0.1:%d/readyz", s.ports[5*id-2]),
		} {
			if s.reads(endpoint, own) || !s.reads(endpoint, filepath.Join(s.dir, "client", "client.pem")) {
				t.Errorf("server %d: %s answers a revoked certificate, or no other", id, endpoint)
			}
		}
	}
	until(ctx, t, "who is connected with a revoked certificate is closed", func() bool {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err := app.Get(short, "/orders")
		return err != nil
	})
	s.grow(ctx, root)
}

// reads reports whether the bearer of a certificate gets an answer from an endpoint.
func (s *secured) reads(endpoint, certificate string) bool {
	s.t.Helper()
	cert, err := tls.LoadX509KeyPair(certificate, certificate)
	if err != nil {
		s.t.Fatal(err)
	}
	config := clientTLS(s.t, filepath.Join(s.dir, "client"))
	config.Certificates = []tls.Certificate{cert}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := client.Get(endpoint)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// grow adds server 4, by what init -add writes and prints.
func (s *secured) grow(ctx context.Context, root *zk.Client) {
	t := s.t
	code, text := runZooid("init", "-add", "4", "-dir", s.dir, "-client-port", fmt.Sprint(s.ports[17]), s.host(4))
	_, line, ok := strings.Cut(text, "reconfig -add '")
	line, _, _ = strings.Cut(line, "'")
	if code != 0 || !ok || !strings.HasPrefix(line, "server.4=127.0.0.1:") {
		t.Fatalf("%d, %s", code, text)
	}
	s.append(4, fmt.Sprintf("admin.serverPort=%d\nmetricsProvider.httpsPort=%d\n", s.ports[18], s.ports[19]))
	s.start(4)
	until(ctx, t, "server 4 follows", func() bool { return s.serves(4) })
	until(ctx, t, "server 4 has a vote", func() bool { // by the command that was printed
		text, err := s.withProfile("cli -profile ensemble reconfig -add " + line)
		return err == nil && strings.Contains(text, line[:len("server.4=127.0.0.1:")])
	})
	if text, _ := s.withProfile("status -profile ensemble"); !strings.Contains(text, s.clients(1)) ||
		strings.Contains(text, "-tls-ca") {
		t.Errorf("status says %s", text)
	}
	all, err := setup.List(s.dir, time.Now())
	if err != nil || all[len(all)-1].Subject != "CN=server 4" {
		t.Fatalf("%+v, %v", all, err)
	}
	if code, text := runZooid("cert", "revoke", "-dir", s.dir, all[len(all)-1].Serial); code != 0 {
		t.Fatalf("%d, %s", code, text)
	}
	for id := 1; id <= 3; id++ {
		s.replace(id, "crl.pem", filepath.Join(s.dir, "ca", "crl.pem"))
	}
	until(ctx, t, "servers cut off one whose certificate is revoked", func() bool {
		logs := slices.Concat(s.log(1), s.log(2), s.log(3))
		return bytes.Contains(logs, []byte(`check the certificate \"CN=server 4\" for revocation: it was revoked`))
	})
	if _, err := root.Set(ctx, "/orders", []byte("y"), -1); err != nil {
		t.Error(err)
	}
}

// TestCertCommandLines: what is wrong on a command line of zooid cert is said before anything is written, and a
// certificate that was issued by other means can't write to the terminal that lists it.
func TestCertCommandLines(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if code, text := runZooid("init", "-tls", "-dir", dir, "zk1"); code != 0 || !strings.Contains(text,
		"-profile ensemble") {
		t.Fatalf("%d, %s", code, text)
	}
	for line, says := range map[string]string{
		"": "one of issue", "sign": `"sign" isn't one`, "issue": "'server HOST…' or 'app NAME'", "issue app": "'app NAME'",
		"issue server": "'server HOST…'", "issue app a b": "one name", "issue -superuser server a": "can't be a superuser",
		"renew":      "one name",
		"revoke a b": "one name", "list a": "takes no names", "issue app a -dir x": "flags come before names",
		"issue app -a": "flags come before names", "-dir a -dir b list": "given twice", "list -dir": "needs an argument",
		"list -dir=": "empty", "list -nosuch": "not defined: -nosuch", "list -days 3": "takes no flag -days",
		"revoke -json a":      "no flag -json",
		"issue -days 0 app a": "want 1 to 825", "issue -days=826 app a": "want 1 to 825",
		"issue -days x app a": "want 1 to 825",
		"list -json=yes":      "invalid boolean value",
	} {
		if code, text := runZooid(append([]string{"cert"}, strings.Fields(line)...)...); code != 2 ||
			!strings.Contains(text, says) {
			t.Errorf("zooid cert %s: %d, %s; want %q", line, code, text, says)
		}
	}
	stray := filepath.Join(t.TempDir(), "stray.pem")
	if err := os.WriteFile(stray, strangelyNamed(t, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"revoke", "-dir", dir, stray}, {"list", "-dir", dir}, {"list", "-json", "-dir",
		dir}} {
		code, text := runZooid(append([]string{"cert"}, args...)...)
		if code != 0 || strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "orders") {
			t.Errorf("%q: %d, %q", args, code, text)
		}
	}
}

// strangelyNamed returns a certificate of the authority in dir with a name that would control a terminal.
func strangelyNamed(t *testing.T, dir string) []byte {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca", "ca.pem"), filepath.Join(dir, "ca", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "orders\x1b[2J\u202e"},
		NotAfter: time.Now().Add(time.Hour),
	}, ca.Leaf, ca.Leaf.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// TestDoctorReadsLists: a revocation list that isn't there, or is none, is found out before the server refuses to
// start.
func TestDoctorReadsLists(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if code, text := runZooid("init", "-tls", "-dir", dir, "-at", filepath.Join(dir, "1")); code != 0 {
		t.Fatalf("%d, %s", code, text)
	}
	file, list := filepath.Join(dir, "1", "zoo.cfg"), filepath.Join(dir, "1", "crl.pem")
	const says = "read revocation lists"
	if _, text := runZooid("doctor", "-no-disk", file); strings.Contains(text, says) {
		t.Errorf("of a good one: %s", text)
	}
	for _, harm := range []func() error{
		func() error { return os.WriteFile(list, []byte("rubbish"), 0o600) }, func() error { return os.Remove(list) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if code, text := runZooid("doctor", "-no-disk", file); code == 0 || !strings.Contains(text, says) {
			t.Errorf("%d, %s", code, text)
		}
	}
}
