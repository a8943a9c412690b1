package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// What became of a test.
const (
	resultPassed   = "passed"
	resultFinal    = "final" // failed in a way that no second run excuses; test/ring.sh looks for it
	resultFailed   = "failed"
	resultSkipped  = "skipped"
	resultUnsteady = "unsteady" // failed, and passed alone
	resultNotRun   = "not run"  // the time was up before it ended
)

// textMax is how many bytes of a failure's output the closing lists show. The whole of it stands where it failed.
const textMax = 4000

// A result is a line of the record.
type result struct {
	Package string
	Test    string `json:",omitempty"` // "": the whole package
	Result  string
	Text    string `json:",omitempty"` // output of a test that didn't pass
}

// A record is the file that results of several runs of rerun go to.
type record struct {
	file string // "": nowhere
}

func (r *record) write(results ...result) error {
	if r.file == "" || len(results) == 0 {
		return nil
	}
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	var lines []byte
	for _, one := range results {
		line, err := json.Marshal(one)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		lines = append(append(lines, line...), '\n')
	}
	// One write: two runs at once may append to the same file.
	_, err = f.Write(lines)
	return errors.Join(err, f.Close())
}

// writeClosing writes the lists of tests that didn't simply pass, and how many did. Tests that refuse a change come
// last, because the end of a long output is read, and kept.
func writeClosing(w io.Writer, file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var all []result
	for line := range strings.Lines(string(text)) {
		var one result
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	passed := map[string]bool{}
	for _, one := range all {
		if one.Result == resultPassed || one.Result == resultUnsteady {
			passed[one.id()] = true
		}
	}
	counts := map[string]int{resultPassed: len(passed)}
	for _, kind := range []string{resultSkipped, resultNotRun, resultUnsteady, resultFailed, resultFinal} {
		var lines []string
		for _, one := range all {
			// A test that one step skips and another runs is not skipped; a subtest runs with its parent.
			if one.Result != kind || kind == resultSkipped && passed[one.id()] {
				continue
			}
			lines = append(lines, one.line())
		}
		slices.Sort(lines)
		lines = slices.Compact(lines)
		counts[kind] = len(lines)
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n%s", kind, strings.Join(lines, ""))
		}
	}
	_, err = fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", counts[resultPassed],
		counts[resultFinal]+counts[resultFailed], counts[resultSkipped])
	return err
}

func (r result) id() string { return r.Package + " " + r.Test }

// line is one line for a test that was skipped or not run, and its output below for one that failed.
func (r result) line() string {
	name := cmp.Or(r.Test, "(all of its tests)")
	switch r.Result {
	case resultSkipped:
		return fmt.Sprintf("  %s %s: %s\n", r.Package, name, strings.Join(strings.Fields(r.Text), " "))
	case resultNotRun:
		return fmt.Sprintf("  %s %s\n", r.Package, name)
	}
	text := strings.TrimRight(r.Text, "\n")
	if len(text) > textMax {
		text = "[…] " + text[len(text)-textMax:]
	}
	return fmt.Sprintf("  %s %s\n    | %s\n", r.Package, name, strings.ReplaceAll(text, "\n", "\n    | "))
}
