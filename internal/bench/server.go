package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// serverSpec is a server as named on the command line: running already, or to
// be started.
type serverSpec struct {
	name    string
	command string    // started with sh -c; empty for a running server
	addrs   []string  // of a running server
	pids    processes // of a running server, if it may be measured
	floor   bool      // the floor, which can't do all
}

var runningSpec = regexp.MustCompile(`^([^\s@/]+:\d+(?:,[^\s@/]+:\d+)*)(?:@(\d+(?:,\d+)*))?$`)

// parseSpec reads HOST:PORT[,HOST:PORT][@PID[,PID]] or a command line.
func parseSpec(name, text string) (serverSpec, error) {
	s := serverSpec{name: name}
	if m := runningSpec.FindStringSubmatch(text); m != nil {
		s.addrs = strings.Split(m[1], ",")
		if m[2] != "" {
			if err := (*intList)(&s.pids).Set(m[2]); err != nil {
				return s, usagef("server %s: %v", name, err)
			}
		}
		return s, nil
	}
	if !strings.Contains(text, "{port}") {
		return s, usagef("server %s: %q is neither HOST:PORT[@PID] nor a command with {port} in it", name, text)
	}
	s.command = text
	return s, nil
}

// server is a server process started here, with everything that it wrote.
type server struct {
	addr string

	spec   serverSpec
	root   string // holds the data directory and the output
	ports  map[string]string
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone
}

const (
	// readyMax is how long a started server may take until its first read.
	readyMax = 5 * time.Minute
	// readyPoll is how often it is asked: the error of a measured start.
	readyPoll = 5 * time.Millisecond
	// readyTry bounds one question, since a starting server may accept and hang.
	readyTry = time.Second
	// stopMax is how long a server may take to end before it is killed.
	stopMax = 10 * time.Second
)

// startServer starts a server by its command in a fresh directory below dir, on
// ports that were free, and waits until it answers a read.
func startServer(ctx context.Context, spec serverSpec, dir string) (*server, error) {
	root, err := os.MkdirTemp(dir, "zooid-bench-")
	if err != nil {
		return nil, fmt.Errorf("start server %s: %w", spec.name, err)
	}
	s := &server{spec: spec, root: root}
	if err = os.Mkdir(s.dataDir(), 0o700); err == nil {
		err = s.choosePorts()
	}
	if err == nil {
		s.addr = "127.0.0.1:" + s.ports["{port}"]
		_, err = s.launch(ctx)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("start server %s: %w", spec.name, err)
	}
	return s, nil
}

func (s *server) dataDir() string { return filepath.Join(s.root, "data") }

func (s *server) outputFile() string { return filepath.Join(s.root, "output") }

var portPlaceholder = regexp.MustCompile(`\{port\d*\}`)

// choosePorts gives every {port}, {port2}... of the command a free port.
func (s *server) choosePorts() error {
	s.ports = map[string]string{}
	for _, p := range portPlaceholder.FindAllString(s.spec.command, -1) {
		if s.ports[p] != "" {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close() // all at once at the end, so that no two are the same
		s.ports[p] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return nil
}

// launch starts the process and waits for its first read; it returns how long
// that took.
func (s *server) launch(ctx context.Context) (time.Duration, error) {
	text := strings.ReplaceAll(s.spec.command, "{dir}", s.dataDir())
	for p, port := range s.ports {
		text = strings.ReplaceAll(text, p, port)
	}
	out, err := os.OpenFile(s.outputFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", text)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = s.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals reach what the shell starts
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	s.cmd, s.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(s.exited)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func(exited chan struct{}) {
		select {
		case <-exited:
			cancel(fmt.Errorf("it ended: %v", cmd.ProcessState))
		case <-ctx.Done():
		}
	}(s.exited)
	if err := awaitRead(ctx, s.addr, readyMax); err != nil {
		return 0, fmt.Errorf("%w; its last words: %s", err, s.lastWords())
	}
	return time.Since(begin), nil
}

// lastWords is the end of what the server printed.
func (s *server) lastWords() string {
	const most = 2000
	b, err := os.ReadFile(s.outputFile())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(len(b)-most, 0):]))
}

// processes are the server's: everything its command started.
func (s *server) processes() processes { return processGroup(s.cmd.Process.Pid) }

// restart ends the server by a signal and starts it again on the same
// directory and ports; it returns the time from the start to the first read.
func (s *server) restart(ctx context.Context, sig syscall.Signal) (time.Duration, error) {
	s.end(sig)
	took, err := s.launch(ctx)
	if err != nil {
		return 0, fmt.Errorf("restart server %s: %w", s.spec.name, err)
	}
	return took, nil
}

// end sends a signal to the server's process group, and SIGKILL if it stays.
func (s *server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	pgid := s.cmd.Process.Pid
	syscall.Kill(-pgid, sig)
	select {
	case <-s.exited:
	case <-time.After(stopMax):
	}
	syscall.Kill(-pgid, syscall.SIGKILL) // also what the command left behind
	<-s.exited
	s.cmd = nil
}

// stop ends the server and removes its directory.
func (s *server) stop() {
	s.end(syscall.SIGTERM)
	os.RemoveAll(s.root)
}

// awaitRead waits until the server opens a session and answers a read of "/".
func awaitRead(ctx context.Context, addr string, most time.Duration) error {
	deadline := time.Now().Add(most)
	for {
		err := tryRead(ctx, addr)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait %v for %s to answer a read: %w", most, addr, err)
		}
		if err := pause(ctx, readyPoll); err != nil {
			return fmt.Errorf("wait for %s to answer a read: %w", addr, err)
		}
	}
}

func tryRead(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTry)
	defer cancel()
	c, err := dial(ctx, addr, session{Timeout: 10 * time.Second}, 0, idleBuffer)
	if err != nil {
		return err
	}
	defer c.close()
	c.net.SetDeadline(time.Now().Add(readyTry))
	r := jute.PathWatchRequest{Path: "/"}
	_, err = c.call(jute.OpGetData, r.Append)
	return err
}

// parseSignal reads the value of -signal.
func parseSignal(name string) (syscall.Signal, error) {
	switch name {
	case "KILL":
		return syscall.SIGKILL, nil
	case "TERM":
		return syscall.SIGTERM, nil
	case "STOP":
		return syscall.SIGSTOP, nil
	}
	return 0, usagef("-signal %s: must be KILL, TERM or STOP", name)
}

// strike sends -signal to -kill. The returned function lets a stopped process
// go on.
func (t *trial) strike() (undo func(), err error) {
	sig, err := parseSignal(t.signal)
	if err == nil {
		err = syscall.Kill(t.kill, sig)
	}
	if err != nil {
		return func() {}, fmt.Errorf("send SIG%s to process %d: %w", t.signal, t.kill, err)
	}
	return func() {
		if sig == syscall.SIGSTOP {
			syscall.Kill(t.kill, syscall.SIGCONT)
		}
	}, nil
}

// errNoServer says that a scenario needs a server it may stop.
var errNoServer = errors.New("needs a server started by -start, since it stops and starts it")
