package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tool/bench/machine"
)

// TestGoalsAreMeasured: every goal names a profile and one of its figures, and
// every profile has a goal.
func TestGoalsAreMeasured(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	for _, g := range goals() {
		found := false
		for _, p := range profiles() {
			if p.name != g.profile {
				continue
			}
			found, asked[p.name] = true, true
			if !slices.Contains(p.figures, g.figure) {
				t.Errorf("%s: %s isn't a figure of %s", g.work, g.figure, p.name)
			}
			for _, b := range g.bounds {
				if b.to == floorName && p.noFloor || b.to != "" && p.alone {
					t.Errorf("%s: %s has no part in %s", g.work, b.to, p.name)
				}
			}
		}
		if !found {
			t.Errorf("%s: no profile %s", g.work, g.profile)
		}
	}
	for _, p := range profiles() {
		if !asked[p.name] {
			t.Errorf("nothing is asked of %s", p.name)
		}
	}
}

// comparisonFile writes what a comparison would print.
func comparisonFile(t *testing.T, h heading, results ...result) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(h); err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if err := results[i].writeJSON(&b); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sampleComparisons are two files: the second has newer figures of one profile.
func sampleComparisons(t *testing.T) []string {
	m := machine.Facts{Cores: 2, Disk: "on disk", Go: "go1.26", Commit: "abc"}
	servers := []headingServer{{"zooid", "zooid server {config}"}, {"apache", "java {config}"}, {"floor", ""}}
	var first []result
	for round, f := range []float64{1, 2, 1.5} {
		add := func(profile, server string, r result) {
			r.Profile, r.Server, r.Round, r.Scenario = profile, server, round+1, strings.SplitN(profile, "-", 2)[0]
			first = append(first, r)
		}
		add("get-16x16", "zooid", result{PerSec: 9e5 * f, ServerCPU: 1.1, Others: 3 * f})
		add("get-16x16", "apache", result{PerSec: 1e5 * f, ServerCPU: 12})
		add("get-16x16", "floor", result{PerSec: 2e6 * f, ServerCPU: .5})
		add("get-1x1", "zooid", result{P50: .04})
		add("get-1x1", "apache", result{P50: .2})
		add("get-1x1", "floor", result{Failed: "start server floor: it ended"})
	}
	first = append(first,
		result{
			Scenario: "restart", Profile: "load-1m", Server: "zooid", Round: 1, PerSec: 1000, ServerRSS: 240,
			Extra: map[string]float64{"restart_s": .7},
		},
		result{Scenario: "restart", Profile: "load-1m", Server: "apache", Round: 1, PerSec: 1, ServerRSS: 2000},
		result{
			Scenario: "storm", Profile: "storm-10k", Server: "zooid", Round: 1, Errors: map[string]int64{"Session expired": 3},
			Extra: map[string]float64{"expired": 0},
		},
		result{
			Scenario: "failover", Profile: "leader-killed", Server: "zooid", Round: 1, Errors: map[string]int64{"connect": 3},
			Extra: map[string]float64{"longest_gap_ms": 70},
		},
		result{
			Scenario: "flat-conns", Profile: "flat-conns-5k", Server: "zooid", Round: 1, Extra: map[string]float64{
				"p50_ms_at_1": .02, "p50_ms_at_10": .03, "p50_ms_at_5000": .0234, "p50_ms_growth": 1.5,
			},
		},
		result{
			Scenario: "restart", Profile: "load-1m", Server: "floor", Round: 1, Failed: leftOutMark + "the floor has none",
		})
	later := m
	later.Commit = "def"
	return []string{
		comparisonFile(t,
			heading{Machine: m, Measured: "2026-01-02", Rounds: 3, Servers: servers, Warms: []string{"1s", "5s"}}, first...),
		comparisonFile(t, heading{Machine: later, Measured: "2026-01-03", Rounds: 1, Quick: true, Servers: servers},
			result{
				Scenario: "restart", Profile: "load-1m", Server: "zooid", Round: 1, PerSec: 4, ServerRSS: 250,
				Extra: map[string]float64{"restart_s": .5},
			},
			result{
				Scenario: "restart", Profile: "load-1m", Server: "apache", Round: 1, PerSec: 1, ServerRSS: 2100,
				Extra: map[string]float64{"restart_s": 5},
			}),
	}
}

// TestPage compares a page with a transcript; goals nobody measured are cut.
func TestPage(t *testing.T) {
	t.Parallel()
	var out, diag bytes.Buffer
	if code := Main(append([]string{"page"}, sampleComparisons(t)...), &out, &diag); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &diag)
	}
	var kept []byte
	for line := range bytes.Lines(out.Bytes()) {
		if !bytes.Contains(line, []byte("| – | – | – | – | – |")) {
			kept = append(kept, line...)
		}
	}
	transcript(t, "testdata/page.txt", kept)
}

func TestPageRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	head := `{"machine":{"cores":2,"go":"x"},"rounds":1}` + "\n"
	for text, want := range map[string]string{
		"": "it is empty", "{}\n": "doesn't describe a comparison", "# Text\n": "doesn't describe a comparison",
		head + "x\n": "line 2: invalid character",
		head + `{"profile":"a","round":0}` + "\n": "line 2: round 0: must be from 1",
	} {
		file := filepath.Join(dir, "results.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, diag bytes.Buffer
		if code := Main([]string{"page", file}, &out, &diag); code != exitFailed || !strings.Contains(diag.String(), want) {
			t.Errorf("%q: exit code %d, %s, want %s", text, code, &diag, want)
		}
	}
}
