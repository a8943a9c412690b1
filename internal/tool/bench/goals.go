package bench

import (
	"fmt"
	"slices"
	"strings"
)

// goal is one line of the page: a figure of a profile, and the bounds for the first server.
type goal struct {
	work    string
	profile string
	figure  string
	unit    string // of the figure; empty for a plain number
	bounds  []bound
}

// bound is a limit on the figure, or on its ratio to another server's.
type bound struct {
	to    string // the other server's name; empty for a limit on the figure itself
	least bool   // limit is a lower bound, not an upper one
	limit float64
}

const (
	apache    = "apache"
	floorName = "floor"
)

func atLeast(limit float64, to string) bound { return bound{to, true, limit} }

func atMost(limit float64, to string) bound { return bound{to, false, limit} }

// flatMost is the maximum growth of a cost that is called flat.
const flatMost = 1.2

// megabyte converts MiB, the unit of measured memory, to MB, the unit of the goals.
const megabyte = 1.048576

// goals returns the table of goals.
func goals() []goal {
	const perSec, cpu, p50 = "ops_per_s", "server_cpu_us_per_op", "p50_ms"
	own := func(limit float64) []bound { return []bound{atMost(limit, "")} }
	return []goal{
		{"get, 16 × 16: operations/s", "get-16x16", perSec, "", []bound{atLeast(8, apache), atLeast(.65, floorName)}},
		{"its CPU per operation", "get-16x16", cpu, "µs", []bound{atMost(.1, apache)}},
		{"get, 1 × 1: p50", "get-1x1", p50, "ms", []bound{atMost(.5, apache), atMost(1.25, floorName)}},
		{"set, 16 × 16: operations/s", "set-16x16", perSec, "", []bound{atLeast(3, apache), atLeast(.6, floorName)}},
		{"its CPU per operation", "set-16x16", cpu, "µs", []bound{atMost(.2, apache)}},
		{"set, 1 × 1: p50", "set-1x1", p50, "ms", []bound{atMost(.8, apache), atMost(1.25, floorName)}},
		{"90 % get, 10 % set, 16 × 16: operations/s", "mixed-16x16", perSec,
			"", []bound{atLeast(5, apache), atLeast(.6, floorName)}},
		{"its CPU per operation", "mixed-16x16", cpu, "µs", nil},
		{"create, 16 × 16: operations/s", "create-16x16", perSec, "", []bound{atLeast(3, apache), atLeast(.5, floorName)}},
		{"its CPU per operation", "create-16x16", cpu, "µs", nil},
		{"multi of 10 sets, 16 × 4: operations/s", "multi-16x4", perSec, "", []bound{atLeast(3, apache)}},
		{"getChildren of 1000, 8 × 4: operations/s", "children-8x4", perSec, "", []bound{atLeast(5, apache)}},
		{"one change, 500 watchers: p50 until the last has heard", "watch-500", p50, "ms", []bound{atMost(.25, apache)}},
		{"one change, 10 000 watchers: p50 until the last has heard", "watch-10k", p50, "ms", own(50)},
		{"open sessions: per second", "sessions-10k", perSec, "", []bound{atLeast(3, apache)}},
		{"memory per idle session, of 10 000", "sessions-10k", "kib_per_session", "KiB", own(16)},
		{"3 servers, set 24 × 16: operations/s", "set-3-servers", perSec, "", []bound{atLeast(2.5, apache)}},
		{"its CPU per operation, all three", "set-3-servers", cpu, "µs", nil},
		{"3 servers, get: operations/s", "get-3-servers", perSec, "", []bound{atLeast(5, apache)}},
		{"its CPU per operation, all three", "get-3-servers", cpu, "µs", nil},
		{"3 servers, 90 % get, 10 % set: operations/s", "mixed-3-servers", perSec, "", []bound{atLeast(4, apache)}},
		{"its CPU per operation, all three", "mixed-3-servers", cpu, "µs", nil},
		{"3 servers, create: operations/s", "create-3-servers", perSec, "", []bound{atLeast(3, apache)}},
		{"its CPU per operation, all three", "create-3-servers", cpu, "µs", nil},
		{"3 servers, leader killed: writes stop for", "leader-killed", "longest_gap_ms", "ms", nil},
		{"3 servers, leader frozen: writes stop for", "leader-frozen", "longest_gap_ms", "ms", nil},
		{"create 1 M znodes, 100 B data, 25 B path: per second", "load-1m", perSec, "", []bound{atLeast(3, apache)}},
		{"resident memory then", "load-1m", "server_rss_mib", "MB", own(260)},
		{"restart on them: until the first read", "load-1m", "restart_s", "s", own(.6)},
		{"empty server: resident memory", "empty", "server_rss_mib", "MB", own(30)},
		{"empty server: start until the first read", "empty", "start_s", "s", own(.1)},
		{"empty server: CPU, of one core", "empty", "idle_cpu_percent", "%", own(.5)},
		{"set p99 while a snapshot of 1 M znodes is taken, against without", "snapshot-1m", "p99_ratio", "", own(1.3)},
		{"that p99 during a snapshot, at 20 000 sets/s", "snapshot-1m", "p99_ms_with", "ms", nil},
		{"10 M znodes: p99.9 of get under half load", "flat-znodes-10m", "p999_ms", "ms", own(5)},
		{"that, against 1 k znodes", "flat-znodes-10m", "half_p999_ms_growth", "", nil},
		{"10 M znodes: memory per znode, against up to 1 M", "flat-znodes-10m", "bytes_per_znode_growth", "", own(flatMost)},
		{"10 k sessions with 10 watches each reconnect: all back", "storm-10k", "all_back_ms", "ms", own(3000)},
		{"of which expired", "storm-10k", "expired", "", own(0)},
		{"1 k to 10 M znodes: CPU per get, largest against first", "flat-znodes-10m", "get_cpu_us_growth", "", own(flatMost)},
		{"1 k to 10 M znodes: CPU per set, largest against first", "flat-znodes-10m", "set_cpu_us_growth", "", own(flatMost)},
		{"1 k to 10 M znodes: p50 of get 1 × 1, largest against first",
			"flat-znodes-10m", "get_p50_ms_growth", "", own(flatMost)},
		{"1 to 5000 connections: CPU per get, largest against first", "flat-conns-5k", "cpu_us_growth", "", own(flatMost)},
		{"1 to 5000 connections: p50 of get, largest against first", "flat-conns-5k", "p50_ms_growth", "", own(flatMost)},
		{"500 to 10 000 watchers: CPU per event, largest against first",
			"flat-watchers-10k", "cpu_us_per_event_growth", "", own(flatMost)},
		{"500 to 10 000 watchers: time per watcher, largest against first",
			"flat-watchers-10k", "p50_us_per_watcher_growth", "", own(flatMost)},
	}
}

// unitText returns the text after the figure.
func (g *goal) unitText() string {
	if g.unit == "" {
		return ""
	}
	return " " + g.unit
}

// spread summarizes the rounds in the goal's unit.
func (g *goal) spread(values []float64) spread {
	if g.unit == "MB" {
		values = slices.Clone(values)
		for i := range values {
			values[i] *= megabyte
		}
	}
	return newSpread(values)
}

// asked returns the bounds in words.
func (g *goal) asked() string {
	var parts []string
	for _, b := range g.bounds {
		sign := "≤"
		if b.least {
			sign = "≥"
		}
		if b.to == "" {
			parts = append(parts, fmt.Sprintf("%s %g%s", sign, b.limit, g.unitText()))
		} else {
			parts = append(parts, fmt.Sprintf("%s %g × %s", sign, b.limit, b.to))
		}
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// verdict compares the medians with the bounds. It returns yes, no, not measured, or a dash if there are no bounds.
func (g *goal) verdict(names []string, o *outcome) string {
	if len(g.bounds) == 0 {
		return "–"
	}
	verdict := "yes"
	for _, b := range g.bounds {
		s := g.spread(o.values(0, g.figure))
		if b.to != "" {
			s = spread{}
			if other := slices.Index(names, b.to); other > 0 {
				s = newSpread(o.ratios(0, other, g.figure))
			}
		}
		switch {
		case s.rounds == 0 && verdict == "yes":
			verdict = "not measured"
		case s.rounds > 0 && (b.least && s.median < b.limit || !b.least && s.median > b.limit):
			verdict = "**no**"
		}
	}
	return verdict
}
