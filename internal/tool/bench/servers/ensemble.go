package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
)

// member is one process of a server started here: the only one, or a member of an ensemble.
type member struct {
	text   string // the command, filled in
	dir    string // its working directory
	output string // file with its output
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone
}

// Each member listens for clients, for its peers, and for their elections.
const portsPerMember = 3

// memberPorts returns the names of the ports in the configurations of all members. The first one is the client port of
// the first member.
func (s *Server) memberPorts() (names []string) {
	if !strings.Contains(s.spec.Command, "{config}") {
		return []string{"{port}"}
	}
	for i := range portsPerMember * max(s.spec.Members, 1) {
		names = append(names, memberPort(i/portsPerMember, i%portsPerMember))
	}
	return names
}

// memberPort returns the placeholder of a member's port. use is 0 for clients, 1 for peers, 2 for elections.
func memberPort(member, use int) string {
	if member == 0 && use == 0 {
		return "{port}"
	}
	return fmt.Sprintf("{member %d port %d}", member+1, use)
}

// enlist creates each member's directory and configuration, and completes its command.
func (s *Server) enlist() error {
	n := max(s.spec.Members, 1)
	if n > 1 && !strings.Contains(s.spec.Command, "{config}") {
		return fmt.Errorf("an ensemble of %d needs a command with {config} in it, not %q", n, s.spec.Command)
	}
	for i := range n {
		m := &member{dir: filepath.Join(s.Root, fmt.Sprint(i+1))}
		m.output = filepath.Join(m.dir, "output")
		data := filepath.Join(m.dir, "data")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		config := filepath.Join(m.dir, "zoo.cfg")
		if err := os.WriteFile(config, s.config(i, n, data), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendln(nil, i+1), 0o600); err != nil {
			return err
		}
		m.text = strings.NewReplacer("{dir}", data, "{config}", config).Replace(s.spec.Command)
		for p, port := range s.ports {
			m.text = strings.ReplaceAll(m.text, p, port)
		}
		s.members = append(s.members, m)
		s.Addrs = append(s.Addrs, "127.0.0.1:"+s.ports[memberPort(i, 0)])
	}
	return nil
}

// config returns the zoo.cfg of member i of n. It has the settings of Apache's own sample, no limit on the connections
// of one address, and no other listener.
func (s *Server) config(i, n int, data string) []byte {
	b := fmt.Appendf(nil, `tickTime=2000
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=127.0.0.1
clientPort=%s
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
`, data, s.ports[memberPort(i, 0)])
	for m := range n {
		if n > 1 {
			b = fmt.Appendf(b, "server.%d=127.0.0.1:%s:%s\n", m+1, s.ports[memberPort(m, 1)], s.ports[memberPort(m, 2)])
		}
	}
	return b
}

// start starts the process and doesn't wait for it.
func (m *member) start() error {
	out, err := os.OpenFile(m.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", m.text)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = m.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // makes signals reach the shell's children
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	m.cmd, m.exited = cmd, exited
	go func() {
		cmd.Wait()
		close(exited)
	}()
	return nil
}

// await waits until the member answers a read at addr or has ended.
func (m *member) await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func(cmd *exec.Cmd, exited chan struct{}) {
		select {
		case <-exited:
			cancel(fmt.Errorf("it ended: %v", cmd.ProcessState))
		case <-ctx.Done():
		}
	}(m.cmd, m.exited)
	if err := AwaitRead(ctx, addr, ReadyMax); err != nil {
		return fmt.Errorf("%w; its last words: %s", err, m.lastWords())
	}
	return nil
}

// lastWords returns the end of the member's output.
func (m *member) lastWords() string {
	const most = 2000
	b, err := os.ReadFile(m.output)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(len(b)-most, 0):]))
}

// signal sends a signal to the member's process group, if it was started.
func (m *member) signal(sig syscall.Signal) {
	if m.cmd != nil {
		syscall.Kill(-m.cmd.Process.Pid, sig)
	}
}

// end waits for the member to end after a signal, and kills it if it doesn't.
func (m *member) end() {
	if m.cmd == nil {
		return
	}
	select {
	case <-m.exited:
	case <-time.After(stopMax):
	}
	m.signal(syscall.SIGKILL) // also for processes that the command has left
	<-m.exited
	// The ports, which the next start needs, are in use until all processes have ended.
	for by := time.Now().Add(killMax); groupRuns(m.cmd.Process.Pid) && time.Now().Before(by); {
		time.Sleep(readyPoll)
	}
	m.cmd = nil
}

// Leader returns the process that says that it leads the ensemble.
func (s *Server) Leader() (pid int, err error) {
	for i, m := range s.members {
		text, err := ask(s.Addrs[i], "srvr")
		if err != nil {
			return 0, err
		}
		if strings.Contains(text, "\nMode: leader\n") {
			return m.cmd.Process.Pid, nil
		}
	}
	return 0, fmt.Errorf("none of %v says that it leads the ensemble", s.Addrs)
}

// wordAnswerMax bounds the reply to a four-letter word.
const wordAnswerMax = 64 << 10

// ask sends a four-letter word and returns the reply.
func ask(addr, word string) (string, error) {
	n, err := net.DialTimeout("tcp", addr, wire.HandshakeTimeout)
	if err != nil {
		return "", err
	}
	defer n.Close()
	n.SetDeadline(time.Now().Add(wire.HandshakeTimeout))
	if _, err := io.WriteString(n, word); err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", addr, word, err)
	}
	b, err := io.ReadAll(io.LimitReader(n, wordAnswerMax))
	if err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", addr, word, err)
	}
	return string(b), nil
}
