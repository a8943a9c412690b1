package compat

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// prometheusClass opens Apache's endpoint for Prometheus, and Zooid's.
const prometheusClass = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

// withEndpoint returns the lines of zoo.cfg that open the endpoint on a port.
func withEndpoint(port int) map[string]string {
	return map[string]string{
		"metricsProvider.className": prometheusClass, "metricsProvider.httpHost": "127.0.0.1",
		"metricsProvider.httpPort": fmt.Sprint(port),
	}
}

// scraped returns what an endpoint shows in the text format: of metrics of these names alone, if there are any.
func scraped(ctx context.Context, port int, names ...string) (string, error) {
	at := fmt.Sprintf("http://127.0.0.1:%d/metrics?%s", port, url.Values{"name[]": names}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return string(text), err
}

// ownMetrics are of the virtual machine, of Go's runtime and of the process.
var ownMetrics = regexp.MustCompile(`^(jvm|go|process)_`)

// TestPrometheusOfApache scrapes Apache and Zooid, each after the same requests, and compares the names, types and
// labels of all that Apache shows, and the names shown to a scrape that selects some; quantiles aside, of which Zooid
// shows those of Apache 3.10 too.
func TestPrometheusOfApache(t *testing.T) {
	reference, subject := programs(t)
	if reference.Name == Apache39 { // its endpoint is a part of its own
		folder := filepath.Join(cacheFolder(t), "apache-3.9-metrics")
		needFile(t, filepath.Join(folder, "stamp"))
		reference.classPath += string(filepath.ListSeparator) + filepath.Join(folder, "*")
	} else {
		t.Skipf("the endpoint of %s is not installed", reference.Name)
	}
	want, got := endpointOf(t, reference), endpointOf(t, subject)
	if len(want) < 120 {
		t.Fatalf("%s shows only %d metrics", reference.Name, len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %s shows %q, %s %q", name, reference.Name, want[name], subject.Name, got[name])
		}
	}
	fmt.Printf("\n%s: %d metrics of %s compared\n", t.Name(), len(want), reference.Name)
}

// endpointOf runs a server, asks it a few things, and returns type and labels of each metric that has a value.
func endpointOf(t *testing.T, p Program) map[string]string {
	t.Helper()
	port := freeport.Take(t, 1)[0]
	s := Start(t, p, Options{Config: withEndpoint(port)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, path := range []string{"/app", "/app/a"} {
		if _, err := c.Create(ctx, path, []byte("x"), zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Get(ctx, "/app/a"); err != nil {
		t.Fatal(err)
	}
	text, err := scraped(ctx, port)
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	selected, err := scraped(ctx, port, "znode_count", "updatelatency_count", "nosuch")
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	shown := shownBy(text)
	shown["by name[]"] = fmt.Sprint(slices.Sorted(maps.Keys(shownBy(selected))))
	return shown
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+?)(?:_sum|_count)?(?:\{([^}\n]*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="`)
)

// shownBy returns type and names of labels of each metric that has a value in a page.
func shownBy(page string) map[string]string {
	types := map[string]string{}
	for _, m := range typeLine.FindAllStringSubmatch(page, -1) {
		types[m[1]] = m[2]
	}
	shown := map[string]string{}
	for line := range strings.Lines(page) {
		m := sampleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels := m[1], m[2]
		if whole, _, _ := strings.Cut(strings.Fields(line)[0], "{"); types[whole] != "" {
			name = whole // it ends in _count itself
		}
		if ownMetrics.MatchString(name) || strings.Contains(labels, "quantile=") {
			continue
		}
		var names []string
		for _, l := range labelName.FindAllStringSubmatch(labels, -1) {
			names = append(names, l[1])
		}
		shown[name] = types[name] + " " + strings.Join(names, ",")
	}
	return shown
}
