package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

// profile is a scenario with the sizes and times that a comparison runs.
type profile struct {
	name     string
	part     string // profiles of one part are run together
	scenario string
	args     []string // flags
	quick    []string // flags after args with -quick
	figures  []string // the figures in its rows of the table, by JSON name
	rounds   int      // maximum number; 0 is no limit
	process  bool     // only for servers started by a command
	members  int      // of the ensemble on which it runs, started by a command; 0 is a single server
	noFloor  bool     // the floor can't run it
	alone    bool     // only on the floor and the first server, which isn't compared with others
}

// The times of a comparison. -warms gives more time to a server that compiles while it runs, so that it reaches full
// speed. -quick only checks that everything works.
var (
	fullTimes  = []string{"-warm", "1s", "-time", "4s"}
	quickTimes = []string{"-warm", "500ms", "-time", "1s"}
)

// heavyRounds is the maximum number of rounds of a profile that takes long, or whose figure hardly varies.
const heavyRounds = 3

// profiles returns the table of all profiles, part by part.
func profiles() []profile {
	return slices.Concat(throughputProfiles(), latencyProfiles(), ensembleProfiles(), sessionProfiles(), bigProfiles())
}

// steadyFigures returns the figures of a closed loop.
func steadyFigures(more ...string) []string {
	return append([]string{"ops_per_s", "server_cpu_us_per_op", "client_cpu_us_per_op", "p50_ms", "p99_ms"}, more...)
}

func throughputProfiles() []profile {
	wide := []string{"-conns", "16", "-depth", "16"}
	const part = "throughput"
	return []profile{
		{name: "get-16x16", part: part, scenario: "get", args: wide, figures: steadyFigures()},
		{name: "set-16x16", part: part, scenario: "set", args: wide, figures: steadyFigures()},
		{name: "mixed-16x16", part: part, scenario: "mixed", args: append(wide, "-reads", "90"),
			figures: steadyFigures("read_p50_ms", "write_p50_ms")},
		{name: "create-16x16", part: part, scenario: "create", args: wide, figures: steadyFigures()},
		{name: "multi-16x4", part: part, scenario: "multi", args: []string{"-conns", "16", "-depth", "4", "-batch", "10"},
			figures: steadyFigures()},
		{name: "children-8x4", part: part, scenario: "children",
			args: []string{"-conns", "8", "-depth", "4", "-keys", "1000"}, figures: steadyFigures()},
	}
}

func latencyProfiles() []profile {
	one := []string{"-conns", "1", "-depth", "1"}
	figures := []string{"ops_per_s", "p50_ms", "p99_ms", "p999_ms"}
	const part = "latency"
	return []profile{
		{name: "get-1x1", part: part, scenario: "get", args: one, figures: figures},
		{name: "set-1x1", part: part, scenario: "set", args: one, figures: figures},
	}
}

func ensembleProfiles() []profile {
	wide := []string{"-conns", "24", "-depth", "16"}
	gaps := []string{"longest_gap_ms", "longest_writer_gap_ms", "disconnects", "expired"}
	const part = "ensemble"
	all := []profile{
		{name: "set-3-servers", scenario: "set", args: wide, figures: steadyFigures()},
		{name: "get-3-servers", scenario: "get", args: wide, figures: steadyFigures()},
		{name: "mixed-3-servers", scenario: "mixed", args: append(wide, "-reads", "90"), figures: steadyFigures()},
		{name: "create-3-servers", scenario: "create", args: wide, figures: steadyFigures()},
		// The time after the signal is longer than any known silence: 10 s for a frozen leader.
		{name: "leader-killed", scenario: "failover",
			args: []string{"-conns", "15", "-warm", "3s", "-time", "5s", "-signal", "KILL"}, figures: gaps, rounds: heavyRounds},
		{name: "leader-frozen", scenario: "failover",
			args: []string{"-conns", "15", "-warm", "3s", "-time", "14s", "-signal", "STOP"}, figures: gaps,
			rounds: heavyRounds},
	}
	for i := range all {
		all[i].part, all[i].members, all[i].process, all[i].noFloor = part, 3, true, true
	}
	all[4].quick, all[5].quick = all[4].args, all[5].args // their silence can't be shortened
	return all
}

func sessionProfiles() []profile {
	heard := []string{"p50_ms", "p99_ms", "server_cpu_us_per_op"}
	const part = "sessions"
	return []profile{
		{name: "watch-500", part: part, scenario: "watch", args: []string{"-keys", "500"}, figures: heard},
		{name: "watch-10k", part: part, scenario: "watch", args: []string{"-keys", "10000"}, quick: []string{"-keys", "2000"},
			figures: heard},
		{name: "sessions-10k", part: part, scenario: "sessions",
			args: []string{"-keys", "10000", "-conns", "32", "-time", "10s"}, quick: []string{"-keys", "1000"},
			figures: []string{"ops_per_s", "server_cpu_us_per_op", "kib_per_session", "ping_p99_ms"}, rounds: heavyRounds,
			noFloor: true},
		{name: "storm-10k", part: part, scenario: "storm", args: []string{"-keys", "10000", "-watches", "10"},
			quick:   []string{"-keys", "1000"},
			figures: []string{"all_back_ms", "p50_ms", "server_cpu_us_per_op", "expired"}, rounds: heavyRounds, noFloor: true},
		{name: "empty", part: part, scenario: "idle", args: []string{"-time", "10s"},
			figures: []string{"server_rss_mib", "start_s", "idle_cpu_percent"},
			rounds:  heavyRounds, process: true, noFloor: true},
	}
}

func bigProfiles() []profile {
	short := []string{"-root", "/b"} // so that paths are 25 bytes long
	const part = "big"
	return []profile{
		{name: "load-1m", part: part, scenario: "restart", args: append(short, "-keys", "1000000", "-size", "100"),
			quick:   []string{"-keys", "100000"},
			figures: []string{"ops_per_s", "server_cpu_us_per_op", "server_rss_mib", "bytes_per_znode", "restart_s"},
			rounds:  heavyRounds, process: true, noFloor: true},
		// three snapshots, one in 30 s
		{name: "snapshot-1m", part: part, scenario: "snapshot", args: append(short, "-keys", "1000000", "-time", "100s"),
			quick:   []string{"-keys", "100000", "-time", "10s"},
			figures: []string{"snapshots", "p99_ms_with", "p99_ms_without", "p99_ratio"}, rounds: heavyRounds, process: true,
			alone: true, noFloor: true},
		{name: "flat-znodes-10m", part: part, scenario: "flat-znodes",
			args: append(short, "-keys", "10000000", "-time", "3s"), quick: []string{"-keys", "100000"},
			figures: []string{
				"p999_ms", "bytes_per_znode_growth", "get_cpu_us_growth", "set_cpu_us_growth", "get_p50_ms_growth",
				"half_p999_ms_growth",
			}, rounds: 1, alone: true, noFloor: true},
		{name: "flat-conns-5k", part: part, scenario: "flat-conns", args: []string{"-keys", "5000"},
			quick:   []string{"-keys", "1000"},
			figures: []string{"cpu_us_growth", "p50_ms_growth"}, rounds: heavyRounds, alone: true},
		{name: "flat-watchers-10k", part: part, scenario: "flat-watchers", args: []string{"-keys", "10000", "-time", "3s"},
			quick:   []string{"-keys", "2000"},
			figures: []string{"cpu_us_per_event_growth", "p50_us_per_watcher_growth"}, rounds: heavyRounds, alone: true},
	}
}

// pickProfiles returns the profiles selected by their names, scenarios or parts. An empty list selects all.
func pickProfiles(names []string) ([]profile, error) {
	if len(names) == 0 {
		return profiles(), nil
	}
	var picked []profile
	for _, name := range names {
		found := false
		for _, p := range profiles() {
			if p.name == name || p.scenario == name || p.part == name {
				picked, found = append(picked, p), true
			}
		}
		if !found {
			return nil, usagef("no profile %q; 'zooid bench compare -h' lists them", name)
		}
	}
	return picked, nil
}

// flags returns the trial's flags. Each replaces earlier ones. more come from the command line.
func (p profile) flags(s scenario, quick bool, more []string) []string {
	args := append(append([]string(nil), s.defaults...), fullTimes...)
	args = append(args, p.args...)
	if quick {
		args = append(append(args, quickTimes...), p.quick...)
	}
	return append(args, more...)
}

// runsOn returns the reason why the profile doesn't run on a server, "" if it does. first says that s is the first
// server.
func (p profile) runsOn(s servers.Spec, first bool) string {
	switch {
	case p.alone && !first && !s.Floor:
		return "only the first server is asked"
	case s.Floor && p.noFloor:
		return "the floor has none"
	case p.process && s.Command == "":
		return "needs a server started by a command"
	}
	return ""
}

// printProfiles writes the profiles for the help.
func printProfiles(w io.Writer) {
	part := ""
	for _, p := range profiles() {
		quick := ""
		if len(p.quick) > 0 {
			quick = "; -quick: " + strings.Join(p.quick, " ")
		}
		if p.part != part {
			part = p.part
			fmt.Fprintf(w, "  %s:\n", part)
		}
		fmt.Fprintf(w, "    %-18s %s %s%s%s\n", p.name, p.scenario, strings.Join(p.args, " "), p.limits(), quick)
	}
}

// limits returns, for the help, the conditions under which the profile runs.
func (p profile) limits() (text string) {
	if p.members > 1 {
		text += fmt.Sprintf("; %d servers", p.members)
	}
	if p.rounds > 0 {
		text += fmt.Sprintf("; at most %d of the rounds", p.rounds)
	}
	switch {
	case p.alone && !p.noFloor:
		text += "; the first server and the floor only"
	case p.alone:
		text += "; the first server only"
	}
	return text
}
