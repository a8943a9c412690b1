package moving

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			p.lines = append(p.lines, strings.TrimSpace(command))
		}
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
// its host, sudo, systemctl, and a zooid that takes the page's addresses and paths for those of the test.
const (
	sshStandIn = `test "$1" = 127.0.0.1 || exit 255
shift
export MACHINE=${ZK_ID:-$ZOOID_ID}
exec sh -c "$*"
`
	sudoStandIn = `test "$1" != -u || shift 2
exec "$@"
`
	systemctlStandIn = `case "$*" in
"disable --now zookeeper") kill -9 $(cat %[1]s/apache$MACHINE); while kill -0 $(cat %[1]s/apache$MACHINE) 2>/dev/null; do sleep 0.01; done;;
"start zooid") zooid server /etc/zooid/zoo.cfg >%[1]s/log$MACHINE 2>&1 & echo $! >%[1]s/pid$MACHINE;;
*) echo "systemctl $*?" >&2; exit 1;;
esac
`
	zooidStandIn = `for word; do
	case "$word" in
	zk1:2181,zk2:2181,zk3:2181) word=%[2]s;;
	/var/lib/zookeeper) word=$(cat %[1]s/dir$MACHINE);;
	/var/lib/zooid-copy) word=%[3]s;;
	/etc/zooid/zoo.cfg) word=%[1]s/zoo$MACHINE.cfg;;
	:2191) word=%[4]s;;
	esac
	set -- "$@" "$word"
	shift
done
exec %[5]s "$@"
`
)

// machines writes the stand-ins, and returns the environment of the machine of server 1.
func machines(t *testing.T, e *ensemble, z *zooids, copied, listen string) []string {
	t.Helper()
	bin := t.TempDir()
	for i, s := range e.servers {
		for name, text := range map[string]string{"apache": fmt.Sprint(s.cmd.Process.Pid), "dir": s.dir} {
			if err := os.WriteFile(filepath.Join(z.dir, fmt.Sprint(name, i+1)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"ssh": sshStandIn, "sudo": sudoStandIn, "systemctl": fmt.Sprintf(systemctlStandIn, z.dir),
		"zooid": fmt.Sprintf(zooidStandIn, z.dir, e.connect(), copied, listen, z.program),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MACHINE=1")
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
	env := machines(t, e, z, copied, listen)
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
		"-stop": "ssh " + p.command("ssh"), "-seed": p.quoted("-seed", "ssh"), "-start": p.quoted("-start", "ssh $ZOOID_HOST"),
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
	for i := range z.servers {
		z.adopt(i)
	}
	for _, s := range e.servers {
		if runs(s.cmd.Process.Pid) {
			t.Error("an Apache server runs beside Zooid")
		}
	}
	told.await(100)
	told.judge(z.addrs)
}
