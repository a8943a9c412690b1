package bench

import (
	"fmt"
	"io"
	"strings"
)

// profile is a scenario with the sizes and times that a comparison runs.
type profile struct {
	name     string
	scenario string
	args     []string // flags
	quick    []string // flags on top of args with -quick
	figures  []string // what its rows in the table show, by JSON name
	process  bool     // only for servers started by a command
	noFloor  bool     // the floor can't do it
}

// The times of a comparison. A warm-up of five seconds lets a compiling runtime
// reach its pace; -quick is for seeing whether all works.
var (
	fullTimes  = []string{"-warm", "5s", "-time", "10s"}
	quickTimes = []string{"-warm", "1s", "-time", "2s"}
)

// profiles is the table of all.
func profiles() []profile {
	steady := []string{"ops_per_s", "server_cpu_us_per_op", "p50_ms", "p99_ms"}
	wide := []string{"-conns", "16", "-depth", "16"}
	alone := []string{"ops_per_s", "p50_ms", "p99_ms", "p999_ms"}
	return []profile{
		{name: "get-16x16", scenario: "get", args: wide, figures: steady},
		{name: "get-1x1", scenario: "get", args: []string{"-conns", "1", "-depth", "1"}, figures: alone},
		{name: "set-16x16", scenario: "set", args: wide, figures: steady},
		{name: "set-1x1", scenario: "set", args: []string{"-conns", "1", "-depth", "1"}, figures: alone},
		{name: "mixed-16x16", scenario: "mixed", args: append(wide, "-reads", "90"), figures: append(steady, "read_p50_ms", "write_p50_ms")},
		{name: "create-16x16", scenario: "create", args: wide, figures: steady},
		{name: "multi-16x4", scenario: "multi", args: []string{"-conns", "16", "-depth", "4", "-batch", "10"}, figures: steady},
		{name: "children-8x4", scenario: "children", args: []string{"-conns", "8", "-depth", "4", "-keys", "1000"}, figures: steady},
		{name: "watch-500", scenario: "watch", args: []string{"-keys", "500"}, figures: []string{"p50_ms", "p99_ms", "server_cpu_us_per_op"}, noFloor: true},
		{name: "watch-10k", scenario: "watch", args: []string{"-keys", "10000"}, quick: []string{"-keys", "2000"},
			figures: []string{"p50_ms", "p99_ms", "server_cpu_us_per_op"}, noFloor: true},
		{name: "sessions", scenario: "sessions", args: []string{"-keys", "5000", "-conns", "32"}, quick: []string{"-keys", "1000"},
			figures: []string{"ops_per_s", "server_cpu_us_per_op", "kib_per_session", "ping_p99_ms"}, noFloor: true},
		{name: "load-1m", scenario: "load", args: []string{"-keys", "1000000", "-size", "100"}, quick: []string{"-keys", "100000"},
			figures: []string{"ops_per_s", "server_cpu_us_per_op", "server_rss_mib", "bytes_per_znode"}, noFloor: true},
		{name: "restart-1m", scenario: "restart", args: []string{"-keys", "1000000", "-size", "100"}, quick: []string{"-keys", "100000"},
			figures: []string{"seconds", "server_rss_mib"}, process: true, noFloor: true},
		{name: "storm", scenario: "storm", args: []string{"-keys", "5000", "-watches", "10"}, quick: []string{"-keys", "1000"},
			figures: []string{"all_back_ms", "p50_ms", "server_cpu_us_per_op", "expired"}, noFloor: true},
	}
}

// pickProfiles returns the profiles named, all for an empty list.
func pickProfiles(names []string) ([]profile, error) {
	if len(names) == 0 {
		return profiles(), nil
	}
	var picked []profile
	for _, name := range names {
		found := false
		for _, p := range profiles() {
			if p.name == name || p.scenario == name {
				picked, found = append(picked, p), true
			}
		}
		if !found {
			return nil, usagef("no profile %q; 'zooid bench compare -h' lists them", name)
		}
	}
	return picked, nil
}

// flags are the trial's, least binding first; more come from the command line.
func (p profile) flags(s scenario, quick bool, more []string) []string {
	args := append(append([]string(nil), s.defaults...), fullTimes...)
	args = append(args, p.args...)
	if quick {
		args = append(append(args, quickTimes...), p.quick...)
	}
	return append(args, more...)
}

// runsOn says why the profile can't run on a server, or "".
func (p profile) runsOn(s serverSpec) string {
	switch {
	case s.floor && p.noFloor:
		return "the floor has none"
	case p.process && s.command == "":
		return "needs a server started by a command"
	}
	return ""
}

// printProfiles writes the list for the help.
func printProfiles(w io.Writer) {
	for _, p := range profiles() {
		quick := ""
		if len(p.quick) > 0 {
			quick = "; -quick: " + strings.Join(p.quick, " ")
		}
		fmt.Fprintf(w, "  %-14s %s %s%s\n", p.name, p.scenario, strings.Join(p.args, " "), quick)
	}
}
