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

	"github.com/zooid-project/zooid/internal/freeport"
)

// A page is the commands of docs/migration.md, as it prints them.
type page struct {
	t     *testing.T
	lines []string
}

func readPage(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t}
	goesOn := false
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		command = strings.TrimSpace(command)
		if goesOn {
			command = p.lines[len(p.lines)-1] + command
			p.lines = p.lines[:len(p.lines)-1]
		}
		command, goesOn = strings.CutSuffix(command, "\\")
		p.lines = append(p.lines, command)
	}
	return p
}

// command returns the only command that begins with some words, without these.
func (p *page) command(words string) string {
	p.t.Helper()
	found := []string{}
	for _, line := range p.lines {
		if rest, ok := strings.CutPrefix(line, words); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	if len(found) != 1 {
		p.t.Fatalf("docs/migration.md has %d commands that begin with %q; want one", len(found), words)
	}
	return found[0]
}

// quoted returns the command in quotes that begins with some words and is a flag's.
func (p *page) quoted(flag, words string) string {
	p.t.Helper()
	found := []string{}
	for _, line := range p.lines {
		rest, ok := strings.CutPrefix(line, flag+" ")
		inner, whole := strings.CutSuffix(strings.TrimSpace(rest), "'")
		if ok && whole && strings.HasPrefix(inner, "'"+words) {
			found = append(found, inner[1:])
		}
	}
	if len(found) != 1 {
		p.t.Fatalf("docs/migration.md has %d commands %s '%s…'; want one", len(found), flag, words)
	}
	return found[0]
}

// The stand-ins for what the page's commands find on an operator's machines: ssh, which takes the id of a server for
// its host, sudo, systemctl and cp, and a zooid that takes the page's addresses and paths for those of the test.
const (
	sshStandIn = `test "$1" = 127.0.0.1 || exit 255
shift
export MACHINE=${ZK_ID:-$ZOOID_ID}
exec sh -c "$*"
`
	sudoStandIn = `test "$1" != -u || shift 2
exec "$@"
`
	systemctlStandIn = `cd %s
end() { kill $1 $(cat $2); while kill -0 $(cat $2) 2>/dev/null; do sleep 0.01; done; }
case "$*" in
"disable --now zookeeper" | "stop zookeeper") end -9 apache$MACHINE;;
"enable --now zookeeper") sh java$MACHINE >java$MACHINE.log 2>&1 & echo $! >apache$MACHINE;;
"disable --now zooid") end -15 pid$MACHINE;;
"start zooid") zooid server /etc/zooid/zoo.cfg >log$MACHINE 2>&1 & echo $! >pid$MACHINE;;
*) echo "systemctl $*?" >&2; exit 1;;
esac
`
	wordsStandIn = `for word; do
	case "$word" in
%s	esac
	set -- "$@" "$word"
	shift
done
exec %s "$@"
`
)

// machines writes the stand-ins, and returns the environment of the machine of a server. words has shell text for words
// of the page. What is known of machines is in files in z.dir that end in the id of their servers.
func machines(t *testing.T, e *ensemble, z *zooids, machine int, words map[string]string) []string {
	t.Helper()
	words["/var/lib/zookeeper"] = "$(cat " + z.dir + "/dir$MACHINE)"
	words["/etc/zooid/zoo.cfg"] = z.dir + "/zoo$MACHINE.cfg"
	for _, name := range []string{"zoo.cfg", "ensemble.cfg"} {
		words["/etc/zookeeper/"+name] = words["/var/lib/zookeeper"] + "/" + name
	}
	cases := ""
	for word, text := range words {
		cases += fmt.Sprintf("\t%s) word=%s;;\n", word, text)
	}
	write := func(path, text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range e.servers {
		write(fmt.Sprintf("%s/apache%d", z.dir, i+1), fmt.Sprint(s.cmd.Process.Pid), 0o600)
		write(fmt.Sprintf("%s/dir%d", z.dir, i+1), s.dir, 0o600)
		java := slices.Concat([]string{"exec java"}, jvm, []string{
			"-cp", "'" + classPath(t, e.version) + "'", "-Dzookeeper.extendedTypesEnabled=true",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.dir + "/zoo.cfg",
		})
		write(fmt.Sprintf("%s/java%d", z.dir, i+1), strings.Join(java, " "), 0o600)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"ssh": sshStandIn, "sudo": sudoStandIn, "systemctl": fmt.Sprintf(systemctlStandIn, z.dir),
		"zooid": fmt.Sprintf(wordsStandIn, cases, z.program), "cp": fmt.Sprintf(wordsStandIn, cases, "/bin/cp"),
	} {
		write(filepath.Join(bin, name), "#!/bin/sh\n"+text, 0o755)
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), fmt.Sprintf("MACHINE=%d", machine))
}

// TestPage follows docs/migration.md to the letter: its commands follow an ensemble, rehearse the switch and switch,
// while a client writes. Nothing that it was told is lost.
func TestPage(t *testing.T) {
	need(t)
	p := readPage(t)
	e := startEnsemble(t, "3.9.5")
	z := newZooids(t, zooid(t), quickLimits)
	told := startWriter(t, append(strings.Split(e.connect(), ","), z.addrs...))
	told.await(100)
	copied, listen := filepath.Join(t.TempDir(), "copy"), freeport.Address(t)
	env := machines(t, e, z, 1, map[string]string{
		"zk1:2181,zk2:2181,zk3:2181": e.connect(), "/var/lib/zooid-copy": copied, ":2191": listen,
	})
	run := func(words ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-c", `exec zooid "$@"`, "sh"}, words...)...)
		cmd.Env = env
		return cmd
	}

	follow := watch(t, run(append([]string{"migrate", "follow"}, strings.Fields(p.command("zooid migrate follow"))...)...))
	follow.until("the leader", func() bool { return strings.Contains(word(listen, "srvr"), "Lag in zxids: 0") })
	told.await(100)
	follow.cmd.Process.Signal(syscall.SIGTERM) // "Stop zooid migrate follow first"
	if <-follow.ended; follow.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s", follow.state(), follow.out.text())
	}

	commands := map[string]string{
		"-stop": "ssh " + p.command("ssh"), "-seed": p.quoted("-seed", "ssh"),
		"-start": p.quoted("-start", "ssh $ZOOID_HOST"),
	}
	words := []string{"migrate", "switch"}
	for _, word := range strings.Fields(p.command("zooid migrate switch")) {
		if word == "COMMAND" {
			word = commands[words[len(words)-1]]
		}
		words = append(words, word)
	}
	if out, err := run(append(words, "-check")...).CombinedOutput(); err != nil {
		t.Fatalf("-check: %v\n%s", err, out)
	}
	cmd := run(words...)
	cmd.Stdin = strings.NewReader("yes\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	z.serveAlone(e, told, 100)
}

// TestPageBack follows the page's way back, from three Zooid servers to three Apache servers.
func TestPageBack(t *testing.T) {
	need(t)
	p := readPage(t)
	w := newWayBack(t, "3.8.4")
	third := &server{addr: freeport.Address(t), dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(third.dir, "myid"), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.apache.servers = append(w.apache.servers, third)
	w.apache.configs = append(w.apache.configs, filepath.Join(third.dir, "zoo.cfg"))
	w.apache.quorum = append(w.apache.quorum, freeport.Address(t))
	z := newZooids(t, w.program, quickLimits)
	for i := range z.servers {
		z.start(i)
	}
	leader := z.leader()
	w.configure(true)
	w.ensembleConfigs()
	addrs := slices.Clone(z.addrs)
	for i, s := range w.apache.servers {
		w.apache.start(i)
		addrs = append(addrs, s.addr)
	}
	told := startWriter(t, addrs)
	told.await(100)
	env := machines(t, w.apache, z, leader+1, map[string]string{
		"10.0.0.5:2889": w.quorum, "10.0.0.5:3889": w.election, "10.0.0.1,10.0.0.2,10.0.0.3": "127.0.0.1",
	})
	t.Cleanup(func() {
		exec.Command("sh", "-c", "kill -9 $(cat "+z.dir+"/apache[123])").Run()
	})
	for i, s := range z.servers {
		pid := fmt.Sprint(s.cmd.Process.Pid)
		if err := os.WriteFile(z.pid(i), []byte(pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exec "+line)
		cmd.Env, cmd.Stdin = env, strings.NewReader("yes\n")
		return cmd
	}

	back := watch(t, run("zooid migrate back "+p.command("zooid migrate back")))
	back.until("the observers", func() bool { // "healthy if its srvr shows Zooid's zxid", which goes on
		return !slices.ContainsFunc(w.apache.servers, func(s *server) bool { return zxidOf(s) == "" })
	})
	told.await(50)
	back.cmd.Process.Signal(syscall.SIGTERM) // "First end zooid migrate back (SIGTERM)"
	<-back.ended
	if out, err := run("zooid migrate return " + p.command("zooid migrate return")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\nback:\n%s", err, out, back.out.text())
	}
	told.await(50)
	for _, s := range z.servers {
		if runs(s.cmd.Process.Pid) {
			t.Error("a Zooid server runs beside Apache")
		}
	}
	told.judge(addrs[len(z.addrs):])
}
