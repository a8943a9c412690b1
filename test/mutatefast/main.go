// Mutate makes small mistakes in packages, one by one, and lists those that no test of the package notices. All mutants
// of a package are compiled into one test binary, and an environment variable says which one is made. Only tests that
// reach the mutant run. docs/mutation.md has the figures, docs/decisions/096-mutants.md the choice.
//
//	go run ./test/mutate ./internal/tree ./jute
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	seed     = flag.Uint64("seed", 1, "which mutants -sample takes, and the order in which -budget runs them")
	sample   = flag.Int("sample", 0, "run only that many mutants of each package; 0 is all")
	only     = flag.String("only", "", "run only mutants of which file:line or function contains this")
	again    = flag.String("again", "", "run only the mutants that this file, what an earlier run printed, has as survivors")
	budget   = flag.Duration("budget", 0, "end after this time, builds included; what was not run is counted")
	since    = flag.String("since", "", "only packages that have changed since this commit, mutants in changed lines first")
	least    = flag.Float64("least", 0, "fail if less than this percentage of a package's mutants was killed")
	workers  = flag.Int("workers", runtime.NumCPU(), "how many mutants run at once")
	short    = flag.Bool("short", false, "run tests in their short form")
	listOnly = flag.Bool("list", false, "list the mutants, and run nothing")
	verbose  = flag.Bool("v", false, "say how each mutant ended, and which are reached by no test")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: go run ./test/mutate [flags] ./package...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := mutate(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// mutate tries the mutants of packages.
func mutate(ctx context.Context, patterns []string) error {
	marks, err := parseMarks(marksText)
	if err != nil {
		return err
	}
	chosen, err := survivorsOf(*again)
	if err != nil {
		return err
	}
	changed, err := changedLines(*since)
	if err != nil {
		return err
	}
	var packages []*loaded
	for _, pattern := range patterns {
		p, err := load(pattern)
		if err != nil {
			return err
		}
		if *since == "" || changed.in(p) {
			packages = append(packages, p)
		}
	}
	if len(packages) == 0 {
		fmt.Printf("none of these packages has changed since %s\n", *since)
	}
	ends := time.Now().Add(*budget)
	var table, wrong []string
	for n, p := range packages {
		within, cancel := ctx, context.CancelFunc(func() {})
		if *budget > 0 {
			within, cancel = context.WithTimeout(ctx, time.Until(ends)/time.Duration(len(packages)-n))
		}
		r := &report{pkg: p, marks: marks, changed: changed, again: chosen}
		err := r.make(within)
		late := within.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case late && err != nil:
			fmt.Printf("%s: the time was up before a mutant ran\n", p.name())
			continue
		case err != nil:
			return err
		case *listOnly:
			continue
		}
		wrong = append(wrong, r.print()...)
		table = append(table, r.row())
	}
	if len(table) > 0 {
		fmt.Printf("\n%s\n%s\n", rowTitles, strings.Join(table, "\n"))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return ctx.Err()
}

// report is the result for the mutants of a package.
type report struct {
	pkg     *loaded
	marks   map[mark]string
	changed lines
	again   map[string]bool // lines of the mutants to run; nil for all

	tests     []*test
	all       int // mutants
	refused   int // by the compiler
	chosen    []*mutant
	unreached []*mutant // of all
	ended     map[*mutant]ended
	took      time.Duration
}

// make finds the mutants, and runs those that are asked for.
func (r *report) make(ctx context.Context) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	found := r.pkg.find()
	for _, m := range stale(r.marks, r.pkg, found) {
		return fmt.Errorf("equivalent.txt marks a mutant that isn't there: %q", m)
	}
	w, err := r.pkg.weave(found, dir)
	if err != nil {
		return err
	}
	r.all, r.refused = len(w.mutants), w.out
	if *listOnly {
		for _, m := range w.mutants {
			fmt.Println(line(m))
		}
		fmt.Printf("%s: %d mutants; %d don't compile\n", r.pkg.name(), len(w.mutants), w.out)
		return nil
	}
	mutated, covered, err := r.pkg.build(ctx, w, dir)
	if err != nil {
		return err
	}
	if true {
		_ = covered
		for _, m := range w.mutants {
			fmt.Printf("%d\t%s\n", m.id, line(m))
		}
		fmt.Println(mutated)
		os.Exit(0)
	}
	if r.tests, err = r.pkg.reached(ctx, mutated, covered, dir, *workers); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	by := r.pkg.reach(w.mutants, r.tests)
	reached := slices.DeleteFunc(slices.Clone(w.mutants), func(m *mutant) bool { return len(by[m]) == 0 })
	r.unreached = slices.DeleteFunc(slices.Clone(w.mutants), func(m *mutant) bool { return len(by[m]) > 0 })
	if r.again != nil {
		reached = slices.DeleteFunc(reached, func(m *mutant) bool { return !r.again[line(m)] })
	}
	r.chosen = choose(reached, r.changed)
	r.runAll(ctx, func(m *mutant) ended { return r.pkg.try(ctx, mutated, dir, m, by[m]) })
	r.took = time.Since(began)
	return nil
}

// survivorsOf returns the survivors that a file lists, nil if there is no file.
func survivorsOf(file string) (map[string]bool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for printed := range strings.Lines(string(text)) {
		if survivor, ok := strings.CutPrefix(strings.TrimSuffix(printed, "\n"), "survived\t"); ok {
			listed[survivor] = true
		}
	}
	return listed, nil
}

// choose returns the mutants that are run, in their order.
func choose(mutants []*mutant, changed lines) []*mutant {
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool {
		return !strings.Contains(fmt.Sprintf("%s:%d %s", m.file, m.line, m.function), *only)
	})
	if *sample == 0 && *budget == 0 {
		return chosen
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	slices.SortStableFunc(chosen, func(a, b *mutant) int {
		switch first := changed[place{a.file, a.line}]; {
		case first == changed[place{b.file, b.line}]:
			return 0
		case first:
			return -1
		}
		return 1
	})
	if *sample > 0 {
		chosen = chosen[:min(*sample, len(chosen))]
	}
	return chosen
}

// runAll runs the chosen mutants until the time is up.
func (r *report) runAll(ctx context.Context, try func(*mutant) ended) {
	r.ended = map[*mutant]ended{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	var next, done atomic.Int64
	for range *workers {
		wait.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(r.chosen) || ctx.Err() != nil {
					return
				}
				m := r.chosen[n]
				e := try(m)
				if ctx.Err() != nil {
					return // that may be why it failed
				}
				mu.Lock()
				r.ended[m] = e
				mu.Unlock()
				if done := done.Add(1); done%progress == 0 {
					fmt.Fprintf(os.Stderr, "%s: %d of %d\n", r.pkg.name(), done, len(r.chosen))
				}
				if *verbose {
					fmt.Fprintf(os.Stderr, "%+v %s\n", e, line(m))
				}
			}
		})
	}
	wait.Wait()
}

// progress is after how many mutants a line says how far it is.
const progress = 200

func line(m *mutant) string {
	return fmt.Sprintf("%s:%d:%d\t%s\t%s\t| %s", m.file, m.line, m.col, m.function, m, m.source)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
