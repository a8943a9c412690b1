package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// lines are lines that a change adds or alters; line 0 stands for the file.
type lines map[place]bool

// changedLines returns the changed lines of Go files since a commit, including uncommitted ones; none if the commit is
// empty.
func changedLines(since string) (lines, error) {
	if since == "" {
		return nil, nil
	}
	out, err := output(exec.Command("git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/",
		"--dst-prefix=b/", since, "--", ":/*.go"))
	if err != nil {
		return nil, err
	}
	return parseDiff(string(out)), nil
}

// parseDiff reads the output of git diff --unified=0.
func parseDiff(diff string) lines {
	changed := lines{}
	file, left := "", 0
	for text := range strings.Lines(diff) {
		var from, n int
		switch {
		case left > 0 && text[0] == '+':
			left-- // it may look like a header
		case strings.HasPrefix(text, "+++ b/"):
			file = strings.TrimSpace(text[len("+++ b/"):])
			changed[place{file, 0}] = true
		case strings.HasPrefix(text, "@@ "):
			added := strings.Fields(text)[2]
			if scanned, _ := fmt.Sscanf(added, "+%d,%d", &from, &n); scanned == 1 {
				n = 1
			}
			for line := range n {
				changed[place{file, from + line}] = true
			}
			left = n
		}
	}
	return changed
}

// in reports whether a file of the package has changed, or one of its tests.
func (l lines) in(p *loaded) bool {
	for at := range l {
		if slash := strings.LastIndex(at.file, "/"); slash >= 0 && at.file[:slash] == p.name() {
			return true
		}
	}
	return false
}
