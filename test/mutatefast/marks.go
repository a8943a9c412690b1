package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// marksText has the mutants that change nothing visible, each with the reason. A paragraph is the file and the
// function, the mutant's line, the change in the form of the list of survivors, and the reason. With * for both, all
// that survive in the function are equivalent: it computes a hint, or saves work.
//
//go:embed equivalent.txt
var marksText string

// A mark says that a mutant is equivalent.
type mark struct {
	file, function, source, text string
}

// key is the text of a mark of m, without its number among equal ones.
func (m *mutant) key() mark { return mark{m.file, m.function, m.source, m.kind + ": " + m.text} }

// mark is the text of a mark of m.
func (m *mutant) mark() mark { return mark{m.file, m.function, m.source, m.String()} }

// whole is the text of a mark of m's function.
func (m *mutant) whole() mark { return mark{m.file, m.function, "*", "*"} }

// parseMarks reads marks, with the reason of each.
func parseMarks(text string) (map[mark]string, error) {
	marks := map[mark]string{}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		for line := range strings.Lines(paragraph) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		if len(lines) < 4 {
			return nil, fmt.Errorf("%q: a mark has a file with a function, a line, a mutant and a reason", lines)
		}
		file, function, _ := strings.Cut(lines[0], " ")
		m := mark{file, function, lines[1], lines[2]}
		if marks[m] != "" {
			return nil, fmt.Errorf("%q is marked twice", lines)
		}
		marks[m] = strings.Join(lines[3:], " ")
	}
	return marks, nil
}

// stale returns the marks of a package's files that no mutant has.
func stale(marks map[mark]string, pkg *loaded, mutants []*mutant) (wrong []mark) {
	has := map[mark]bool{}
	for _, m := range mutants {
		has[m.mark()], has[m.whole()] = true, true
	}
	for m := range marks {
		at := strings.LastIndex(m.file, "/")
		if at >= 0 && m.file[:at] == pkg.name() && !has[m] {
			wrong = append(wrong, m)
		}
	}
	return wrong
}
