package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	flagFrom    = flag.Uint64("sim.from", 1, "the first seed")
	flagSeeds   = flag.Int("sim.seeds", 200, "how many seeds to run")
	flagSeconds = flag.Int("sim.seconds", 60, "simulated seconds of faults in each seed")
	flagBudget  = flag.Duration("sim.budget", 25*time.Minute, "real time after which no seed is begun; a run that doesn't get through its seeds fails")
	flagHours   = flag.Float64("sim.hours", 0, "a run of fewer simulated hours fails")
	flagChanges = flag.Int("sim.changes", 0, "a run with fewer changes of membership that were answered fails")
	flagWorkers = flag.Int("sim.workers", 2, "processes")
	flagWorker  = flag.Int("sim.worker", -1, "number of this process among the workers")
	flagShrink  = flag.Duration("sim.shrink", 20*time.Second, "how long to look for a smaller plan that fails")
	flagKeep    = flag.Bool("sim.keep", os.Getenv("CI") == "", "add what fails to "+corpus)
	flagLog     = flag.Bool("sim.log", false, "run the first seed alone, in this process, with the servers' logs")
	flagPlan    = flag.String("sim.plan", "", "a file with a plan to run again")
	flagProfile = flag.String("sim.profile", "", "the profile of all seeds; else each chooses its own")
	flagVerbose = flag.Bool("sim.v", false, "a line for each seed")
)

const (
	corpus = "testdata/corpus.txt"
	// replayEvery is how many seeds run once for each that runs twice.
	replayEvery = 20
	// hangTime is how long one World may take, hangTimes as often where others take the processors.
	hangTime  = 2 * time.Minute
	hangTimes = 15
)

// A report is what a worker tells of one seed.
type report struct {
	Seed      uint64
	Profile   string
	Servers   int
	Steps     int
	Simulated int64
	Hash      uint64
	Replayed  bool
	Took      time.Duration // of the processor
	Stats     Stats
	Failure   []string
	Smallest  *Plan // of a failure
}

// TestSeeds runs seeds in processes of their own, as Run wants.
func TestSeeds(t *testing.T) {
	if *flagWorker >= 0 || *flagPlan != "" || *flagLog {
		t.Skip("this process is a worker")
	}
	if testing.Short() {
		t.Skip("in a run that isn't short: a simulated ensemble has one goroutine, in which the race detector finds nothing")
	}
	began := time.Now()
	reports := make(chan report)
	var wg sync.WaitGroup
	for n := range *flagWorkers {
		wg.Go(func() {
			if err := work(n, reports); err != nil {
				t.Errorf("worker %d: %v", n, err)
			}
		})
	}
	go func() { wg.Wait(); close(reports) }()
	s := sum{began: began, stats: Stats{Faults: map[Kind]int{}}, named: map[string]int{}}
	progress := began
	for r := range reports {
		s.add(&r)
		if *flagVerbose {
			t.Logf("seed %d: %s, %d servers, %d faults, %d steps, hash %016x, %.0f s in %.2f s, %+v", r.Seed, r.Profile,
				r.Servers, count(r.Stats.Faults), r.Steps, r.Hash, float64(r.Simulated)/1e9, r.Took.Seconds(), r.Stats)
		}
		if len(r.Failure) > 0 {
			s.failed++
			t.Errorf("%s", explain(&r))
			if *flagKeep {
				keep(t, &r)
			}
		}
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			fmt.Println(s.line())
		}
	}
	fmt.Println(s.line())
	fmt.Println(s.details())
	if s.seeds < *flagSeeds && s.failed == 0 {
		t.Errorf("only %d of %d seeds were run in %v: this run shows too little", s.seeds, *flagSeeds, *flagBudget)
	}
	if hours := float64(s.simulated) / 3600e9; hours < *flagHours {
		t.Errorf("only %.1f hours were simulated, not %.1f: this run shows too little", hours, *flagHours)
	}
	if s.stats.Changes < *flagChanges {
		t.Errorf("only %d changes of membership were answered, not %d: this run shows too little", s.stats.Changes,
			*flagChanges)
	}
	if *flagSeeds >= 50 && *flagProfile == "" { // the corpus doesn't count: its plans are small
		s.enough(t)
	}
	if *flagProfile == begins && *flagSeeds >= 50 {
		s.begins(t)
	}
	if *flagProfile == "paced" && s.stats.Paced == 0 {
		t.Error("no client was faster than its limits")
	}
	if *flagProfile == quotas && *flagSeeds >= 20 && (s.stats.QuotaCreates == 0 || s.stats.QuotaRefusals == 0 ||
		s.stats.Restored == 0) {
		t.Error("no quota was used, or exceeded, or no snapshot was restored")
	}
	if *flagProfile == hanging && *flagSeeds >= 50 && (s.stats.Outdated == 0 || s.stats.GivenUp == 0) {
		t.Error("no disk hung for long enough")
	}
	if *flagProfile == panics && *flagSeeds >= 50 && (s.stats.Panics == 0 || s.stats.Skipped == 0 ||
		s.stats.Faults[Wipe] == 0) {
		t.Error("no server panicked, or skipped an entry, or no disk was lost")
	}
	if st := &s.stats; *flagProfile == recovering && *flagSeeds >= 50 &&
		(st.Recovered == 0 || st.Unrecovered == 0 || st.Former == 0 || st.Strangers == 0) {
		t.Error("no majority was lost, or no survivor had everything, or all had, or no former server came back")
	}
	if *flagProfile == narrow && *flagSeeds >= 50 {
		s.links(t, true)
	}
	if *flagProfile == standing && *flagSeeds >= 50 && (s.stats.LongApplies == 0 || s.stats.LongLoads == 0) {
		t.Error("no server took long to apply, or to load a snapshot")
	}
}

// work runs one worker process and hands on what it reports.
func work(n int, reports chan<- report) error {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0", fmt.Sprint("-sim.worker=", n),
		fmt.Sprint("-sim.workers=", *flagWorkers),
		fmt.Sprint("-sim.from=", *flagFrom), fmt.Sprint("-sim.seeds=", *flagSeeds), fmt.Sprint("-sim.seconds=", *flagSeconds),
		fmt.Sprint("-sim.budget=", *flagBudget), fmt.Sprint("-sim.shrink=", *flagShrink), fmt.Sprint("-sim.profile=",
			*flagProfile))
	if dir := os.Getenv("GOCOVERDIR"); dir != "" && testing.CoverMode() != "" {
		cmd.Args = append(cmd.Args, "-test.gocoverdir="+dir) // test/cover.sh
	}
	// A collection less often costs 150 MiB and saves an eighth of the time; GOGC overrides it.
	cmd.Env = slices.Concat([]string{"GOGC=800"}, os.Environ(), []string{"GOMAXPROCS=1"})
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	var other strings.Builder
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var r report
		if rest, ok := bytes.CutPrefix(line, []byte("report ")); ok && json.Unmarshal(rest, &r) == nil {
			reports <- r
		} else {
			other.Write(line)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, other.String(), stderr.String())
	}
	return nil
}

// TestWorker is one worker process: its share of the seeds, and of the corpus.
func TestWorker(t *testing.T) {
	if *flagWorker < 0 {
		t.Skip("only as a worker of TestSeeds")
	}
	end := time.Now().Add(*flagBudget)
	var plans []Plan
	if *flagProfile == "" {
		plans = corpusPlans(t)
	}
	for i := range *flagSeeds {
		plans = append(plans, NewPlanOf(*flagProfile, *flagFrom+uint64(i), *flagSeconds))
	}
	for i, p := range plans {
		if i%*flagWorkers != *flagWorker {
			continue
		}
		if time.Now().After(end) {
			break
		}
		b, err := json.Marshal(runPlan(p, i%replayEvery < *flagWorkers))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("report %s\n", b)
	}
}

// runPlan runs a plan, twice if it is to be replayed, and shrinks it if it fails.
func runPlan(p Plan, replay bool) report {
	began, done := processorTime(), make(chan struct{})
	go watch(p.Seed, began, done)
	r := Run(p)
	took := processorTime() - began
	close(done)
	rep := report{
		Seed: p.Seed, Profile: p.Profile, Servers: p.Servers, Steps: r.Steps, Simulated: r.Simulated, Hash: r.Hash,
		Took: took, Stats: r.Stats, Failure: r.Failure, Replayed: replay,
	}
	if replay {
		if again := Run(p); again.Hash != r.Hash || again.Steps != r.Steps {
			rep.Failure = append(rep.Failure,
				fmt.Sprintf("the same seed ran two courses: %d steps and hash %016x, then %d and %016x", r.Steps, r.Hash,
					again.Steps, again.Hash))
			return rep
		}
	}
	if !r.OK() && *flagShrink > 0 {
		small := Shrink(p, *flagShrink)
		rep.Smallest = &small.Plan
		rep.Failure = append(rep.Failure[:1:1], small.Failure...)
	}
	return rep
}

// processorTime is what this process has used of it: the machine may be busy
// with others.
// watch panics when a World, which began at that processor time, takes too long.
func watch(seed uint64, began time.Duration, done <-chan struct{}) {
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(hangTime):
		}
		if n == hangTimes || processorTime()-began > hangTime/2 {
			panic(fmt.Sprintf("seed %d hangs", seed))
		}
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestPlan runs the plan in the file given by -sim.plan, or of the first seed.
func TestPlan(t *testing.T) {
	p := NewPlanOf(*flagProfile, *flagFrom, *flagSeconds)
	switch {
	case *flagPlan != "":
		b, err := os.ReadFile(*flagPlan)
		if err != nil {
			t.Fatal(err)
		}
		p = Plan{}
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
	case !*flagLog:
		t.Skip("give -sim.plan or -sim.log")
	}
	var log io.Writer
	if *flagLog {
		log = os.Stdout
	}
	r := RunLogged(p, log)
	for _, f := range p.Faults {
		t.Logf("%9.3f s %+v", float64(f.At)/1e9, f)
	}
	t.Logf("%d steps, hash %016x, %+v", r.Steps, r.Hash, r.Stats)
	for _, f := range r.Failure {
		t.Error(f)
	}
}

// corpusPlans returns the plans that once found something, a line each.
func corpusPlans(t *testing.T) []Plan {
	b, err := os.ReadFile(corpus)
	if err != nil {
		t.Fatal(err)
	}
	var plans []Plan
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if line == "" {
			continue
		}
		var p Plan
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%s: %q: %v", corpus, line, err)
		}
		plans = append(plans, p)
	}
	return plans
}

// keep adds a plan that fails to the corpus.
func keep(t *testing.T, r *report) {
	p := r.Smallest
	if p == nil {
		whole := NewPlanOf(*flagProfile, r.Seed, *flagSeconds)
		p = &whole
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(corpus)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(old, b) {
		return // it came from there
	}
	why, _, _ := strings.Cut(r.Failure[0], "\n")
	if err := os.WriteFile(corpus, fmt.Appendf(old, "%s  # %s\n", b, strings.ReplaceAll(why, "#", "")),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("kept in %s, which every run begins with", corpus)
}

// explain says what failed and how to see it again.
func explain(r *report) string {
	var b strings.Builder
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output()
	fmt.Fprintf(&b, "seed %d of %d seconds, commit %s", r.Seed, *flagSeconds, bytes.TrimSpace(commit))
	fmt.Fprintf(&b, "  again: go test ./internal/proof/sim -sim.from %d -sim.seeds 1 -sim.seconds %d\n", r.Seed,
		*flagSeconds)
	for _, f := range r.Failure {
		if len(f) > 4000 {
			f = f[:4000] + " ..."
		}
		fmt.Fprintf(&b, "  %s\n", f)
	}
	if r.Smallest != nil {
		plan, _ := json.Marshal(r.Smallest)
		fmt.Fprintf(&b, "  smallest plan found, %d faults; a line for %s:\n  %s\n", len(r.Smallest.Faults), corpus, plan)
	}
	return b.String()
}

// sum adds up what was done.
type sum struct {
	began     time.Time
	seeds     int
	failed    int
	replayed  int
	steps     int
	simulated int64
	took      time.Duration
	stats     Stats
	profiles  [8]int         // by number of servers
	named     map[string]int // by profile
}

func (s *sum) add(r *report) {
	s.seeds++
	s.steps += r.Steps
	s.simulated += r.Simulated
	s.took += r.Took
	if r.Replayed {
		s.replayed++
	}
	s.profiles[r.Servers]++
	s.named[r.Profile]++
	a, b := &s.stats, &r.Stats
	for kind, n := range b.Faults {
		a.Faults[kind] += n
	}
	for _, f := range []struct{ to, from *int }{
		{&a.Frames, &b.Frames}, {&a.Connects, &b.Connects}, {&a.Requests, &b.Requests}, {&a.Replies, &b.Replies},
		{&a.Events, &b.Events},
		{&a.Expired, &b.Expired}, {&a.Entries, &b.Entries}, {&a.Syncs, &b.Syncs}, {&a.Elections, &b.Elections},
		{&a.SnapshotsWritten, &b.SnapshotsWritten}, {&a.SnapshotsSent, &b.SnapshotsSent}, {&a.Installs, &b.Installs},
		{&a.FailStops, &b.FailStops}, {&a.Refused, &b.Refused}, {&a.Forgot, &b.Forgot}, {&a.Restored, &b.Restored},
		{&a.Audits, &b.Audits}, {&a.Checked, &b.Checked}, {&a.Undecided, &b.Undecided},
		{&a.Doubled, &b.Doubled}, {&a.Throttled, &b.Throttled}, {&a.Untold, &b.Untold}, {&a.Paced, &b.Paced},
		{&a.Outdated, &b.Outdated}, {&a.Ruleless, &b.Ruleless}, {&a.Panics, &b.Panics}, {&a.Skipped, &b.Skipped},
		{&a.Reaped, &b.Reaped}, {&a.Emptied, &b.Emptied}, {&a.ReadOnly, &b.ReadOnly}, {&a.Joins, &b.Joins},
		{&a.Reconfigs, &b.Reconfigs}, {&a.Absent, &b.Absent}, {&a.Promotions, &b.Promotions}, {&a.Guests, &b.Guests},
		{&a.Staged, &b.Staged}, {&a.Changes, &b.Changes}, {&a.Dropped, &b.Dropped}, {&a.Majorities, &b.Majorities},
		{&a.Entered, &b.Entered}, {&a.Unknown, &b.Unknown}, {&a.Faded, &b.Faded}, {&a.Confined, &b.Confined},
		{&a.Upgraded, &b.Upgraded}, {&a.Healed, &b.Healed}, {&a.Duplicates, &b.Duplicates}, {&a.Gaps, &b.Gaps},
		{&a.Moved, &b.Moved}, {&a.Foundings, &b.Foundings}, {&a.WithData, &b.WithData}, {&a.Waits, &b.Waits},
		{&a.Strangers, &b.Strangers}, {&a.Overtaken, &b.Overtaken},
		{&a.Hangups, &b.Hangups}, {&a.QuotaCreates, &b.QuotaCreates}, {&a.QuotaRefusals, &b.QuotaRefusals},
		{&a.Resumed, &b.Resumed}, {&a.Broken, &b.Broken}, {&a.Outlived, &b.Outlived}, {&a.Deposed, &b.Deposed},
		{&a.Superseded, &b.Superseded}, {&a.Overfull, &b.Overfull}, {&a.Unwritten, &b.Unwritten}, {&a.Torn, &b.Torn},
		{&a.LongApplies, &b.LongApplies}, {&a.LongLoads, &b.LongLoads}, {&a.GivenUp, &b.GivenUp},
		{&a.Recovered, &b.Recovered}, {&a.Unrecovered, &b.Unrecovered}, {&a.Former, &b.Former},
	} {
		*f.to += *f.from
	}
}

func count(faults map[Kind]int) (n int) {
	for _, v := range faults {
		n += v
	}
	return n
}

func (s *sum) line() string {
	real := time.Since(s.began).Seconds()
	return fmt.Sprintf("%4.0f s: %d seeds (%.1f/s), %.1f simulated hours, %.0fx per processor, %d faults, %d replies and events checked, %d replayed, %d failed",
		real, s.seeds, float64(s.seeds)/real, float64(s.simulated)/3600e9, float64(s.simulated)/float64(max(s.took, 1)),
		count(s.stats.Faults), s.stats.Checked, s.replayed, s.failed)
}

func (s *sum) details() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ensembles of 1, 3, 5, 7: %d, %d, %d, %d; %d steps\nfaults:", s.profiles[1], s.profiles[3],
		s.profiles[5], s.profiles[7], s.steps)
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s %d", k.kind, s.stats.Faults[k.kind])
	}
	for _, k := range beginningKinds {
		if n := s.stats.Faults[k]; n > 0 {
			fmt.Fprintf(&b, " %s %d", k, n)
		}
	}
	fmt.Fprintf(&b, " %s %d %s %d", HungDisk, s.stats.Faults[HungDisk], LongApply, s.stats.Faults[LongApply])
	st := s.stats
	st.Faults = nil
	fmt.Fprintf(&b, "\n%+v", st)
	return b.String()
}

// begins fails a run of the profile beginnings in which something never happened.
func (s *sum) begins(t *testing.T) {
	for _, k := range beginningKinds {
		if s.stats.Faults[k] == 0 {
			t.Errorf("there was no fault %q in %d seeds", k, s.seeds)
		}
	}
	st := &s.stats
	for _, n := range []int{st.Foundings - st.WithData, st.WithData, st.Waits, st.Strangers, st.Joins, st.Entries} {
		if n <= 0 {
			t.Errorf("in %d seeds servers didn't begin in all ways: %+v", s.seeds, *st)
		}
	}
}

// links fails a run in which something never happened to the connections between servers; all says that the rarest
// things must have happened, too.
func (s *sum) links(t *testing.T, all bool) {
	st := &s.stats
	for _, what := range []struct {
		name string
		n    int
		rare bool
	}{
		{"transfer of a snapshot broke off", st.Broken, false}, {"transfer of a snapshot went on", st.Resumed, true},
		{"snapshot was removed while it was sent", st.Outlived, false},
		{"sender of a snapshot was deposed", st.Deposed, true}, {"connection was superseded", st.Superseded, false},
		{"send queue was full", st.Overfull, false}, {"write took too long", st.Unwritten, false},
		{"connection ended within what was sent", st.Torn, false},
	} {
		if what.n == 0 && (all || !what.rare) {
			t.Errorf("no %s in %d seeds", what.name, s.seeds)
		}
	}
}

// namedSeeds is how many seeds there must be for each profile that has a share to come.
const namedSeeds = 400

// enough fails a run in which something never happened: it would prove nothing of
// it.
func (s *sum) enough(t *testing.T) {
	for _, k := range kinds {
		if s.stats.Faults[k.kind] == 0 {
			t.Errorf("there was no fault %q in %d seeds", k.kind, s.seeds)
		}
	}
	for _, f := range profiles {
		if f.share > 0 && s.named[f.name] == 0 && s.seeds >= namedSeeds {
			t.Errorf("there was no seed of the profile %q among %d", f.name, s.seeds)
		}
	}
	if density := float64(count(s.stats.Faults)) / (float64(s.simulated) / 1e9); density < 0.1 {
		t.Errorf("%.3f faults a simulated second, fewer than one in ten", density)
	}
	if s.seeds >= namedSeeds {
		s.links(t, false)
	}
	st := &s.stats
	marks := map[string]int{
		"expired sessions": st.Expired, "elections": st.Elections - s.seeds, "snapshots written": st.SnapshotsWritten,
		"snapshots installed": st.Installs, "events": st.Events, "fail-stops": st.FailStops, "starts refused": st.Refused,
		"joins with an empty disk": st.Joins, "changes of membership": st.Reconfigs - s.seeds, "changes answered": st.Changes,
		"changes given up": st.Dropped, "new voters": st.Promotions, "votes for servers that don't run": st.Absent,
		"writes refused for lack of room": st.Throttled,
		"read-only replies":               st.ReadOnly, "messages doubled": st.Doubled,
		"requests that came again":      st.Duplicates,
		"requests of a connection left": st.Moved,
		"TTL znodes removed":            st.Reaped, "containers removed": st.Emptied,
		"local sessions that wrote": st.Entered, "local sessions refused elsewhere": st.Unknown,
		"ephemerals refused": st.Confined, "sessions upgraded": st.Upgraded,
		"restored snapshots": st.Restored, "servers that follow and aren't members": st.Guests,
		"connections that left nothing": st.Hangups,
		"hung disks":                    st.Faults[HungDisk], "long applies": st.LongApplies,
		"snapshots that load for long":             st.LongLoads,
		"requests to servers that may be outdated": st.Outdated,
		"new programs": st.Faults[Program], "stops for a rule": st.Ruleless,
		"upgrades": st.Faults[Upgrade], "diverged replicas healed": st.Healed, "replayed seeds": s.replayed,
		"ensembles of 1": s.profiles[1], "ensembles of 3": s.profiles[3], "ensembles of 5": s.profiles[5],
		"ensembles of 7": s.profiles[7],
	}
	names := make([]string, 0, len(marks))
	for name := range marks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if marks[name] <= 0 {
			t.Errorf("no %s in %d seeds", name, s.seeds)
		}
	}
	if perSecond := float64(st.Checked) / (float64(s.simulated) / 1e9); perSecond < 5 {
		t.Errorf("only %.1f replies and events a simulated second were checked", perSecond)
	}
}
