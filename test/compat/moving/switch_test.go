package moving

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/check"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/history"
	"github.com/zooid-project/zooid/internal/traffic"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

var (
	switchTime  = flag.Duration("moving.switch", 6*time.Second, "how long clients go on after a switch")
	switchTimes = flag.Int("moving.switches", 1, "switches per version")
)

// TestSwitch moves a running ensemble of Apache's to Zooid while clients write, hold locks and ephemeral znodes, and
// watch: nobody loses anything, and the checker agrees. Then the one Zooid server becomes three, and loses its first leader, and
// half of the runs go back to Apache.
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
	e := startEnsemble(t, version)
	z := newZooids(t, program)
	addrs := slices.Concat(strings.Split(e.connect(), ","), z.addrs)
	clients := startClients(t, e, addrs, seed)
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
		time.Sleep(2 * time.Second)
	}
	began := time.Now()
	out := z.takeOver(e, dir)
	t.Logf("%v\n%s", time.Since(began), out)
	z.join(1)
	z.join(2)
	time.Sleep(*switchTime / 2)
	if time.Now().After(clients.ends.Add(-time.Second)) {
		t.Error("the machine is so slow that the load has ended: give more time by -moving.switch")
	}
	z.servers[0].kill() // the first leader; the others go on
	time.Sleep(*switchTime / 2)
	if seed%2 == 0 {
		z.back(e)
	}
	clients.judge(version)
}

// back moves everything to Apache again: what the leader has is exported for each of the servers, which start where
// they were.
func (z *zooids) back(e *ensemble) {
	t := z.t
	t.Helper()
	leader := 1
	if strings.Contains(word(z.addrs[2], "srvr"), "Mode: leader") {
		leader = 2
	}
	began := time.Now()
	for _, i := range []int{3 - leader, leader} { // the leader has everything that was acknowledged when it is left alone
		z.servers[i].cmd.Process.Signal(syscall.SIGTERM)
		<-z.servers[i].exited
	}
	for i, s := range e.servers {
		if err := os.RemoveAll(filepath.Join(s.dir, "version-2")); err != nil {
			t.Fatal(err)
		}
		t.Log(command(t, z.program, "export", "-to", s.dir, z.place(leader)))
		e.start(i)
	}
	e.await()
	t.Logf("Apache serves again after %.1f s", time.Since(began).Seconds())
	time.Sleep(*switchTime / 2)
}

// zooids are three Zooid servers, of which the first takes an ensemble's place.
type zooids struct {
	t       *testing.T
	program string
	dir     string
	addrs   []string
	servers [3]*server
}

func newZooids(t *testing.T, program string) *zooids {
	t.Helper()
	z := &zooids{t: t, program: program, dir: t.TempDir()}
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
		text := fmt.Sprintf("dataDir=%s\ntickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nsession.apachePasswords=true\nquorum.secretFile=%s\n%s", dir, secret, lines)
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

func (z *zooids) place(i int) string  { return filepath.Join(z.dir, fmt.Sprint(i+1)) }
func (z *zooids) config(i int) string { return filepath.Join(z.dir, fmt.Sprintf("zoo%d.cfg", i+1)) }

// takeOver runs zooid migrate switch, whose commands kill Apache's servers and start the first Zooid server.
func (z *zooids) takeOver(e *ensemble, dir string) string {
	t := z.t
	t.Helper()
	stop := ""
	for i, s := range e.servers {
		stop += fmt.Sprintf("test $ZK_ID != %d || { pid=%d; dir=%s; }\n", i+1, s.cmd.Process.Pid, s.dir)
	}
	stop += "kill -9 $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\nexec " + z.program + " migrate tail -after $ZK_AFTER $dir\n"
	log, pid := filepath.Join(z.dir, "log"), filepath.Join(z.dir, "pid")
	start := fmt.Sprintf("%s server %s -Dzookeeper.DigestAuthenticationProvider.superDigest=%s >%s 2>&1 & echo $! >%s", z.program, z.config(0), superDigest, log, pid)
	t.Cleanup(func() {
		text, _ := os.ReadFile(pid)
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			syscall.Kill(n, syscall.SIGKILL)
		}
		if said, _ := os.ReadFile(log); t.Failed() {
			t.Logf("the first Zooid server said:\n%.6000s", said)
		}
	})
	out, err := exec.Command(z.program, "migrate", "switch", "-yes", "-stop", stop, "-start", start, e.connect(), dir, z.config(0)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	z.servers[0] = &server{addr: z.addrs[0], dir: z.place(0), cmd: &exec.Cmd{Process: process}, exited: make(chan struct{}), output: &bytes.Buffer{}}
	close(z.servers[0].exited) // it is nobody's child
	return string(out)
}

// join starts another server with an empty directory, and waits until it serves.
func (z *zooids) join(i int) {
	t := z.t
	t.Helper()
	s := &server{addr: z.addrs[i], dir: z.place(i), exited: make(chan struct{}), output: &bytes.Buffer{}}
	s.cmd = exec.Command(z.program, "server", z.config(i), "-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest)
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
	for end := time.Now().Add(time.Minute); !strings.Contains(word(s.addr, "srvr"), "Mode: follower"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("server %d doesn't join:\n%s", i+1, s.output)
		}
	}
}

// clients are those of many kinds, with one session each, that go on through a switch.
type clients struct {
	t       *testing.T
	file    bytes.Buffer
	journal *history.Journal
	load    *traffic.Load
	recipes *traffic.Recipes
	ends    time.Time // when the load does
	ended   chan error
	steady  []*steady
}

// beforeSwitch is time for what comes before a switch, and for the servers that join.
const beforeSwitch = 12 * time.Second

// forTheWayBack is time for Apache's servers to start again.
const forTheWayBack = 8 * time.Second

func startClients(t *testing.T, e *ensemble, addrs []string, seed uint64) *clients {
	t.Helper()
	c := &clients{t: t, ended: make(chan error, 3)}
	connect := strings.Join(addrs, ",")
	c.steady = []*steady{
		startSteady(t, "java", append(slices.Clone(jvm), "-cp", javaClient(t), "testdata/Steady.java", connect, "java")...),
		startSteady(t, kazoo(t), "testdata/steady.py", connect, "kazoo"),
	}
	for _, s := range c.steady {
		s.await("ready")
	}
	c.journal = history.NewJournal(&c.file)
	last := beforeSwitch + *switchTime
	if seed%2 == 0 {
		last += forTheWayBack + *switchTime/2
	}
	c.ends = time.Now().Add(last)
	c.load = &traffic.Load{Addrs: addrs, Journal: c.journal, Root: "/load", Clients: 8, Requests: 1 << 30, Duration: last, Outstanding: 2, TTL: true, OneModePerPath: true, Seed: seed}
	c.recipes = &traffic.Recipes{Addrs: addrs, Journal: c.journal, Root: "/recipes", Clients: 4, Rounds: 1 << 30, Duration: last}
	go func() { c.ended <- c.load.Run() }()
	go func() { c.ended <- c.recipes.Run() }()
	go func() { c.ended <- steadyGo(connect, last) }()
	return c
}

// underWay waits until the load is.
func (c *clients) underWay() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), beforeSwitch)
	defer cancel()
	z, err := zk.Open(ctx, strings.Join(c.load.Addrs[:3], ","), zk.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer z.Close()
	for ready := false; !ready || c.load.Sent() < 1000; time.Sleep(10 * time.Millisecond) {
		if _, ready, err = z.Exists(ctx, "/recipes/counter"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// judge ends the clients, and asks each, and the checker, what they have seen.
func (c *clients) judge(version string) {
	t := c.t
	t.Helper()
	for range cap(c.ended) {
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	}
	for _, s := range c.steady {
		io.WriteString(s.in, "end\n")
		if line := s.line(); !strings.HasPrefix(line, "done:") {
			t.Errorf("%s: %s\n%.3000s", s.cmd.Path, line, s.errors.String())
		} else {
			t.Log(filepath.Base(s.cmd.Path), line)
		}
	}
	if err := c.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&c.file)
	if err != nil {
		t.Fatal(err)
	}
	o := check.Apache(version)
	o.ExtendedTypes, o.Quiesced = true, true
	r := check.Check(h, o)
	var b bytes.Buffer
	r.Print(&b, h)
	t.Log(b.String())
	if !r.OK() {
		t.Errorf("%d violations", len(r.Violations)+r.Dropped)
	}
	for _, e := range h.Events {
		if e.Kind == history.KindConnected && e.Session == 0 {
			t.Errorf("a session has expired: %+v", e)
		}
	}
}

// javaClient returns the class path of Apache's own client.
func javaClient(t *testing.T) string {
	t.Helper()
	jars := filepath.Join(filepath.Dir(filepath.Dir(classPath(t, "3.9.5"))), "apache-3.9")
	if _, err := os.Stat(jars); err != nil {
		t.Fatalf("Apache's client isn't installed (%v); run test/compat/install.sh", err)
	}
	return filepath.Join(jars, "*")
}

func kazoo(t *testing.T) string {
	t.Helper()
	cache := filepath.Dir(filepath.Dir(classPath(t, "3.9.5")))
	python := filepath.Join(cache, "kazoo", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("kazoo isn't installed (%v); run test/compat/install.sh", err)
	}
	return python
}

// A steady client is a program of testdata's.
type steady struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Reader
	errors bytes.Buffer
}

func startSteady(t *testing.T, program string, args ...string) *steady {
	t.Helper()
	s := &steady{t: t, cmd: exec.Command(program, args...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.lines, s.cmd.Stderr = bufio.NewReader(out), &s.errors
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	return s
}

// line returns the next line of output, or why there is none.
func (s *steady) line() string {
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return "it ended: " + err.Error()
	}
	return strings.TrimSpace(line)
}

func (s *steady) await(what string) {
	s.t.Helper()
	if line := s.line(); line != what {
		s.t.Fatalf("%v said %q; want %q\n%.3000s", s.cmd.Args, line, what, s.errors.String())
	}
}

// steadyGo is a Go client that holds a lock, counts by conditional writes and keeps watches for a while.
func steadyGo(connect string, last time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), last+time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, connect, zk.Options{SessionTimeout: 20 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	session := c.Session().ID
	if _, err := c.Create(ctx, "/steady-go", []byte("0"), zk.ModePersistent, zk.OpenACL()); err != nil {
		return err
	}
	held, err := recipe.NewMutex(c, "/steady-go/lock", recipe.Options{}).Lock(ctx)
	if err != nil {
		return err
	}
	_, _, late, err := c.ExistsW(ctx, "/steady-go/late")
	if err != nil {
		return err
	}
	count := int32(0)
	for end := time.Now().Add(last); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, err := c.Set(ctx, "/steady-go", strconv.AppendInt(nil, int64(count+1), 10), count)
		if zk.MaybeApplied(err) {
			if err := c.Sync(ctx, "/"); err != nil {
				return err
			}
			_, stat, err := c.Get(ctx, "/steady-go")
			if err != nil {
				return err
			}
			if stat.Version != count && stat.Version != count+1 {
				return fmt.Errorf("the counter went from version %d to %d", count, stat.Version)
			}
			count = stat.Version
			continue
		}
		if err != nil {
			return fmt.Errorf("count %d: %w", count, err)
		}
		count++
	}
	if _, err := c.Create(ctx, "/steady-go/late", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		return err
	}
	if ev, err := late.Next(ctx); err != nil || ev.Type != zk.EventNodeCreated {
		return fmt.Errorf("the watch: %v (%v)", ev, err)
	}
	if err := held.Unlock(ctx); err != nil { // it deletes its place in the line, which only this session has kept
		return fmt.Errorf("the lock: %w", err)
	}
	data, stat, err := c.Get(ctx, "/steady-go")
	if err != nil || string(data) != fmt.Sprint(count) || stat.Version != count || c.Session().ID != session {
		return fmt.Errorf("the counter is %s of version %d after %d writes (%v); session %#x became %#x", data, stat.Version, count, err, session, c.Session().ID)
	}
	return nil
}
