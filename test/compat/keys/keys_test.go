// Package keys asks Apache's server what it makes of the values of its keys.
package keys

import (
	"bufio"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// recorded is what internal/config is compared with where there is no Java.
const recorded = "../../../internal/config/testdata/apache_values.txt"

var rewrite = flag.Bool("rewrite", false, "record what Apache says")

// TestApacheValues starts Apache's server with each recorded value of each key, 1,000 times, and compares what becomes
// of it with the recording. With -short it starts with each tenth.
func TestApacheValues(t *testing.T) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("ZOOID_COMPAT=1 runs this; test/compat/install.sh fetches Apache")
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	fields := map[string]string{}
	var asked []int // indices of lines
	for i, line := range lines {
		if words := strings.Fields(line); len(words) == 4 && words[0] == "field" {
			fields[words[1]] = words[2]
		} else if !strings.HasPrefix(line, "# ") && (!testing.Short() || len(asked) == 0 || i%10 == 0) {
			asked = append(asked, i)
		}
	}
	questions := make([]string, len(asked))
	for i, at := range asked {
		part := strings.Split(lines[at], "\t")
		questions[i] = part[0] + "\t" + part[1]
		if field := fields[strings.TrimPrefix(part[0], "-D")]; field != "" {
			questions[i] += "\t" + field
		}
	}
	answers := ask(t, questions)
	differ := 0
	for i, at := range asked {
		part := strings.Split(lines[at], "\t")
		now := part[0] + "\t" + part[1] + "\t" + strings.TrimSuffix(answers[i], "\t?")
		if now == lines[at] {
			continue
		}
		differ++
		if !*rewrite {
			t.Errorf("recorded %q, now %q", lines[at], now)
		}
		lines[at] = now
	}
	t.Logf("asked %d values, %d answers are new", len(asked), differ)
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(recorded, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ask has the questions answered by as many Java programs as there are processors.
func ask(t *testing.T, questions []string) []string {
	t.Helper()
	cache := os.Getenv("ZOOID_COMPAT_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "zooid-compat")
	}
	var jars []string
	for _, folder := range []string{"apache-3.9", "apache-admin"} {
		found, err := filepath.Glob(filepath.Join(cache, folder, "*.jar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no jars in %s: run test/compat/install.sh (%v)", filepath.Join(cache, folder), err)
		}
		jars = append(jars, found...)
	}
	classes := t.TempDir()
	if out, err := exec.Command("javac", "-nowarn", "-d", classes, "testdata/Keys.java").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := make([]string, len(questions))
	programs := min(runtime.NumCPU(), len(questions))
	done := make(chan error, programs)
	for p := range programs {
		var mine []int
		for i := p; i < len(questions); i += programs {
			mine = append(mine, i)
		}
		java := exec.CommandContext(t.Context(), "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m",
			"--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
			"-Dkeys.jars="+strings.Join(jars, ":"), "-cp", classes, "Keys")
		java.Stderr = t.Output()
		in, err := java.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := java.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := java.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			lines := bufio.NewScanner(out)
			for _, i := range mine {
				if _, err := io.WriteString(in, questions[i]+"\n"); err != nil || !lines.Scan() {
					break
				}
				answers[i] = lines.Text()
			}
			in.Close()
			done <- java.Wait()
		}()
	}
	for range programs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if i := slices.Index(answers, ""); i >= 0 {
		t.Fatalf("no answer to %q", questions[i])
	}
	return answers
}
