package zooid

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// metricInQuery finds the metrics in a query: names with a selector behind them.
var metricInQuery = regexp.MustCompile(`([a-z_]+)\{`)

// TestMonitoring holds the alerts, the dashboard and docs/monitoring.md to each other and to the code: each alert has its entry
// and links to it, and each metric of a query is registered.
func TestMonitoring(t *testing.T) {
	code, _ := sources(t)
	names, err := os.ReadFile("internal/server/testdata/metric_names.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	known := func(query string) {
		t.Helper()
		for _, m := range metricInQuery.FindAllStringSubmatch(query, -1) {
			whole := m[1]
			base := whole
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if whole != "up" && !strings.Contains(code+string(names), whole) && !strings.Contains(code+string(names), base) {
				t.Errorf("no metric is called %s, which is in %s", whole, query)
			}
		}
	}
	text, err := os.ReadFile("deploy/prometheus/zooid.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		known(r.Expr)
		if !strings.Contains(string(page), "### "+r.Alert+"\n\n") {
			t.Errorf("docs/monitoring.md has no entry for the alert %s", r.Alert)
		}
		if url := r.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/monitoring.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s links to %q", r.Alert, url)
		}
	}
	if n := strings.Count(string(page), "\n### Zooid"); n != len(rules.Groups[0].Rules) || n == 0 {
		t.Errorf("docs/monitoring.md has %d entries for %d alerts", n, len(rules.Groups[0].Rules))
	}
	text, err = os.ReadFile("deploy/grafana/zooid.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			known(target.Expr)
		}
	}
	if queries < 40 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}
