package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gotest.tools/gotestsum/testjson"
)

// finalKey is verdict.Key; this module doesn't import the project's.
const finalKey = "final"

// An execution is one run of go test. It handles the events of that run.
type execution struct {
	*testjson.Execution
	ok    bool   // go test exited with 0
	cut   bool   // it was stopped at the end of the time
	final string // the first failure that is final, and the check that found it

	passed  map[string]bool // "package test", of tests and subtests
	skipped []result        // tests and subtests
	failed  []failure       // tests and subtests, in order
	broken  []string        // packages that failed without a failed test
	done    map[string]bool // packages that have ended

	formatter testjson.EventFormatter
	marked    map[string]string // "package test": the check that would find its failure
	stop      func()
}

// A failure is a test or subtest that failed.
type failure struct {
	pkg, test, root string
	text            string // its output
}

func newExecution(verbose bool, stop func()) *execution {
	format := "standard-quiet"
	if verbose {
		format = "standard-verbose"
	}
	return &execution{
		passed: map[string]bool{}, done: map[string]bool{}, marked: map[string]string{}, stop: stop,
		formatter: testjson.NewEventFormatter(os.Stdout, format, testjson.FormatOptions{}),
	}
}

// Event is called for each event, and at the end for each test that has no end, with an event of testjson's own.
func (e *execution) Event(event testjson.TestEvent, all *testjson.Execution) error {
	if err := e.formatter.Format(event, all); err != nil {
		return err
	}
	if len(event.Bytes()) == 0 {
		return nil // not an event of go test's: the test was stopped, or its process ended
	}
	root, _ := testjson.TestName(event.Test).Split()
	id := event.Package + " " + event.Test
	switch {
	case event.Action == testjson.ActionAttr && event.Key == finalKey:
		e.marked[id] = event.Value
	case event.PackageEvent() && event.Action.IsTerminal():
		e.done[event.Package] = true
		if event.Action == testjson.ActionFail && !e.hasFailed(event.Package) {
			e.broken = append(e.broken, event.Package)
		}
	case event.Action == testjson.ActionPass:
		e.passed[id] = true
	case event.Action == testjson.ActionSkip:
		e.skipped = append(e.skipped, result{
			Package: event.Package, Test: event.Test, Result: resultSkipped, Text: e.output(all, event),
		})
	case event.Action == testjson.ActionFail:
		e.failed = append(e.failed, failure{event.Package, event.Test, root, e.output(all, event)})
		if by := e.marked[id]; by != "" && e.final == "" {
			e.final = fmt.Sprintf("%s, found by %s", id, by)
			e.stop()
		}
	}
	return nil
}

// Err shows go test's standard error, and output that isn't an event.
func (e *execution) Err(text string) error {
	_, err := fmt.Fprintln(os.Stderr, text)
	return err
}

func (e *execution) hasFailed(pkg string) bool {
	return slices.ContainsFunc(e.failed, func(f failure) bool { return f.pkg == pkg })
}

// output returns the output of a test that has just ended, without go test's own lines.
func (e *execution) output(all *testjson.Execution, event testjson.TestEvent) string {
	var text strings.Builder
	cases := all.Package(event.Package).TestCases()
	for _, c := range slices.Backward(cases) {
		if c.Test.Name() != event.Test {
			continue
		}
		for _, line := range all.Package(event.Package).OutputLines(c) {
			if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- ") {
				text.WriteString(line)
			}
		}
		break
	}
	return text.String()
}

// failedRoots returns a failure for each test without a parent that failed, with the output of its subtests that did.
func (e *execution) failedRoots() (roots []failure) {
	for _, f := range e.failed {
		i := slices.IndexFunc(roots, func(r failure) bool { return r.pkg == f.pkg && r.root == f.root })
		if i < 0 {
			roots = append(roots, failure{pkg: f.pkg, root: f.root, test: f.root})
			i = len(roots) - 1
		}
		if !strings.Contains(roots[i].text, f.text) {
			roots[i].text += f.text
		}
	}
	return roots
}

func (f failure) result(outcome string) result {
	return result{Package: f.pkg, Test: f.root, Result: outcome, Text: f.text}
}

// results returns the tests that passed and those that were skipped.
func (e *execution) results() []result {
	all := slices.Clone(e.skipped)
	for _, id := range slices.Sorted(maps.Keys(e.passed)) {
		pkg, test, _ := strings.Cut(id, " ")
		all = append(all, result{Package: pkg, Test: test, Result: resultPassed})
	}
	return all
}

var testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z0-9_]\w*)\(`)

// notRun returns a result for each test in the source that would have run and has no end in e; e is nil if none has
// run. A package of which nothing ran has one result.
func notRun(packages, flags []string, e *execution) (all []result) {
	const format = "{{.ImportPath}}\t{{.Dir}}\t{{join .TestGoFiles \" \"}} {{join .XTestGoFiles \" \"}}"
	args := append([]string{"list", "-f", format}, packages...)
	out, err := exec.Command(goCommand(), args...).Output()
	if err != nil {
		return []result{{Package: strings.Join(packages, " "), Result: resultNotRun}}
	}
	wanted := wantedTests(flags)
	for line := range strings.Lines(string(out)) {
		pkg, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		dir, files, _ := strings.Cut(rest, "\t")
		if e != nil && e.done[pkg] {
			continue
		}
		var names []string
		begun := false
		for _, file := range strings.Fields(files) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
				if m[1] == "TestMain" || !wanted.MatchString(m[1]) {
					continue
				}
				if e != nil && e.ended(pkg, m[1]) {
					begun = true
					continue
				}
				names = append(names, m[1])
			}
		}
		if !begun && len(names) > 0 {
			names = []string{""}
		}
		slices.SortFunc(names, cmp.Compare)
		for _, name := range names {
			all = append(all, result{Package: pkg, Test: name, Result: resultNotRun})
		}
	}
	return all
}

// ended says whether a test has an end.
func (e *execution) ended(pkg, test string) bool {
	return e.passed[pkg+" "+test] ||
		slices.ContainsFunc(e.failed, func(f failure) bool { return f.pkg == pkg && f.test == test }) ||
		slices.ContainsFunc(e.skipped, func(r result) bool { return r.Package == pkg && r.Test == test })
}

// wantedTests matches the tests that the last -run of go test's flags asks for; a pattern for subtests counts for their
// parents.
func wantedTests(flags []string) *regexp.Regexp {
	pattern := ""
	for i, flag := range flags {
		if value, ok := strings.CutPrefix(strings.TrimPrefix(flag, "-"), "-run="); ok {
			pattern = value
		} else if strings.TrimLeft(flag, "-") == "run" && i+1 < len(flags) {
			pattern = flags[i+1]
		}
	}
	pattern, _, _ = strings.Cut(pattern, "/")
	re, err := regexp.Compile(pattern)
	if err != nil {
		return regexp.MustCompile("")
	}
	return re
}
