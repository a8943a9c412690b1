package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/runbook"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// A transcript is a list of cases:
//
//	== title
//	def NAME=VALUE         a -D property; any number
//	args 2181 DIR          the positional form instead of zoo.cfg
//	default                no configuration at all
//	show Storage.SnapCount a field to print; any number
//	-- NAME --             a file in the case's directory, zoo.cfg being the one loaded; DIR stands for the directory
//	----                   then what Load gave
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, c := range strings.Split("\n"+string(old), "\n== ")[1:] {
				input, _, _ := strings.Cut(c, "\n----\n")
				input = strings.TrimRight(input, "\n")
				fmt.Fprintf(&out, "== %s\n----\n%s\n", input, transcribe(t, input))
			}
			got := strings.TrimSuffix(out.String(), "\n")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(old) {
				t.Errorf("%s differs from what the code gives (run with -rewrite and read the diff):\n%s", file,
					firstDifference(string(old), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return "one ends before the other"
}

// transcribe runs one case.
func transcribe(t *testing.T, input string) string {
	dir := t.TempDir()
	var defs, args, show []string
	load := func() (*Config, error) { return Load(filepath.Join(dir, "zoo.cfg"), defs) }
	lines := strings.Split(strings.ReplaceAll(input, "DIR", dir), "\n")
	var file *os.File
	for _, line := range lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --"):
			var err error
			if file, err = os.Create(filepath.Join(dir, strings.Trim(line, "- "))); err != nil {
				t.Fatal(err)
			}
			defer file.Close()
		case file != nil:
			fmt.Fprintln(file, line)
		case word == "def":
			defs = append(defs, rest)
		case word == "args":
			args = strings.Fields(rest)
			load = func() (*Config, error) { return Standalone(args, defs) }
		case word == "default":
			load = func() (*Config, error) { return Default(defs) }
		case word == "show":
			show = append(show, strings.Fields(rest)...)
		default:
			t.Fatalf("case %q: what is %q?", lines[0], line)
		}
	}
	c, err := load()
	return strings.ReplaceAll(outcome(c, err, show), dir, "DIR")
}

func outcome(c *Config, err error, show []string) string {
	var b strings.Builder
	if err != nil {
		for _, line := range strings.Split(runbook.Text(err), "\n") {
			fmt.Fprintf(&b, "error: %s\n", line)
		}
		return b.String()
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s (%s)\n", w, w.Code)
	}
	for _, name := range show {
		v := reflect.ValueOf(*c)
		for _, field := range strings.Split(name, ".") {
			v = v.FieldByName(field)
		}
		fmt.Fprintf(&b, "%s = %v\n", name, v.Interface())
	}
	if b.Len() == 0 {
		b.WriteString("ok\n")
	}
	return b.String()
}

func TestFourLetterWordsAllowed(t *testing.T) {
	t.Parallel()
	for whitelist, want := range map[string]string{"": "srvr", "mntr": "mntr srvr", "*": "dump mntr srvr newword"} {
		c, err := Default([]string{"zookeeper.4lw.commands.whitelist=" + whitelist})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"dump", "mntr", "srvr", "newword"} {
			if got := c.FourLetter.All || slices.Contains(c.FourLetter.Words, word); got != strings.Contains(want, word) {
				t.Errorf("whitelist %q: %s allowed is %v", whitelist, word, got)
			}
		}
	}
}

func TestFilesBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zoo.cfg")
	for size, ok := range map[int]bool{fileMax: true, fileMax + 1: false} {
		text := "dataDir=/d\nclientPort=1\n#"
		if err := os.WriteFile(path, []byte(text+strings.Repeat("x", size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, nil); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	l := newLoader("zoo.cfg")
	l.failAt("ZD-1002", setting{"zoo.cfg", 3, "hunter2"}, "ssl.keyStore.password", "no such password")
	if got, want := l.errs[0].Error(), "zoo.cfg:3: ssl.keyStore.password=***: no such password"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRelativePaths: relative paths in zoo.cfg begin in the working directory, or beside the file if it says so.
func TestRelativePaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, want := range map[string]string{"": "data", "relativePaths=file\n": filepath.Join(dir, "data")} {
		file := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(file, []byte("dataDir=data\nclientPort=2181\n"+line), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(file, nil); err != nil || c.Storage.DataDir != want {
			t.Errorf("%q: the data directory is %q, want %q: %v", line, c.Storage.DataDir, want, err)
		}
	}
}

// TestLinkedLogDirectory: a dataLogDir that is a link to dataDir is dataDir, which is locked once.
func TestLinkedLogDirectory(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "zoo.cfg")
	link := filepath.Join(filepath.Dir(file), "log")
	text := fmt.Sprintf("dataDir=%s\ndataLogDir=%s\nclientPort=2181\n", dir, link)
	if err := errors.Join(os.Symlink(dir, link), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, nil)
	if err != nil || c.Storage.DataLogDir != dir {
		t.Errorf("%+v, %v", c.Storage, err)
	}
}
