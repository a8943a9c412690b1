package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/wordclient"
)

const (
	// The patiences only say when a test gives up: nothing is judged by how much of them is used, so they are what the
	// busiest machine needs.
	startPatience = 2 * time.Minute  // until a started server answers
	stopPatience  = time.Minute      // from SIGTERM to SIGKILL
	askPatience   = 20 * time.Second // for a four-letter word

	readyPause  = 5 * time.Millisecond // between two attempts: it limits how exactly restarts are measured
	askBytesMax = 1 << 20              // of the answer to a four-letter word
	logTail     = 6 << 10              // bytes of a server's log shown when a test fails
)

// binary is built once per test run.
var binary struct {
	once  sync.Once
	path  string
	given bool // set by UseBinary, so not to be removed
	err   error
}

// Build compiles cmd/zooid, once per test run, and returns the program's path.
// RemoveBinary removes it.
func Build(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() {
		dir, err := os.MkdirTemp("", "zooid-crash-bin-")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "zooid")
		cmd := exec.Command("go", "build", "-o", binary.path, "github.com/zooid-project/zooid/cmd/zooid")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // so that every file it opens is its own
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("build cmd/zooid: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// UseBinary makes Build return an existing program with this absolute path; ""
// changes nothing.
func UseBinary(path string) {
	if path != "" {
		binary.once.Do(func() { binary.path, binary.given = path, true })
	}
}

// RemoveBinary removes the binary that Build made.
func RemoveBinary() {
	if binary.path != "" && !binary.given {
		os.RemoveAll(filepath.Dir(binary.path))
	}
}

// A Server is one server process and its folder. Its methods are for one
// goroutine.
type Server struct {
	ID     int
	Addr   string // where it listens for clients
	Peer   string // where it listens for other servers
	Folder string // holds zoo.cfg and data
	// Wrap, if not empty, is a command to start the server under.
	Wrap []string

	program string
	starter []string // instead of program and its first argument, if set
	twoDirs bool     // the log has a directory of its own (dataLogDir)
	log     string   // file with its output; never on a disk that is made to fail
	process *exec.Cmd
	exited  chan struct{}
}

// Data returns the server's data directory.
func (s *Server) Data() string { return filepath.Join(s.Folder, "data") }

// LogDir returns the directory of the server's log: the data directory or, for
// every other server, a separate one.
func (s *Server) LogDir() string {
	if s.twoDirs {
		return filepath.Join(s.Folder, "log")
	}
	return s.Data()
}

// dirs returns the directories that hold the server's data, one or two.
func (s *Server) dirs() []string {
	if s.twoDirs {
		return []string{s.Data(), s.LogDir()}
	}
	return []string{s.Data()}
}

// Start launches the process and doesn't wait for anything.
func (s *Server) Start() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := s.starter
	if command == nil {
		command = []string{s.program, "server"}
	}
	argv := slices.Concat(s.Wrap, command, []string{filepath.Join(s.Folder, "zoo.cfg")})
	s.process = exec.Command(argv[0], argv[1:]...)
	s.process.Dir = s.Folder
	s.process.Stdout, s.process.Stderr = log, log
	// If the test binary is killed, its servers end too.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.process = nil
		return fmt.Errorf("start server %d: %w", s.ID, err)
	}
	process, exited := s.process, make(chan struct{})
	s.exited = exited
	go func() {
		process.Wait()
		close(exited)
	}()
	return nil
}

// Ready waits until the server serves clients, and returns how long that took.
func (s *Server) Ready() (time.Duration, error) {
	began := time.Now()
	for {
		mode, err := s.Mode()
		if err == nil && mode != "" {
			return time.Since(began), nil
		}
		select {
		case <-s.exited:
			return 0, fmt.Errorf("server %d ended before it answered: %v; its log ends:\n%s", s.ID, s.process.ProcessState,
				s.LogEnd())
		case <-time.After(readyPause):
		}
		if time.Since(began) > startPatience {
			return 0, fmt.Errorf("server %d did not serve within %v (%v); its log ends:\n%s", s.ID, startPatience, err,
				s.LogEnd())
		}
	}
}

// Mode asks the server for its mode: leader, follower, standalone, or "" while
// it doesn't serve.
func (s *Server) Mode() (string, error) {
	text, err := s.Ask("srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", nil
}

// Ask sends a four-letter word.
func (s *Server) Ask(word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	return wordclient.Word(ctx, nil, s.Addr, word, askBytesMax)
}

// Running reports whether the process is running.
func (s *Server) Running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Pid returns the process id of a running server.
func (s *Server) Pid() int { return s.process.Process.Pid }

// stopped reports whether every thread of the process has stopped after SIGSTOP.
func (s *Server) stopped() bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid()))
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread is gone
		}
		// "pid (name) state ...": T is stopped.
		if _, state, ok := bytes.Cut(b, []byte(") ")); !ok || state[0] != 'T' {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// Memory returns the resident memory of a running server in bytes, 0 if it
// isn't known.
func (s *Server) Memory() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// Signal sends the server a signal, such as SIGSTOP.
func (s *Server) Signal(signal syscall.Signal) error {
	if err := s.process.Process.Signal(signal); err != nil {
		return fmt.Errorf("send server %d %v: %w", s.ID, signal, err)
	}
	return nil
}

// Kill ends the server by SIGKILL and waits until it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server by SIGTERM, and by SIGKILL if it takes too long. It
// returns the exit code: -1 if a signal ended the server.
func (s *Server) Stop() int { return s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) int {
	if s.process == nil {
		return 0
	}
	s.process.Process.Signal(signal) // an error says that it has ended already
	s.process.Process.Signal(syscall.SIGCONT)
	code, err := s.Exit(stopPatience)
	if err != nil {
		s.process.Process.Kill()
		<-s.exited
	}
	return code
}

// Exit waits for the process to end by itself and returns its exit code.
func (s *Server) Exit(patience time.Duration) (int, error) {
	select {
	case <-s.exited:
		return s.process.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return -1, fmt.Errorf("server %d has not ended within %v", s.ID, patience)
	}
}

// Log returns everything that the server has printed, over all its lives.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LogEnd returns the end of Log.
func (s *Server) LogEnd() string {
	text := s.Log()
	return text[max(0, len(text)-logTail):]
}

// failures are the texts in a log that show that the program itself failed.
var failures = []string{"panic:", "fatal error:", "DATA RACE", "invariant broken", "have diverged", damageSign}

const damageSign = "is damaged at offset"

// crashed returns the first text in the log, except for an excused one, that
// shows that the program itself failed.
func (s *Server) crashed(excused string) string {
	text := []byte(s.Log())
	for _, sign := range failures {
		if sign == excused {
			continue
		}
		if i := bytes.Index(text, []byte(sign)); i >= 0 {
			return string(text[max(0, i-200):min(len(text), i+2000)])
		}
	}
	return ""
}
