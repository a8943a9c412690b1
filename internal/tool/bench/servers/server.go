// Package servers starts the servers to be measured, alone or as an ensemble, each in a new directory and on free
// ports, and measures the cost of their processes.
//
//	server.go    starting, restarting and stopping one from a command line
//	ensemble.go  its members: their directories, configurations, processes; their leader
//	process.go   CPU and memory of processes, from /proc
package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// A Spec describes a server from the command line: one that is already running, or one to start.
type Spec struct {
	Name    string
	Command string    // started with sh -c; empty for a running server
	Addrs   []string  // of a running server
	Pids    Processes // of a running server, if its processes are measured
	Floor   bool      // the floor, which can't run all profiles
	Foreign bool      // a floor that isn't the built-in one
	Members int       // servers of the ensemble that the command starts; 0 means 1
}

// A Server is one server, or an ensemble of several, started here, with all its files.
type Server struct {
	Addrs []string      // of each member, for clients
	Took  time.Duration // from the start to the last member's first read
	Root  string        // has a directory and the output of each member

	spec    Spec
	ports   map[string]string
	release func() // releases the ports; nil before there are any
	members []*member
}

const (
	// ReadyMax is how long a started server may take until its first read.
	ReadyMax = 5 * time.Minute
	// readyPoll is how often a starting server is tried. It limits the accuracy of measured starts.
	readyPoll = 5 * time.Millisecond
	// readyTry bounds one try, since a starting server may accept a connection and hang.
	readyTry = time.Second
	// stopMax is how long a server may take to end before it is killed.
	stopMax = 10 * time.Second
	// killMax is how long killed processes may take to end.
	killMax = time.Minute
)

// Start starts a server, or all servers of an ensemble, by its command, in a new directory below dir and on free ports,
// and waits until each member answers a read.
func Start(ctx context.Context, spec Spec, dir string) (*Server, error) {
	root, err := os.MkdirTemp(dir, "zooid-bench-")
	if err == nil {
		root, err = filepath.Abs(root) // members run in other directories
	}
	if err != nil {
		return nil, fmt.Errorf("start server %s: %w", spec.Name, err)
	}
	s := &Server{spec: spec, Root: root}
	if err = s.choosePorts(); err == nil {
		err = s.enlist()
	}
	if err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start server %s: %w", spec.Name, err)
	}
	return s, nil
}

var portPlaceholder = regexp.MustCompile(`\{port\d*\}`)

// choosePorts assigns a free port to every {port}, {port2}... in the command, and to every port of the members'
// configurations.
func (s *Server) choosePorts() error {
	names := append(portPlaceholder.FindAllString(s.spec.Command, -1), s.memberPorts()...)
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
func (s *Server) launch(ctx context.Context) error {
	begin := time.Now()
	for _, m := range s.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	for i, m := range s.members {
		if err := m.await(ctx, s.Addrs[i]); err != nil {
			return err
		}
	}
	s.Took = time.Since(begin)
	return nil
}

// Processes returns the server's processes: everything that its command started.
func (s *Server) Processes() (all Processes) {
	for _, m := range s.members {
		if m.cmd != nil {
			all = append(all, processGroup(m.cmd.Process.Pid)...)
		}
	}
	return all
}

// Restart ends the server with a signal and starts it again with the same directories and ports. Took is then the
// duration of this start.
func (s *Server) Restart(ctx context.Context, sig syscall.Signal) error {
	s.end(sig)
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart server %s: %w", s.spec.Name, err)
	}
	return nil
}

// end sends a signal to all processes, and SIGKILL to those that don't end.
func (s *Server) end(sig syscall.Signal) {
	for _, m := range s.members {
		m.signal(sig)
	}
	for _, m := range s.members {
		m.end()
	}
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() {
	s.end(syscall.SIGTERM)
	os.RemoveAll(s.Root)
	if s.release != nil {
		s.release()
	}
}

// AwaitRead waits until the server opens a session and answers a read of "/".
func AwaitRead(ctx context.Context, addr string, most time.Duration) error {
	deadline := time.Now().Add(most)
	for {
		err := tryRead(ctx, addr)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait %v for %s to answer a read: %w", most, addr, err)
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to answer a read: %w", addr, context.Cause(ctx))
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
