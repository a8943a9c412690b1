package differ

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/test/compat"
)

func readScript(t *testing.T, w *vocabulary, file string) []step {
	t.Helper()
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := w.parse(string(script))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return steps
}

// TestReaping compares what becomes of containers and TTL znodes, and the events of it. When is left open.
func TestReaping(t *testing.T) {
	p := startPair(t, compat.Options{Properties: map[string]string{
		"zookeeper.extendedTypesEnabled":  "true",
		"znode.container.checkIntervalMs": "100",
	}})
	steps := readScript(t, p.words, filepath.Join("testdata", "reaping.txt"))
	a, b, err := p.play(steps)
	if err != nil {
		t.Fatal(err)
	}
	a, b = gather(a), gather(b)
	c := comparison{excuse: excuse(nil)}
	if d := c.compare(steps, a, b); d != nil {
		t.Fatal(p.report(outcome{steps: steps, a: a, b: b, differs: d}))
	}
	const events = 16 // all that the script awaits
	if n := len(a[len(a)-1].events); n != events {
		t.Errorf("%d events; the script should see %d", n, events)
	}
}

// TestWhatEndsApache plays scripts that end Apache's server, which is why no generated script does the like. Zooid goes
// on.
func TestWhatEndsApache(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "ends-apache", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p := startPair(t, rich)
			steps := readScript(t, p.words, file)
			a, b, err := p.play(steps)
			if err != nil {
				t.Fatal(err)
			}
			last := len(steps) - 1
			if b[last].err != "0" {
				t.Errorf("Zooid's connection was to live; the last steps showed %s and %s", b[last-1].format(), b[last].format())
			}
			if a[last].err == "0" {
				t.Errorf("Apache goes on: the last steps showed %s and %s", a[last-1].format(), a[last].format())
			}
			if conn, err := net.Dial("tcp", p.addrs[1]); err != nil {
				t.Errorf("Zooid takes no connection: %v", err)
			} else {
				conn.Close()
			}
		})
	}
}
