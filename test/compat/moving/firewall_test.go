package moving

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A walled switch is one from whose machine a firewall stands before the election ports of Apache's servers. A
// watchdog may start these servers again, which can't be seen through it.
type walled struct {
	wall string // what iptables does with packets
	then string
}

const (
	refuses = "REJECT --reject-with tcp-reset" // as the kernel of a machine on which nothing listens
	drops   = "DROP"
)

// What comes behind the firewall.
const (
	stillness = "nothing"
	upAgain   = "Apache's servers are started after they have stopped, and write"
	upAndDown = "Apache's servers are started after they have stopped, write, and stop"
	upMuch    = "the command is killed in the release, and Apache's servers are started"
)

// TestSwitchBehindFirewall switches where a firewall stands before the election ports of Apache's servers, which makes
// a server that runs look as one that has stopped. What clients were told is there in the end.
func TestSwitchBehindFirewall(t *testing.T) {
	need(t)
	program := zooid(t)
	all := []walled{{refuses, upAndDown}, {refuses, upAgain}, {drops, upAndDown}, {refuses, upMuch}, {drops, stillness}}
	if testing.Short() {
		all = all[:1]
	}
	for i, w := range all {
		version := both[(i+1)%2]
		t.Run(fmt.Sprintf("%s/%.6s/%s", version, w.wall, w.then), func(t *testing.T) { w.try(t, program, version) })
	}
}

func (w walled) try(t *testing.T, program, version string) {
	e := &ensemble{t: t, version: version, first: 1}
	e.elsewhere()
	e.begin(3, "")
	for _, address := range e.election {
		_, port, _ := strings.Cut(address, ":")
		rule := fmt.Sprintf("iptables -A INPUT -i eth0 -p tcp --dport %s -j %s", port, w.wall)
		must(t, append(e.within, strings.Fields(rule)...)...)
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			conn.Close()
			t.Fatalf("%s is reached", address)
		}
	}
	z := newZooids(t, program, quickLimits)
	z.seed = true
	told := startWriter(t, append(strings.Split(e.connect(), ","), z.addrs...))
	told.await(50)
	dir, hang := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "hang")
	step := map[string]string{upAgain: atSeeded, upAndDown: atSeeded, upMuch: atRelease}[w.then]
	first := watch(t, z.held(e, dir, hang, step))
	if step != "" {
		first.until(step, func() bool { return exists(hang) })
		w.befall(t, e, told, first)
	}
	if w.then == upMuch {
		w.goesNotOn(t, e, z, dir, hang)
	}
	os.Remove(hang)
	<-first.ended
	says := map[string]string{
		stillness: "has stopped: nobody has its files open", upAgain: "its command didn't answer again",
		upAndDown: "server 2 had stopped, but has been started since: its log ends at",
	}[w.then]
	if code := first.cmd.ProcessState.ExitCode(); w.then != upMuch && code != min(len(step), 1) ||
		!strings.Contains(first.out.text(), says) {
		t.Fatalf("exit code %d; want it to say %q\n%s", code, says, first.out.text())
	}
	if step != "" {
		w.again(t, e, z, told, dir, hang)
	}
	z.serveAlone(e, told, 20)
}

// befall has Apache's servers start again, and serve.
func (w walled) befall(t *testing.T, e *ensemble, told *writer, first *watched) {
	t.Helper()
	if w.then == upMuch {
		first.cmd.Process.Signal(syscall.SIGKILL)
		<-first.ended
	}
	for i := range e.servers {
		e.start(i)
	}
	for _, s := range e.servers {
		e.awaitServing(s)
	}
	told.await(20)
	if w.then == upAndDown {
		for _, s := range e.servers {
			s.kill()
		}
	}
}

// goesNotOn runs a command again that was killed in the release, and undoes it.
func (w walled) goesNotOn(t *testing.T, e *ensemble, z *zooids, dir, hang string) {
	t.Helper()
	if !awaited(func() bool { return exists(filepath.Join(z.place(2), "switch-released")) }) {
		t.Fatal("server 3 isn't released")
	}
	next, err := z.held(e, dir, hang, "").CombinedOutput()
	if err == nil ||
		!strings.Contains(string(next), "it isn't known whether Apache's servers [1 2 3] have been started since") {
		t.Fatalf("beside Apache, the next try: %v\n%s", err, next)
	}
	z.undo(e, dir, 2)
}

// again undoes what has begun, as the command has said, and switches at last.
func (w walled) again(t *testing.T, e *ensemble, z *zooids, told *writer, dir, hang string) {
	t.Helper()
	z.refusesToStart(1)
	for i, s := range e.servers {
		if !runs(s.cmd.Process.Pid) {
			e.start(i)
		}
	}
	for _, s := range e.servers {
		e.awaitServing(s)
	}
	told.await(20)
	if next, err := z.held(e, dir, hang, "").CombinedOutput(); err != nil {
		t.Fatalf("the next try: %v\n%s", err, next)
	}
}

// elsewhere gives an ensemble a machine of its own: a network namespace.
func (e *ensemble) elsewhere() {
	t := e.t
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	name := fmt.Sprintf("zm%d", os.Getpid()%10000)
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("this machine makes no network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, "ip", "netns", "del", name) })
	e.within = []string{"ip", "netns", "exec", name}
	// 198.18.0.0/15 is for tests of networks (RFC 2544): nobody's own. test/crash has the lower half.
	subnet := fmt.Sprintf("198.19.%d.", os.Getpid()%250)
	e.host = subnet + "1"
	for _, line := range []string{
		"link add " + name + " type veth peer name eth0 netns " + name, "addr add " + subnet + "2/24 dev " + name,
		"link set " + name + " up",
	} {
		must(t, append([]string{"ip"}, strings.Fields(line)...)...)
	}
	t.Cleanup(func() { must(t, "ip", "link", "del", name) }) // with its other end: a namespace's end takes its time
	for _, line := range []string{"addr add " + e.host + "/24 dev eth0", "link set eth0 up", "link set lo up"} {
		must(t, append(e.within, append([]string{"ip"}, strings.Fields(line)...)...)...)
	}
}

// must runs a command that must work.
func must(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
}
