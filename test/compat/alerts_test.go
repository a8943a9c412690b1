package compat

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// ensembleAlerts are those that TestPrometheus makes fire; TestAlerts makes all others.
var ensembleAlerts = []string{
	"ZooidAuthenticationFails",
	"ZooidDown", "ZooidFollowerLagging", "ZooidLeaderChanges", "ZooidNoLeader", "ZooidNotServing",
	"ZooidQuorumAtItsLast", "ZooidSessionsExpiring",
}

// A fault is made on servers of its own.
type fault struct {
	name    string
	alerts  []string // in the order in which they fire
	servers int      // 0 is one
	config  func(f *faulty) map[string]string
	argv    []string // goes before the command line of the server
	harm    func(f *faulty)
}

// A faulty is a fault that is being made.
type faulty struct {
	*testing.T
	fault   *fault
	ctx     context.Context
	p       *prometheus
	dir     string // a folder of the fault's own
	ports   []int  // of the endpoints
	servers []*Server
	program Program
}

// faults are one row for each cause.
var faults = []fault{
	{name: "a slow disk", alerts: []string{"ZooidSlowFsync", "ZooidSlowWrites", "ZooidRequestsPileUp"},
		harm: (*faulty).slowDisk},
	{name: "a hung disk", alerts: []string{"ZooidHangs"}, config: func(*faulty) map[string]string {
		return map[string]string{"fsync.stallSeconds": "0"}
	}, harm: (*faulty).hangDisk},
	{name: "a disk that fills up", alerts: []string{"ZooidDiskFilling", "ZooidDiskFull"}, config: (*faulty).ownDisk,
		harm: (*faulty).fillDisk},
	{name: "a tree that fills the memory", alerts: []string{"ZooidMemoryShort"}, config: func(*faulty) map[string]string {
		return map[string]string{"memory.limit": fmt.Sprint(64 << 20)}
	}, harm: (*faulty).fillMemory},
	{name: "idle connections", alerts: []string{"ZooidFewDescriptors"}, config: func(*faulty) map[string]string {
		return map[string]string{"nio.sessionlessCnxnTimeout": "600000"}
	}, argv: []string{"prlimit", "--nofile=1024:1024"}, harm: (*faulty).takeDescriptors},
	{name: "more connections than allowed", alerts: []string{"ZooidConnectionsRefused"},
		config: func(*faulty) map[string]string {
			return map[string]string{"maxClientCnxns": fmt.Sprint(connectionsAllowed)}
		}, harm: (*faulty).connectTooOften},
	{name: "a full disk of the audit log", alerts: []string{"ZooidAuditLinesLost"}, config: (*faulty).audited,
		harm: (*faulty).writeAudited},
	{name: "a certificate about to end", alerts: []string{"ZooidCertificateEnds"}, config: (*faulty).certified,
		harm: (*faulty).shortCertificate},
	{name: "a key store that can't be read", alerts: []string{"ZooidStoresUnreadable"}, config: (*faulty).certified,
		harm: (*faulty).breakStore},
	{name: "a leader whose clock is wrong", alerts: []string{"ZooidClockIsWrong"}, servers: 3, harm: (*faulty).wrongClock},
}

// connectionsAllowed is how many connections an address may have at the server that refuses more.
const connectionsAllowed = 2

// TestAlerts makes the fault of each alert that TestPrometheus doesn't make, on servers of its own and all at once, and
// waits until a real Prometheus has the alert fire for them.
func TestAlerts(t *testing.T) {
	_, subject := programs(t)
	covered := slices.Clone(ensembleAlerts)
	var ports []int
	free := freeport.Take(t, 12)
	of := make([][]int, len(faults))
	for i := range faults {
		covered = append(covered, faults[i].alerts...)
		n := max(faults[i].servers, 1)
		of[i], free = free[:n], free[n:]
		ports = append(ports, of[i]...)
	}
	for _, r := range alerts(t) {
		if !slices.Contains(covered, r.Alert) {
			t.Errorf("nothing makes %s fire: add its fault", r.Alert)
		}
	}
	p := startPrometheus(t, ports, "")
	ctx, cancel := context.WithTimeout(t.Context(), faultsPatience)
	defer cancel()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range faults {
		wg.Go(func() { // without t.Parallel, which runs as many as there are processors: these wait most of the time
			t.Run(faults[i].name, func(t *testing.T) {
				f := &faulty{T: t, fault: &faults[i], ctx: ctx, p: p, dir: t.TempDir(), ports: of[i], program: subject}
				f.start()
				f.fault.harm(f)
			})
		})
	}
	wg.Wait()
	fmt.Printf("\n%s: %d faults, %v\n", t.Name(), len(faults), time.Since(began).Round(time.Second))
}

// start starts the servers, and waits until Prometheus sees them well.
func (f *faulty) start() {
	f.Helper()
	if f.fault.servers > 1 {
		f.program.zooid = f.settableClock()
	}
	var extra map[string]string
	if f.fault.config != nil {
		extra = f.fault.config(f)
	}
	if len(f.fault.argv) > 0 {
		f.program.wrap = f.fault.argv
	}
	f.servers = StartEnsemble(f.T, f.program, max(f.fault.servers, 1),
		Options{Config: extra, Each: func(i int) map[string]string { return withEndpoint(f.ports[i]) }})
	for i := range f.ports {
		of := f.instance(i)
		if !f.p.until(fmt.Sprintf("up{%s} == 1 and on (instance) zooid_serving{%s} == 1 unless on (instance) ALERTS{alertstate=\"firing\",%s}",
			of, of, of)) {
			f.Fatalf("Prometheus doesn't see server %d well", i)
		}
	}
}

// instance selects the series of one server.
func (f *faulty) instance(i int) string { return fmt.Sprintf(`instance="127.0.0.1:%d"`, f.ports[i]) }

// firing reports whether an alert fires for one of the servers now.
func (f *faulty) firing(name string) bool {
	for i := range f.ports {
		if all, err := f.p.series(fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,%s}`, name,
			f.instance(i))); err == nil && len(all) > 0 {
			return true
		}
	}
	return false
}

// fires waits until the alerts fire for one of the servers. Meanwhile again, if not nil, keeps the fault up.
func (f *faulty) fires(again func(), names ...string) {
	f.Helper()
	for _, name := range names {
		for by := time.Now().Add(prometheusPatience); !f.firing(name); time.Sleep(300 * time.Millisecond) {
			if time.Now().After(by) {
				f.Errorf("%s doesn't fire", name)
				break
			}
			if again != nil {
				again()
			}
		}
	}
}

// missing skips a fault that can't be made here. For root in CI it is an error: there the alert would never be seen to
// fire.
func (f *faulty) missing(format string, args ...any) {
	f.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		f.Fatalf(format, args...)
	}
	f.Skipf(format, args...)
}

// client opens a session on the first server.
func (f *faulty) client() *zk.Client {
	f.Helper()
	c, err := zk.Open(f.ctx, f.servers[0].Addr, zk.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c
}

// delayed makes each fdatasync of the first server take so long, until the function that it returns is called.
func (f *faulty) delayed(by time.Duration) (end func()) {
	f.Helper()
	if out, err := exec.Command("strace",
		"-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true").CombinedOutput(); err != nil {
		f.missing("strace doesn't work here: %v: %s", err, out)
	}
	slow := exec.Command("strace", "-f", "-p", fmt.Sprint(f.servers[0].process.Process.Pid),
		"-o", filepath.Join(f.dir, "strace"),
		"-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:delay_exit=%d", by.Microseconds()))
	slow.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := slow.Start(); err != nil {
		f.Fatal(err)
	}
	return func() {
		slow.Process.Signal(syscall.SIGTERM) // it lets go of the server
		slow.Wait()
	}
}

// hangDisk makes a write of the log hang for 8 s, again and again.
func (f *faulty) hangDisk() {
	c := f.client()
	defer f.delayed(8 * time.Second)()
	ctx, stop := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			c.Create(ctx, fmt.Sprintf("/hung%d", n), nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)) // an error is of the hang
		}
	})
	f.fires(nil, f.fault.alerts...)
}

// slowDisk makes each fdatasync of the log take 1.5 s, while 950 clients' requests wait for it.
func (f *faulty) slowDisk() {
	c := f.client()
	if _, err := c.Create(f.ctx, "/slow", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
		f.Fatal(err)
	}
	defer f.delayed(1500 * time.Millisecond)()
	ctx, stop := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 950 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.Set(ctx, "/slow", []byte("x"), -1) // an error is of a test that ends
			}
		})
	}
	f.fires(nil, f.fault.alerts...)
}

// mounted mounts a file system of some bytes below the fault's folder.
func (f *faulty) mounted(name string, bytes int) string {
	f.Helper()
	dir := filepath.Join(f.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		f.missing("mounting takes root: %v", err)
	}
	f.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			f.Error(err)
		}
	})
	return dir
}

const ownDiskBytes = 200 << 20

func (f *faulty) ownDisk() map[string]string {
	return map[string]string{"dataDir": f.mounted("data", ownDiskBytes), "snapCount": "1000000"}
}

// fillDisk has somebody else's file grow on the server's disk.
func (f *faulty) fillDisk() {
	disk := filepath.Join(f.dir, "data")
	file, err := os.Create(filepath.Join(disk, "other"))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	leave := func(percent uint64) {
		f.Helper()
		var st syscall.Statfs_t
		if err := syscall.Statfs(disk, &st); err != nil {
			f.Fatal(err)
		}
		free, keep := st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize)*percent/100
		if free < keep {
			f.Fatalf("%d bytes are free, want %d", free, keep)
		}
		if _, err := file.Write(make([]byte, free-keep)); err != nil {
			f.Fatal(err)
		}
	}
	leave(15)
	f.fires(nil, "ZooidDiskFilling")
	leave(4)
	f.fires(nil, "ZooidDiskFull")
}

// fillMemory creates large znodes until no more are taken.
func (f *faulty) fillMemory() {
	c := f.client()
	full := false
	for i := 0; !full && i < 1000; i++ {
		_, err := c.Create(f.ctx, fmt.Sprintf("/%d", i), make([]byte, 900<<10), zk.ModePersistent, zk.WorldACL(zk.PermAll))
		full = err != nil
	}
	if !full {
		f.Error("all was taken")
	}
	f.fires(nil, f.fault.alerts...)
}

// takeDescriptors opens connections and leaves them idle.
func (f *faulty) takeDescriptors() {
	for range 900 {
		conn, err := net.Dial("tcp", f.servers[0].Addr)
		if err != nil {
			f.Fatal(err)
		}
		defer conn.Close()
	}
	f.fires(nil, f.fault.alerts...)
}

// connectTooOften opens more connections than one address may have.
func (f *faulty) connectTooOften() {
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	f.fires(func() {
		for range 50 {
			conn, err := net.Dial("tcp", f.servers[0].Addr)
			if err != nil {
				f.Fatal(err)
			}
			if len(open) == connectionsAllowed {
				conn.Close() // the server refuses it all the same; kept, they would use up this process's descriptors
				continue
			}
			open = append(open, conn)
		}
	}, f.fault.alerts...)
}

func (f *faulty) audited() map[string]string {
	return map[string]string{"audit.enable": "true", "audit.file": filepath.Join(f.mounted("audit", 64<<10), "audit.log")}
}

// writeAudited writes until the disk of the audit log is full, and goes on.
func (f *faulty) writeAudited() {
	c := f.client()
	f.fires(func() {
		for range 200 {
			if _, err := c.Set(f.ctx, "/", nil, -1); err != nil {
				f.Fatalf("a full audit log stops writes: %v", err)
			}
		}
	}, f.fault.alerts...)
}

// certificate writes a key with a certificate of its own that ends in some days.
func (f *faulty) certificate(days int) {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(int64(days)), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(0, 0, days), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	secret, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		f.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...)
	if err := os.WriteFile(filepath.Join(f.dir, "server.pem"), text, 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *faulty) certified() map[string]string {
	f.certificate(15)
	return map[string]string{
		"secureClientPort": "0", "ssl.keyStore.location": filepath.Join(f.dir, "server.pem"), "ssl.clientAuth": "none",
		"client.certReload": "true",
	}
}

// shortCertificate puts a certificate in place that ends within two weeks. That the alert goes when it is replaced is
// what its page says.
func (f *faulty) shortCertificate() {
	f.certificate(13)
	f.fires(nil, f.fault.alerts...)
	f.certificate(15)
	for by := time.Now().Add(prometheusPatience); f.firing(f.fault.alerts[0]); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(by) {
			f.Fatal("it fires after the certificate was replaced")
		}
	}
}

// breakStore leaves half of a key store, as a copy does that a full disk has cut short.
func (f *faulty) breakStore() {
	store := filepath.Join(f.dir, "server.pem")
	whole, err := os.ReadFile(store)
	if err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(store, whole[:len(whole)/2], 0o600); err != nil {
		f.Fatal(err)
	}
	f.fires(nil, f.fault.alerts...)
}

// settableClock builds a server whose clock, as its leader stamps time, is wrong by the milliseconds in the file clock
// of its folder. A machine has one clock, and the system has none for a single process.
func (f *faulty) settableClock() string {
	f.Helper()
	const right = "func() int64 { return time.Now().UnixMilli() }"
	const wrong = "func() int64 { text, _ := os.ReadFile(\"clock\"); by, _ := strconv.ParseInt(string(text), 10, 64); return time.Now().UnixMilli() + by }"
	source, err := filepath.Abs("../../internal/server/start.go")
	if err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		f.Fatal(err)
	}
	if strings.Count(string(text), right) != 1 {
		f.Fatalf("%s has no %s", source, right)
	}
	changed := strings.Replace(string(text), right, wrong, 1)
	for _, name := range []string{"os", "strconv"} {
		if !strings.Contains(changed, "\t\""+name+"\"\n") {
			changed = strings.Replace(changed, "import (\n", "import (\n\t\""+name+"\"\n", 1)
		}
	}
	replaced, overlay, program := filepath.Join(f.dir, "server.go"), filepath.Join(f.dir, "overlay.json"),
		filepath.Join(f.dir, "zooid")
	err = errors.Join(os.WriteFile(replaced, []byte(changed), 0o600),
		os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, source, replaced), 0o600))
	if err != nil {
		f.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", program, "github.com/zooid-project/zooid/cmd/zooid")
	if out, err := build.CombinedOutput(); err != nil {
		f.Fatalf("build a server with a clock of its own: %v\n%s", err, out)
	}
	return program
}

// wrongClock sets the clock of the leader wrong by a minute.
func (f *faulty) wrongClock() {
	leader, _ := roles(f.T, f.servers)
	if err := os.WriteFile(filepath.Join(leader.Folder, "clock"), []byte("60000"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.fires(nil, f.fault.alerts...)
}
