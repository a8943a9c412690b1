package bench

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/bench/wire"
	"github.com/zooid-project/zooid/internal/freeport"
)

// TestMemberConfigurations compares an ensemble's directories with a transcript.
func TestMemberConfigurations(t *testing.T) {
	t.Parallel()
	s := &server{spec: serverSpec{command: "exec zooid server {config}", members: 3}, root: t.TempDir(), ports: map[string]string{}}
	for i, p := range s.memberPorts() {
		s.ports[p] = "p" + string(rune('0'+i))
	}
	if err := s.enlist(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for i, m := range s.members {
		b.WriteString(s.addrs[i] + ": " + m.text + "\n")
		for _, file := range []string{"/zoo.cfg", "/data/myid"} {
			text, err := os.ReadFile(m.dir + file)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("---- " + file + "\n" + string(text))
		}
	}
	transcript(t, "testdata/ensemble.txt", bytes.ReplaceAll(b.Bytes(), []byte(s.root), []byte("ROOT")))

	s = &server{spec: serverSpec{command: "zooid server {port} {dir}", members: 3}, root: t.TempDir()}
	if err := s.enlist(); err == nil || !strings.Contains(err.Error(), "needs a command with {config}") {
		t.Errorf("error %v", err)
	}
}

// TestEnsembleIsStarted starts three floors, each by its configuration, and
// spreads connections over them; the second one is ended alone.
func TestEnsembleIsStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := strings.Replace(floorCommand(t), "127.0.0.1:{port}", "127.0.0.1:$(sed -n s/^clientPort=//p '{config}')", 1)
	s, err := startServer(context.Background(), serverSpec{name: "floors", command: command, members: 3}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.processes()); n != 3 || s.took <= 0 {
		t.Errorf("%d processes, started in %v", n, s.took)
	}
	o, _, err := parseOptions("get", "-ops", "300", "-keys", "10", "-conns", "3")
	if err != nil {
		t.Fatal(err)
	}
	get, err := findScenario("get")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{options: o, name: "get", server: s, measured: s.processes()}
	tr.servers = s.addrs
	if r, err := tr.execute(context.Background(), get); err != nil || r.Ops != 300 || r.errorCount() > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s.members[1].signal(9)
	<-s.members[1].exited
	if _, err := tr.dial(context.Background(), 1, wire.IdleBuffer); err == nil {
		t.Error("the second connection isn't the second server's")
	}
	s.stop()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLeaderIsFoundByItsWord asks servers that only know srvr.
func TestLeaderIsFoundByItsWord(t *testing.T) {
	t.Parallel()
	s := &server{}
	for i, mode := range []string{"follower", "leader", "follower"} {
		s.addrs = append(s.addrs, freeport.Serve(t, func(c net.Conn) {
			word := make([]byte, 4)
			if n, _ := c.Read(word); string(word[:n]) == "srvr" {
				c.Write([]byte("Zookeeper version: 1\nMode: " + mode + "\nNode count: 5\n"))
			}
		}))
		s.members = append(s.members, &member{cmd: &exec.Cmd{Process: &os.Process{Pid: 100 + i}}})
	}
	if pid, err := s.leader(); pid != 101 || err != nil {
		t.Errorf("process %d, %v", pid, err)
	}
	s.addrs, s.members = s.addrs[:1], s.members[:1]
	if _, err := s.leader(); err == nil || !strings.Contains(err.Error(), "says that it leads") {
		t.Errorf("error %v", err)
	}
}
