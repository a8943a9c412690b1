package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/bench/wire"
	"github.com/zooid-project/zooid/internal/freeport"
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
	foreign bool      // a floor that isn't the built-in one
	members int       // servers of the ensemble that the command starts; 0 is 1
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
	if !strings.Contains(text, "{port}") && !strings.Contains(text, "{config}") {
		return s, usagef("server %s: %q is neither HOST:PORT[@PID] nor a command with {port} or {config} in it", name, text)
	}
	s.command = text
	return s, nil
}

// server is one server, or an ensemble of several, started here, with everything
// that they wrote.
type server struct {
	addrs []string      // of each member, for clients
	took  time.Duration // from the start to the first read of the last member

	spec    serverSpec
	root    string // holds a directory and the output of each member
	ports   map[string]string
	release func() // gives the ports back; nil before there are some
	members []*member
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

// startServer starts a server, or all of an ensemble, by its command in a fresh
// directory below dir, on ports that were free, and waits until each member
// answers a read.
func startServer(ctx context.Context, spec serverSpec, dir string) (*server, error) {
	root, err := os.MkdirTemp(dir, "zooid-bench-")
	if err == nil {
		root, err = filepath.Abs(root) // members run in it
	}
	if err != nil {
		return nil, fmt.Errorf("start server %s: %w", spec.name, err)
	}
	s := &server{spec: spec, root: root}
	if err = s.choosePorts(); err == nil {
		err = s.enlist()
	}
	if err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("start server %s: %w", spec.name, err)
	}
	return s, nil
}

var portPlaceholder = regexp.MustCompile(`\{port\d*\}`)

// choosePorts gives every {port}, {port2}... of the command a free port, and
// every member those its configuration needs.
func (s *server) choosePorts() error {
	names := append(portPlaceholder.FindAllString(s.spec.command, -1), s.memberPorts()...)
	slices.Sort(names)
	names = slices.Compact(names)
	ports, release, err := freeport.Reserve(len(names))
	if err != nil {
		return err
	}
	s.ports, s.release = map[string]string{}, release
	for i, name := range names {
		s.ports[name] = strconv.Itoa(ports[i])
	}
	return nil
}

// launch starts every member and waits until each answers a read.
func (s *server) launch(ctx context.Context) error {
	begin := time.Now()
	for _, m := range s.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	for i, m := range s.members {
		if err := m.await(ctx, s.addrs[i]); err != nil {
			return err
		}
	}
	s.took = time.Since(begin)
	return nil
}

// processes are the server's: everything its command started.
func (s *server) processes() (all processes) {
	for _, m := range s.members {
		if m.cmd != nil {
			all = append(all, processGroup(m.cmd.Process.Pid)...)
		}
	}
	return all
}

// restart ends the server by a signal and starts it again on the same
// directories and ports; took says how long that lasted.
func (s *server) restart(ctx context.Context, sig syscall.Signal) error {
	s.end(sig)
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart server %s: %w", s.spec.name, err)
	}
	return nil
}

// end sends a signal to all processes, and SIGKILL to those that stay.
func (s *server) end(sig syscall.Signal) {
	for _, m := range s.members {
		m.signal(sig)
	}
	for _, m := range s.members {
		m.end()
	}
}

// stop ends the server and removes its directory.
func (s *server) stop() {
	s.end(syscall.SIGTERM)
	os.RemoveAll(s.root)
	if s.release != nil {
		s.release()
	}
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
	c, err := wire.Dial(ctx, addr, wire.Session{Timeout: 10 * time.Second}, 0, wire.IdleBuffer)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Net.SetDeadline(time.Now().Add(readyTry))
	r := jute.PathWatchRequest{Path: "/"}
	_, err = c.Call(jute.OpGetData, r.Append)
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
