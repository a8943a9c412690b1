package check

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
)

// apache is an Apache release on this machine.
type apache struct {
	release, classpath string
	filtered           bool // Debian brought the events' READ check to 3.8.0 (CVE-2024-23944)
}

// apaches lists the releases that can be run: Debian's package, and what the
// compatibility tests have installed.
func apaches() []apache {
	var list []apache
	debian, _ := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar")
	for _, jar := range debian {
		release := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
		list = append(list, apache{release, "/usr/share/java/zookeeper.jar", true})
	}
	cache, _ := os.UserCacheDir()
	jars, _ := filepath.Glob(filepath.Join(cache, "zooid-compat", "*", "zookeeper-[0-9]*.jar"))
	for _, jar := range jars {
		release := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
		list = append(list, apache{release, filepath.Join(filepath.Dir(jar), "*"), false})
	}
	return list
}

// start runs a standalone server in a directory of its own until the test ends
// and returns its address.
func (a apache) start(t *testing.T) string {
	t.Helper()
	addr := freeport.Address(t)
	a.startIn(t, t.TempDir(), addr)
	return addr
}

// startIn runs a server over a data directory and returns what kills it.
func (a apache) startIn(t *testing.T, dir, addr string) (kill func()) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	cfg := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n",
		dir, port)
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xmx512m", "-Dzookeeper.extendedTypesEnabled=true",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=", "-cp", a.classpath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the server said: %s", out.String()[max(0, out.Len()-2000):])
		}
	})
	t.Cleanup(kill)
	for range 300 {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			conn.Close()
			return kill
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("Apache %s did not listen on %s", a.release, addr)
	return nil
}

// TestApacheSurvivesKill kills the server under load and starts it again on
// what is on its disk.
func TestApacheSurvivesKill(t *testing.T) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("set ZOOID_COMPAT=1 to run against a real Apache server")
	}
	for _, a := range apaches() {
		t.Run(a.release, func(t *testing.T) {
			dir, addr := t.TempDir(), freeport.Address(t)
			kill := a.startIn(t, dir, addr)
			var file bytes.Buffer
			j := history.NewJournal(&file)
			load := traffic.Load{Addrs: []string{addr}, Journal: j, Root: "/load", Clients: 8, Requests: 60000,
				Duration: 30 * time.Second, TTL: true,
				OneModePerPath: compareReleases(a.release, "3.9.0") < 0, Seed: 3}
			ended := make(chan error, 1)
			go func() { ended <- load.Run() }()
			for load.Sent() < 20000 {
				time.Sleep(10 * time.Millisecond)
			}
			kill()
			a.startIn(t, dir, addr)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := traffic.Dump(addr, 1, traffic.ClientOptions{Digest: "super:test"}, j); err != nil {
				t.Error(err)
			}
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
			a.judge(t, &file)
		})
	}
}

// TestApachePasses shows that the rules are right: what the original does
// breaks none of them.
func TestApachePasses(t *testing.T) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("set ZOOID_COMPAT=1 to run against a real Apache server")
	}
	for _, a := range apaches() {
		old := compareReleases(a.release, "3.9.0") < 0
		for name, run := range map[string]func(addr string, j *history.Journal) error{
			"mix": func(addr string, j *history.Journal) error {
				l := traffic.Load{
					Addrs: []string{addr}, Journal: j, Root: "/load", Clients: 8, Requests: 20000, Duration: 20 * time.Second,
					TTL: true, OneModePerPath: old, Seed: 1,
				}
				return l.Run()
			},
			"mix with disconnects": func(addr string, j *history.Journal) error {
				l := traffic.Load{
					Addrs: []string{addr}, Journal: j, Root: "/load", Clients: 8, Requests: 20000, Duration: 20 * time.Second,
					TTL: true, OneModePerPath: old, Seed: 2, DropEvery: 200,
				}
				return l.Run()
			},
			"recipes": func(addr string, j *history.Journal) error {
				r := traffic.Recipes{
					Addrs: []string{addr}, Journal: j, Root: "/recipes", Clients: 8, Rounds: 200, Duration: 20 * time.Second,
				}
				return r.Run()
			},
			"recipes with disconnects": func(addr string, j *history.Journal) error {
				r := traffic.Recipes{
					Addrs: []string{addr}, Journal: j, Root: "/recipes", Clients: 8, Rounds: 200, Duration: 20 * time.Second,
					DropEvery: 10,
				}
				return r.Run()
			},
		} {
			t.Run(a.release+"/"+name, func(t *testing.T) {
				var file bytes.Buffer
				j := history.NewJournal(&file)
				if err := run(a.start(t), j); err != nil {
					t.Error(err)
				}
				if err := j.Flush(); err != nil {
					t.Fatal(err)
				}
				a.judge(t, &file)
			})
		}
	}
}

func (a apache) judge(t *testing.T, file *bytes.Buffer) {
	t.Helper()
	h, err := history.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	opt := Apache(a.release)
	opt.ExtendedTypes, opt.Quiesced = true, true
	opt.SyncWeak, opt.ReadWindow = false, false // one server: the order is exact
	opt.EventsUnfiltered = opt.EventsUnfiltered && !a.filtered
	r := Check(h, opt)
	var b bytes.Buffer
	r.Print(&b, h)
	t.Log(b.String())
	if !r.OK() {
		t.Errorf("%d violations", len(r.Violations)+r.Dropped)
	}
}
