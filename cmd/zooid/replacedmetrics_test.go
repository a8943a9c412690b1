//go:build unix

package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReplacedMetrics: each metric that docs/monitoring.md names in place of one of the JVM's is exported.
func TestReplacedMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Panels about the JVM\n")
	p := startServer(t, "clientPort="+port(t), "admin.enableServer=true", "admin.serverPort="+port(t))
	status, metrics := p.get("/metrics")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, metrics)
	}
	for _, missing := range notExported(section, metrics) {
		t.Errorf("docs/monitoring.md names %s, which no server exports", missing)
	}
	if all := notExported(section, ""); len(all) < 20 {
		t.Errorf("the table names only %q; was its form changed?", all)
	}
	if got := notExported("| a | `b` | `planted_metric` |", metrics); len(got) != 1 {
		t.Errorf("a name that isn't exported: %q", got)
	}
}

var metricName = regexp.MustCompile(`[a-z]\w*_\w+`)

// notExported returns the names in code of a table's third column that aren't among metrics.
func notExported(table, metrics string) (missing []string) {
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, "#") {
			break // the next section
		}
		if len(cells) != 5 {
			continue
		}
		for i, code := range strings.Split(cells[3], "`") {
			if i%2 == 0 {
				continue
			}
			for _, name := range metricName.FindAllString(code, -1) {
				if !strings.Contains("\n"+metrics, "\n"+name) {
					missing = append(missing, name)
				}
			}
		}
	}
	return missing
}
