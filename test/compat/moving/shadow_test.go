package moving

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// shadowTime is how long the clients of TestShadow go on, and shadowTimeShort with -short.
const (
	shadowTime      = 10 * time.Second
	shadowTimeShort = 5 * time.Second
)

// shadowPace is how many requests each client with random ones makes in a second: the shadow, which gets one write at a
// time, must follow on slow disks, too.
const shadowPace = 100

// TestShadow has clients of all kinds use a real Apache through zooid shadow: Java's client and
// kazoo with locks, ephemeral znodes and watches, Go clients, and random requests, one run with
// connections that break. No reply of Zooid's differs from Apache's. Then one znode is changed at
// Zooid only, and that is told.
func TestShadow(t *testing.T) {
	need(t)
	program := zooid(t)
	patientSessions(t)
	for _, c := range []struct {
		name, version string
		dropEvery     int
		openACLs      bool // else Apache's answers depend on how fast it logs, and some are unsure
	}{
		{"3.9.5", "3.9.5", 0, true},
		{"3.8.4", "3.8.4", 0, true},
		{"3.9.5 with ACLs", "3.9.5", 0, false},
		{"3.9.5 with broken connections", "3.9.5", 200, true},
	} {
		if testing.Short() && c.version != "3.9.5" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			apache := startApache(t, c.version, t.TempDir(), "-Dznode.container.checkIntervalMs=3600000")
			second := startZooid(t, program, t.TempDir(), "tickTime=500")
			open(t, second, zk.Options{}).Close()
			out, errs, addr, end := startShadow(t, program, apache.addr, second.addr)
			duration, patience := shadowTime, fmt.Sprint(timeout.Milliseconds())
			if testing.Short() {
				duration = shadowTimeShort
			}
			load := traffic.Load{Addrs: []string{addr}, Journal: history.NewJournal(&bytes.Buffer{}), Root: "/load", Clients: 8,
				Requests: 1 << 30,
				Duration: duration, Outstanding: 3, PerSecond: shadowPace, OneModePerPath: true, OpenACLs: c.openACLs,
				DropEvery: c.dropEvery, Seed: 1, Timeout: *timeout}
			all := []*steady{
				startSteady(t, "java", append(javaProgram(t, javaClient(t), "Steady"), addr, "java", "1", "5", patience)...),
				startSteady(t, kazoo(t), "testdata/steady.py", addr, "kazoo", "1", "5", patience),
			}
			for _, s := range all {
				s.await("ready")
			}
			golang := startGo(t, addr, 1, few.pause)
			if err := load.Run(); err != nil {
				t.Error(err)
			}
			if _, err := golang.end(); err != nil {
				t.Error(err)
			}
			for _, s := range all {
				io.WriteString(s.in, "end\n")
				if line := s.line(); !strings.HasPrefix(line, "done:") {
					final(t, line)
					t.Errorf("%v: %s\n%.3000s", s.cmd.Args, line, s.errors.String())
				}
				s.cmd.Wait()
			}
			code := end(syscall.SIGINT)
			t.Logf("exit %d\n%s%.3000s", code, errs.text(), out.text())
			if strings.Contains(out.text(), "differs: ") {
				verdict.Final(t, verdict.Checker)
			}
			if exact := c.dropEvery == 0 && c.openACLs; exact && (code != 0 || out.text() != "") || code != 0 && code != 3 {
				t.Errorf("exit code %d", code)
			}
			if strings.Contains(errs.text(), "not shadowed to their end") {
				t.Error("connections weren't shadowed")
			}
		})
	}
	t.Run("planted", func(t *testing.T) {
		apache, second := startApache(t, "3.9.5", t.TempDir()), startZooid(t, program, t.TempDir(), "tickTime=500")
		direct := open(t, second, zk.Options{})
		out, errs, addr, end := startShadow(t, program, apache.addr, second.addr)
		user := open(t, &server{addr: addr, output: &bytes.Buffer{}}, zk.Options{})
		if _, err := user.Create(t.Context(), "/a", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
		if !awaited(func() bool {
			_, there, err := direct.Exists(t.Context(), "/a")
			return err == nil && there
		}) {
			t.Fatalf("the create isn't played:\n%s", errs.text())
		}
		if _, err := direct.Set(t.Context(), "/a", []byte("planted"), -1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := user.Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		user.Close()
		awaited(func() bool { return strings.Contains(out.text(), "\n") })
		if code := end(syscall.SIGTERM); code != 1 || !strings.Contains(out.text(), `differs: getData /a`) {
			t.Errorf("exit %d\n%s%s", code, errs.text(), out.text())
		}
	})
}

// startShadow runs zooid shadow. end stops it and returns the exit code.
func startShadow(t *testing.T,
	program, primary, second string) (out, errs output, addr string, end func(syscall.Signal) int) {
	t.Helper()
	addr = freeport.Address(t)
	cmd := exec.Command(program, "shadow", "-drain", "5m", "-listen", addr, primary, second)
	out, errs = newOutput(t), newOutput(t)
	cmd.Stdout, cmd.Stderr = out.file, errs.file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if !awaitAnswer(addr) {
		t.Fatalf("no session through the proxy: %s", errs.text())
	}
	return out, errs, addr, func(s syscall.Signal) int {
		cmd.Process.Signal(s)
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}
