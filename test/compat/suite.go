package compat

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// lanes run side by side. Suites wait far more than they compute: four lanes load about one core (ensembles: one and a
	// half).
	lanes = 4
	// attempts is how often a failing test is run before the failure counts.
	attempts = 3
	// unitPatience ends a unit that hangs; the slowest takes half a minute on Apache, and minutes on a busy machine.
	unitPatience = 8 * time.Minute
	// suitePatience ends a suite if the server is so broken that everything times out.
	suitePatience = 15 * time.Minute
	// deadlineMargin is the part of go test's own time limit that is reserved for cleaning up and for the table.
	deadlineMargin = 20 * time.Second
)

// suite is a client's own test suite, split into units that can run separately, in any order, and concurrently.
type suite struct {
	servers int      // number of servers that it runs against, for the table
	units   []string // names; a test's name in the results can also be run as a unit
	probe   string   // a unit that passes on any server that is worth testing further
	// run runs one unit in an empty folder. lane is below lanes, and no other unit uses it at the same time.
	run func(ctx context.Context, p Program, lane int, unit, folder string) (Results, error)
	// differs holds tests that fail on Zooid, with the row of docs/protocol.md that says why.
	differs map[string]string
	// group returns the line of the table in which a test is counted.
	group func(test string) string
}

// judge runs the suite against both programs, prints the table, and fails the test for each regression.
func (s suite) judge(t *testing.T, reference, subject Program) {
	t.Helper()
	ctx, cancel := patience(t)
	defer cancel()
	began := time.Now()
	logs := keptFolder(t)
	s.requireProbe(ctx, t, logs, reference, subject)

	run, asked := s.runBoth, "all"
	if testing.Short() {
		run, asked = s.runWhatFails, "what doesn't pass on "+subject.Name
	}
	refResults, subResults := run(ctx, t, logs, reference, subject)
	fmt.Printf("\n%s, %d server(s), %v, on the reference %s\n%s\n", t.Name(), s.servers,
		time.Since(began).Round(time.Second), asked,
		Table("reference "+reference.Name, "subject "+subject.Name, refResults, subResults, s.group))
	for _, test := range Regressions(refResults, subResults) {
		if row := s.differs[test]; row != "" {
			t.Logf("%s differs as docs/protocol.md says: %s", test, row)
			continue
		}
		t.Errorf("%s: passed on %s, %s on %s in %d attempts", test, reference.Name, subResults[test], subject.Name, attempts)
	}
	passed := false
	for _, o := range refResults {
		passed = passed || o == Passed
	}
	if !passed {
		t.Errorf("no test passed on %s: that says nothing about %s", reference.Name, subject.Name)
	}
}

// requireProbe fails the test at once unless the suite's simplest unit passes on each program. If, for example, a
// server doesn't start, every other unit would run into its timeout.
func (s suite) requireProbe(ctx context.Context, t *testing.T, logs string, programs ...Program) {
	t.Helper()
	for _, p := range programs {
		results := s.runUnit(ctx, t, logs, p, 0, s.probe)
		if results[s.probe] != Passed { // another process may have taken a port: try once more
			results = s.runUnit(ctx, t, logs, p, 0, s.probe)
		}
		if results[s.probe] != Passed {
			t.Fatalf("%s %s on %s twice, so the rest is not run; a server's log ends:\n%s",
				s.probe, results[s.probe], p.Name, newestServerLog(logs))
		}
	}
}

// newestServerLog returns the end of the output of the server that a suite started last.
func newestServerLog(logs string) string {
	files, err := filepath.Glob(filepath.Join(logs, "*", "server-*.log"))
	if err != nil || len(files) == 0 {
		return "(no server was started)"
	}
	age := func(file string) time.Time {
		if stat, err := os.Stat(file); err == nil {
			return stat.ModTime()
		}
		return time.Time{}
	}
	return fileEnd(slices.MaxFunc(files, func(a, b string) int { return age(a).Compare(age(b)) }))
}

// runBoth runs all units on both programs, then repeats failed tests: first on the reference, to learn which tests
// Apache can pass, and then those of them that failed on the subject.
func (s suite) runBoth(ctx context.Context, t *testing.T, logs string, reference, subject Program) (onReference,
	onSubject Results) {
	results := s.runAll(ctx, t, logs, []work{{reference, s.units}, {subject, s.units}})
	onReference, onSubject = results[0], results[1]
	s.retry(ctx, t, logs, reference, onReference, onReference.failed)
	s.retry(ctx, t, logs, subject, onSubject, func() []string { return Regressions(onReference, onSubject) })
	return onReference, onSubject
}

// runWhatFails runs all units on the subject, and on the reference only those of which not every test passed there: the
// others can't be regressions. What the reference was not asked counts as passed there.
func (s suite) runWhatFails(ctx context.Context, t *testing.T, logs string, reference, subject Program) (onReference,
	onSubject Results) {
	onSubject = s.runAll(ctx, t, logs, []work{{subject, s.units}})[0]
	var units []string
	for _, unit := range s.units {
		if !onSubject.passed(unit) {
			units = append(units, unit)
		}
	}
	onReference = s.runAll(ctx, t, logs, []work{{reference, units}})[0]
	s.retry(ctx, t, logs, reference, onReference, onReference.failed)
	s.retry(ctx, t, logs, subject, onSubject, func() []string { return Regressions(onReference, onSubject) })
	for test, o := range onSubject {
		if _, asked := onReference[test]; !asked && o == Passed {
			onReference[test] = Passed
		}
	}
	return onReference, onSubject
}

// patience returns a context with the time that a suite has. It also ends at an interrupt, so that no server is left
// behind, and shortly before go test would time out without cleaning up.
func patience(t *testing.T) (context.Context, context.CancelFunc) {
	end := time.Now().Add(suitePatience)
	if deadline, ok := t.Deadline(); ok && deadline.Add(-deadlineMargin).Before(end) {
		end = deadline.Add(-deadlineMargin)
	}
	interruptible, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithDeadline(interruptible, end)
	return ctx, func() { cancel(); stop() }
}

// retry repeats the tests that failing returns, until it returns none or their attempts are used up. One success is
// enough: the question is whether the server can pass, not how loaded the machine is.
func (s suite) retry(ctx context.Context, t *testing.T, logs string, p Program, results Results,
	failing func() []string) {
	for attempt := 2; attempt <= attempts; attempt++ {
		tests := failing()
		if len(tests) == 0 || ctx.Err() != nil {
			return
		}
		again := s.runAll(ctx, t, logs, []work{{p, tests}})[0]
		for _, test := range tests {
			if o, ran := again[test]; ran {
				results[test] = o
			}
		}
	}
}

// work is a list of units to run against one program.
type work struct {
	program Program
	units   []string
}

// runAll runs every unit of every work, lanes at a time, and returns each work's results.
func (s suite) runAll(ctx context.Context, t *testing.T, logs string, works []work) []Results {
	type job struct{ work, unit int }
	var jobs []job
	most := 0
	results := make([]Results, len(works))
	for i, w := range works {
		results[i] = Results{}
		most = max(most, len(w.units))
	}
	for unit := range most { // the programs take turns, so both see the same load
		for i, w := range works {
			if unit < len(w.units) {
				jobs = append(jobs, job{i, unit})
			}
		}
	}
	queue := make(chan job, len(jobs))
	for _, j := range jobs {
		queue <- j
	}
	close(queue)

	var mu sync.Mutex // guards results
	var running sync.WaitGroup
	for lane := range lanes {
		running.Go(func() {
			for j := range queue {
				p, unit := works[j.work].program, works[j.work].units[j.unit]
				got := s.runUnit(ctx, t, logs, p, lane, unit)
				mu.Lock()
				maps.Copy(results[j.work], got)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return results
}

// runUnit runs one unit. An error is recorded as a failed test with the unit's name.
func (s suite) runUnit(ctx context.Context, t *testing.T, logs string, p Program, lane int, unit string) Results {
	ctx, cancel := context.WithTimeout(ctx, unitPatience)
	defer cancel()
	name := strings.NewReplacer("/", "_", "::", ".").Replace(unit)
	folder, err := os.MkdirTemp(logs, fmt.Sprintf("%s %s ", p.Name, name))
	if err != nil {
		t.Errorf("making a folder for the run of %s: %v", unit, err)
		return Results{unit: Failed}
	}
	if ctx.Err() != nil {
		os.RemoveAll(folder)
		return Results{unit: Failed}
	}
	results, err := s.run(ctx, p, lane, unit, folder)
	if err != nil {
		t.Logf("%s on %s: %v (%s)", unit, p.Name, err, folder)
		if results == nil {
			results = Results{}
		}
		results.add(unit, Failed)
	}
	if len(results.failed()) == 0 {
		os.RemoveAll(folder)
	}
	return results
}

// keptFolder returns a temporary folder for logs that outlives the test if the test fails.
func keptFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "zooid-compat-"+filepath.Base(t.Name())+"-")
	if err != nil {
		t.Fatalf("making a folder for logs: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of what failed are kept in %s", folder)
			return
		}
		os.RemoveAll(folder)
	})
	return folder
}
