package moving

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// versions are the releases of Apache that are tried: the last of each minor version that the registry serves.
var versions = []string{"3.5.10", "3.6.4", "3.7.2", "3.8.4", "3.9.5"}

// jvm are options that keep a server small and quick to start.
var jvm = []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// classPath returns the class path of a version.
func classPath(t *testing.T, version string) string {
	t.Helper()
	cache := os.Getenv("ZOOID_COMPAT_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "zooid-compat")
	}
	jars := filepath.Join(cache, "apache-"+version)
	if _, err := os.Stat(jars); err != nil {
		t.Fatalf("Apache %s isn't installed (%v); run test/compat/install.sh", version, err)
	}
	return filepath.Join(jars, "*")
}

// A server is a running Apache server, or a Zooid server.
type server struct {
	addr   string
	admin  string // only of a Zooid server
	dir    string // dataDir
	cmd    *exec.Cmd
	exited chan struct{}
	output *bytes.Buffer
}

// superPassword and superDigest belong to the superuser.
const (
	superPassword = "pass"
	superDigest   = "super:CiymZRNkXx0HJFQhdpGmqJqKuHM="
)

// startApache starts a server on a data directory, and returns when it answers.
func startApache(t *testing.T, version, dir string, options ...string) *server {
	t.Helper()
	args := append(append([]string{}, jvm...), "-cp", classPath(t, version),
		"-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=256",
		"-Dzookeeper.extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=300",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest)
	args = append(args, options...)
	for range 3 { // another process may have taken the port
		if s := tryApache(t, dir, args); s != nil {
			return s
		}
	}
	t.Fatalf("Apache %s doesn't start on %s", version, dir)
	return nil
}

// startPatience is how long a server may take to answer.
const startPatience = 4 * time.Minute

// tryApache starts a server; it returns nil if the server ends before it answers.
func tryApache(t *testing.T, dir string, args []string) *server {
	t.Helper()
	addr := freeport.Address(t)
	_, port, _ := strings.Cut(addr, ":")
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(slices.Clone(args), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	s := &server{
		addr: addr, dir: dir, cmd: exec.Command("java", args...), exited: make(chan struct{}), output: &bytes.Buffer{},
	}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	for began := time.Now(); time.Since(began) < startPatience; time.Sleep(awaitPause) {
		if answers(addr, max(2*time.Second, time.Since(began)/2)) {
			return s
		}
		select {
		case <-s.exited:
			t.Logf("Apache ended: %v\n%s", s.cmd.ProcessState, s.output)
			return nil
		default:
		}
	}
	t.Fatalf("Apache answers no session at %s after %v\n%s", addr, startPatience, s.output)
	return nil
}

// awaited waits until something is done, and reports whether it was within startPatience, which is only the test's
// patience: nothing is judged by it.
func awaited(done func() bool) bool {
	for end := time.Now().Add(startPatience); ; time.Sleep(awaitPause) {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

const awaitPause = 20 * time.Millisecond

// answers reports whether a server opens a session within some time: a connection that Apache accepts while it starts
// may never get an answer.
func answers(addr string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c, err := zk.Open(ctx, addr, zk.Options{SessionTimeout: within})
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// awaitAnswer waits until a server opens a session. It is as patient with a connection as it has waited before, as on a
// busy machine each session takes long.
func awaitAnswer(addr string) bool {
	began := time.Now()
	return awaited(func() bool { return answers(addr, max(2*time.Second, time.Since(began)/2)) })
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

// stop stops the server as an operator would.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.exited
}

// freeze copies the data directory while the server is stopped by a signal: the copy is what kill -9 would have left
// at that moment.
func (s *server) freeze(t *testing.T, to string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("stop the server: %v\n%s", err, s.output)
	}
	waitStopped(s.cmd.Process.Pid)
	err := os.CopyFS(to, os.DirFS(s.dir))
	s.cmd.Process.Signal(syscall.SIGCONT)
	if err != nil {
		t.Fatal(err)
	}
}

// waitStopped waits until all threads of a process have stopped.
func waitStopped(pid int) {
	for range 1000 {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		running := false
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if at := bytes.LastIndexByte(stat, ')'); err == nil && at > 0 && at+2 < len(stat) && stat[at+2] != 'T' {
				running = true
			}
		}
		if !running {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A restarter is a process in which Apache's own code loads data directories, one after the other.
type restarter struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func startRestarter(t *testing.T, version string) *restarter {
	t.Helper()
	args := append([]string{
		"-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + superDigest,
	}, javaProgram(t, classPath(t, version), "Restart")...)
	r := &restarter{cmd: exec.Command("java", args...)}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(out)
	var errors bytes.Buffer
	r.cmd.Stderr = &errors
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.in.Close()
		r.cmd.Wait()
		if t.Failed() {
			t.Logf("Apache said:\n%.4000s", errors.String())
		}
	})
	return r
}

// restart makes Apache load a directory and write a snapshot of the result. The error is Apache's.
func (r *restarter) restart(t *testing.T, dir string) error {
	t.Helper()
	_, err := r.ask(t, dir+"\t"+dir)
	return err
}

// serve makes Apache start on a directory. It writes a snapshot as restart does, answers clients at addr until end is
// called, and deletes nothing by itself meanwhile. The error is Apache's.
func (r *restarter) serve(t *testing.T, dir string) (addr string, end func(), err error) {
	t.Helper()
	port, err := r.ask(t, dir+"\t"+dir+"\tserve")
	if err != nil {
		return "", nil, err
	}
	return "127.0.0.1:" + port, func() {
		t.Helper()
		if _, err := r.ask(t, "end"); err != nil {
			t.Error(err)
		}
	}, nil
}

// ask sends a line, and returns the rest of the answer after "ok".
func (r *restarter) ask(t *testing.T, line string) (string, error) {
	t.Helper()
	fmt.Fprintln(r.in, line)
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("Apache's process ended: %v", err)
		}
		line = strings.TrimSpace(line)
		if says, ok := strings.CutPrefix(line, "ok"); ok {
			return strings.TrimSpace(says), nil
		}
		if strings.HasPrefix(line, "failed ") {
			return "", fmt.Errorf("Apache: %s", line)
		}
	}
}
