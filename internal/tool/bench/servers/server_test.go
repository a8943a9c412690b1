package servers

import (
	"bytes"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

var rewrite = flag.Bool("rewrite", false, "write transcripts anew")

// TestMemberConfigurations compares an ensemble's directories with a transcript.
func TestMemberConfigurations(t *testing.T) {
	t.Parallel()
	s := &Server{
		spec: Spec{Command: "exec zooid server {config}", Members: 3}, Root: t.TempDir(), ports: map[string]string{},
	}
	for i, p := range s.memberPorts() {
		s.ports[p] = "p" + string(rune('0'+i))
	}
	if err := s.enlist(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for i, m := range s.members {
		b.WriteString(s.Addrs[i] + ": " + m.text + "\n")
		for _, file := range []string{"/zoo.cfg", "/data/myid"} {
			text, err := os.ReadFile(m.dir + file)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("---- " + file + "\n" + string(text))
		}
	}
	got := strings.ReplaceAll(b.String(), s.Root, "ROOT")
	if *rewrite {
		if err := os.WriteFile("testdata/ensemble.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile("testdata/ensemble.txt"); err != nil || got != string(want) {
		t.Errorf("testdata/ensemble.txt differs, %v (-rewrite writes it anew); got\n%s", err, got)
	}

	s = &Server{spec: Spec{Command: "zooid server {port} {dir}", Members: 3}, Root: t.TempDir()}
	if err := s.enlist(); err == nil || !strings.Contains(err.Error(), "needs a command with {config}") {
		t.Errorf("error %v", err)
	}
}

// TestLeaderIsFoundByItsWord asks servers that only know srvr.
func TestLeaderIsFoundByItsWord(t *testing.T) {
	t.Parallel()
	s := &Server{}
	for i, mode := range []string{"follower", "leader", "follower"} {
		s.Addrs = append(s.Addrs, freeport.Serve(t, func(c net.Conn) {
			word := make([]byte, 4)
			if n, _ := c.Read(word); string(word[:n]) == "srvr" {
				c.Write([]byte("Zookeeper version: 1\nMode: " + mode + "\nNode count: 5\n"))
			}
		}))
		s.members = append(s.members, &member{cmd: &exec.Cmd{Process: &os.Process{Pid: 100 + i}}})
	}
	if pid, err := s.Leader(); pid != 101 || err != nil {
		t.Errorf("process %d, %v", pid, err)
	}
	s.Addrs, s.members = s.Addrs[:1], s.members[:1]
	if _, err := s.Leader(); err == nil || !strings.Contains(err.Error(), "says that it leads") {
		t.Errorf("error %v", err)
	}
}
func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "42 (a (b) c) S 7 9 42 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 31 0 12345 987654321 2048 18446744073709551615 1 1"
	st, err := parseStat([]byte(line))
	if err != nil || st != (procStat{7, 9, 3 * time.Second, 2048, false}) {
		t.Errorf("%+v, %v", st, err)
	}
	for _, bad := range []string{"", "42", "42 (a) S 7", strings.Replace(line, "250", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestEndOfAMember: all that a member's command has started has ended when end returns, also what outlives the command.
func TestEndOfAMember(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir := t.TempDir()
		m := &member{text: "sleep 600 & exit", dir: dir, output: filepath.Join(dir, "output")}
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
		group := m.cmd.Process.Pid
		if <-m.exited; !groupRuns(group) {
			t.Fatal("what the command started has ended before")
		}
		if m.end(); groupRuns(group) {
			t.Fatal("what the command started still runs")
		}
	}
}

func TestOthersShareOfTheMachine(t *testing.T) {
	t.Parallel()
	busy, idle := parseMachineTime([]byte("cpu  100 20 30 1000 50 7 8 5 3 0"))
	if busy != 155*clockTick || idle != 1050*clockTick {
		t.Errorf("busy %v, idle %v", busy, idle)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu 1 2 x 4 5 6 7 8"} {
		if busy, idle := parseMachineTime([]byte(bad)); busy != 0 || idle != 0 {
			t.Errorf("%q: busy %v, idle %v", bad, busy, idle)
		}
	}
	for _, tt := range []struct {
		c    Cost
		want float64
	}{
		{Cost{}, 0},
		{Cost{Server: 3, Client: 2, machine: 6, idle: 4}, 10},
		{Cost{Server: 3, Client: 4, machine: 6, idle: 4}, 0}, // within the clock's tick
	} {
		if got := tt.c.Others(); got != tt.want {
			t.Errorf("%+v: %v %%, want %v", tt.c, got, tt.want)
		}
	}
}
