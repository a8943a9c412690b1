package bench

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
)

// TestEnsembleIsStarted starts three floors, each by its configuration, and
// spreads connections over them; the second one is ended alone.
func TestEnsembleIsStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := strings.Replace(floorCommand(t), "127.0.0.1:{port}", "127.0.0.1:$(sed -n s/^clientPort=//p '{config}')", 1)
	s, err := servers.Start(context.Background(), servers.Spec{Name: "floors", Command: command, Members: 3}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Processes()); n != 3 || s.Took <= 0 {
		t.Errorf("%d processes, started in %v", n, s.Took)
	}
	o, _, err := parseOptions("get", "-ops", "300", "-keys", "10", "-conns", "3")
	if err != nil {
		t.Fatal(err)
	}
	get, err := findScenario("get")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{options: o, name: "get", server: s, measured: s.Processes()}
	tr.servers = s.Addrs
	if r, err := tr.execute(context.Background(), get); err != nil || r.Ops != 300 || r.errorCount() > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := syscall.Kill(s.Processes()[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for len(s.Processes()) == 3 {
		time.Sleep(time.Millisecond)
	}
	if _, err := tr.dial(context.Background(), 1, wire.IdleBuffer); err == nil {
		t.Error("the second connection isn't the second server's")
	}
	s.Stop()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
