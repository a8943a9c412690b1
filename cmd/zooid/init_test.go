package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/doctor"
	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/zk"
)

// ofTheMachine are the checks whose findings depend on the machine that runs the test.
var ofTheMachine = []string{"disk", "space", "descriptors", "memory", "huge pages", "ports"}

// examine runs zooid doctor in a folder and returns what isn't the machine's.
func examine(t *testing.T, folder string) (r doctor.Report, findings []doctor.Finding) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "ZOOID_TEST_ARGS=doctor -json -no-disk zoo.cfg")
	out, _ := cmd.Output()
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("doctor says %s: %v", out, err)
	}
	if len(r.Checks) < 15 {
		t.Errorf("doctor did %v", r.Checks)
	}
	return r, slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return slices.Contains(ofTheMachine, f.Check) })
}

// TestInitServes starts three servers from what init -tls writes, and one from what it writes for a server alone.
// Clients reach the three by TLS alone, with the certificate that was written; doctor has nothing to say, before and
// meanwhile.
func TestInitServes(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 18)
	dir := t.TempDir()
	host := func(i int) string { return fmt.Sprintf("127.0.0.1:%d:%d", ports[3*i], ports[3*i+1]) }
	own := func(client, i int) setup.Ports {
		return setup.Ports{Client: client, Admin: ports[10+2*i], Metrics: ports[11+2*i]}
	}
	folders, err := setup.Write(setup.Options{
		Dir: dir, Hosts: []string{host(0), host(1), host(2)}, TLS: true, Now: time.Now(),
		Ports: []setup.Ports{own(ports[2], 0), own(ports[5], 1), own(ports[8], 2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := setup.Write(setup.Options{Dir: t.TempDir(), Ports: []setup.Ports{own(ports[9], 3)}, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	servers := append(folders[:3:3], alone...)
	for _, folder := range servers {
		if _, found := examine(t, folder); len(found) > 0 {
			t.Errorf("before the start of %s doctor finds %+v", folder, found)
		}
	}
	for _, folder := range servers {
		serveIn(t, folder, "zoo.cfg")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	addr := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	all := strings.Join([]string{addr(ports[2]), addr(ports[5]), addr(ports[8])}, ",")
	mine := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}
	use(ctx, t, all, zk.Options{TLSConfig: clientTLS(t, filepath.Join(dir, "client"))}, mine, zk.ErrInvalidACL)
	use(ctx, t, addr(ports[9]), zk.Options{}, zk.WorldACL(zk.PermAll), nil)
	for _, folder := range servers {
		r, found := examine(t, folder)
		if len(found) > 0 || !r.Running {
			t.Errorf("while %s runs (%t) doctor finds %+v", folder, r.Running, found)
		}
	}
	// Without the certificate nobody gets in.
	pool := clientTLS(t, filepath.Join(dir, "client")).RootCAs
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool}}).DialContext(ctx, "tcp", addr(ports[2]))
	if err == nil {
		fmt.Fprint(c, "srvr")
		answer := make([]byte, 10)
		if n, err := c.Read(answer); err == nil {
			t.Errorf("without a certificate a server says %q", answer[:n])
		}
		c.Close()
	}
}

// serveIn runs a server in a folder until the test ends.
func serveIn(t *testing.T, folder, config string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = folder, append(os.Environ(), "ZOOID_TEST_ARGS=server "+config), &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		killed := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
		killed.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", config, log.String())
		}
	})
}

func clientTLS(t *testing.T, folder string) *tls.Config {
	t.Helper()
	own := filepath.Join(folder, "client.pem")
	cert, err := tls.LoadX509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(issuer)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool}
}

// use creates a znode and reads it; making one for everybody ends as open says.
func use(ctx context.Context, t *testing.T, addrs string, o zk.Options, acl []zk.ACL, open error) {
	t.Helper()
	c, err := zk.Open(ctx, addrs, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/set-up", []byte("x"), zk.ModePersistent, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/open", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); !errors.Is(err, open) {
		t.Errorf("a znode for everybody: %v, want %v", err, open)
	}
	if data, _, err := c.Get(ctx, "/set-up"); err != nil || string(data) != "x" {
		t.Fatalf("it holds %q, %v", data, err)
	}
}

// TestInitAdvisesNames names the addresses whose certificates Java's clients refuse where DNS has a name for them.
func TestInitAdvisesNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"-tls zk1.example 127.0.0.1 [::1]:3000", ""},
		{"10.0.0.1 10.0.0.2", ""},
		{"-tls zk1.example 10.0.0.2:3000 [fd00::3]:3000:3001", "10.0.0.2, fd00::3"},
		{"-add 4 10.0.0.4", "10.0.0.4"},
	} {
		if !strings.HasPrefix(c.args, "-add") {
			dir = t.TempDir()
		}
		var out, errs strings.Builder
		if code := runInit(append([]string{"-dir", dir}, strings.Fields(c.args)...), &out, &errs); code != 0 {
			t.Fatalf("init %s: exit %d, %s", c.args, code, errs.String())
		}
		_, advice, _ := strings.Cut(out.String(), "instead of ")
		if advice, _, _ = strings.Cut(advice, " if"); advice != c.want {
			t.Errorf("init %s advises names for %q, want %q:\n%s", c.args, advice, c.want, out.String())
		}
	}
}
