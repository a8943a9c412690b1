package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	flagMutants     = flag.String("sim.mutants", "", "plant the bugs whose names match this expression, one by one, and see whether seeds find them")
	flagMutantSeeds = flag.Int("sim.mutantseeds", 100, "seeds for each planted bug")
	flagMutantLeast = flag.Int("sim.mutantleast", 95, "percent of the planted bugs that must be found")
	flagRewrite     = flag.Bool("sim.rewrite", false, "write the table of planted bugs to docs/mutants.md")
)

const (
	// mutantSeconds is how long the faults of a seed go on, in a search for a bug.
	mutantSeconds = 60
	// mutantsFrom is the first seed that looks for a bug.
	mutantsFrom = 100_000
	// mutantVariable names the bug that is planted, to the process it is planted in.
	mutantVariable = "ZOOID_PLANTED"
	mutantsTable   = "docs/mutants.md"
	// shrunkFaults is how many faults may be left of a failure.
	shrunkFaults = 10
)

// plantedText is what the new texts of mutants call.
const plantedText = `
import "os"

var plantedName = os.Getenv("` + mutantVariable + `")

func planted(name string) bool { return name == plantedName }

func unless(off bool, do func() error) error {
	if off {
		return nil
	}
	return do()
}

func chosen[T any](on bool, a, b T) T {
	if on {
		return a
	}
	return b
}

var _, _ = unless, chosen[int]
`

// shrunk are the bugs whose failures are shrunk each time, to show that this works.
var shrunk = []string{"ack before sync", "duplicate applied", "empty server begins a new ensemble"}

// A catch is what came of the search for one bug.
type catch struct {
	Why    string // what found it; "" if nothing did
	Seeds  int    // run until then
	Seed   uint64 // that found it
	Twice  bool   // it did so again, bit for bit
	Faults int    // of the smallest plan that still fails, if it was looked for
	took   time.Duration
}

// TestMutants plants the bugs and lets seeds look for them. The seeds are always
// the same, so it says the same each time of the same code.
func TestMutants(t *testing.T) {
	if *flagMutants == "" {
		t.Skip("give -sim.mutants=. for all, which takes minutes")
	}
	match, err := regexp.Compile(*flagMutants)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []mutant
	for _, m := range mutants {
		if match.MatchString(m.name) {
			wanted = append(wanted, m)
		}
	}
	began := time.Now()
	bin := build(t, wanted)
	fmt.Printf("built with %d bugs in %.0f s\n", len(wanted), time.Since(began).Seconds())
	catches := make([]catch, len(wanted))
	next := make(chan int)
	var wg sync.WaitGroup
	for range *flagWorkers {
		wg.Go(func() {
			for i := range next {
				catches[i] = hunt(t, bin, wanted[i])
				fmt.Println(catches[i].line(wanted[i].name))
			}
		})
	}
	for i := range wanted {
		next <- i
	}
	close(next)
	wg.Wait()
	caught := 0
	for i, c := range catches {
		if c.Why == "" {
			continue
		}
		caught++
		if !c.Twice {
			t.Errorf("%s: seed %d found it once and not again: two courses of one seed", wanted[i].name, c.Seed)
		}
		if c.Faults > shrunkFaults {
			t.Errorf("%s: %d faults are left of seed %d, more than %d", wanted[i].name, c.Faults, c.Seed, shrunkFaults)
		}
	}
	fmt.Printf("%d of %d planted bugs were found, in %.0f s\n", caught, len(wanted), time.Since(began).Seconds())
	if caught*100 < len(wanted)**flagMutantLeast {
		t.Errorf("%d of %d planted bugs were found, fewer than %d %%", caught, len(wanted), *flagMutantLeast)
	}
	if *flagRewrite {
		rewrite(t, wanted, catches)
	}
}

func (c *catch) line(name string) string {
	if c.Why == "" {
		return fmt.Sprintf("survives  %-48s       %4d seeds, %3.0f s", name, c.Seeds, c.took.Seconds())
	}
	shrunk := ""
	if c.Faults > 0 {
		shrunk = fmt.Sprintf(" (shrunk to %d faults)", c.Faults)
	}
	return fmt.Sprintf("caught    %-48s after %4d seeds, %3.0f s: %s%s", name, c.Seeds, c.took.Seconds(), c.Why, shrunk)
}

// TestMutantsFit holds that the code still has the lines that the bugs are planted
// in, and that it compiles with all of them: a change of the code must bring its
// bugs along.
func TestMutantsFit(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: it compiles")
	}
	t.Parallel()
	root, overlay := plant(t, mutants)
	build := exec.Command("go", "build", "-overlay", overlay, ".")
	build.Dir = filepath.Join(root, "internal", "proof", "sim")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with the bugs: %v\n%s", err, out)
	}
}

// build makes this package's test with all bugs in it, each asleep.
func build(t *testing.T, wanted []mutant) (bin string) {
	t.Helper()
	root, overlay := plant(t, wanted)
	bin = filepath.Join(filepath.Dir(overlay), "sim.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, "./internal/proof/sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with the bugs: %v\n%s", err, out)
	}
	return bin
}

// plant writes the texts with the bugs into a temporary folder, and the file that
// tells the compiler to take them in place of those below root.
func plant(t *testing.T, wanted []mutant) (root, overlay string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string]string{}
	for _, m := range wanted {
		for _, e := range m.edits {
			file := filepath.Join(root, "internal", filepath.FromSlash(e.file))
			if texts[file] == "" {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				texts[file] = string(b)
			}
			if n := strings.Count(texts[file], e.old); n != 1 {
				t.Fatalf("%s: %s holds %d times %q", m.name, e.file, n, e.old)
			}
			condition := fmt.Sprintf("planted(%q)", m.name)
			texts[file] = strings.Replace(texts[file], e.old, strings.ReplaceAll(e.new, "$P", condition), 1)
			beside := filepath.Join(filepath.Dir(file), "planted.go")
			texts[beside] = "package " + filepath.Base(filepath.Dir(file)) + "\n" + plantedText
		}
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return root, overlay
}

// hunt runs seeds in a process in which one bug is awake, until one fails, and the
// seed that fails in a process in which none is: it must be well there.
func hunt(t *testing.T, bin string, m mutant) (c catch) {
	began := time.Now()
	run := func(name string, seeds int, from uint64, more ...string) (c catch, ok bool) {
		args := []string{"-test.run=^TestUntilFailure$", "-test.timeout=0", "-sim.worker=0", fmt.Sprint("-sim.seeds=", seeds),
			fmt.Sprint("-sim.seconds=", mutantSeconds), fmt.Sprint("-sim.from=", from), "-sim.profile=" + m.profile}
		cmd := exec.Command(bin, append(args, more...)...)
		cmd.Env = append(os.Environ(), mutantVariable+"="+name, "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		for line := range bytes.Lines(out) {
			if rest, found := bytes.CutPrefix(line, []byte("caught ")); found && json.Unmarshal(rest, &c) == nil {
				return c, true
			}
		}
		t.Errorf("%s: its process came to no end: %v\n%s", m.name, err, out)
		return c, false
	}
	var more []string
	if slices.Contains(shrunk, m.name) {
		more = append(more, "-sim.v", "-sim.shrink=10m")
	}
	c, ok := run(m.name, *flagMutantSeeds, mutantsFrom, more...)
	if ok && c.Why != "" {
		if without, ok := run("", 1, c.Seed); ok && without.Why != "" {
			t.Errorf("%s: seed %d of profile %q fails without the bug too: %s", m.name, c.Seed, m.profile, without.Why)
		}
	}
	c.took = time.Since(began)
	return c
}

// TestUntilFailure runs seeds until one fails, for hunt.
func TestUntilFailure(t *testing.T) {
	if *flagWorker < 0 {
		t.Skip("only as a process of TestMutants")
	}
	c := catch{Seeds: *flagSeeds}
	for i := range *flagSeeds {
		r := Run(NewPlanOf(*flagProfile, *flagFrom+uint64(i), *flagSeconds))
		if r.OK() {
			continue
		}
		again := Run(r.Plan)
		c = catch{
			Why: summary(r.Failure[0]), Seeds: i + 1, Seed: r.Plan.Seed, Twice: again.Hash == r.Hash && again.Steps == r.Steps,
		}
		if *flagVerbose {
			small := Shrink(r.Plan, *flagShrink)
			c.Faults = len(small.Plan.Faults)
			plan, err := json.Marshal(small.Plan)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("smallest %s\n", plan)
		}
		break
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("caught %s\n", b)
}

var digits = regexp.MustCompile(`\b(0x)?[0-9][0-9a-f.]*\b`)

// summary says in a few words what a failure is.
func summary(failure string) string {
	_, first, _ := strings.Cut(failure, "s: ")
	line, _, _ := strings.Cut(first, "\n")
	if _, after, ok := strings.Cut(failure, "violations of "); ok {
		rules, _, _ := strings.Cut(after, "\n")
		return "checker: " + rules
	}
	line = digits.ReplaceAllString(line, "N")
	return line[:min(len(line), 90)]
}

// rewrite keeps the table of what was found by what.
func rewrite(t *testing.T, wanted []mutant, catches []catch) {
	t.Helper()
	var b strings.Builder
	caught := 0
	for _, c := range catches {
		if c.Why != "" {
			caught++
		}
	}
	fmt.Fprintf(&b, `# Planted bugs

Each line is a bug that TestMutants plants into the servers and that the simulator has to find by what it always checks:
the ledger of promises, the agreement of the servers, their liveness, and the order checker. "Seeds" is how many of the
seeds from %d on, of the profile, were run until one failed. What tests of packages notice is in
[mutation.md](mutation.md). The table is written by

    go test ./internal/proof/sim -run TestMutants -timeout 1h -sim.mutants . -sim.rewrite

%d of %d were found, with at most %d seeds each.

| bug | known failure | profile | seeds | found by |
|---|---|---|---|---|
`, mutantsFrom, caught, len(wanted), *flagMutantSeeds)
	for i, m := range wanted {
		c := &catches[i]
		seeds, why := fmt.Sprint(c.Seeds), c.Why
		if why == "" {
			seeds, why = "none", "not found"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.name, m.failure, m.profile, seeds,
			strings.NewReplacer("|", "/", "<", "&lt;").Replace(why))
	}
	if err := os.WriteFile(filepath.Join("../../..", mutantsTable), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
