package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Outcome is the outcome of one test in a client's suite. The order matters: of two outcomes, the greater is worse.
type Outcome int

const (
	Absent Outcome = iota // not seen at all
	Passed
	Skipped
	Failed
)

var outcomeNames = [...]string{Absent: "absent", Passed: "passed", Skipped: "skipped", Failed: "FAILED"}

// String returns the outcome as a word, failures in capitals.
func (o Outcome) String() string { return outcomeNames[o] }

// Results are the outcomes of a suite's tests against one server program, by test.
type Results map[string]Outcome

// add records an outcome. A test reported twice (its body passed, its teardown failed) keeps the worse one.
func (r Results) add(test string, o Outcome) { r[test] = max(r[test], o) }

// failed lists the failed tests, sorted.
func (r Results) failed() []string {
	var tests []string
	for test, o := range r {
		if o == Failed {
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	return tests
}

// passed reports whether every test of a unit passed, and that there was one.
func (r Results) passed(unit string) bool {
	ran := false
	for test, o := range r {
		if test == unit || strings.HasPrefix(test, unit+"::") {
			if o != Passed {
				return false
			}
			ran = true
		}
	}
	return ran
}

// Regressions returns the sorted tests that pass on the reference but not on the subject, of which there must be none.
// A test that was skipped on the subject, or never ran there, didn't pass.
func Regressions(reference, subject Results) []string {
	var tests []string
	for test, o := range reference {
		if o == Passed && subject[test] != Passed {
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	return tests
}

// Table compares both sides: it has a line for each group of tests (group returns a test's group), the totals, and
// each test that didn't pass on both sides.
func Table(referenceName, subjectName string, reference, subject Results, group func(test string) string) string {
	all := maps.Clone(reference)
	maps.Copy(all, subject)
	tests := slices.Sorted(maps.Keys(all))
	groups := map[string][]string{}
	for _, test := range tests {
		groups[group(test)] = append(groups[group(test)], test)
	}

	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\t%s\t\t\t%s\t\t\n", referenceName, subjectName)
	fmt.Fprintf(table, "group\tpassed\tskipped\tfailed\tpassed\tskipped\tfailed\n")
	row := func(name string, tests []string) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, counts(reference, tests), counts(subject, tests))
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		row(name, groups[name])
	}
	row("TOTAL", tests)
	table.Flush()

	fmt.Fprintf(table, "\nnot passed on both\t%s\t%s\n", referenceName, subjectName)
	for _, test := range tests {
		if reference[test] != Passed || subject[test] != Passed {
			fmt.Fprintf(table, "%s\t%s\t%s\n", test, reference[test], subject[test])
		}
	}
	table.Flush()
	return text.String()
}

// counts counts passed, skipped and failed; a test that never ran counts as failed.
func counts(r Results, tests []string) string {
	var passed, skipped, failed int
	for _, test := range tests {
		switch r[test] {
		case Passed:
			passed++
		case Skipped:
			skipped++
		default:
			failed++
		}
	}
	return fmt.Sprintf("%d\t%d\t%d", passed, skipped, failed)
}
