package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the program itself for a test that needs a process.
func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv("ZOOID_TEST_ARGS"); ok {
		os.Exit(run(strings.Split(args, " "), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestStartAndStop: the log says what starts and with what it goes on, and which signal stopped it; a lost terminal stops
// a server as SIGTERM does.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		dir := filepath.Join(t.TempDir(), "data")
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
		lines := bufio.NewScanner(io.TeeReader(out, &log))
		for lines.Scan() {
			if strings.Contains(lines.Text(), "recovered") {
				cmd.Process.Signal(signal)
			}
		}
		err = cmd.Wait()
		killed.Stop()
		for _, want := range []string{"starting zooid", "version=" + version, "configuration=none", "id=1", "dataDir=" + dir, "zxid=0x", "znodes=", "stopping: a signal asked for it", signal.String()} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%v: no %q in the log:\n%s", signal, want, log.String())
			}
		}
		if err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}
