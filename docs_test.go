package zooid

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	namedFile = regexp.MustCompile(`[\w-]+(?:/[\w-]+)*/[\w-]+\.(?:go|sh|md)\b`)
)

// sources returns the text of all Go files: the code and the tests.
func sources(t *testing.T) (code, tests string) {
	t.Helper()
	var c, ts strings.Builder
	goFiles(t, func(file, _ string) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			ts.Write(b)
		} else {
			c.Write(b)
		}
	})
	return c.String(), ts.String()
}

// pages returns the pages of the repository.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "internal/*/*.md", "test/*/*.md"} {
		some, err := filepath.Glob(pattern)
		if err != nil || len(some) == 0 {
			t.Fatalf("no pages %s (%v)", pattern, err)
		}
		all = append(all, some...)
	}
	return all
}

// TestPagesNameWhatIsThere: each test that a page names exists, and each Go file, script or page that it names with
// its folder.
func TestPagesNameWhatIsThere(t *testing.T) {
	_, tests := sources(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedTest.FindAllString(string(text), -1) {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
		for _, name := range namedFile.FindAllString(string(text), -1) {
			found := false
			for _, from := range []string{".", "internal", "cmd/zooid", filepath.Dir(page)} {
				_, err := os.Stat(filepath.Join(from, name))
				found = found || err == nil
			}
			if !found {
				t.Errorf("%s names the file %s, which isn't there", page, name)
			}
		}
	}
}

// TestSearchesOfTheLog: the messages that docs/monitoring.md gives for searches of the log are logged.
func TestSearchesOfTheLog(t *testing.T) {
	code, _ := sources(t)
	page, err := os.ReadFile("docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "### Searches of the log")
	table, _, _ = strings.Cut(table, "\n## ")
	n := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			continue
		}
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			if n++; !strings.Contains(code, `"`+message[1]) {
				t.Errorf("no such line is logged: %q", message[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("the table has %d messages", n)
	}
}

// TestCommentsNameFilesThatAreThere: each Go file that a comment names is in the same folder, or named by its path from
// there, from the root or from internal.
func TestCommentsNameFilesThatAreThere(t *testing.T) {
	named := regexp.MustCompile(`[\w/-]*\w\.go\b`)
	goFiles(t, func(file, pkg string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, name := range named.FindAllString(group.Text(), -1) {
				there := func(from string) bool {
					_, err := os.Stat(filepath.Join(from, name))
					return err == nil
				}
				if name != "_test.go" && !there(pkg) && !there(".") && !there("internal") {
					t.Errorf("%s names the file %s, which isn't there", fset.Position(group.Pos()), name)
				}
			}
		}
	})
}

// TestProtocolPage: each row of docs/protocol.md has its five cells, and the last one names a test or the package whose
// tests show the difference.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Errorf("docs/protocol.md: %d cells instead of 5:\n%s", len(cells), line)
			continue
		}
		shown := strings.TrimSpace(cells[4])
		if shown != "Test" && !namedTest.MatchString(shown) && !strings.HasPrefix(shown, "internal/") {
			t.Errorf("docs/protocol.md: no test in the last cell:\n%s", line)
		}
		rows++
	}
	if rows < 40 {
		t.Errorf("docs/protocol.md has %d rows that can be read; was its form changed?", rows)
	}
}

var citedDecision = regexp.MustCompile(`\bD[1-9][0-9]?\b`)

// TestCitedDecisions: each decision that a comment cites by its number is in docs/decisions/000-design.md.
func TestCitedDecisions(t *testing.T) {
	page, err := os.ReadFile("docs/decisions/000-design.md")
	if err != nil {
		t.Fatal(err)
	}
	cited := 0
	goFiles(t, func(file, _ string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, comment, ok := strings.Cut(line, "//")
			if !ok {
				continue
			}
			for _, d := range citedDecision.FindAllString(comment, -1) {
				cited++
				if !strings.Contains(string(page), "| "+d+" |") {
					t.Errorf("%s cites %s, which is not in docs/decisions/000-design.md", file, d)
				}
			}
		}
	})
	if cited == 0 {
		t.Error("nothing is cited; has the form changed?")
	}
}

// decisionTitle is the first line of a decision: its number, and a short noun phrase in one form.
var decisionTitle = regexp.MustCompile(`^# (\d{3}): (\p{Lu}[^.:;?!]{3,40})$`)

// TestDecisions: decisions are cited by their numbers, so no two have the same one. Their titles have one form, and
// docs/decisions/README.md leads to each once, by its number and title.
func TestDecisions(t *testing.T) {
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(notes) < 50 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	taken := map[string]string{}
	for _, note := range notes {
		name := filepath.Base(note)
		if name == "README.md" {
			continue
		}
		text, err := os.ReadFile(note)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		title := decisionTitle.FindStringSubmatch(first)
		if title == nil || !strings.HasPrefix(name, title[1]+"-") {
			t.Errorf("%s begins with %q; write the number and a short noun phrase, as \"# 083: Overload\"", note, first)
			continue
		}
		if other := taken[title[1]]; other != "" {
			t.Errorf("%s and %s have one number", other, note)
		}
		taken[title[1]] = note
		entry := "| [" + title[1] + ": " + title[2] + "](" + name + ") | "
		if n := strings.Count(string(index), entry); n != 1 {
			t.Errorf("docs/decisions/README.md has %d lines %q; write one, under its subject", n, entry)
		}
	}
	if rows := strings.Count(string(index), "\n| ["); rows != len(taken) {
		t.Errorf("docs/decisions/README.md has %d rows for %d decisions", rows, len(taken))
	}
}

// TestEntryPage: docs/README.md leads to every page of docs.
func TestEntryPage(t *testing.T) {
	entry, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(entry), "]("+name+")") {
			t.Errorf("docs/README.md doesn't lead to %s", name)
		}
	}
}
