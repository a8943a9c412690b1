package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

// TestMain lets the test binary stand in for zooid: comparisons start the floor
// as "zooid bench floor".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		os.Exit(Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestHelp compares what -h prints with transcripts.
func TestHelp(t *testing.T) {
	t.Parallel()
	for file, args := range map[string]string{
		"help": "-h", "help_children": "children -h", "help_workload": "workload -h", "help_compare": "compare -h",
		"help_floor": "floor -h", "help_page": "page -h",
	} {
		var out, diag bytes.Buffer
		if code := Main(strings.Fields(args), &out, &diag); code != exitOK || diag.Len() > 0 {
			t.Errorf("%s: exit code %d, %s", args, code, &diag)
		}
		transcript(t, "testdata/"+file+".txt", out.Bytes())
	}
}

func TestHelpNamesEveryScenario(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printHelp(&out)
	for _, s := range scenarios() {
		if !strings.Contains(out.String(), "\n  "+s.name+" ") {
			t.Errorf("%s is missing", s.name)
		}
		if _, _, err := parseOptions(s.name, s.defaults...); err != nil {
			t.Errorf("%s: its defaults: %v", s.name, err)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"", "which scenario?"},
		{"-conns 3", "which scenario?"},
		{"got", `no scenario "got"; there are: get set mixed`},
		{"get -conns 0", "-conns 0: must be from 1 to"},
		{"get -conns x", `invalid value "x" for flag -conns`},
		{"get -speed 3", "flag provided but not defined: -speed"},
		{"get -root bench", "-root bench: must begin with a slash"},
		{"get -root /bench/", "-root /bench/: must begin with a slash and not end in one"},
		{"get -time 0s", "-time must be above 0"},
		{"get -timeout 48h", "-timeout 48h0m0s: must be from"},
		{"get -color green", "-color green: must be auto, always or never"},
		{"failover -signal HUP", "-signal HUP: must be KILL, TERM or STOP"},
		{"get -pid 0", `"0" is not a process id`},
		{"workload", "which keeper-bench file?"},
		{"floor here", `floor takes no argument "here"`},
		{"compare", "compare needs two servers at least"},
		{"compare -a h:1 -b java", `server b: "java" is neither HOST:PORT[@PID] nor a command with {port} or {config} in it`},
		{"compare -a h:1 -b h:2 -rounds 0", "-rounds 0: must be from 1"},
		{"compare -a h:1 -b h:2 -profiles fast", `no profile "fast"`},
		{"compare -a h:1 -b h:2 -names x,y,z", "-names has 3 names for 2 servers"},
		{"compare -a h:1 -b h:2 -warms 1s,1s,1s", "-warms has 3 times for 2 servers"},
		{"page", "which files of compare -json?"},
		{"get -members 0", "-members 0: must be from 1"},
		{"compare h:1 h:2", `compare takes no argument "h:1"`},
	} {
		var out, diag bytes.Buffer
		code := Main(strings.Fields(tt.args), &out, &diag)
		if code != exitUsage || !strings.Contains(diag.String(), tt.want) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, %s, want %s", tt.args, code, &diag, tt.want)
		}
	}
}

func TestFailuresHaveExitCode1(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"get -servers 127.0.0.1:1", "zooid bench: connect to 127.0.0.1:1: "},
		{"get -pid 999999999", "measure process 999999999: "},
		{"workload testdata/none.yaml", "read workload: open testdata/none.yaml"},
	} {
		var out, diag bytes.Buffer
		if code := Main(strings.Fields(tt.args), &out, &diag); code != exitFailed ||
			!strings.Contains(diag.String(), tt.want) {
			t.Errorf("%q: exit code %d, %s, want %s", tt.args, code, &diag, tt.want)
		}
	}
}

// TestLaterFlagsWin: a scenario's defaults yield to what the user says, wherever
// the flags stand.
func TestLaterFlagsWin(t *testing.T) {
	t.Parallel()
	o, rest, err := parseOptions("x", "-conns", "3", "-depth", "2", "get", "-conns", "5", "set")
	if err != nil || o.conns != 5 || o.depth != 2 || strings.Join(rest, " ") != "get set" {
		t.Errorf("%d x %d, %v, %v", o.conns, o.depth, rest, err)
	}
}

func TestServerSpecs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		addrs   string
		pids    string
		command bool
	}{
		{"h:1", "h:1", "", false},
		{"10.0.0.1:2181@5,6", "10.0.0.1:2181", "5,6", false},
		{"a:1,b:2,c:3@7", "a:1 b:2 c:3", "7", false},
		{"zooid server {port} {dir} 2000 0", "", "", true},
		{"sh start.sh h:{port}", "", "", true},
	} {
		s, err := parseSpec("a", tt.text)
		if err != nil || strings.Join(s.Addrs, " ") != tt.addrs || (*intList)(&s.Pids).String() != tt.pids ||
			(s.Command != "") != tt.command {
			t.Errorf("%s: %+v, %v", tt.text, s, err)
		}
	}
}

// TestEveryProfileParses holds the profiles against the flags and scenarios.
func TestEveryProfileParses(t *testing.T) {
	t.Parallel()
	for _, p := range profiles() {
		s, err := findScenario(p.scenario)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		for _, quick := range []bool{false, true} {
			if _, rest, err := parseOptions(p.name, p.flags(s, quick, nil)...); err != nil || len(rest) > 0 {
				t.Errorf("%s: %v %v", p.name, rest, err)
			}
		}
		if len(p.figures) == 0 {
			t.Errorf("%s shows nothing", p.name)
		}
	}
}

// TestCompare runs two rounds on a running server and a started one.
func TestCompare(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	args := []string{"compare", "-a", s.addr,
		"-floor", "-names", "fake", "-rounds", "2", "-quick", "-time", "30ms", "-warm", "10ms",
		"-profiles", "get-1x1,set-1x1,load-1m", "-dir", t.TempDir(), "-commit", "abc"}
	var out, diag bytes.Buffer
	if code := Main(append(args, "-markdown"), &out, &diag); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &diag)
	}
	for _, want := range []string{"- commit: abc\n", "| profile | figure | fake | floor | fake / floor |\n",
		"\n| get-1x1 | ops_per_s | ", "\n| set-1x1 | ops_per_s | ",
		"\n| load-1m | ops_per_s | – | – | – |\n", "\n- load-1m on fake, round 1: left out: needs a server started by a command\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRoundsTakeTurns: the server that runs first in a round runs last in the next one.
func TestRoundsTakeTurns(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	args := []string{"compare", "-a", s.addr, "-b", s.addr, "-names", "a,b",
		"-rounds", "3", "-time", "20ms", "-warm", "0s", "-profiles", "get-1x1", "-dir", t.TempDir(), "-json"}
	var out, diag bytes.Buffer
	if code := Main(args, &out, &diag); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &diag)
	}
	var order []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		order = append(order, fmt.Sprint(r.Round, r.Server))
	}
	if got := strings.Join(order, ","); got != "1a,1b,2b,2a,3a,3b" {
		t.Errorf("the trials ran in the order %s", got)
	}
}

func TestCompareGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	args := []string{"compare", "-a", s.addr, "-b", "echo broken {port}; exit 1",
		"-rounds", "1", "-time", "200ms", "-warm", "0s",
		"-profiles", "get-1x1,set-1x1", "-dir", t.TempDir(), "-json"}
	var out, diag bytes.Buffer
	if code := Main(args, &out, &diag); code != exitFailed || !strings.Contains(diag.String(), "some trials failed") {
		t.Errorf("exit code %d: %s", code, &diag)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+4 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, line := range lines[1:] {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if broken := i%2 == 1; broken != strings.Contains(r.Failed, "broken") || broken == (r.Ops > 0) {
			t.Errorf("line %d: %s", i, line)
		}
	}
}

// TestWarmUpsAreAServersOwn: a failover's warm-up is the time before the strike,
// which is the same for all.
func TestWarmUpsAreAServersOwn(t *testing.T) {
	t.Parallel()
	c, err := parseCompare(strings.Fields("-a h:1 -b h:2 -floor-command sleep -warms 1s,5s"))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.servers[2]; !s.Floor || !s.Foreign || s.Command != "sleep" {
		t.Errorf("floor %+v", s)
	}
	for _, tt := range []struct {
		profile string
		server  int
		want    string
	}{
		{"get-16x16", 0, "-warm 1s"}, {"get-16x16", 1, "-warm 5s"}, {"get-16x16", 2, ""}, {"leader-killed", 1, ""},
	} {
		picked, err := pickProfiles([]string{tt.profile})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.warmFlags(picked[0], tt.server), " "); got != tt.want {
			t.Errorf("%s on server %d: %q, want %q", tt.profile, tt.server, got, tt.want)
		}
	}
}

// TestPartsAreWhole: the parts together are all profiles.
func TestPartsAreWhole(t *testing.T) {
	t.Parallel()
	picked, err := pickProfiles(strings.Fields("throughput latency ensemble sessions big"))
	if err != nil || len(picked) != len(profiles()) {
		t.Errorf("%d of %d profiles, %v", len(picked), len(profiles()), err)
	}
}

func TestAloneProfilesCompareNoOtherServer(t *testing.T) {
	t.Parallel()
	running, started := servers.Spec{}, servers.Spec{Command: "x {config}"}
	p := profile{alone: true, process: true}
	if p.runsOn(started, true) != "" || p.runsOn(started, false) == "" || p.runsOn(running, true) == "" {
		t.Errorf("%q, %q, %q", p.runsOn(started, true), p.runsOn(started, false), p.runsOn(running, true))
	}
	floor := servers.Spec{Command: "x {port}", Floor: true}
	if p.runsOn(floor, false) != "" {
		t.Errorf("the floor: %q", p.runsOn(floor, false))
	}
	p.noFloor = true
	if p.runsOn(floor, false) == "" {
		t.Error("the floor runs what it can't")
	}
}
