package zooid

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage holds SECURITY.md against the code: each row names a test, and each test
// is there.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tests := sources(t)
	name := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z0-9]\w*`)
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		named := name.FindAllString(cells[3], -1)
		if len(named) == 0 && !strings.Contains(line, "there is no such ") {
			t.Errorf("SECURITY.md has a row without a test: %s", line)
		}
		for _, n := range named {
			if !strings.Contains(tests, "func "+n+"(") {
				t.Errorf("SECURITY.md names %s, which is no test", n)
			}
		}
	}
	if rows < 25 {
		t.Errorf("SECURITY.md has %d rows that can be read; was its form changed?", rows)
	}
}
