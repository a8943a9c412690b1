package cli

import (
	"bytes"
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

var rewrite = stdflag.Bool("rewrite", false, "write the transcripts anew")

// session is a shell whose output is collected: lines of the error stream begin
// with "! ".
type session struct {
	s   *shell
	out collected
}

// collected is what a shell prints, some of it at any time: it watches its connection.
type collected struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *collected) WriteString(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(s)
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func (c *collected) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Reset()
}

// stream marks each line with a prefix.
type stream struct {
	to     *collected
	prefix string
}

func (w stream) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.to.WriteString(w.prefix + line)
	}
	return len(p), nil
}

func newSession(t testing.TB, address string) *session {
	t.Helper()
	v := new(session)
	opt := options{access: access.Access{Server: address}, timeout: 20 * time.Second, wait: true, version: "TEST"}
	v.s = newShell(opt, screen.New(stream{&v.out, ""}, stream{&v.out, "! "}))
	if code := v.s.start(t.Context()); code != 0 {
		t.Fatalf("start: exit code %d: %s", code, v.out.String())
	}
	t.Cleanup(v.s.close)
	return v
}

// run runs one line and returns what it printed, and the exit code if not 0.
func (v *session) run(t testing.TB, line string) string {
	v.out.Reset()
	v.s.line(t.Context(), line)
	out := v.out.String()
	if v.s.exit != 0 {
		out += fmt.Sprintf("(exit %d)\n", v.s.exit)
	}
	return out
}

var unstable = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`0x[1-9a-f][0-9a-f]*`), "0xN"},
	{regexp.MustCompile(`zxid: \d+`), "zxid: N"},
	{regexp.MustCompile(`\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}`), "DATE"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), "CLOCK"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+ *`), "ADDRESS "},
	{regexp.MustCompile(` +- +\d+/[\d.]+/\d+ .*`), " - FIGURES"}, // the first round has no rate
	{regexp.MustCompile(` +\d+ +\d+/[\d.]+/\d+ .*`), " FIGURES"},
	{regexp.MustCompile(`"(received|queued|receivedPerSecond|connections)":[\d.]+`), `"$1":N`},
	{regexp.MustCompile(`\.\d+\.part`), ".*.part"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "SHA256"},
	{regexp.MustCompile(`"latencyMs":"[^"]*"`), `"latencyMs":"L"`},
}

// stable replaces what differs from run to run.
func stable(text, folder string) string {
	text = strings.ReplaceAll(text, folder, "FOLDER")
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.with)
	}
	return text
}

// TestTranscripts runs the commands of each transcript and compares what they
// print. FOLDER stands for a folder of the run, ADDRESS for the server. With
// ZOOID_COMPAT=1 the same must come of Apache's server.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name+"/zooid", func(t *testing.T) {
			t.Parallel()
			replay(t, file, startZooid(t), *rewrite)
		})
	}
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		address := startApache(t)
		for _, file := range files { // one by one: they share a server
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				replay(t, file, address, false)
				c := newSession(t, address)
				c.run(t, "addauth digest super:test")
				c.run(t, "deleteall /t")
			})
		}
	})
}

func replay(t *testing.T, file, address string, write bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	v := newSession(t, address)
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		switch command, ok := strings.CutPrefix(line, "> "); {
		case strings.HasPrefix(line, "#"):
			got.WriteString(line)
		case ok:
			got.WriteString(line)
			command = strings.TrimSpace(strings.NewReplacer("FOLDER", folder, "ADDRESS", address).Replace(command))
			got.WriteString(stable(v.run(t, command), folder))
		}
	}
	if write {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := firstDifference(string(text), got.String()); diff != "" {
		t.Errorf("%s, at %s: %s\nif that is right, run the test with -rewrite", file, address, diff)
	}
}

// firstDifference tells where two texts part, "" if they don't.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	command := ""
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d, after %q:\n want %s\n  got %s", i+1, command, a, b)
		}
		if strings.HasPrefix(a, "> ") {
			command = a
		}
	}
	return ""
}
