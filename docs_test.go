package zooid

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

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
