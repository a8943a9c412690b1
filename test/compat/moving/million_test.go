package moving

import (
	"bytes"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

var znodes = flag.Int("moving.znodes", 20_000, "znodes of TestImportMany and TestMoveMany; 1000000 is what the figures are of")

// importedDigest is what zooid import says of the tree's digest when Apache has written some, and all are equal.
var importedDigest = regexp.MustCompile(`imported (\d+) znodes .* digest of the tree (0x[0-9a-f]+), equal to each of the [1-9]\d* that Apache wrote`)

// TestImportMany imports the directory of an Apache server to which clients have written many znodes of 100 bytes, with
// its snapshots and its logs, and has a Zooid server answer on it. It says how long the import takes, and how much
// memory.
func TestImportMany(t *testing.T) {
	need(t)
	apache := startApache(t, "3.9.5", t.TempDir(), "-Xmx2g", "-Dzookeeper.snapCount=4000")
	began := time.Now()
	fillTree(t, apache)
	t.Logf("Apache has %d znodes after %.1f s", *znodes, time.Since(began).Seconds())
	apache.stop()

	program, dir := zooid(t), filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(program, "import", apache.dir, dir)
	began = time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("%.2f s, %.2f s of processors, %d MiB: %.0f znodes in a second", took.Seconds(),
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), usage.Maxrss>>10,
		float64(*znodes)/took.Seconds())
	said := importedDigest.FindStringSubmatch(string(out))
	if want := fmt.Sprint(*znodes + 4); said == nil || said[1] != want { // /, /zookeeper, and two below
		t.Fatalf("it doesn't say that %s znodes have Apache's digest:\n%s", want, out)
	}
	if digest := command(t, program, "migrate", "digest", apache.dir); !strings.Contains(digest, said[2]) {
		t.Errorf("zooid migrate digest of Apache's directory: %s; the import's is %s", digest, said[2])
	}
	s := startZooid(t, program, dir)
	if !awaitAnswer(s.addr) {
		t.Errorf("the server doesn't answer:\n%s", s.output)
	}
}

// fillTree creates znodes of 100 bytes, as many as the flag says.
func fillTree(t *testing.T, s *server) {
	t.Helper()
	c := open(t, s, zk.Options{})
	defer c.Close()
	const perDir, perMulti = 1000, 100
	data := bytes.Repeat([]byte("x"), 100)
	for made := 0; made < *znodes; {
		var ops []zk.MultiOp
		if made%perDir == 0 {
			ops = append(ops, zk.CreateOp(fmt.Sprintf("/d%d", made/perDir), data, zk.ModePersistent, zk.OpenACL()))
		}
		for range min(perMulti, *znodes-made) - len(ops) {
			path := fmt.Sprintf("/d%d/znode-%07d", made/perDir, made+len(ops))
			ops = append(ops, zk.CreateOp(path, data, zk.ModePersistent, zk.OpenACL()))
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		made += len(ops)
	}
}

// TestMoveMany moves many znodes of 100 bytes from three Apache servers to three Zooid servers and back to two Apache
// servers, while a client writes. It says how long nothing was acknowledged, what the commands have said when, and how
// much memory they took.
func TestMoveMany(t *testing.T) {
	need(t)
	const version, memory = "3.9.5", "-Xmx2g"
	e := startEnsemble(t, version, memory)
	began := time.Now()
	fillTree(t, e.servers[0])
	t.Logf("Apache has %d znodes after %.1f s", *znodes, time.Since(began).Seconds())

	w := newWayBack(t, version)
	w.limits, w.apache.options = realLimits, append(w.apache.options, memory)
	z := newZooids(t, w.program, realLimits)
	z.seed = true
	addrs := slices.Concat(strings.Split(e.connect(), ","), z.addrs)
	for _, s := range w.apache.servers {
		addrs = append(addrs, s.addr)
	}
	told := startWriter(t, addrs)
	told.await(50)
	measured := func(name string, cmd *exec.Cmd) {
		t.Helper()
		told.pause()
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		told.await(20)
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("%s: %.1f s without an acknowledged write, %d MiB, %.1f s of processors", name, told.pause().Seconds(),
			usage.Maxrss>>10, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	for _, s := range e.servers {
		e.awaitServing(s)
	}
	measured("switch", z.switching(e, filepath.Join(t.TempDir(), "copy"), "-stop", z.stopping(e, "", "")))
	for i := range z.servers {
		z.adopt(i)
	}

	leader := z.leader()
	w.config, w.zooid = z.config(leader), z.servers[leader]
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	measured("return", slowReturn{}.command(w, z, leader, ""))
	told.judge(addrs[len(addrs)-2:])
	c := open(t, w.apache.servers[0], zk.Options{})
	for at := 0; at < *znodes; at += 1000 {
		children, _, err := c.Children(t.Context(), fmt.Sprintf("/d%d", at/1000))
		if want := min(1000, *znodes-at) - 1; err != nil || len(children) != want {
			t.Fatalf("/d%d has %d znodes, %v; want %d", at/1000, len(children), err, want)
		}
	}
}
