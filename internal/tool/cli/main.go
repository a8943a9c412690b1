package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// Exit codes. 0 is success.
const (
	exitFailed       = 1   // a command failed, as in zkCli
	exitUsage        = 2   // wrong flags of the shell itself
	exitNotConnected = 3   // no server could be reached
	exitDiffers      = 4   // diff found a difference, find or grep found nothing
	exitUnknown      = 127 // no such command, as in zkCli
	exitInterrupted  = 130 // by an interrupt, as in shells
)

const (
	helpHead = `usage: zooid cli [FLAG]… [COMMAND [ARGUMENT]…]

Reads and changes the znodes of a ZooKeeper ensemble, Zooid's or Apache's. It runs
COMMAND; without one, it reads commands from standard input: on a terminal with a prompt,
history and completion, otherwise as a script, with a command on each line and comments
after #.

  zooid cli                                          a prompt at localhost:2181
  zooid cli -server zk1:2181,zk2:2181/app            an ensemble, with paths relative to /app
  zooid cli -server zk1 ls -R /                      one command
  zooid cli -server zk1 -o json stat / | jq .stat    JSON for programs
  zooid cli -server zk1 mirror -dry-run /app zk9:2181/app
  zooid cli help                                     all commands, by purpose
  zooid cli help find                                one command, with examples

Flags begin with one dash or two. -server, -profile and those for TLS and logins may also follow
COMMAND. The first group has the flags of zkCli, and -profile, -D, -k and -o:

`
	helpTail = `
The flags also apply to the servers in the arguments of cp, mv, mirror and diff. All users
of a machine can see passwords on its command lines: prefer files.

Settings without a flag come from the profile of -profile, then from the environment. A
file defines profiles by lines such as prod.server=zk1:2281,zk2:2281 and
prod.tls.ca=ca.pem. The keys are server, tls (true or false), tls.ca, tls.cert, tls.key,
tls.password-file, auth, auth-file, sasl, sasl-file and sasl-mechanism; paths are relative
to the file. The variables are ZOOID_SERVER, ZOOID_TLS_CA, ZOOID_AUTH_FILE, and so on.
-D zookeeper.client.secure=false turns TLS off, whatever they say. The other commands of
zooid that ask servers use profiles and variables, too.

exit code: 0 done; 1 the command failed; 2 wrong flags; 3 no server reached; 4 diff found
a difference, or find or grep found nothing; 127 no such command; 130 interrupted. A
script stops at the first command that fails. With -k it continues, and its exit code is
that of the last command that failed.

Colours and progress appear only on a terminal; NO_COLOR=1 turns colours off. History is
kept in ~/.zooid_history, or in the file named by ZOOID_HISTORY, without lines that may
contain a credential or begin with a space.
`
)

// printHelp prints the text of -h.
func printHelp(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprint(w, helpHead)
	printStartFlags(w)
	fmt.Fprint(w, helpTail)
	return w.Flush()
}

// Streams are the shell's input and outputs.
type Streams struct {
	In       io.Reader // commands, if the command line has none
	Out, Err io.Writer // results; messages, errors and progress
}

// Main runs the shell and returns its exit code. program is the command of zooid whose
// arguments these are: cli, or one that is a command of the shell. version is the output of
// the command version.
func Main(program string, arguments []string, io Streams, version string) int {
	opt, words, err := parseOptions(arguments)
	if err != nil {
		screen.New(io.Out, io.Err).Errf("zooid %s: %s\n  hint: zooid cli --help lists the flags\n",
			program, terminal.OneLine(plainText(err)))
		return exitUsage
	}
	if opt == nil {
		if err := printHelp(io.Out); err != nil {
			screen.New(io.Out, io.Err).Errf("zooid %s: print the help: %v\n", program, err)
			return exitFailed
		}
		return 0
	}
	opt.version = version
	s := newShell(*opt, screen.New(io.Out, io.Err))
	defer s.close()
	defer terminal.KeepOutput(io.Out)()
	ctx := context.Background()
	if len(words) > 0 {
		s.single, s.in = true, io.In
		ctx, stop := notifyInterrupt(ctx)
		defer stop()
		context.AfterFunc(ctx, stop) // a second interrupt ends the program, whatever it waits for
		if in, ok := io.In.(*os.File); ok && terminal.Is(in) && s.out.ErrTerm {
			s.ask = func(prompt string) (string, error) {
				s.out.Errf("%s", terminal.OneLine(prompt))
				return terminal.ReadLine(ctx, in)
			}
		}
		s.execute(ctx, words)
		return s.exit
	}
	if in, ok := io.In.(*os.File); ok && terminal.Is(in) && s.out.Terminal {
		return s.interactive(ctx)
	}
	return s.script(ctx, io.In)
}
