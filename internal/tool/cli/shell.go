package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
)

// shell is one run of the program: a client and the commands' other state.
type shell struct {
	opt  options
	host string // the connect string of client
	exit int    // of the last command
	// single is set for one command from the command line, without a prompt and events.
	single bool
	in     io.Reader // the standard input of a single command that hasn't read it; nil if there is none
	over   bool      // quit was given

	history history

	// turn is held while a command runs or an event is printed. It guards the fields below it, and the output.
	turn    sync.Mutex
	out     *screen.Output
	client  *zk.Client // nil before the first connection is asked for
	watches watches
	redraw  func()                              // puts the prompt back after an event; nil without a prompt
	ask     func(prompt string) (string, error) // reads an answer; nil without a terminal
}

func newShell(opt options, out *screen.Output) *shell {
	out.JSON = opt.json
	s := &shell{opt: opt, host: opt.access.Server, out: out}
	s.watches.printing = true
	return s
}

// connect starts a client for the connect string, which replaces the previous client.
func (s *shell) connect(host string) error {
	c, err := zk.New(host, s.opt.client())
	if err != nil {
		return err
	}
	s.disconnect()
	s.client, s.host = c, host
	if !s.single {
		s.followStates(c)
	}
	return nil
}

// disconnect ends the session, if there is one.
func (s *shell) disconnect() {
	s.watches.closeAll()
	switch {
	case s.client == nil:
	case s.single:
		leave(s.client)
	default:
		s.client.Close()
	}
}

// leave ends the session of a single command. Nothing depends on the end of that session, so if there is no server,
// leave doesn't wait for it.
func leave(c *zk.Client) {
	if c.State().State == zk.StateConnecting {
		c.Detach()
		return
	}
	c.Close()
}

// close ends the session and everything the shell started.
func (s *shell) close() {
	s.turn.Lock()
	s.disconnect()
	s.turn.Unlock()
	s.watches.running.Wait()
	s.flush(context.Background())
}

// errNotConnected is zkCli's message for a command after close.
var errNotConnected = errors.New("Not connected")

// connected returns the client once it is connected. It waits for the connection as
// long as a session would last. The caller must hold s.turn.
func (s *shell) connected(ctx context.Context) (*zk.Client, error) {
	if s.client == nil {
		if err := s.connect(s.host); err != nil {
			return nil, err
		}
	}
	if s.client.State().State == zk.StateClosed {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.timeout)
	defer cancel()
	err := s.await(ctx, s.client, s.host)
	switch {
	case errors.Is(err, zk.ErrAuthFailed):
		return nil, advice.Errorf("check the scheme, the user and the password of -auth, -sasl or the login file",
			"no session at %s: %w", s.host, err)
	case zk.SessionLost(err):
		return nil, advice.Errorf("connect opens a new session; ephemeral znodes and watches of this one are gone",
			"the session is over: %w",
			err)
	case err != nil:
		return nil, s.notConnected(s.host, err)
	}
	return s.client, nil
}

// execute runs one command and prints its error, if any. It sets s.exit.
func (s *shell) execute(ctx context.Context, words []string) { s.executeQuoted(ctx, words, nil) }

// executeQuoted is execute; quoted says which of words were quoted.
func (s *shell) executeQuoted(ctx context.Context, words []string, quoted []bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	before := s.out.JSON
	defer func() { s.out.JSON = before }() // -o is for one command, its errors and events
	c, rest := find(words)
	err := s.run(ctx, c, words[0], rest, quoted)
	if s.over {
		s.flush(ctx)
		return // quit keeps the exit code of the previous command
	}
	s.exit = 0
	if err != nil {
		s.exit = s.report(ctx, err)
	}
	s.printEvents()
	s.flush(ctx)
}

// flush prints the rest of the results. A command whose results can't be written has
// failed.
func (s *shell) flush(ctx context.Context) {
	if err := s.out.Flush(); err != nil && s.exit == 0 {
		s.exit = s.report(ctx, err)
	}
}

// run runs a command; quoted says for all words of its line which were quoted.
func (s *shell) run(ctx context.Context, c *command, name string, rest []string, quoted []bool) error {
	if c == nil {
		return unknownCommandError(name)
	}
	a, err := c.parse(rest, quoted[max(0, len(quoted)-len(rest)):])
	if err != nil {
		return err
	}
	if form, ok := a.flags[outputFlag.name]; ok {
		if s.out.JSON, err = outputForm(form); err != nil {
			return a.usagef("%s -o %v", c.name, err)
		}
	}
	if err := a.checkLocally(); err != nil {
		return err
	}
	if c.data > 0 && len(a.words) > c.data {
		if a.data, err = s.value(ctx, a, c.data); err != nil {
			return err
		}
	}
	if !c.offline {
		if _, err := s.connected(ctx); err != nil {
			return err
		}
	}
	if s.client != nil {
		defer s.tellOfSilence()()
	}
	return c.run(ctx, s, a)
}

// line runs one line of input.
func (s *shell) line(ctx context.Context, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	s.history.add(line)
	words, quoted, err := splitQuoted(line)
	if err != nil {
		s.turn.Lock()
		s.exit = s.report(ctx, err)
		s.turn.Unlock()
	} else if len(words) > 0 {
		s.executeQuoted(ctx, words, quoted)
	}
	s.history.next()
}

// start connects before the first command; it waits for the connection only if asked to.
func (s *shell) start(ctx context.Context) int {
	s.turn.Lock()
	defer s.turn.Unlock()
	err := s.connect(s.host)
	if err == nil && s.opt.wait {
		_, err = s.connected(ctx)
	}
	if err != nil {
		return s.report(ctx, err)
	}
	return 0
}

// lineMax bounds a line of a script: the largest data of a znode, as text.
const lineMax = 4 << 20

// script runs the commands in in, one per line; lines that begin with # are comments.
// It stops at the first failure, unless -k was given.
func (s *shell) script(ctx context.Context, in io.Reader) int {
	if code := s.start(ctx); code != 0 {
		return code
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	failed := 0 // the exit code of the last command that failed
	for !s.over && lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(strings.TrimSpace(text), "#") {
			continue
		}
		// Between commands an interrupt ends the program as usual.
		running, stop := notifyInterrupt(ctx)
		context.AfterFunc(running, stop) // a second one ends the program, whatever it waits for
		s.line(running, text)
		interrupted := running.Err() != nil
		stop()
		switch {
		case interrupted:
			return exitInterrupted
		case s.exit != 0 && !s.opt.keepOn:
			return s.exit
		case s.exit != 0:
			failed = s.exit
		}
	}
	if err := lines.Err(); err != nil {
		s.out.Messagef("reading commands: %v", err)
		return exitFailed
	}
	return failed
}

// prompt returns zkCli's prompt, with the server after the state if host names several.
func (s *shell) prompt() string {
	s.turn.Lock()
	defer s.turn.Unlock()
	state := stateWord(s.client)
	if s.client != nil && len(s.servers()) > 1 {
		switch now := s.client.State(); {
		case now.Server == "":
		case now.State == zk.StateConnecting:
			state += ", lost " + now.Server
		case !now.State.Final():
			state += " to " + now.Server
		}
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", terminal.OneLine(s.host), terminal.OneLine(state), s.history.count)
}

// stateWord is the Java client's name of c's state.
func stateWord(c *zk.Client) string {
	if c == nil {
		return "NOT_CONNECTED"
	}
	switch c.State().State {
	case zk.StateConnecting:
		return "CONNECTING"
	case zk.StateConnected:
		return "CONNECTED"
	case zk.StateConnectedReadOnly:
		return "CONNECTEDREADONLY"
	case zk.StateAuthFailed:
		return "AUTH_FAILED"
	}
	return "CLOSED"
}
