package moving

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An undone is a switch that ends after some of Apache's servers were stopped, and before its last step.
type undone struct {
	name string

	beforeKill, beforeTail string // lines of -stop, for the server $odd
	signal                 os.Signal
	tails                  bool // -tails, in the place of -stop
	frozen                 bool // the server $odd is stopped by a signal, and its ports answer nobody

	says []string // by the command
}

// undos are tried one after the other. $odd is the id of one server, $hang a file that is waited for,
// and $data the directory of the Zooid server.
var undos = []undone{
	{name: "a server can't be stopped", beforeKill: "exit 7",
		says: []string{
			"stop server $odd: the command failed: exit status 7", "the servers [$odd] may still run",
		}},
	{name: "a server wasn't stopped", beforeKill: "exec $tail $dir",
		says: []string{"stop server $odd: the command failed", "Stop the server first"}},
	{name: "a server goes on behind a firewall, and its tail is an old one", frozen: true,
		beforeKill: "cp -r $dir $dir.old; kill -STOP $pid; touch $hang; while test -e $hang; do sleep 0.05; done; exec $tail $dir.old",
		says:       []string{"server $odd isn't known to have stopped", "whether something listens on its port"}},
	{name: "a server goes on, and its tail is an old one", beforeKill: "cp -r $dir $dir.old; exec $tail $dir.old",
		says: []string{"stop server $odd: the command failed", "something listens on the server's port"}},
	{name: "a server goes on, and its tail is one of an earlier try", beforeKill: "cp -r $dir $dir.2; exec $program migrate tail -after 0x1/0123456789abcdef/127.0.0.1:1 $dir.2",
		says: []string{"server $odd isn't known to have stopped", "the output is from another try"}},
	{name: "a tail is no tail", beforeTail: "echo bye; exit 0",
		says: []string{"stop server $odd: read the command's output"}},
	{name: "interrupted when all have stopped", beforeTail: "touch $hang; exec sleep 600", signal: os.Interrupt,
		says: []string{"interrupted"}},
	{name: "killed when all have stopped", beforeTail: "touch $hang; while test -e $hang; do sleep 0.1; done",
		signal: syscall.SIGKILL},
	{name: "interrupted while tails are awaited", tails: true, signal: os.Interrupt, says: []string{
		"To undo: start Apache's servers again, and interrupt this command", "tail.$odd is from another try", "interrupted",
	}},
	{name: "the data directory can't be made", beforeTail: "mkdir -p $data/IDENTITY/x",
		says: []string{"import the copy: $data is in use as a Zooid data directory"}},
}

// TestSwitchUndone begins switches that end in every way before the last step, while clients go on. Apache's servers
// are started again each time, as the command says: no client loses anything by that, and the switch succeeds in the
// end.
func TestSwitchUndone(t *testing.T) { withEach(t, tried(both, "3.9.5"), switchUndone) }

func switchUndone(t *testing.T, version string) {
	program, seed := zooid(t), *firstSeed
	patientSessions(t) // Apache starts eight times
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	clients := startClients(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs), seed, few)
	clients.underWay()
	rnd, dir := rand.New(rand.NewPCG(seed, 2)), filepath.Join(t.TempDir(), "copy")
	for i, u := range undos {
		odd := rnd.IntN(len(e.servers))
		u.try(t, z, e, dir, odd)
		stopped := 0
		for j, s := range e.servers {
			if !runs(s.cmd.Process.Pid) {
				stopped++
				e.start(j)
			}
		}
		if stopped < 2 {
			t.Errorf("%s: only %d servers were stopped", u.name, stopped)
		}
		for _, s := range e.servers {
			e.awaitServing(s)
		}
		clients.attended(e.servers)
		t.Logf("%d, %s: undone, %d servers started again; the longest write took %.2f s", i+1, u.name, stopped,
			clients.mark().Seconds())
		sent := clients.load.Sent()
		for end := time.Now().Add(startPatience); clients.load.Sent() < sent+100; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the load doesn't go on", u.name)
			}
		}
	}
	t.Log(z.takeOver(e, dir))
	z.join(1)
	z.join(2)
	clients.goOn(z.servers[:])
	clients.judge(e.version)
}

// try begins a switch, which must end as it is to.
func (u *undone) try(t *testing.T, z *zooids, e *ensemble, dir string, odd int) {
	t.Helper()
	hang := filepath.Join(t.TempDir(), "hang")
	words := strings.NewReplacer("$odd", fmt.Sprint(odd+1), "$hang", hang, "$data", z.place(0), "$program", z.program)
	only := func(lines string) string {
		if lines == "" {
			return ""
		}
		return fmt.Sprintf("if test $ZK_ID = %d; then %s; fi", odd+1, words.Replace(lines))
	}
	tails := t.TempDir()
	cmd := z.switching(e, dir, "-stop", z.stopping(e, only(u.beforeKill), only(u.beforeTail)))
	if u.tails {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(e.servers[odd].dir)); err != nil {
			t.Fatal(err)
		}
		z.bringTail(tails, odd, "0x1/0123456789abcdef/127.0.0.1:1", copied) // as an earlier try has left it
		cmd = z.switching(e, dir, "-tails", tails)
	}
	w := watch(t, cmd)
	if u.tails {
		w.until(u.name+": the advice", func() bool { return strings.Contains(w.out.text(), "put the files into") })
		u.bring(t, z, e, tails, odd, w.out.text())
		w.until(u.name+": all tails but one", func() bool {
			return strings.Count(w.out.text(), "ends at zxid") == len(e.servers)-1 &&
				strings.Contains(w.out.text(), "from another try")
		})
	} else if u.frozen {
		w.until(u.name+": the server that is stopped by a signal", func() bool { return exists(hang) })
		defer e.servers[odd].cmd.Process.Signal(syscall.SIGCONT)
		waitStopped(e.servers[odd].cmd.Process.Pid)
		defer occupy(t, e.election[odd], e.quorum[odd])()
		os.Remove(hang)
	} else if u.signal != nil {
		w.until(u.name+": the end of all servers", func() bool {
			return exists(hang) && !slices.ContainsFunc(e.servers, func(s *server) bool { return runs(s.cmd.Process.Pid) })
		})
	}
	if u.signal != nil {
		cmd.Process.Signal(u.signal)
	}
	<-w.ended
	os.Remove(hang)
	u.ended(t, z, cmd, w.out.text(), words)
}

// occupy fills the queues of the ports of a process that accepts nothing, until end is called: then they answer nobody,
// as behind a firewall.
func occupy(t *testing.T, addresses ...string) (end func()) {
	t.Helper()
	var all []net.Conn
	for _, address := range addresses {
		for {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				break
			}
			all = append(all, conn)
		}
	}
	return func() {
		for _, conn := range all {
			conn.Close()
		}
	}
}

// asked finds what zooid migrate tail is asked for a server, in what the switch has said.
var asked = regexp.MustCompile(`zooid migrate tail -after (\S+) \S+ > tail\.(\d)`)

// bring kills all servers but one, and brings their tails.
func (u *undone) bring(t *testing.T, z *zooids, e *ensemble, tails string, odd int, said string) {
	t.Helper()
	var all sync.WaitGroup
	for i, s := range e.servers {
		if i != odd {
			all.Go(s.kill)
		}
	}
	all.Wait()
	requests := map[string]string{}
	for _, found := range asked.FindAllStringSubmatch(said, -1) {
		requests[found[2]] = found[1]
	}
	for i := range e.servers {
		if i != odd {
			z.bringTail(tails, i, requests[fmt.Sprint(i+1)], e.servers[i].dir)
		}
	}
}

// bringTail writes the tail of a directory to the file in tails that is for a server's.
func (z *zooids) bringTail(tails string, i int, request, dir string) {
	t := z.t
	t.Helper()
	tail, err := exec.Command(z.program, "migrate", "tail", "-after", request, dir).Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(tails, fmt.Sprintf("tail.%d", i+1)), tail, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ended judges how a switch has ended, and removes what it has left of a data directory.
func (u *undone) ended(t *testing.T, z *zooids, cmd *exec.Cmd, said string, words *strings.Replacer) {
	t.Helper()
	if u.signal != syscall.SIGKILL {
		for _, says := range append(u.says, "To undo: start Apache's servers again. They have all data, and nothing was started on the Zooid server") {
			if says = words.Replace(says); !strings.Contains(said, says) {
				t.Errorf("%s: it doesn't say %q:\n%s", u.name, says, said)
			}
		}
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%s: exit code %d; want 1\n%s", u.name, code, said)
		}
	}
	if _, err := os.Stat(z.pid(0)); err == nil {
		t.Fatalf("%s: the Zooid server was started:\n%s", u.name, said)
	}
	left, err := os.ReadDir(z.place(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		if file.Name() == "myid" {
			continue
		}
		if !strings.Contains(u.beforeTail, "$data") {
			t.Errorf("%s: it has left %s", u.name, file.Name())
		}
		if err := os.RemoveAll(filepath.Join(z.place(0), file.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
