package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// A cut is a switch to three Zooid servers that is hit in the middle of a step, and what comes then.
type cut struct {
	step   string // before or in which it waits when the signal comes
	signal syscall.Signal
	then   string
}

// The steps at which a switch is cut short, each by a command of the operator's that waits there.
const (
	atStop    = "all servers have stopped"
	atTail    = "one server has stopped"
	atSeed    = "before a seed"
	atSeeded  = "after a seed"
	atRelease = "before a release"
	atHalf    = "when some are released"
	atStart   = "before the start"
	atStarted = "when some are started"
)

// What comes then.
const (
	finishes   = "it finishes by itself"    // it takes no notice of a lost terminal
	goesOn     = "the next try goes on"     // with Apache's servers stopped
	anew       = "the next try begins anew" // with Apache's servers started again
	hungUp     = "the next try loses its terminal too, and finishes"
	undoneNow  = "undone, then begins anew"    // by itself or by -undo
	twoUsers   = "a second command is refused" // and the first one finishes
	apacheBack = "Apache is started again"     // the next try refuses, and it is undone, as nothing has served
	notUndone  = "it isn't undone, and goes on"
)

// olderBack is apacheBack after a try of an older build, which didn't record the servers that had stopped.
const olderBack = apacheBack + ", and the journal is an older one"

// cuts has each step with each signal. After a SIGHUP the switch goes on. After an interrupt it undoes what it has
// begun, or says how to go on. After a kill -9 the next try goes on, or begins anew if Apache was started again.
func cuts() (all []cut) {
	for _, step := range []string{atTail, atStop, atSeed, atSeeded} {
		all = append(all, cut{step, syscall.SIGHUP, finishes}, cut{step, syscall.SIGINT, anew},
			cut{step, syscall.SIGINT, goesOn},
			cut{step, syscall.SIGKILL, goesOn}, cut{step, syscall.SIGKILL, anew}, cut{step, syscall.SIGKILL, undoneNow},
			cut{step, 0, twoUsers})
	}
	for _, step := range []string{atRelease, atHalf, atStart, atStarted} {
		all = append(all, cut{step, syscall.SIGHUP, finishes}, cut{step, syscall.SIGINT, goesOn},
			cut{step, syscall.SIGKILL, goesOn}, cut{step, 0, twoUsers})
	}
	return append(all, cut{atRelease, syscall.SIGKILL, apacheBack}, cut{atRelease, syscall.SIGKILL, olderBack},
		cut{atStart, syscall.SIGKILL, hungUp})
}

// TestSwitchCutShort cuts switches short at each step, by a lost terminal, an interrupt and kill -9, and has a second
// operator try the same. Clients write all the time, and what they were told is there in the end; no server that was
// seeded and not released serves.
func TestSwitchCutShort(t *testing.T) {
	need(t)
	program := zooid(t)
	all := cuts()
	if testing.Short() {
		all = []cut{
			{atSeeded, syscall.SIGHUP, finishes}, {atSeeded, syscall.SIGKILL, goesOn}, {atHalf, syscall.SIGKILL, goesOn},
		}
	}
	for i, c := range all {
		version := []string{"3.8.4", "3.9.5"}[i%2]
		t.Run(fmt.Sprintf("%s/%s/%v/%s", version, c.step, c.signal, c.then),
			func(t *testing.T) { c.try(t, program, version, true) })
	}
}

// try cuts a switch short. Without seed, one Zooid server takes over, and the others join it.
func (c cut) try(t *testing.T, program, version string, seed bool) {
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	z.seed = seed
	told := startWriter(t, append(strings.Split(e.connect(), ","), z.addrs...))
	told.await(50)
	dir, hang := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "hang")
	seen := func() bool { return exists(hang) }
	if c.step == atMake { // its -start waits from the beginning
		seen = func() bool {
			marks, _ := filepath.Glob(filepath.Join(z.place(0), "switch-*"))
			return len(marks) > 0
		}
		must(t, "touch", hang)
	}
	first := watch(t, z.held(e, dir, hang, c.step))
	first.until(c.step, seen)
	if c.step == atTail { // an interrupt may end the commands before these have ended, and after they were killed
		first.until("the end of servers 1 and 3", func() bool {
			return !runs(e.servers[0].cmd.Process.Pid) && !runs(e.servers[2].cmd.Process.Pid)
		})
	}
	if c.then == twoUsers {
		second, err := z.held(e, dir, hang+"2", "").CombinedOutput()
		if err == nil || !strings.Contains(string(second), "another process") {
			t.Errorf("a second command: %v\n%s", err, second)
		}
	} else {
		if seed && (c.then == apacheBack || c.then == olderBack) {
			// Server 2 waits; the command for server 3 runs beside that.
			first.until("the release of server 3", func() bool { return exists(filepath.Join(z.place(2), "switch-released")) })
		}
		first.cmd.Process.Signal(c.signal)
	}
	if c.signal == syscall.SIGKILL || c.signal == syscall.SIGINT {
		<-first.ended
	}
	// A server that a unit starts now serves nothing: its data isn't released, or isn't there, or it is and was to be.
	if c.then != finishes && c.then != twoUsers && (c.step == atSeeded || c.step == atStop) {
		if !seed {
			z.refusesToStart(0)
		}
		z.refusesToStart(1)
	}
	if c.then == apacheBack || c.then == olderBack {
		c.apacheBack(e, z, dir, hang)
	}
	os.Remove(hang)
	<-first.ended
	if c.step == atTail && c.signal == syscall.SIGKILL { // the command for the last server goes on by itself
		awaited(func() bool {
			return !slices.ContainsFunc(e.servers, func(s *server) bool { return runs(s.cmd.Process.Pid) })
		})
	}
	switch c.then {
	case finishes, twoUsers:
		if code := first.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d\n%s", code, first.out.text())
		}
	case undoneNow:
		z.undo(e, dir)
		fallthrough
	case anew, apacheBack, olderBack:
		for i, s := range e.servers {
			if !runs(s.cmd.Process.Pid) {
				e.start(i)
			}
		}
		for _, s := range e.servers { // one that lags behind isn't proved to have stopped
			e.awaitServing(s)
		}
		told.await(20)
		fallthrough
	case goesOn, notUndone:
		if c.then == notUndone {
			c.notUndone(e, z, dir)
		}
		if out, err := z.held(e, dir, hang, "").CombinedOutput(); err != nil {
			t.Errorf("the next try: %v\n%s", err, out)
		}
	case hungUp:
		finishesWithout(t, z.held(e, dir, hang+"2", c.step), hang+"2")
	}
	if t.Failed() {
		t.Fatalf("the first try said:\n%s", first.out.text())
	}
	z.serveAlone(e, told, 20)
}

// finishesWithout runs a command that waits as long as a file exists, which it makes. Its terminal is lost then.
func finishesWithout(t *testing.T, cmd *exec.Cmd, hang string) {
	t.Helper()
	next := watch(t, cmd)
	next.until("the next try's step", func() bool { return exists(hang) })
	cmd.Process.Signal(syscall.SIGHUP)
	os.Remove(hang)
	if <-next.ended; cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the next try, without its terminal: %s\n%s", next.state(), next.out.text())
	}
}

// apacheBack starts Apache's servers again when one of Zooid's may be released, which is too few to serve. A try that
// went on would make two trees. It is undone.
func (c cut) apacheBack(e *ensemble, z *zooids, dir, hang string) {
	t := z.t
	t.Helper()
	for i := range e.servers {
		e.start(i)
	}
	for _, s := range e.servers {
		e.awaitServing(s)
	}
	if path := filepath.Join(dir, "switch.journal"); c.then == olderBack {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(`"Servers":[`), []byte(`"Closed":[`), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	next := z.held(e, dir, hang, "")
	said, err := next.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "Apache has been restarted") || exists(z.pid(0)) {
		t.Fatalf("beside Apache, the next try: %v\n%s", err, said)
	}
	if z.seed {
		z.undo(e, dir, 2)
		return
	}
	if !awaited(func() bool { return exec.Command("sh", "-c", "kill -9 $(cat "+hang+")").Run() == nil }) {
		t.Fatal("the command that waits isn't killed")
	}
	z.undo(e, dir)
	z.refusesToStart(0)
}

// notUndone has -undo refuse while the only new server serves, and when it has served.
func (c cut) notUndone(e *ensemble, z *zooids, dir string) {
	t := z.t
	t.Helper()
	if !awaited(func() bool { return serves(z.addrs[0]) }) {
		t.Fatal("the new server doesn't serve")
	}
	for _, runs := range []bool{true, false} {
		if !runs {
			z.adopt(0)
			z.servers[0].kill()
			// The next command to start it asks whether there is a process, which may be one that nobody has waited for.
			awaited(func() bool { return syscall.Kill(z.servers[0].cmd.Process.Pid, 0) != nil })
		}
		said, err := exec.Command(z.program, "migrate", "switch", "-undo", e.connect(), dir, z.config(0)).CombinedOutput()
		if err == nil || !strings.Contains(string(said), "may have served") {
			t.Errorf("-undo, beside a server that serves: %v: %v\n%s", runs, err, said)
		}
	}
}

// held is zooid migrate switch, which waits at a step as long as the file hang exists, that it makes there, with the id
// of the process that waits.
func (z *zooids) held(e *ensemble, dir, hang, step string) *exec.Cmd {
	wait := func(at, only string) string {
		if step != at {
			return ""
		}
		return fmt.Sprintf("if %s && mkdir %s.once 2>/dev/null; then echo $$ >%s; while test -e %s; do sleep 0.02; done; fi\n",
			only, hang, hang, hang)
	}
	// A server that has stopped already is stopped again, by a later try.
	stop := z.stopping(e, wait(atTail, "test $ZK_ID = 2"), wait(atStop, "sleep 0.3; test $ZK_ID = 2"))
	stop = strings.ReplaceAll(stop, "kill -9 $pid", "kill -9 $pid 2>/dev/null || true")
	is := func(order string) string { return "echo \"$order\" | grep -q ' " + order + " '" }
	second := " && test $ZOOID_ID = 3"
	// The order is the first line of what a seed gets; head would read further.
	seed := "read -r order\n" + wait(atSeed, is("plant")+second) +
		wait(atRelease, is("release")+" && test $ZOOID_ID = 2") +
		wait(atHalf, is("release")+second) +
		fmt.Sprintf("{ echo \"$order\"; cat; } | %s migrate seed %s/zoo$ZOOID_ID.cfg || exit 1\n", z.program, z.dir) +
		wait(atSeeded, is("plant")+second)
	alone := fmt.Sprintf("{ test -e %s/pid$ZOOID_ID && kill -0 $(cat %s/pid$ZOOID_ID) 2>/dev/null; }", z.dir, z.dir)
	// The command of a try that was killed may be at it still. The server doesn't keep the lock.
	run := fmt.Sprintf("(flock 9; %s || { %s server %s/zoo$ZOOID_ID.cfg -Dzookeeper.DigestAuthenticationProvider.superDigest=%s >%s/log$ZOOID_ID 2>&1 9>&- & echo $! >%s/pid$ZOOID_ID; }) 9>%s/start$ZOOID_ID\n",
		alone, z.program, z.dir, superDigest, z.dir, z.dir, z.dir)
	words := []string{"migrate", "switch", "-yes", "-stop", stop}
	if z.seed {
		run = wait(atStart, "test $ZOOID_ID = 1") + wait(atStarted, "test $ZOOID_ID = 3") + run
		words = append(words, "-seed", seed)
	} else {
		if step == atMake {
			run = fmt.Sprintf("while test -e %s; do sleep 0.02; done\n", hang) + run
		}
		run = wait(atStart, "true") + run + wait(atStarted, "true")
	}
	return exec.Command(z.program, append(words, "-start", run, e.connect(), dir, z.config(0))...)
}

// undo runs zooid migrate switch -undo. The servers that it says are released are emptied by hand.
func (z *zooids) undo(e *ensemble, dir string, released ...int) {
	t := z.t
	t.Helper()
	var out []byte
	if !awaited(func() (done bool) { // the commands of the try that was killed may be at it still
		var err error
		words := []string{"migrate", "switch", "-undo"}
		if z.seed {
			words = append(words, "-seed", fmt.Sprintf("%s migrate seed %s/zoo$ZOOID_ID.cfg", z.program, z.dir))
		}
		out, err = exec.Command(z.program, append(words, e.connect(), dir, z.config(0))...).CombinedOutput()
		return err == nil || !strings.Contains(string(out), "another process holds")
	}) || !strings.Contains(string(out), "undid the try") {
		t.Errorf("-undo:\n%s", out)
	}
	for _, i := range released {
		if !strings.Contains(string(out), "They are too few to have served") {
			t.Errorf("-undo doesn't say that server %d is released:\n%s", i+1, out)
		}
		files, _ := filepath.Glob(filepath.Join(z.place(i), "*"))
		for _, file := range files {
			if filepath.Base(file) != "myid" {
				os.RemoveAll(file)
			}
		}
	}
	if exists(filepath.Join(dir, "switch.tails")) {
		t.Error("-undo has left the tails")
	}
	for i := range z.servers {
		left, err := os.ReadDir(z.place(i))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != "myid" }) {
			t.Errorf("-undo has left %v", left)
		}
	}
}

// refusesToStart starts a server, which must serve nobody: it refuses, or has nothing and waits for the others.
func (z *zooids) refusesToStart(i int) {
	t := z.t
	t.Helper()
	w := watch(t, exec.Command(z.program, "server", z.config(i)))
	quiet := func() bool { return strings.Contains(w.out.text(), "this server belongs to no ensemble yet") }
	if !awaited(func() bool { return w.gone() || quiet() }) || serves(z.addrs[i]) {
		t.Errorf("server %d serves, or says nothing:\n%s", i+1, w.out.text())
	}
	w.cmd.Process.Kill()
	<-w.ended
}

// A writer creates one znode after the other, and remembers those that it was told to be there.
type writer struct {
	t    *testing.T
	end  func()
	mu   sync.Mutex
	told []string
	last time.Time // when it was told last
	// longest is the longest time between two such moments, since the last call of pause.
	longest time.Duration
}

func startWriter(t *testing.T, addrs []string) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{t: t}
	done := make(chan struct{})
	w.end = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(w.end)
	go func() {
		defer close(done)
		var c *zk.Client
		for n := 0; ctx.Err() == nil; n++ {
			one, ready := context.WithTimeout(ctx, 5*time.Second)
			var err error
			if c == nil {
				c, err = zk.Open(one, strings.Join(addrs, ","), zk.Options{SessionTimeout: 2 * time.Minute})
			}
			path := fmt.Sprintf("/told-%d", n)
			if err == nil {
				_, err = c.Create(one, path, []byte(path), zk.ModePersistent, zk.OpenACL())
			}
			ready()
			switch {
			case err == nil:
				w.mu.Lock()
				w.told = append(w.told, path)
				if now := time.Now(); !w.last.IsZero() {
					w.longest, w.last = max(w.longest, now.Sub(w.last)), now
				} else {
					w.last = now
				}
				w.mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			case errors.Is(err, zk.ErrSessionExpired):
				t.Error("a session expired")
				return
			}
		}
		if c != nil {
			c.Close()
		}
	}()
	return w
}

// await waits until it was told of n more znodes.
func (w *writer) await(n int) {
	w.t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.told)
	}
	before := count()
	if !awaited(func() bool { return count() >= before+n }) {
		w.t.Fatalf("clients aren't served: %d more znodes; want %d", count()-before, n)
	}
}

// pause returns the longest time without an acknowledged write since the last call.
func (w *writer) pause() (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest, w.longest = w.longest, 0
	return longest
}

// judge looks for each znode that it was told of.
func (w *writer) judge(addrs []string) {
	w.t.Helper()
	w.end()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	c, err := zk.Open(ctx, strings.Join(addrs, ","), zk.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	lost := 0
	for _, path := range w.told {
		if data, _, err := c.Get(ctx, path); err != nil || string(data) != path {
			lost++
		}
	}
	if lost > 0 {
		w.t.Errorf("%d of %d znodes that were acknowledged are lost", lost, len(w.told))
	}
	w.t.Logf("%d znodes were acknowledged, and are there", len(w.told))
}

// TestSwitchBegunThere starts the target's server while the switch asks, as an enabled unit does, and while the
// directory is still empty: it doesn't start, and the switch goes on.
func TestSwitchBegunThere(t *testing.T) { withEach(t, both, switchBegunThere) }

func switchBegunThere(t *testing.T, version string) {
	program := zooid(t)
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	told := startWriter(t, append(strings.Split(e.connect(), ","), z.addrs...))
	told.await(100)
	cmd := z.held(e, filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "hang"), "")
	cmd.Args = slices.DeleteFunc(cmd.Args, func(word string) bool { return word == "-yes" })
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, cmd)
	w.until("the question", func() bool { return strings.Contains(w.out.text(), "Type yes") })
	unit, err := exec.Command(program, "server", z.config(0)).CombinedOutput()
	if err == nil || !strings.Contains(string(unit), "another process holds this data directory") {
		t.Errorf("the unit: %v\n%s", err, unit)
	}
	if _, err := io.WriteString(in, "yes\n"); err != nil {
		t.Fatal(err)
	}
	if <-w.ended; cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s", w.state(), w.out.text())
	}
	z.adopt(0)
	told.await(20)
	told.judge(z.addrs[:1])
	// A switch into a directory on which a server runs is refused from the first look on.
	second, err := z.held(e, filepath.Join(t.TempDir(), "copy"), "", "").CombinedOutput()
	if err == nil || !strings.Contains(string(second), "Stop the Zooid server that uses it") {
		t.Errorf("a switch to a running server: %v\n%s", err, second)
	}
}

// TestSwitchOtherServes has a watchdog start an Apache server on Zooid's port in the place of Zooid, which has died: it
// isn't taken for the Zooid server.
func TestSwitchOtherServes(t *testing.T) { withEach(t, tried(both, "3.9.5"), switchOtherServes) }

func switchOtherServes(t *testing.T, version string) {
	program := zooid(t)
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	text, err := os.ReadFile(z.config(0))
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "admin.enableServer=false\n"...)
	if err := os.WriteFile(z.config(0), text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(z.addrs[0], ":")
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, "dataDir=%s\nclientPort=%s\nadmin.enableServer=false\n", dir, port),
		0o600); err != nil {
		t.Fatal(err)
	}
	apache := fmt.Sprintf("java %s -cp '%s' org.apache.zookeeper.server.quorum.QuorumPeerMain %s >/dev/null 2>&1 & echo $! >%s/pid",
		strings.Join(jvm, " "), classPath(t, version), config, dir)
	t.Cleanup(func() { exec.Command("sh", "-c", "kill -9 $(cat "+dir+"/pid)").Run() })
	cmd := exec.Command(program, "migrate", "switch", "-yes", "-stop", z.stopping(e, "", ""), "-start", apache,
		e.connect(), filepath.Join(t.TempDir(), "copy"), z.config(0))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "it isn't a Zooid server") ||
		strings.Contains(string(out), "the Zooid server serves") {
		t.Errorf("%v\n%s", err, out)
	}
}
