package moving

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

var (
	switchTime  = flag.Duration("moving.switch", 6*time.Second, "how long clients go on after a switch")
	switchTimes = flag.Int("moving.switches", 1, "switches per version")
)

// TestSwitch moves a running ensemble of Apache's to Zooid while clients write, hold locks and ephemeral znodes, and
// watch: nobody loses anything, and the checker agrees. In half of the runs three Zooid servers begin with the same
// data; in the other half one does, and becomes three. Then they lose their leader, and half of the runs go back to
// Apache.
func TestSwitch(t *testing.T) {
	need(t)
	program := zooid(t)
	for i, version := range []string{"3.8.4", "3.9.5"} {
		for n := range *switchTimes {
			t.Run(fmt.Sprintf("%s/%d", version, n), func(t *testing.T) {
				switchOnce(t, program, version, *firstSeed+uint64(10*n+i))
			})
		}
	}
}

func switchOnce(t *testing.T, program, version string, seed uint64) {
	patientSessions(t)
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	clients := startClients(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs), seed, few)
	clients.underWay()
	dir := filepath.Join(t.TempDir(), "copy")
	if seed%2 == 1 { // a copy that was made before, and an ensemble that has elected since
		f, stop := startFollower(t, e, dir)
		caughtUp(t, e, f)
		killed := e.leader()
		e.servers[killed].kill()
		e.await()
		caughtUp(t, e, f)
		stop()
		e.start(killed)
		e.awaitServing(e.servers[killed])
	}
	began := time.Now()
	z.seed = seed%2 == 1
	out := z.takeOver(e, dir)
	t.Logf("%v\n%s", time.Since(began), out)
	if !z.seed {
		z.join(1)
		z.join(2)
	}
	clients.goOn(z.servers[:])
	z.servers[z.leader()].kill() // the others go on
	clients.goOn(z.servers[:])
	if seed%2 == 0 {
		z.back(e)
		clients.goOn(e.servers)
	}
	clients.judge(version)
}

// TestSwitchLongTail has clients write 40 MB while the servers are being stopped. The switch goes on, and has all.
func TestSwitchLongTail(t *testing.T) { withEach(t, both, switchLongTail) }

func switchLongTail(t *testing.T, version string) {
	program := zooid(t)
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	hang := filepath.Join(t.TempDir(), "hang")
	w := watch(t, z.switching(e, filepath.Join(t.TempDir(), "copy"), "-stop",
		z.stopping(e, fmt.Sprintf("touch %s; while test -e %s; do sleep 0.05; done", hang, hang), "")))
	w.until("the stop", func() bool { return exists(hang) })
	const znodes, size = 50, 800 << 10
	c, err := zk.Open(t.Context(), e.connect(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range znodes {
		data := bytes.Repeat([]byte{byte(n)}, size)
		if _, err := c.Create(t.Context(), fmt.Sprintf("/large-%d", n), data, zk.ModePersistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	os.Remove(hang)
	if <-w.ended; w.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s", w.state(), w.out.text())
	}
	z.adopt(0)
	if c, err = zk.Open(t.Context(), z.addrs[0], zk.Options{}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := range znodes {
		data, _, err := c.Get(t.Context(), fmt.Sprintf("/large-%d", n))
		if err != nil || !bytes.Equal(data, bytes.Repeat([]byte{byte(n)}, size)) {
			t.Errorf("/large-%d: %d bytes, %v", n, len(data), err)
		}
	}
	t.Log(w.out.text())
}

// back moves everything to Apache again: what the leader has is exported for each of the servers, which start where
// they were.
func (z *zooids) back(e *ensemble) {
	t := z.t
	t.Helper()
	leader := z.leader()
	began := time.Now()
	z.stop(leader)
	for i, s := range e.servers {
		if err := os.RemoveAll(filepath.Join(s.dir, "version-2")); err != nil {
			t.Fatal(err)
		}
		t.Log(command(t, z.program, "export", "-to", s.dir, z.place(leader)))
		e.start(i)
	}
	e.await()
	t.Logf("Apache serves again after %.1f s", time.Since(began).Seconds())
}

// leader waits until one of the servers leads.
func (z *zooids) leader() int {
	z.t.Helper()
	for end := time.Now().Add(startPatience); ; time.Sleep(50 * time.Millisecond) {
		for i := range z.servers {
			if strings.Contains(word(z.addrs[i], "srvr"), "Mode: leader") {
				return i
			}
		}
		if time.Now().After(end) {
			z.t.Fatal("none of Zooid's servers leads")
		}
	}
}

// stop ends all servers, the given one last: it has everything that was acknowledged if it led.
func (z *zooids) stop(last int) {
	var others sync.WaitGroup
	for i, s := range z.servers {
		if i != last {
			others.Go(s.stop)
		}
	}
	others.Wait()
	z.servers[last].stop()
}

// zooids are three Zooid servers, of which the first takes an ensemble's place.
type zooids struct {
	t       *testing.T
	program string
	dir     string
	addrs   []string
	servers [3]*server
	first   int  // id of the first server
	own     int  // the server with whose zoo.cfg a switch is made
	seed    bool // all of them take over
}

// The lines of a configuration that say how long servers wait for each other: for tests that are to be quick, and as
// operators have them.
const (
	quickLimits = "tickTime=500\ninitLimit=20\nsyncLimit=10\n"
	realLimits  = "tickTime=2000\ninitLimit=10\nsyncLimit=5\n"
)

func newZooids(t *testing.T, program, limits string) *zooids {
	t.Helper()
	z := &zooids{t: t, program: program, dir: t.TempDir(), first: 1}
	lines, secret := "", filepath.Join(z.dir, "secret")
	for id := 1; id <= 3; id++ {
		addr := freeport.Address(t)
		z.addrs = append(z.addrs, addr)
		_, client, _ := strings.Cut(addr, ":")
		_, election, _ := strings.Cut(freeport.Address(t), ":")
		lines += fmt.Sprintf("server.%d=%s:%s;127.0.0.1:%s\n", id, freeport.Address(t), election, client)
	}
	if err := os.WriteFile(secret, []byte("the secret of this ensemble of the tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ {
		dir := z.place(id - 1)
		text := fmt.Sprintf("dataDir=%s\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nsession.apachePasswords=true\nquorum.secretFile=%s\n%s%s",
			dir, secret, limits, lines)
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(id)), 0o600)
		}
		if err == nil {
			err = os.WriteFile(z.config(id-1), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return z
}

func (z *zooids) place(i int) string { return filepath.Join(z.dir, fmt.Sprint(z.first+i)) }
func (z *zooids) config(i int) string {
	return filepath.Join(z.dir, fmt.Sprintf("zoo%d.cfg", z.first+i))
}

// stopping is a command for -stop: it kills a server, waits until it is gone, and prints its tail. Each of more lines
// of sh is run before the line that kills, or before the tail is printed; they know $pid, $dir and $tail.
func (z *zooids) stopping(e *ensemble, beforeKill, beforeTail string) string {
	stop := ""
	for i, s := range e.servers {
		stop += fmt.Sprintf("test $ZK_ID != %d || { pid=%d; dir=%s; }\n", e.first+i, s.cmd.Process.Pid, s.dir)
	}
	tail := strings.Join(slices.Concat(e.within, []string{z.program}), " ")
	return stop + "tail='" + tail + " migrate tail -after '$ZK_AFTER\n" + beforeKill + "\nkill -9 $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\n" +
		beforeTail + "\nexec $tail $dir\n"
}

// switching is zooid migrate switch; flags say how Apache is stopped.
func (z *zooids) switching(e *ensemble, dir string, flags ...string) *exec.Cmd {
	start := fmt.Sprintf("%s server %s/zoo$ZOOID_ID.cfg -Dzookeeper.DigestAuthenticationProvider.superDigest=%s >%s/log$ZOOID_ID 2>&1 & echo $! >%s/pid$ZOOID_ID",
		z.program, z.dir, superDigest, z.dir, z.dir)
	if z.seed {
		flags = append(flags,
			"-seed", fmt.Sprintf("test $ZOOID_HOST = 127.0.0.1 && exec %s migrate seed %s/zoo$ZOOID_ID.cfg", z.program, z.dir))
	}
	return exec.Command(z.program,
		slices.Concat([]string{"migrate", "switch", "-yes", "-start", start}, flags,
			[]string{e.connect(), dir, z.config(z.own)})...)
}

func (z *zooids) log(i int) string { return filepath.Join(z.dir, fmt.Sprint("log", z.first+i)) }
func (z *zooids) pid(i int) string { return filepath.Join(z.dir, fmt.Sprint("pid", z.first+i)) }

// takeOver runs zooid migrate switch, whose commands kill Apache's servers and start the first Zooid server.
func (z *zooids) takeOver(e *ensemble, dir string) string {
	z.t.Helper()
	return z.takeOverBy(e, dir, z.stopping(e, "", ""))
}

// takeOverBy is takeOver with a command that stops Apache's servers.
func (z *zooids) takeOverBy(e *ensemble, dir, stop string) string {
	t := z.t
	t.Helper()
	started := 1
	if z.seed {
		started = len(z.servers)
	}
	out, err := z.switching(e, dir, "-stop", stop).CombinedOutput()
	for i := range started {
		z.adopt(i)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// What has no form at Apache is told before anything is stopped. New sessions' passwords have one, by the zoo.cfg.
	warned, next := bytes.Index(out, []byte("the way back: znodes with a TTL")), bytes.Index(out,
		[]byte("Next: Apache's servers"))
	if warned < 0 || next < warned || bytes.Contains(out, []byte("sessions opened in Zooid end")) {
		t.Errorf("of the way back it says:\n%s", out)
	}
	if z.seed != bytes.Contains(out, []byte("the Zooid servers [2 3] have the same data on their disks")) {
		t.Errorf("of the other Zooid servers it says:\n%s", out)
	}
	return string(out)
}

// serveAlone checks that no server of Apache runs beside those of Zooid that have been started, that these acknowledge
// so many more writes, and that they have what clients were told. Without -seed, the others join the first.
func (z *zooids) serveAlone(e *ensemble, told *writer, writes int) {
	z.t.Helper()
	for i := range z.servers {
		if z.seed || i == 0 {
			z.adopt(i)
		}
	}
	for _, s := range e.servers {
		if runs(s.cmd.Process.Pid) {
			z.t.Error("an Apache server runs beside Zooid")
		}
	}
	if !z.seed {
		told.await(writes)
		z.join(1)
		z.join(2)
		for i := range z.servers {
			if z.cluster(i) != z.cluster(0) {
				z.t.Errorf("server %d serves another tree than server 1", i+1)
			}
		}
	}
	told.await(writes)
	told.judge(z.addrs)
}

// adopt takes charge of a server that zooid migrate switch has started.
func (z *zooids) adopt(i int) {
	t := z.t
	t.Helper()
	text, err := os.ReadFile(z.pid(i))
	if err != nil {
		t.Error(err)
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() {
		if said, _ := os.ReadFile(z.log(i)); t.Failed() {
			t.Logf("Zooid server %d said:\n%.6000s", i+1, said)
		}
	})
	process, err := os.FindProcess(n)
	if err != nil {
		t.Error(err)
		return
	}
	s := &server{
		addr: z.addrs[i], dir: z.place(i), cmd: &exec.Cmd{Process: process}, exited: make(chan struct{}),
		output: &bytes.Buffer{},
	}
	go func() { // it is nobody's child
		for runs(n) {
			time.Sleep(5 * time.Millisecond)
		}
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	z.servers[i] = s
}

// runs reports whether there is a process that has not ended. One that was killed holds its locks until its last thread
// has ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	at := bytes.LastIndexByte(stat, ')')
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && at > 0 && at+2 < len(stat) && (stat[at+2] != 'Z' || len(threads) > 1)
}

// join starts another server, with an empty directory the first time, and waits until it serves.
func (z *zooids) join(i int) {
	z.t.Helper()
	z.start(i)
	for end := time.Now().Add(startPatience); !serves(z.addrs[i]); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			z.t.Fatalf("server %d doesn't join:\n%s", i+1, z.servers[i].output)
		}
	}
}

func (z *zooids) start(i int) {
	t := z.t
	t.Helper()
	s := &server{addr: z.addrs[i], dir: z.place(i), exited: make(chan struct{}), output: &bytes.Buffer{}}
	if z.servers[i] != nil {
		s.output = z.servers[i].output // what it said before
	}
	s.cmd = exec.Command(z.program, "server", z.config(i),
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	z.servers[i] = s
}
