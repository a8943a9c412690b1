package moving

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A slowReturn is a way back of three Zooid servers, whose commands for the stop take some seconds each, as ssh and
// systemctl do: before they stop the server, and after that.
type slowReturn struct {
	before, after [3]float64 // of the leader, and of the others
	step          string     // where it is cut short, "" for nowhere
	signal        syscall.Signal
	befall        string // in the place of the signal, or after it
}

// What befalls a return.
const (
	leaderFull   = "the leader's disk is full"
	otherFull    = "another Zooid server's disk is full"
	observerFull = "an observer's disk is full"
	observersUp  = "an observer is killed and started again"
	othersUp     = "Zooid's other servers are started again"
	served       = "Zooid serves in between"
)

var slowReturns = []slowReturn{
	{before: [3]float64{0, 0, 0}},
	{before: [3]float64{2, 0, 0.7}},
	{before: [3]float64{0, 5, 1}, after: [3]float64{1, 0, 5}},
	{before: [3]float64{10, 1, 5}, after: [3]float64{0, 3, 0}},
	{before: [3]float64{5, 0, 10}},
	{step: atFirst, signal: syscall.SIGHUP},
	{step: atFirst, signal: syscall.SIGKILL},
	{step: atOwn, signal: syscall.SIGHUP},
	{step: atOwn, signal: syscall.SIGKILL},
	{step: atObserver, signal: syscall.SIGHUP},
	{step: atObserver, signal: syscall.SIGKILL},
	{step: atApache, signal: syscall.SIGHUP},
	{step: atApache, signal: syscall.SIGKILL},
	{step: atOwn, signal: syscall.SIGINT},
	{step: atFirst, befall: leaderFull},
	{step: atOwn, befall: leaderFull},
	{step: atObserver, befall: leaderFull},
	{step: atApache, befall: leaderFull},
	{step: atFirst, befall: otherFull},
	{step: atOwn, befall: otherFull},
	{step: atFirst, befall: observerFull},
	{step: atOwn, befall: observerFull},
	{step: atApache, befall: observerFull},
	{step: atFirst, befall: observersUp},
	{step: atOwn, befall: observersUp},
	{step: atObserver, befall: observersUp},
	{step: atOwn, befall: othersUp},
	{step: atObserver, befall: othersUp},
	{step: atOwn, signal: syscall.SIGKILL, befall: served},
	{step: atObserver, signal: syscall.SIGKILL, befall: served},
	{step: atObserver, befall: observerFull},
	{step: atObserver, signal: syscall.SIGKILL, befall: hungUp},
	{step: atFirst, befall: twoUsers},
	{step: atOwn, befall: twoUsers},
	{step: atObserver, befall: twoUsers},
	{step: atApache, befall: twoUsers},
}

// The steps at which a return is cut short.
const (
	atFirst    = "before the first stop"
	atOwn      = "before the leader's stop"
	atObserver = "before an observer's stop"
	atApache   = "before Apache's start"
)

// TestReturnOfThree goes back from three Zooid servers to two Apache servers while a client writes: with stops that
// take up to ten seconds, in different orders, and with a return that is cut short and run again. What was acknowledged
// is there in the end.
func TestReturnOfThree(t *testing.T) {
	need(t)
	all := slowReturns
	if testing.Short() {
		all = []slowReturn{slowReturns[1], slowReturns[8]}
	}
	for i, r := range all {
		version := both[1-(i+1)/2%2] // so that each signal is tried with each
		t.Run(fmt.Sprintf("%s/%v-%v/%s/%v%s", version, r.before, r.after, r.step, r.signal, r.befall),
			func(t *testing.T) { r.try(t, version) })
	}
}

func (r slowReturn) try(t *testing.T, version string) {
	w := newWayBack(t, version)
	z := newZooids(t, w.program, quickLimits)
	for i := range z.servers {
		if r.befall == leaderFull || r.befall == otherFull {
			smallDisk(t, z.place(i))
		}
		z.start(i)
	}
	if r.befall == observerFull {
		smallDisk(t, w.apache.servers[0].dir)
	}
	for i := range z.servers {
		if !awaited(func() bool { return serves(z.addrs[i]) }) {
			t.Fatalf("server %d doesn't serve:\n%s", i+1, z.servers[i].output)
		}
	}
	leader := z.leader()
	w.config, w.zooid = z.config(leader), z.servers[leader]
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	told := startWriter(t, []string{
		z.addrs[0], z.addrs[1], z.addrs[2], w.apache.servers[0].addr, w.apache.servers[1].addr,
	})
	told.await(100)

	hang := t.TempDir() + "/hang"
	first := watch(t, r.command(w, z, leader, hang))
	if r.step != "" {
		r.cut(t, w, z, leader, hang, first)
	} else if <-first.ended; first.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s", first.state(), first.out.text())
	}
	told.await(20)
	for _, s := range z.servers {
		if runs(s.cmd.Process.Pid) {
			t.Error("a Zooid server runs beside Apache")
		}
	}
	told.judge([]string{w.apache.servers[0].addr, w.apache.servers[1].addr})
	t.Log(first.out.text())
}

// cut hits a return where it waits, and brings it to its end.
func (r slowReturn) cut(t *testing.T, w *wayBack, z *zooids, leader int, hang string, first *watched) {
	t.Helper()
	first.until(r.step, func() bool { return exists(hang) })
	disk := r.hit(t, w, z, leader)
	if r.befall == twoUsers {
		second, err := r.command(w, z, leader, hang).CombinedOutput()
		if err == nil || !strings.Contains(string(second), "another process, running this command") {
			t.Errorf("a second command: %v\n%s", err, second)
		}
	}
	if r.signal != 0 {
		first.cmd.Process.Signal(r.signal)
	}
	if r.signal == syscall.SIGINT || r.signal == syscall.SIGKILL {
		<-first.ended
	}
	os.Remove(hang)
	<-first.ended
	if disk != "" {
		os.Remove(filepath.Join(disk, ballast))
	}
	said, code := first.out.text(), first.cmd.ProcessState.ExitCode()
	switch {
	case r.signal == syscall.SIGKILL:
		r.left(t, w, z, leader, hang)
	case code == 0:
		if r.befall != othersUp && r.signal != syscall.SIGINT {
			r.startDead(t, w)
			return
		}
		fallthrough
	case code != 1 || r.signal != syscall.SIGINT && !strings.Contains(said, "To undo: start Zooid's servers"),
		r.signal == syscall.SIGHUP:
		t.Fatalf("exit code %d\n%s", code, said)
	}
	if r.befall == served {
		z.startDead()
		told := startWriter(t, z.addrs)
		told.await(20)
		told.end()
		for _, s := range z.servers {
			s.kill()
		}
		next, err := r.command(w, z, leader, hang).CombinedOutput()
		if err == nil || !strings.Contains(string(next), "have served since") {
			t.Errorf("after writes to Zooid, the next try: %v\n%s", err, next)
		}
	}
	// Nothing is known then, or a try was undone: Zooid goes on, and so do those of the observers that have stopped.
	if r.step == atFirst || r.signal != syscall.SIGKILL || r.befall == served {
		z.startDead()
		for i, s := range w.apache.servers {
			if !runs(s.cmd.Process.Pid) {
				w.apache.start(i)
				w.notePid(i)
			}
		}
		leader = z.leader()
		w.config, w.zooid = z.config(leader), z.servers[leader]
	}
	if r.befall == hungUp {
		finishesWithout(t, r.command(w, z, leader, hang+"2"), hang+"2")
		return
	}
	if next, err := r.command(w, z, leader, hang).CombinedOutput(); err != nil {
		t.Fatalf("the next try: %v\n%s\nthe first:\n%s", err, next, said)
	}
}

// hit has something befall a return, and returns the disk that is full then.
func (r slowReturn) hit(t *testing.T, w *wayBack, z *zooids, leader int) (disk string) {
	t.Helper()
	other := (leader + 1) % len(z.servers)
	switch r.befall {
	case leaderFull:
		disk = z.place(leader)
	case otherFull:
		disk = z.place(other)
	case observerFull:
		disk = w.apache.servers[0].dir
	case observersUp:
		w.apache.servers[0].kill()
		w.apache.start(0)
		w.notePid(0)
	case othersUp:
		for i, s := range z.servers {
			if i == leader {
				continue
			}
			if !awaited(func() bool { return !runs(s.cmd.Process.Pid) }) {
				t.Fatalf("server %d isn't stopped", i+1)
			}
			z.start(i)
		}
		if !awaited(func() bool { return serves(z.addrs[other]) }) {
			t.Fatalf("server %d doesn't serve:\n%s", other+1, z.servers[other].output)
		}
	}
	if disk != "" {
		fill(t, disk)
	}
	return disk
}

// left waits for the end of what a command does that waited when its return was killed: it goes on by itself.
func (r slowReturn) left(t *testing.T, w *wayBack, z *zooids, leader int, hang string) {
	t.Helper()
	done := func() bool { return true }
	switch r.step {
	case atFirst:
		done = func() bool {
			return slices.ContainsFunc(z.servers[:], func(s *server) bool { return !runs(s.cmd.Process.Pid) })
		}
	case atOwn:
		done = func() bool { return !runs(z.servers[leader].cmd.Process.Pid) }
	case atObserver: // what reads an observer's files would be taken for that observer
		done = func() bool { return exists(hang+".read1") && exists(hang+".read2") }
	case atApache:
		done = func() bool { return exists(w.script(1) + ".pid") }
	}
	if !awaited(done) {
		t.Fatalf("the command that waited %s doesn't go on", r.step)
	}
}

// startDead starts those servers of the new ensemble again that had no room to start.
func (r slowReturn) startDead(t *testing.T, w *wayBack) {
	t.Helper()
	if r.befall != observerFull {
		return
	}
	script := w.script(0)
	again := fmt.Sprintf("kill -9 $(cat %[1]s.pid); while kill -0 $(cat %[1]s.pid) 2>/dev/null; do sleep 0.01; done\n"+
		"sh %[1]s >>%[1]s.log 2>&1 & echo $! >%[1]s.pid", script)
	if out, err := exec.Command("sh", "-c", again).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// startDead starts the servers that have stopped.
func (z *zooids) startDead() {
	z.t.Helper()
	for i, s := range z.servers {
		if !runs(s.cmd.Process.Pid) {
			z.start(i)
		}
	}
}

// command is zooid migrate return. It waits at a step, once, as long as the file hang exists, that it makes there.
func (r slowReturn) command(w *wayBack, z *zooids, leader int, hang string) *exec.Cmd {
	wait := func(at, only string) string {
		if r.step != at {
			return ""
		}
		return fmt.Sprintf("if %s && mkdir %s.once 2>/dev/null; then touch %s; while test -e %s; do sleep 0.02; done; fi\n",
			only, hang, hang, hang)
	}
	read := ""
	if hang != "" {
		read = "touch " + hang + ".read$ZK_ID\n"
	}
	order := []int{leader}
	for i := range z.servers {
		if i != leader {
			order = append(order, i)
		}
	}
	stop := ""
	for at, i := range order {
		stop += fmt.Sprintf("test $ZOOID_ID != %d || { pid=%d; before=%v; after=%v; }\n", i+1, z.servers[i].cmd.Process.Pid,
			r.before[at], r.after[at])
	}
	end := "kill -9 $pid 2>/dev/null\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\n"
	stop += wait(atFirst, fmt.Sprintf("test $ZOOID_ID != %d", leader+1)) +
		wait(atOwn, fmt.Sprintf("test $ZOOID_ID = %d", leader+1)) + "sleep $before\n" + end + "sleep $after\n"
	observer, start := "", ""
	for i, s := range w.apache.servers {
		w.notePid(i)
		observer += fmt.Sprintf("test $ZK_ID != %d || dir=%s\n", i+1, s.dir)
		run := slices.Concat([]string{"exec java"}, jvm, w.apache.options, []string{
			"-cp", "'" + classPath(w.t, w.apache.version) + "'", "-Dzookeeper.extendedTypesEnabled=true",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.dir + "/ensemble.cfg",
		})
		script := w.script(i)
		if err := os.WriteFile(script, []byte(strings.Join(run, " ")), 0o600); err != nil {
			w.t.Fatal(err)
		}
		start += fmt.Sprintf("test $ZK_ID != %d || script=%s\n", i+1, script)
	}
	w.ensembleConfigs()
	observer += wait(atObserver, "test $ZK_ID = 1") + "pid=$(cat $dir/pid)\n" + end + w.program +
		" migrate digest $dir\ncode=$?\n" + read + "exit $code"
	start += wait(atApache, "test $ZK_ID = 2") +
		"test -e $script.pid && kill -0 $(cat $script.pid) 2>/dev/null || { sh $script >$script.log 2>&1 & echo $! >$script.pid; }\n"
	w.t.Cleanup(func() {
		for i := range w.apache.servers {
			exec.Command("sh", "-c", "kill -9 $(cat "+w.script(i)+".pid) 2>/dev/null").Run()
		}
	})
	return exec.Command(w.program, "migrate", "return", "-yes", "-quorum", w.quorum, "-election", w.election,
		"-from", "127.0.0.1", "-observers", "1,2", "-stop", stop, "-stop-observer", observer, "-start", start, w.config)
}

// script is the file with the command that starts a server of the new ensemble. It needs no room on the server's disk.
func (w *wayBack) script(i int) string {
	return filepath.Join(filepath.Dir(w.config), fmt.Sprintf("start%d.sh", i+1))
}

// notePid writes the process id of an observer where the command that stops it reads it.
func (w *wayBack) notePid(i int) {
	s := w.apache.servers[i]
	if err := os.WriteFile(s.dir+"/pid", fmt.Append(nil, s.cmd.Process.Pid), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// ensembleConfigs writes the zoo.cfg of each server for the ensemble to come.
func (w *wayBack) ensembleConfigs() {
	t := w.t
	t.Helper()
	if _, err := os.Stat(w.apache.servers[0].dir + "/ensemble.cfg"); err == nil {
		return
	}
	for i, s := range w.apache.servers {
		text, err := os.ReadFile(w.apache.configs[i])
		if err != nil {
			t.Fatal(err)
		}
		lines := ""
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "server.0=") && !strings.HasPrefix(line, "peerType=") {
				lines += strings.ReplaceAll(line, ":observer", ":participant")
			}
		}
		if err := os.WriteFile(s.dir+"/ensemble.cfg", []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
