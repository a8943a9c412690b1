package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestMain runs the program itself for a test that needs a process.
func TestMain(m *testing.M) {
	if os.Getenv("ZOOID_TEST_WORDS") != "" { // its arguments are the program's
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	if args, ok := os.LookupEnv("ZOOID_TEST_ARGS"); ok {
		program := func() int { return run(strings.Split(args, " "), os.Stdout, os.Stderr) }
		if dir := os.Getenv("ZOOID_TEST_PROFILE"); dir != "" {
			os.Exit(profiled(dir, program))
		}
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// TestStartAndStop: the log says what starts and with what it serves, and which signal stopped it; a lost terminal
// stops a server as SIGTERM does. The second start has all its znodes from the log, as there is no snapshot.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // by nohup, which the server heeds, too
		signals[1] = syscall.SIGINT
	}
	for start, signal := range signals {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=server 0 "+dir)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		var log strings.Builder
		address := ""
		lines := bufio.NewScanner(io.TeeReader(out, &log))
		for lines.Scan() {
			if _, after, ok := strings.Cut(lines.Text(), "address="); ok {
				address = after
			}
			if strings.Contains(lines.Text(), "msg=serving") {
				if start == 0 {
					createZnodes(t, address, 10)
				}
				cmd.Process.Signal(signal)
			}
		}
		err = cmd.Wait()
		killed.Stop()
		for _, want := range []string{
			"starting zooid", "version=" + version, "configuration=none", "id=1", "dataDir=" + dir, "as=standalone", "zxid=0x",
			fmt.Sprintf("znodes=%d sessions=%d", 5+10*start, start), "stopping: a signal asked for it", signal.String(),
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%v: no %q in the log:\n%s", signal, want, log.String())
			}
		}
		if err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

// createZnodes makes n znodes in a session that goes on when its client is gone.
func createZnodes(t *testing.T, address string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{SessionTimeout: 10 * time.Minute}) // as long as the server grants
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Detach()
	for i := range n {
		if _, err := c.Create(ctx, fmt.Sprintf("/z%d", i), nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
	}
}
