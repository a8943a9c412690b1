package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// options are the flags of a trial.
type options struct {
	servers []string
	conns   int
	depth   int
	size    int
	keys    int
	reads   int
	batch   int
	watches int
	time    time.Duration
	warm    time.Duration
	ops     int64
	rate    float64
	root    string
	timeout time.Duration
	pids    servers.Processes
	kill    int
	signal  string
	start   string
	members int
	dir     string
	seed    uint64
	keep    bool

	json     bool
	markdown bool
	quiet    bool
	color    string

	given map[string]bool // the flags that were set, by defaults or by the user
}

// usageError is a mistake on the command line, for exit code 2.
type usageError struct{ text string }

// Error says what is wrong and what would be correct.
func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// intList is a flag of comma-separated positive integers.
type intList []int

// String returns the flag's text.
func (l *intList) String() string {
	var s []string
	for _, v := range *l {
		s = append(s, strconv.Itoa(v))
	}
	return strings.Join(s, ",")
}

// Set parses the flag's text.
func (l *intList) Set(s string) error {
	*l = nil
	for f := range strings.SplitSeq(s, ",") {
		v, err := strconv.Atoi(f)
		if err != nil || v <= 0 {
			return fmt.Errorf("%q is not a process id", f)
		}
		*l = append(*l, v)
	}
	return nil
}

// textList is a flag of comma-separated words.
type textList []string

// String returns the flag's text.
func (l *textList) String() string { return strings.Join(*l, ",") }

// Set parses the flag's text.
func (l *textList) Set(s string) error {
	*l = strings.Split(s, ",")
	return nil
}

// flags declares the trial's flags on a new FlagSet that stores them in o.
func (o *options) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main prints errors and help
	o.servers = []string{"127.0.0.1:2181"}
	fs.Var((*textList)(&o.servers), "servers", "comma-separated `host:port`; connections are spread over them in turn")
	fs.IntVar(&o.conns, "conns", 16, "connections; sessions, storm: connections opened at the same time")
	fs.IntVar(&o.depth, "depth", 16, "outstanding requests per connection")
	fs.IntVar(&o.size, "size", 128, "`bytes` of data per znode")
	fs.IntVar(&o.keys, "keys", 1000, "znodes used; sessions, storm: sessions; watch: watchers")
	fs.IntVar(&o.reads, "reads", 90, "mixed: `percent` of reads")
	fs.IntVar(&o.batch, "batch", 10, "multi: operations in each request")
	fs.IntVar(&o.watches, "watches", 10, "storm: watches per session")
	fs.DurationVar(&o.time, "time", 10*time.Second, "how long to measure")
	fs.DurationVar(&o.warm, "warm", 2*time.Second, "time under load before measuring")
	fs.Int64Var(&o.ops, "ops", 0, "send exactly this `number` of requests, all measured, instead of -warm and -time")
	fs.Float64Var(&o.rate, "rate", 0, "open loop: send this `number` of requests a second, over all connections together; 0 is a closed loop")
	fs.StringVar(&o.root, "root", "/bench", "create znodes below `path`-RANDOM, which is removed at the end")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "session timeout to request")
	fs.Var((*intList)(&o.pids), "pid", "server process `ids`, comma-separated, whose CPU time and memory are measured")
	fs.IntVar(&o.kill, "kill", 0, "failover, storm: the `pid` of the process that gets -signal (failover with -start: the leader)")
	fs.StringVar(&o.signal, "signal", "KILL", "failover, storm, restart: KILL, TERM or STOP")
	fs.StringVar(&o.start, "start", "", "start a server first, by this `command` in a new directory; {port}, {dir} and {config} are replaced")
	fs.IntVar(&o.members, "members", 1, "with -start: start this many `servers` as an ensemble; the command must contain {config}")
	fs.StringVar(&o.dir, "dir", "", "create directories below `path` (default: the system's temporary directory)")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of all random choices")
	fs.BoolVar(&o.keep, "keep", false, "leave the znodes in place")
	fs.BoolVar(&o.json, "json", false, "print JSON lines")
	fs.BoolVar(&o.markdown, "markdown", false, "print a Markdown table")
	fs.BoolVar(&o.quiet, "quiet", false, "print no progress line")
	fs.StringVar(&o.color, "color", "auto", "colours: auto, always, never")
	return fs
}

// membersMax bounds an ensemble started here, since all of it runs on one machine.
const membersMax = 9

// parseOptions parses flags. Later ones replace earlier ones: a scenario's own defaults come first, the user's flags
// last. It returns the arguments that aren't flags, wherever they are.
func parseOptions(name string, args ...string) (options, []string, error) {
	var o options
	fs := o.flags(name)
	rest, err := parseInterleaved(fs, args)
	if err != nil {
		return o, nil, err
	}
	o.given = map[string]bool{}
	fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return o, rest, o.check()
}

// parseInterleaved parses flags before, after and between other arguments.
func parseInterleaved(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usagef("%v", err)
		}
		args = fs.Args()
		if len(args) == 0 {
			return rest, nil
		}
		rest = append(rest, args[0])
		args = args[1:]
	}
}

// check rejects values that no scenario can work with.
func (o *options) check() error {
	for _, f := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"conns", o.conns, 1, 1 << 20}, {"depth", o.depth, 1, 1 << 16}, {"size", o.size, 0, 64 << 20},
		{"keys", o.keys, 1, 1 << 30},
		{"reads", o.reads, 0, 100}, {"batch", o.batch, 1, 10000}, {"watches", o.watches, 0, 10000},
		{"members", o.members, 1, membersMax},
	} {
		if f.value < f.min || f.value > f.max {
			return usagef("-%s %d: must be from %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	switch {
	case o.time <= 0 || o.warm < 0 || o.ops < 0 || o.rate < 0:
		return usagef("-time must be above 0; -warm, -ops and -rate not below")
	case o.timeout < time.Millisecond || o.timeout > 24*time.Hour:
		return usagef("-timeout %v: must be from 1ms to 24h", o.timeout)
	case !strings.HasPrefix(o.root, "/") || strings.HasSuffix(o.root, "/"):
		return usagef("-root %s: must begin with a slash and not end in one", o.root)
	case o.color != "auto" && o.color != "always" && o.color != "never":
		return usagef("-color %s: must be auto, always or never", o.color)
	}
	if _, err := parseSignal(o.signal); err != nil {
		return err
	}
	return nil
}

// colored reports whether output to w is colored.
func (o *options) colored(w io.Writer) bool {
	switch o.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal.Colours(w)
}
