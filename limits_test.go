package zooid

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var limitConstant = regexp.MustCompile("`(?:[a-z]+\\.)?([A-Za-z]\\w*)`")

// TestLimitsPage holds docs/limits.md against the code: each constant that a row
// names is there, and each test.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	code, tests := sources(t)
	words := map[string]bool{}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
	for word := range strings.FieldsFuncSeq(code, between) {
		words[word] = true
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "limit" {
			continue
		}
		rows++
		for _, m := range limitConstant.FindAllStringSubmatch(cells[0], -1) {
			if !words[m[1]] {
				t.Errorf("docs/limits.md names %s, which the code doesn't have:\n%s", m[1], line)
			}
		}
		for _, name := range namedTest.FindAllString(cells[4], -1) {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("docs/limits.md names %s, which is no test:\n%s", name, line)
			}
		}
	}
	if rows < 50 {
		t.Errorf("docs/limits.md has %d rows that can be read; was its form changed?", rows)
	}
}
