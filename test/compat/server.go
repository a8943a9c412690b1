package compat

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

const (
	startPatience   = 5 * time.Minute  // until a started server answers a session; a loaded machine needs a minute
	sessionPatience = 20 * time.Second // until an attempt at a session is given up
	stopPatience    = time.Minute      // from SIGTERM to SIGKILL
)

// Options configure servers, beyond ports, data folder and membership.
type Options struct {
	// Config holds lines of zoo.cfg by key; they win over the defaults.
	Config map[string]string
	// Properties are given as -D name=value, to Apache and to Zooid alike.
	Properties map[string]string
	// Admin starts an admin server in each server.
	Admin bool
	// Observers is the number of an ensemble's servers without a vote; these are its last ones.
	Observers int
	// Each, if not nil, returns additional lines of zoo.cfg for a server of an ensemble; the first has index 0.
	Each func(i int) map[string]string
}

// defaultConfig makes a server answer every four-letter word and listen only on its own ports.
var defaultConfig = map[string]string{
	"tickTime":               "500",
	"initLimit":              "20",
	"syncLimit":              "10",
	"maxClientCnxns":         "0",
	"4lw.commands.whitelist": "*",
	"admin.enableServer":     "false",
}

// Server is a running server process. Its methods must not be called concurrently.
type Server struct {
	Addr    string // where clients connect: 127.0.0.1:port
	Admin   string // where its admin server listens, if there is one
	Folder  string // holds zoo.cfg, data, server.log
	Program Program
	argv    []string
	process *exec.Cmd
	exited  chan struct{} // closed when process has ended
}

// Start runs one standalone server in its own folder and returns when it opens a session. The server is stopped when
// the test ends; if the test has failed, its log is kept and the end of it is shown.
func Start(t testing.TB, p Program, opts Options) *Server {
	t.Helper()
	return StartEnsemble(t, p, 1, opts)[0]
}

// StartEnsemble runs an ensemble of n servers (1 means a standalone server) and returns when each of them opens a
// session. Otherwise it is like Start.
func StartEnsemble(t testing.TB, p Program, n int, opts Options) []*Server {
	t.Helper()
	servers := configure(t, p, n, opts)
	t.Cleanup(func() {
		for _, s := range servers {
			s.Stop()
			if t.Failed() {
				t.Logf("log of %s at %s, kept in %s, ends:\n%s", p.Name, s.Addr, s.keepLog(), s.logEnd())
			}
		}
	})
	if err := startAll(servers); err != nil {
		t.Fatalf("starting %d server(s) of %s: %v", n, p.Name, err)
	}
	return servers
}

func startAll(servers []*Server) error {
	for _, s := range servers {
		if err := s.launch(); err != nil {
			return err
		}
	}
	for _, s := range servers {
		if err := s.waitReady(); err != nil {
			return fmt.Errorf("%w; its log ends:\n%s", err, s.logEnd())
		}
	}
	return nil
}

// configure writes the folders of n servers that will form an ensemble.
func configure(t testing.TB, p Program, n int, opts Options) []*Server {
	t.Helper()
	const perServer = 4 // client, peer, election, admin
	ports := freeport.Take(t, n*perServer)
	members := make(map[string]string)
	if n > 1 {
		for i := range n {
			own := ports[i*perServer:]
			role := "participant"
			if i >= n-opts.Observers {
				role = "observer"
			}
			members[fmt.Sprintf("server.%d", i+1)] =
				fmt.Sprintf("127.0.0.1:%d:%d:%s;127.0.0.1:%d", own[1], own[2], role, own[0])
		}
	}
	servers := make([]*Server, n)
	for i := range servers {
		folder := t.TempDir()
		data := filepath.Join(folder, "data")
		settings := maps.Clone(defaultConfig)
		settings["dataDir"] = data
		if n == 1 {
			settings["clientPort"] = fmt.Sprint(ports[0])
			settings["clientPortAddress"] = "127.0.0.1"
		}
		maps.Copy(settings, members)
		admin := ports[i*perServer+perServer-1]
		if opts.Admin {
			maps.Copy(settings, map[string]string{
				"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": fmt.Sprint(admin),
			})
		}
		maps.Copy(settings, opts.Config)
		if opts.Each != nil {
			maps.Copy(settings, opts.Each(i))
		}
		var config strings.Builder
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(&config, "%s=%s\n", key, settings[key])
		}
		file := filepath.Join(folder, "zoo.cfg")
		err := errors.Join(
			os.Mkdir(data, 0o755),
			os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o644),
			os.WriteFile(file, []byte(config.String()), 0o644))
		if err != nil {
			t.Fatalf("laying out the folder of server %d: %v", i+1, err)
		}
		servers[i] = &Server{
			Addr:    fmt.Sprintf("127.0.0.1:%d", ports[i*perServer]),
			Admin:   fmt.Sprintf("127.0.0.1:%d", admin),
			Folder:  folder,
			Program: p,
			argv:    p.command(file, opts.Properties),
		}
	}
	return servers
}

// launch starts the process without waiting for anything.
func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.Folder, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = exec.Command(s.argv[0], s.argv[1:]...)
	s.process.Dir = s.Folder
	s.process.Stdout, s.process.Stderr = log, log
	// If the test binary is killed, its servers are killed too.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.Program.Name, err)
	}
	exited := make(chan struct{})
	s.exited = exited
	process := s.process
	go func() {
		process.Wait()
		close(exited)
	}()
	return nil
}

func (s *Server) waitReady() error {
	deadline := time.Now().Add(startPatience)
	for {
		err := answersSession(s.Addr, sessionPatience)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended before it answered: %v", s.Program.Name, s.process.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s answered no session at %s within %v: %w", s.Program.Name, s.Addr, startPatience, err)
		}
	}
}

// Stop ends the server by SIGTERM, and by SIGKILL if it is still running a minute later, and returns when it has
// ended. It does nothing if the server isn't running.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server by SIGKILL and returns when it has ended. It does nothing if the server isn't running.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	if s.process == nil || s.process.Process == nil {
		return
	}
	s.process.Process.Signal(signal) // an error means that it has ended already
	select {
	case <-s.exited:
	case <-time.After(stopPatience):
		s.process.Process.Kill()
		<-s.exited
	}
	s.process = nil
}

// logEnd returns the end of the server's output.
func (s *Server) logEnd() string { return fileEnd(filepath.Join(s.Folder, "server.log")) }

// keepLog copies the server's output to a place that outlives the test, and returns its path.
func (s *Server) keepLog() string {
	log, err := os.ReadFile(filepath.Join(s.Folder, "server.log"))
	if err != nil {
		return err.Error()
	}
	kept, err := os.CreateTemp("", "zooid-compat-"+s.Program.Name+"-*.log")
	if err != nil {
		return err.Error()
	}
	_, writeErr := kept.Write(log)
	if err := errors.Join(writeErr, kept.Close()); err != nil {
		return err.Error()
	}
	return kept.Name()
}

// fileEnd returns the end of a log, or why it can't be read.
func fileEnd(file string) string {
	const enough = 2 << 10
	log, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-enough):])
}
