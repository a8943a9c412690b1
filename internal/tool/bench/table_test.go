package bench

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/zooid-project/zooid/internal/tool/bench/machine"
	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

var rewrite = flag.Bool("rewrite", false, "write transcripts anew")

// transcript compares got with a file, or writes it with -rewrite.
func transcript(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -run %s -rewrite writes it anew); got\n%s", file, t.Name(), got)
	}
}

// sampleResults have every shape of a row.
func sampleResults() []result {
	return []result{
		{Scenario: "get", Conns: 16, Depth: 16, Ops: 1000000, Seconds: 10, PerSec: 100000.4, P50: 0.171, P90: 2.5, P99: 12.34,
			P999: 123.4, Max: 1234.5, ServerCPU: 14.25, ServerRSS: 317.2, ClientCPU: .57},
		{Scenario: "set", Conns: 4, Rate: 20000, Ops: 9, Seconds: 1, PerSec: 19999, P50: 1,
			Errors: map[string]int64{"NoNode": 3, "BadVersion": 1}, Extra: map[string]float64{"sent_late_p99_ms": .25}},
		{Scenario: "sessions", Conns: 5000, Ops: 5000, Seconds: 2, PerSec: 2500,
			Extra: map[string]float64{"kib_per_session": 17.2, "pings": 12345}},
		{Scenario: "ready", Seconds: 1.234},
	}
}

func TestResultTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for _, o := range []options{{color: "never"}, {color: "always"}, {markdown: true}} {
		if err := o.print(&b, sampleResults()); err != nil {
			t.Fatal(err)
		}
		b.WriteString("----\n")
	}
	for _, r := range sampleResults() {
		if err := r.writeJSON(&b); err != nil {
			t.Fatal(err)
		}
	}
	transcript(t, "testdata/results.txt", b.Bytes())
}

func TestComparisonReport(t *testing.T) {
	t.Parallel()
	round := func(perSec, cpu, p50, p99 float64) result {
		return result{PerSec: perSec, ServerCPU: cpu, P50: p50, P99: p99}
	}
	picked, err := pickProfiles([]string{"get-16x16", "load-1m"})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []outcome{
		{picked[0], [][]result{
			{round(900e3, 1.1, .2, 1), round(950e3, 1, .25, 1.5), round(1e6, .9, .2, 2)},
			{round(100e3, 14, 2, 10), round(90e3, 15, 2.5, 30),
				{Server: "apache", Round: 3, Failed: "start server apache: it ended"}},
			{round(1.3e6, .6, .1, .5), round(1.4e6, .6, .1, .5), round(1.3e6, .6, .1, .5)},
		}},
		{picked[1], [][]result{
			{{PerSec: 5e5, ServerRSS: 200}, {PerSec: 4e5, ServerRSS: 210},
				{Server: "zooid", Round: 3, Ops: 5, Errors: map[string]int64{"NoNode": 2}, PerSec: 3e5, ServerRSS: 220}},
			{{PerSec: 39e3, ServerRSS: 2100}, {PerSec: 40e3, ServerRSS: 2000}, {PerSec: 45e3, ServerRSS: 2200}},
			{{Server: "floor", Round: 1, Failed: leftOutMark + "the floor has none"}},
		}},
	}
	c := &comparison{
		rounds: 3, servers: []servers.Spec{
			{Name: "zooid", Command: "zooid server {port} {dir}"}, {Name: "apache", Addrs: []string{"h:1"}},
			{Name: "floor", Command: "x", Floor: true},
		},
	}
	m := machine.Facts{
		Cores: 2, Processor: "Some CPU", MemoryMiB: 24105, Kernel: "linux 6.1", Disk: "on disk (type 0xef53)", Go: "go1.26",
		Java: "openjdk 17", Commit: "0123456789ab",
	}
	var b bytes.Buffer
	for _, markdown := range []bool{true, false} {
		c.markdown, c.quick, c.options.color = markdown, !markdown, "never"
		if err := c.report(&b, m, outcomes); err != nil {
			t.Fatal(err)
		}
		b.WriteString("----\n")
	}
	transcript(t, "testdata/comparison.txt", b.Bytes())
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 5: "5", .1234: "0.123", 1.005: "1.00", 9.996: "10.00", 12.34: "12.3", 123.4: "123", 999.6: "1000",
		1000: "1 000", 1234567.8: "1 234 568", -1234: "-1 234",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{
		0: "0", 999: "999", 1000: "1.0k", 9940: "9.9k", 9960: "10k", 999600: "1.0M", 12.3e6: "12M",
	} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
}
