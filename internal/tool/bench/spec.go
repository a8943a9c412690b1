package bench

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

var runningSpec = regexp.MustCompile(`^([^\s@/]+:\d+(?:,[^\s@/]+:\d+)*)(?:@(\d+(?:,\d+)*))?$`)

// parseSpec parses HOST:PORT[,HOST:PORT][@PID[,PID]] or a command line.
func parseSpec(name, text string) (servers.Spec, error) {
	s := servers.Spec{Name: name}
	if m := runningSpec.FindStringSubmatch(text); m != nil {
		s.Addrs = strings.Split(m[1], ",")
		if m[2] != "" {
			if err := (*intList)(&s.Pids).Set(m[2]); err != nil {
				return s, usagef("server %s: %v", name, err)
			}
		}
		return s, nil
	}
	if !strings.Contains(text, "{port}") && !strings.Contains(text, "{config}") {
		return s, usagef("server %s: %q is neither HOST:PORT[@PID] nor a command with {port} or {config} in it", name, text)
	}
	s.Command = text
	return s, nil
}

// parseSignal parses the value of -signal.
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

// strike sends -signal to -kill. The returned function resumes a stopped process.
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

// errNoServer says that a scenario needs a server that it can stop.
var errNoServer = errors.New("needs a server started by -start, since it stops and starts it")
