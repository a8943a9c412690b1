package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/bench/machine"
	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

// comparison has the arguments of `zooid bench compare`: what to run on which servers.
type comparison struct {
	servers  []servers.Spec
	profiles []profile
	rounds   int
	quick    bool
	dir      string
	commit   string
	json     bool
	markdown bool
	warms    []string // per server, replaces the profile's
	options  options  // only for colour and quiet
	more     []string
}

// roundsMax bounds -rounds: more rounds don't improve a median.
const roundsMax = 101

// mainCompare runs `zooid bench compare`.
func mainCompare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseCompare(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, helpCompare)
		printProfiles(stdout)
		fmt.Fprint(stdout, "\nflags:\n")
		fs, _ := (&comparison{}).flags()
		printFlags(stdout, fs)
		return nil
	}
	if err != nil {
		return err
	}
	p := newProgress(stderr, c.options.quiet)
	m := machine.Describe(ctx, c.dir, c.commit)
	if c.json {
		if err := json.NewEncoder(stdout).Encode(c.describe(m)); err != nil {
			return err
		}
	}
	outcomes, err := c.run(ctx, p, stdout)
	p.clear()
	if err != nil {
		return err
	}
	if err := c.report(stdout, m, outcomes); err != nil {
		return err
	}
	for _, o := range outcomes {
		for _, rounds := range o.results {
			for _, r := range rounds {
				if r.Failed != "" && !r.leftOut() {
					return fmt.Errorf("compare: some trials failed; their figures are missing above")
				}
			}
		}
	}
	return nil
}

// compareFlags are the flags whose values need further parsing.
type compareFlags struct {
	specs        [3]string
	floor        bool
	floorCommand string
	names        textList
	profiles     textList
	time         string
	warm         string
	warms        textList
}

func (c *comparison) flags() (*flag.FlagSet, *compareFlags) {
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var f compareFlags
	for i, name := range []string{"a", "b", "c"} {
		fs.StringVar(&f.specs[i], name, "", "a `server`: HOST:PORT[@PID] or a command with {config}, or {port} and {dir}")
	}
	fs.BoolVar(&f.floor, "floor", false, "also the floor: sockets, framing and a synced log, nothing else")
	fs.StringVar(&f.floorCommand, "floor-command", "", "another floor than the built-in one, by its `command`")
	fs.Var(&f.names, "names", "comma-separated `names` of the servers in the table (default: a,b,c)")
	fs.Var(&f.profiles, "profiles", "comma-separated `profiles`, scenarios or parts (default: all)")
	fs.IntVar(&c.rounds, "rounds", 3, "interleaved rounds")
	fs.BoolVar(&c.quick, "quick", false, "short times and small sizes: to see that all works")
	fs.StringVar(&f.time, "time", "", "measured `time` per trial instead of the profile's")
	fs.StringVar(&f.warm, "warm", "", "warm-up `time` per trial instead of the profile's")
	fs.Var(&f.warms, "warms", "comma-separated warm-up `times`, one per server, instead of the profile's")
	fs.StringVar(&c.dir, "dir", "", "make fresh directories below `path` (default: the system's temporary directory)")
	fs.StringVar(&c.commit, "commit", "", "the `commit` measured, if the binary doesn't know")
	fs.BoolVar(&c.json, "json", false, "print a JSON line per trial and no table")
	fs.BoolVar(&c.markdown, "markdown", false, "print the table in Markdown")
	fs.BoolVar(&c.options.quiet, "quiet", false, "no progress line")
	fs.StringVar(&c.options.color, "color", "auto", "colours: auto, always, never")
	return fs, &f
}

func parseCompare(args []string) (*comparison, error) {
	c := &comparison{}
	fs, f := c.flags()
	rest, err := parseInterleaved(fs, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, usagef("compare takes no argument %q; servers are named by -a, -b and -c, profiles by -profiles", rest[0])
	}
	if c.rounds < 1 || c.rounds > roundsMax {
		return nil, usagef("-rounds %d: must be from 1 to %d", c.rounds, roundsMax)
	}
	if f.time != "" {
		c.more = append(c.more, "-time", f.time)
	}
	if f.warm != "" {
		c.more = append(c.more, "-warm", f.warm)
	}
	if c.profiles, err = pickProfiles(f.profiles); err != nil {
		return nil, err
	}
	for i, text := range f.specs {
		if text == "" {
			continue
		}
		s, err := parseSpec(string(rune('a'+i)), text)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	if f.floor || f.floorCommand != "" {
		s, err := floorSpec()
		if err != nil {
			return nil, err
		}
		if f.floorCommand != "" {
			s.Command, s.Foreign = f.floorCommand, true
		}
		c.servers = append(c.servers, s)
	}
	if len(c.servers) < 2 {
		return nil, usagef("compare needs two servers at least: -a and -b, or -a and -floor")
	}
	if len(f.names) > len(c.servers) {
		return nil, usagef("-names has %d names for %d servers", len(f.names), len(c.servers))
	}
	if len(f.warms) > len(c.servers) {
		return nil, usagef("-warms has %d times for %d servers", len(f.warms), len(c.servers))
	}
	c.warms = f.warms
	for i, name := range f.names {
		c.servers[i].Name = name
	}
	return c, nil
}

// floorSpec returns the spec that starts this binary as a floor.
func floorSpec() (servers.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return servers.Spec{}, fmt.Errorf("start the floor: %w", err)
	}
	return servers.Spec{Name: "floor", Floor: true,
		Command: "exec '" + strings.ReplaceAll(self, "'", `'\''`) + "' bench floor -addr 127.0.0.1:{port} -dir '{dir}'"}, nil
}

// inTurn returns the numbers of n servers in the order in which they run in a round. Every second round has the reverse
// order, so that not always the same server runs while the kernel still writes what another one has left.
func inTurn(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		if order[i] = i; round%2 == 0 {
			order[i] = n - 1 - i
		}
	}
	return order
}

// run does all rounds: it runs each profile on one server after the other. A trial that fails is recorded, and the
// others continue. Only the end of ctx ends everything.
func (c *comparison) run(ctx context.Context, p *progress, jsonTo io.Writer) ([]outcome, error) {
	outcomes := make([]outcome, len(c.profiles))
	for i, pr := range c.profiles {
		outcomes[i] = outcome{pr, make([][]result, len(c.servers))}
	}
	for round := 1; round <= c.rounds; round++ {
		for i, pr := range c.profiles {
			if pr.rounds > 0 && round > pr.rounds {
				continue
			}
			for _, s := range inTurn(len(c.servers), round) {
				spec := c.servers[s]
				if p != nil {
					p.prefix = fmt.Sprintf("round %d of %d, %s on %s: ", round, c.rounds, pr.name, spec.Name)
				}
				r := c.trial(ctx, pr, s, p)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				r.Profile, r.Server, r.Round = pr.name, spec.Name, round
				outcomes[i].results[s] = append(outcomes[i].results[s], r)
				if c.json {
					if err := r.writeJSON(jsonTo); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return outcomes, nil
}

// leftOutMark is the prefix of result.Failed for a trial that a server can't run.
const leftOutMark = "left out: "

func (r *result) leftOut() bool { return strings.HasPrefix(r.Failed, leftOutMark) }

// trial runs one profile on server number i, on a fresh server if one can be started.
func (c *comparison) trial(ctx context.Context, pr profile, i int, p *progress) result {
	spec := c.servers[i]
	spec.Members = pr.members
	failed := func(err error) result { return result{Scenario: pr.scenario, Failed: err.Error()} }
	if why := pr.runsOn(spec, i == 0); why != "" {
		return result{Scenario: pr.scenario, Failed: leftOutMark + why}
	}
	s, err := findScenario(pr.scenario)
	if err != nil {
		return failed(err)
	}
	o, _, err := parseOptions(pr.name, append(pr.flags(s, c.quick, c.more), c.warmFlags(pr, i)...)...)
	if err != nil {
		return failed(err)
	}
	t := &trial{options: o, name: pr.scenario, progress: p, measured: spec.Pids}
	t.servers = spec.Addrs
	if spec.Command != "" {
		p.note("starting")
		if t.server, err = servers.Start(ctx, spec, c.dir); err != nil {
			return failed(err)
		}
		defer t.server.Stop()
		t.servers, t.measured = t.server.Addrs, t.server.Processes()
	}
	r, err := t.execute(ctx, s)
	if err != nil {
		return failed(err)
	}
	return r
}

// warmFlags returns the flags of the warm-up that server i needs. In a failover, the warm-up is the time before the
// signal, so it isn't changed.
func (c *comparison) warmFlags(pr profile, i int) []string {
	if i >= len(c.warms) || pr.scenario == "failover" {
		return nil
	}
	return []string{"-warm", c.warms[i]}
}

// report writes the table, and the facts needed to understand it.
func (c *comparison) report(w io.Writer, m machine.Facts, outcomes []outcome) error {
	if c.json {
		return nil
	}
	names := make([]string, len(c.servers))
	for i, s := range c.servers {
		names[i] = s.Name
	}
	if err := m.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "- %d rounds, interleaved: median, in parentheses the least and the greatest; ratios are taken within a round\n",
		c.rounds)
	if c.quick {
		fmt.Fprintln(w, "- a quick run: its figures show that all works, not how fast")
	}
	for _, s := range c.servers {
		if s.Command != "" && !s.Floor {
			fmt.Fprintf(w, "- %s: `%s`\n", s.Name, s.Command)
		}
	}
	fmt.Fprintln(w)
	t := comparisonTable(names, outcomes)
	var err error
	if c.markdown {
		err = t.writeMarkdown(w)
	} else {
		err = t.writeText(w, c.options.colored(w))
	}
	if lines := troubles(outcomes); err == nil && len(lines) > 0 {
		_, err = fmt.Fprintf(w, "\n- %s\n", strings.Join(lines, "\n- "))
	}
	return err
}
