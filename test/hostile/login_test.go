package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

const (
	// loginsMin is how many clients a minute connect, log in by digest, read what only they may read, and leave.
	loginsMin = 100_000
	// loginConnections come and go beside each other.
	loginConnections = 16
	// loginRounds are those of each server in TestOverloadHandshakes, by turns.
	loginRounds = 5
	// handshakesMin is the share of the handshakes of Go's own server that ours makes in the same time, at the least.
	handshakesMin = 0.8
	// handshakeCostMax is how many times the processor time of one of Go's own server a handshake may take. A part of
	// the difference is the garbage collector's, which has a heap to look at here and none there.
	handshakeCostMax = 1.3
)

// TestOverloadLogins has clients that come, log in with a password, read a znode that is only theirs, and go. Each
// costs a session that a write to the log begins, and another ends.
func TestOverloadLogins(t *testing.T) {
	d, judged := overload(t, time.Minute)
	s := startOne(t, nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	f := newHonestField(ctx, 1, []string{s.Addr})
	for i := range loginConnections {
		c, err := f.connect(s.Addr, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.call(jute.OpAuth, authRecord(user(i))); err != nil {
			t.Fatal(err)
		}
		q := jute.CreateRequest{Path: own(i), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}}
		if code, _, err := c.call(jute.OpCreate, q.Append(nil)); err != nil || code != jute.OK {
			t.Fatal(code, err)
		}
		c.close()
	}
	if err := logIn(f, s.Addr, 0, "user0:another"); !errors.Is(err, jute.ErrNoAuth) {
		t.Fatalf("with a wrong password a client that wants to read its znode gets %v", err)
	}
	var logins atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for i := range loginConnections {
		wg.Go(func() {
			for !f.over() {
				switch err := logIn(f, s.Addr, i, user(i)); {
				case err == nil:
					logins.Add(1)
				case !f.over(): // which cuts the last ones off
					t.Error(err)
					return
				}
			}
		})
	}
	for time.Since(began) < d || logins.Load() == 0 && time.Since(began) < attackPatience {
		time.Sleep(samplePause)
	}
	stop()
	wg.Wait()
	minute := float64(logins.Load()) / time.Since(began).Minutes()
	t.Logf("%.0f logins a minute", minute)
	if logins.Load() == 0 {
		t.Error("nobody has logged in")
	}
	if judged && minute < loginsMin {
		t.Errorf("%.0f logins a minute", minute)
	}
}

func user(i int) string { return fmt.Sprintf("user%d:password%d", i, i) }
func own(i int) string  { return fmt.Sprintf("/own%d", i) }

// logIn is the life of one client, which reads the znode of user i.
func logIn(f *field, addr string, i int, user string) error {
	c, err := f.connect(addr, 20_000)
	if err != nil {
		return err
	}
	defer c.close()
	c.unpaced = true
	for _, step := range []struct {
		op     jute.Op
		record []byte
	}{{jute.OpAuth, authRecord(user)}, {jute.OpGetData, readRecord(own(i))}, {jute.OpCloseSession, nil}} {
		code, _, err := c.call(step.op, step.record)
		if err == nil && code != jute.OK {
			err = code
		}
		if err != nil {
			return fmt.Errorf("%v: %w", step.op, err)
		}
	}
	return nil
}

// TestOverloadHandshakes compares the TLS 1.3 handshakes of the secure client port with those of a server that has Go's
// own library and nothing else, by turns, with the same certificate.
func TestOverloadHandshakes(t *testing.T) {
	d, judged := overload(t, time.Minute)
	if !judged && *overloadTime == 0 {
		t.Skip("the short form would judge nothing")
	}
	d /= loginRounds
	file := keyFile(t)
	addr := freeport.Address(t)
	_, port, _ := strings.Cut(addr, ":")
	s := startOne(t, map[string]string{
		"secureClientPort": port, "secureClientPortAddress": "127.0.0.1", "ssl.keyStore.location": file,
		"ssl.clientAuth": "none", "maxClientCnxns": "0",
	})
	bare, pid := bareTLS(t, file)
	var rates, costs []float64
	for range loginRounds {
		ours, oursCPU := handshakes(t, addr, s.Pid(), d)
		theirs, theirsCPU := handshakes(t, bare, pid, d)
		rates, costs = append(rates, ours/theirs), append(costs, oursCPU/theirsCPU)
		t.Logf("%.0f handshakes a second, %.0f µs of the server's processor each; Go's own server: %.0f, %.0f µs", ours,
			oursCPU, theirs, theirsCPU)
	}
	slices.Sort(rates)
	slices.Sort(costs)
	t.Logf("medians of %d rounds: %.2f times the handshakes, %.2f times the processor time of each", loginRounds,
		rates[loginRounds/2], costs[loginRounds/2])
	if judged && rates[loginRounds/2] < handshakesMin {
		t.Errorf("%.2f times the handshakes of Go's own server", rates[loginRounds/2])
	}
	if judged && costs[loginRounds/2] > handshakeCostMax { // the clients' part is the same, and hides a difference
		t.Errorf("a handshake takes %.2f times the processor time of one of Go's own server", costs[loginRounds/2])
	}
}

// handshakes returns how many a server makes in a second, and what each costs its process in µs.
func handshakes(t *testing.T, addr string, pid int, d time.Duration) (perSecond, cost float64) {
	t.Helper()
	var n atomic.Int64
	before, began := processorTime(t, pid), time.Now()
	var wg sync.WaitGroup
	for range loginConnections {
		wg.Go(func() {
			for time.Since(began) < d {
				c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	spent := processorTime(t, pid) - before
	return float64(n.Load()) / took.Seconds(), float64(spent.Microseconds()) / float64(max(n.Load(), 1))
}

// processorTime is what a process has used so far.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // from the third on
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}

// bareVariable tells the test binary to be a TLS server with the certificate in that file, and nothing else.
const bareVariable = "ZOOID_HOSTILE_BARE"

// bareTLS starts such a server.
func bareTLS(t *testing.T, file string) (addr string, pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr = freeport.Address(t)
	cmd := exec.Command(self, addr)
	cmd.Env = append(os.Environ(), bareVariable+"="+file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(attackPatience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return addr, cmd.Process.Pid
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// serveBare is that server.
func serveBare(file, addr string) error {
	cert, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", addr, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(io.Discard, c) // the handshake, and what comes until the end
			c.Close()
		}()
	}
}

// keyFile returns a file with a certificate for the loopback and its key.
func keyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, selfSigned(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// selfSigned returns a certificate for the loopback and its key.
func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), Subject: pkix.Name{CommonName: "server"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}
