package bench

import (
	"context"
	"strings"
)

// scenario is one kind of work with its name on the command line.
type scenario struct {
	name     string
	about    string   // one line of help
	defaults []string // flags that differ from the general defaults
	bare     bool     // needs no znode below -root, so none is created
	run      func(context.Context, *trial) (result, error)
}

// scenarios returns the table of all scenarios, in the order of the help text.
func scenarios() []scenario {
	return []scenario{
		{name: "get", about: "read the data of -keys znodes, picked at random", run: runGet},
		{name: "set", about: "replace the data of -keys znodes, picked at random", run: runSet},
		{name: "mixed", about: "-reads percent get, the rest set", run: runMixed},
		{name: "create", about: "create znodes in one directory", run: runCreate},
		{name: "delete", about: "delete -keys znodes created before", defaults: []string{"-keys", "100000"}, run: runDelete},
		{name: "multi", about: "transactions of -batch sets", defaults: []string{"-depth", "4"}, run: runMulti},
		{name: "children", about: "list a directory of -keys znodes", defaults: []string{"-conns", "8", "-depth", "4"},
			run: runChildren},
		{name: "watch", about: "one change, -keys watchers: when has the last one heard", defaults: []string{"-keys", "500"},
			run: runWatch},
		{name: "sessions", about: "open -keys sessions, hold them for -time, memory of each",
			defaults: []string{"-conns", "32", "-keys", "5000"}, run: runSessions},
		{name: "storm", about: "-keys sessions with -watches each drop and come back",
			defaults: []string{"-conns", "64", "-keys", "5000"}, run: runStorm},
		{name: "failover", about: "one writer per connection while -kill gets -signal: the longest gap", defaults: []string{"-depth", "1"},
			run: runFailover},
		{name: "load", about: "create -keys znodes, then memory of each",
			defaults: []string{"-keys", "1000000", "-size", "100"}, run: runLoad},
		{name: "ready", about: "time until the first read is answered, from now", bare: true, run: runReady},
		{name: "restart", about: "load, then time until the first read of the server (-start) restarted on it",
			defaults: []string{"-keys", "1000000", "-size", "100"}, run: runRestart},
		{name: "idle", about: "a server (-start) that nobody asks: time to start, memory, CPU", bare: true, run: runIdle},
		{name: "snapshot", about: "set at -rate on -keys znodes (-start): latency during snapshots and between",
			defaults: []string{"-keys", "1000000", "-size", "100", "-rate", "20000", "-time", "40s"}, run: runSnapshot},
		{name: "flat-znodes", about: "get and set while znodes grow to -keys: is their cost flat?", defaults: []string{"-keys", "10000000", "-size", "100"},
			run: runFlatZnodes},
		{name: "flat-conns", about: "one request goes round more and more connections, up to -keys", defaults: []string{"-keys", "5000"},
			run: runFlatConns},
		{name: "flat-watchers", about: "one change and more and more watchers, up to -keys",
			defaults: []string{"-keys", "10000"}, run: runFlatWatchers},
	}
}

// findScenario returns the scenario with that name.
func findScenario(name string) (scenario, error) {
	var names []string
	for _, s := range scenarios() {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scenario{}, usagef("no scenario %q; there are: %s", name, strings.Join(names, " "))
}
