//go:build unix

package moving

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/apache/shadow"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tree"
)

// A Program holds what the commands need from their program.
type Program struct {
	// Reconfigure evaluates reconfig requests in logs.
	Reconfigure tree.Reconfigure
	// Ask asks the server at the addresses of a configuration for its state, and why it doesn't serve.
	Ask func(context.Context, *config.Config) (proof.Answer, error)
}

// A command is import, export, shadow, or a command below migrate.
type command struct {
	name        string // the command line after zooid
	args, about string // for the help text of migrate
	help        string
	signals     []os.Signal // end the command's context instead of the process
	settings    func(*Program) settings
}

// settings hold the parsed command line of a command.
type settings interface {
	// register adds the command's flags.
	register(*flags)
	// arguments takes the other arguments. It returns an error if they or the flags are wrong.
	arguments(words []string) error
	// run runs the command. It returns the exit code, and an error to print.
	run(ctx context.Context, s cli.Streams) (code int, err error)
}

// Exit codes that all commands share.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Signals that end a command in an orderly way. Commands that run for long also end so when their terminal is lost.
var (
	stopSignals     = []os.Signal{os.Interrupt, syscall.SIGTERM}
	stopSignalsLong = append(stopSignals[:2:2], syscall.SIGHUP)
)

// commands returns all commands. Those of zooid migrate are in the order of its help text.
func commands() []command {
	return []command{
		{"import", "", "", importHelp, nil, func(*Program) settings { return &importFlags{} }},
		{"export", "", "", exportHelp, stopSignals,
			func(p *Program) settings { return &exportFlags{o: apache.ExportOptions{Reconfigure: p.Reconfigure}} }},
		{"shadow", "", "", shadow.Help, stopSignals, func(*Program) settings { return &shadowFlags{} }},
		{"migrate compare", "[flags] A B", "compare two trees, and list what differs", compareHelp,
			[]os.Signal{os.Interrupt}, func(p *Program) settings { return &compareFlags{reconfigure: p.Reconfigure} }},
		{"migrate follow", "[flags] ENSEMBLE DIR", "keep a copy of a running Apache ensemble up to date", followHelp,
			stopSignals, func(*Program) settings { return &followFlags{} }},
		{"migrate switch", "[flags] ENSEMBLE DIR ZOOCFG", "replace that ensemble with a Zooid server", switchHelp,
			stopSignalsLong, func(p *Program) settings { return &switchRun{program: p, try: proof.NewTry()} }},
		{"migrate tail", "-after ZXID APACHE_DATADIR", "print the end of a stopped Apache server's log (used by switch)",
			tailHelp, nil, func(*Program) settings { return &tailFlags{} }},
		{"migrate seed", "ZOOCFG", "make the data directory of another Zooid server (used by switch)", seedHelp,
			nil, func(*Program) settings { return &seedFlags{} }},
		{"migrate back", "[flags] ZOOCFG", "keep Apache servers up to date with a Zooid server", backHelp,
			stopSignals, func(p *Program) settings { return &backRun{program: p} }},
		{"migrate return", "[flags] -observers ID,… ZOOCFG", "replace Zooid with these Apache servers", returnHelp,
			stopSignalsLong, func(p *Program) settings { return &returnRun{program: p, try: proof.NewTry()} }},
		{"migrate digest", "APACHE_DATADIR", "print the digest of a stopped Apache server's files (used by return)",
			digestHelp, nil, func(*Program) settings { return &digestFlags{} }},
		{"migrate shadow", "-listen ADDRESS [flags] PRIMARY SHADOW",
			"send the requests of Apache's clients to Zooid as well, and compare the replies", shadow.Help, stopSignals,
			func(*Program) settings { return &shadowFlags{} }},
	}
}

// Run runs the command called name, such as import, and returns its exit code.
func (p *Program) Run(name string, args []string, stdout, stderr io.Writer) int {
	at := slices.IndexFunc(commands(), func(c command) bool { return c.name == name })
	c := commands()[at]
	s, flags := c.settings(p), newFlags()
	s.register(flags)
	words, err := flags.parse(args)
	if err == nil {
		err = s.arguments(words)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, c.help)
		return exitDone
	case err != nil:
		usage, _, _ := strings.Cut(c.help, "\n\n") // a page of text would hide the error
		fmt.Fprintf(stderr, "zooid %s: %s\n%s\n  hint: zooid %s -h tells more\n", name, terminal.Visible(err.Error()), usage,
			name)
		return exitUsage
	}
	ctx := context.Background()
	if len(c.signals) > 0 {
		var left func() string
		if l, ok := s.(interface{ left() string }); ok { // see interrupt.go
			left = func() string { return "zooid " + name + ": ended at once by a second signal. " + l.left() }
		}
		var stop func()
		ctx, stop = terminal.Interruptible(c.signals, left, stderr)
		defer stop()
	}
	code, err := s.run(ctx, cli.Streams{In: os.Stdin, Out: stdout, Err: stderr})
	if err != nil {
		fmt.Fprintf(stderr, "zooid %s: %s\n", name, terminal.Visible(serverid.Text(err.Error())))
	}
	return code
}

// Migrate runs one of the commands below zooid migrate.
func (p *Program) Migrate(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		fmt.Fprint(stderr, migrateHelp())
		return exitUsage
	case slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]):
		fmt.Fprint(stdout, migrateHelp())
		return exitDone
	case slices.ContainsFunc(commands(), func(c command) bool { return c.name == "migrate "+args[0] }):
		return p.Run("migrate "+args[0], args[1:], stdout, stderr)
	}
	fmt.Fprintf(stderr, "zooid migrate: there is no command %.80q\n  hint: zooid migrate -h lists the commands\n", args[0])
	return exitUsage
}

// migrateHelp returns the help text of zooid migrate.
func migrateHelp() string {
	var usage, about string
	for _, c := range commands() {
		if name, ok := strings.CutPrefix(c.name, "migrate "); ok {
			usage += fmt.Sprintf("       zooid %s %s\n", c.name, c.args)
			about += fmt.Sprintf("  %-9s %s\n", name, c.about)
		}
	}
	return "usage: " + strings.TrimSpace(usage) + `

Moves a running ensemble from Apache ZooKeeper to Zooid, and back:

` + about + `
zooid migrate COMMAND -h tells more about a command. A second interrupt ends a command at
once, after a line that says in which state (exit code 130). zooid import and zooid export
move the files of stopped servers. docs/migration.md describes a migration step by step.
`
}

// flags are the flags of a command.
type flags struct {
	*flag.FlagSet
	// access adds the flags of zooid cli about connecting to servers, or only those about TLS if onlyTLS is set.
	access  *cli.Access // nil for none
	onlyTLS bool
}

func newFlags() *flags { return &flags{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)} }

// parse parses a command line, in which flags may follow other arguments, and returns these. The error is flag.ErrHelp
// if the help text is asked for.
func (f *flags) parse(args []string) (words []string, err error) {
	for len(args) > 0 {
		word := args[0]
		if !strings.HasPrefix(word, "-") {
			words, args = append(words, word), args[1:]
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if name == "h" || name == "help" {
			return nil, flag.ErrHelp
		}
		if f.access != nil && (!f.onlyTLS || strings.HasPrefix(name, "tls") || name == "profile") {
			rest, taken, err := f.access.Take(args)
			if err != nil {
				return nil, err
			}
			if taken {
				args = rest
				continue
			}
		}
		args = args[1:]
		known := f.Lookup(name)
		if known == nil {
			return nil, fmt.Errorf("there is no flag -%s", name)
		}
		if is, ok := known.Value.(interface{ IsBoolFlag() bool }); !given && ok && is.IsBoolFlag() {
			value = "true"
		} else if !given {
			if len(args) == 0 {
				return nil, fmt.Errorf("the flag -%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := known.Value.Set(value); err != nil {
			return nil, refused(known, value, err)
		}
	}
	if f.access != nil {
		err = f.access.Check()
	}
	return words, err
}

// refused returns the error for a value that a flag refuses.
func refused(f *flag.Flag, value string, err error) error {
	if getter, ok := f.Value.(flag.Getter); ok {
		switch getter.Get().(type) {
		case time.Duration:
			return fmt.Errorf("-%s %s: want a time, such as 30s", f.Name, value)
		case int, int64:
			return fmt.Errorf("-%s %s: want a number", f.Name, value)
		}
	}
	return fmt.Errorf("-%s: %w", f.Name, err) // without the value, which may be secret
}
