package moving

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A slowReturn is a way back of three Zooid servers, whose commands for the stop take some seconds each, as ssh and
// systemctl do: before they stop the server, and after that.
type slowReturn struct {
	before, after [3]float64 // of the leader, and of the others
	step          string     // where it is cut short, "" for nowhere
	signal        syscall.Signal
	befall        string // in the place of the signal: leaderFull or observersUp; it finishes then
}

// What befalls a return.
const (
	leaderFull  = "the leader's disk is full"
	observersUp = "an observer is killed and started again"
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
	{step: atOwn, befall: leaderFull},
	{step: atObserver, befall: leaderFull},
	{step: atApache, befall: leaderFull},
	{step: atFirst, befall: observersUp},
	{step: atOwn, befall: observersUp},
	{step: atObserver, befall: observersUp},
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
		version := []string{"3.9.5", "3.8.4"}[i%2]
		t.Run(fmt.Sprintf("%s/%v-%v/%s/%v%s", version, r.before, r.after, r.step, r.signal, r.befall),
			func(t *testing.T) { r.try(t, version) })
	}
}

func (r slowReturn) try(t *testing.T, version string) {
	w := newWayBack(t, version)
	z := newZooids(t, w.program, quickLimits)
	for i := range z.servers {
		if r.befall == leaderFull {
			smallDisk(t, z.place(i))
		}
		z.start(i)
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
	switch r.befall {
	case leaderFull:
		fill(t, z.place(leader))
	case observersUp:
		w.apache.servers[0].kill()
		w.apache.start(0)
		w.notePid(0)
	default:
		first.cmd.Process.Signal(r.signal)
	}
	if r.signal != syscall.SIGHUP && r.befall == "" {
		<-first.ended
	}
	os.Remove(hang)
	<-first.ended
	code := first.cmd.ProcessState.ExitCode()
	// An observer that isn't back when Zooid has stopped ends the return, which says how to undo it.
	undone := r.befall == observersUp && code == 1 && strings.Contains(first.out.text(), "To undo: start Zooid's servers")
	if (r.signal == syscall.SIGHUP || r.befall != "") && !undone {
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, first.out.text())
		}
		return
	}
	if r.signal == syscall.SIGKILL { // the command that waited goes on by itself, and ends what it was to end
		time.Sleep(time.Second)
	}
	if r.step == atFirst || r.signal == syscall.SIGINT || undone { // nothing is known then: Zooid goes on
		for i, s := range z.servers {
			if !runs(s.cmd.Process.Pid) {
				z.start(i)
			}
		}
		leader = z.leader()
		w.config, w.zooid = z.config(leader), z.servers[leader]
	}
	if said, err := r.command(w, z, leader, hang).CombinedOutput(); err != nil {
		t.Fatalf("the next try: %v\n%s\nthe first:\n%s", err, said, first.out.text())
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
		run := slices.Concat([]string{"exec java"}, jvm, []string{
			"-cp", "'" + classPath(w.t, w.apache.version) + "'", "-Dzookeeper.extendedTypesEnabled=true",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.dir + "/ensemble.cfg",
		})
		script := s.dir + "/start.sh"
		if err := os.WriteFile(script, []byte(strings.Join(run, " ")), 0o600); err != nil {
			w.t.Fatal(err)
		}
		start += fmt.Sprintf("test $ZK_ID != %d || script=%s\n", i+1, script)
	}
	w.ensembleConfigs()
	observer += wait(atObserver, "test $ZK_ID = 1") + "pid=$(cat $dir/pid)\n" + end + "exec " + w.program +
		" migrate digest $dir"
	start += wait(atApache, "test $ZK_ID = 2") +
		"test -e $script.pid && kill -0 $(cat $script.pid) 2>/dev/null || { sh $script >$script.log 2>&1 & echo $! >$script.pid; }\n"
	w.t.Cleanup(func() {
		for _, s := range w.apache.servers {
			exec.Command("sh", "-c", "kill -9 $(cat "+s.dir+"/start.sh.pid) 2>/dev/null").Run()
		}
	})
	return exec.Command(w.program, "migrate", "return", "-yes", "-quorum", w.quorum, "-election", w.election,
		"-from", "127.0.0.1", "-observers", "1,2", "-stop", stop, "-stop-observer", observer, "-start", start, w.config)
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
