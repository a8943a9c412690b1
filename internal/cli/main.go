package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// Exit codes. 0 is success, as ever.
const (
	exitFailed       = 1   // a command failed, as zkCli's
	exitUsage        = 2   // wrong flags of the shell itself
	exitNotConnected = 3   // no server could be reached
	exitDiffers      = 4   // diff found a difference, find or grep found nothing
	exitUnknown      = 127 // no such command, as zkCli's
	exitInterrupted  = 130 // by an interrupt, as shells have it
)

const help = `usage: zooid cli [FLAG]… [COMMAND [ARGUMENT]…]

Runs one command, or reads commands from standard input: with a prompt, history
and completion on a terminal, as a script otherwise. "zooid cli help" lists the
commands, "zooid cli help COMMAND" tells about one.

  -server host:port,…[/chroot]  the ensemble (localhost:2181)
  -timeout ms                   the session's timeout, and how long to wait for
                                a connection (30000)
  -r                            accept a server without quorum, for reads
  -waitforconnection            connect before reading commands, or fail
  -o text|json                  how results are printed; json is one value to a line

Exit codes: 0 done; 1 the command failed; 2 wrong flags; 3 no server reached;
4 diff found a difference, or find or grep found nothing; 127 no such command;
130 interrupted. A script's is that of its last command.

Colours and progress appear on a terminal only; NO_COLOR=1 turns colours off.
History is kept in ~/.zooid_history, or the file named by ZOOID_HISTORY.
`

// Streams are where a shell reads and prints.
type Streams struct {
	In       io.Reader // commands, if the command line has none
	Out, Err io.Writer // results; messages, errors and progress
}

// options are the shell's own flags.
type options struct {
	server   string
	timeout  time.Duration
	readOnly bool
	wait     bool
	json     bool
	version  string
}

// Main runs the shell and returns its exit code. version is what the command
// version prints.
func Main(arguments []string, io Streams, version string) int {
	opt, words, err := parseOptions(arguments)
	if err != nil {
		fmt.Fprintf(io.Err, "zooid cli: %v\n\n%s", err, help)
		return exitUsage
	}
	if opt == nil {
		fmt.Fprint(io.Out, help)
		return 0
	}
	opt.version = version
	s := newShell(*opt, newOutput(io.Out, io.Err))
	defer s.close()
	ctx := context.Background()
	if len(words) > 0 {
		s.single = true
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		s.execute(ctx, words)
		return s.exit
	}
	if in, ok := io.In.(*os.File); ok && isTerminal(in) && s.out.terminal {
		return s.interactive(ctx)
	}
	return s.script(ctx, io.In)
}

// parseOptions reads the shell's flags; words is the command after them. Nil
// options ask for the help text.
func parseOptions(arguments []string) (opt *options, words []string, err error) {
	opt = &options{server: "localhost:2181", timeout: 30 * time.Second}
	for len(arguments) > 0 {
		name := arguments[0]
		if !strings.HasPrefix(name, "-") {
			return opt, arguments, nil
		}
		arguments = arguments[1:]
		switch name = strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-"); name {
		case "h", "help":
			return nil, nil, nil
		case "r":
			opt.readOnly = true
			continue
		case "waitforconnection":
			opt.wait = true
			continue
		case "server", "timeout", "o":
		case "client-configuration":
			return nil, nil, fmt.Errorf("-client-configuration is not supported: it sets up Java's TLS and Kerberos; leave it out, or reach a TLS port through a proxy")
		default:
			return nil, nil, fmt.Errorf("there is no flag -%s", name)
		}
		if len(arguments) == 0 {
			return nil, nil, fmt.Errorf("the flag -%s needs a value", name)
		}
		if err := opt.set(name, arguments[0]); err != nil {
			return nil, nil, err
		}
		arguments = arguments[1:]
	}
	return opt, nil, nil
}

func (o *options) set(name, value string) (err error) {
	switch name {
	case "server":
		o.server = value
	case "timeout":
		ms, err := strconv.Atoi(value)
		if err != nil || ms <= 0 {
			return fmt.Errorf("-timeout %q: want milliseconds, such as 30000", value)
		}
		o.timeout = time.Duration(ms) * time.Millisecond
	case "o":
		o.json, err = outputForm(value)
	}
	return err
}

// outputForm reads the value of -o.
func outputForm(value string) (json bool, err error) {
	switch value {
	case "json", "text":
		return value == "json", nil
	}
	return false, fmt.Errorf("-o %q: want text or json", value)
}
