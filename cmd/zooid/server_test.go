package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// TestCommandLine runs what doesn't start anything.
func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "usage:"}, {"help", 0, "server"}, {"nonsense", 2, `no command "nonsense"`}, {"version", 0, "zooid"},
		{"server -h", 0, "zoo.cfg"}, {"server -x", 2, "-x"}, {"server /does/not/exist", 2, "/does/not/exist"},
		{"log", 2, "DATADIR"}, {"log -help", 0, "usage:"}, {"help log", 0, "usage: zooid log"}, {"-v", 0, "protocol"},
		{"--version", 0, "protocol"}, {"statsu", 2, "did you mean status?"}, {"help nonsense", 2, `no command "nonsense"`},
		{"cert -h", 0, "issue server"}, {"cert", 2, "one of issue"},
		{"version x", 2, "usage: zooid version"}, {"version -h", 0, "usage: zooid version"},
		{"entrypoint -x", 2, "zooid entrypoint: "}, {"entrypoint --version", 0, "protocol"},
		{"bench", 2, "hint: zooid bench -h tells more"},
		{"help cli ls", 0, "print the names of a znode's children"},
		{"cli -nosuch", 2, "zooid cli: there is no flag -nosuch"},
		{"limits -nosuch list", 2, "zooid limits: there is no flag -nosuch"},
	} {
		var out bytes.Buffer
		code := run(strings.Fields(c.args), &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("zooid %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}

// TestHelpColumns: in the list of commands what a command does stands behind two spaces or more, by which man pages
// tell it from the arguments.
func TestHelpColumns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	usage(&out)
	for _, c := range commands() {
		line := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(c.name) + ` +` + regexp.QuoteMeta(c.args) + `  +` +
			regexp.QuoteMeta(c.about) + `$`)
		if !line.MatchString(out.String()) {
			t.Errorf("%s has no such line in\n%s", c.name, out.String())
		}
	}
}

// TestHelpFits: no line of a help text is wider than a usual terminal: of zooid, its commands and those of the shell.
func TestHelpFits(t *testing.T) {
	const columns = 100
	topics := []string{"help", "cli help", "cli --help"}
	for _, c := range commands() {
		topics = append(topics, "help "+c.name)
	}
	words, err := shellWords()
	if err != nil {
		t.Fatal(err)
	}
	for word := range words {
		topics = append(topics, "cli help "+word)
	}
	for _, topic := range topics {
		var out bytes.Buffer
		run(strings.Fields(topic), &out, &out)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("zooid %s: a line has %d columns, more than %d: %s", topic, n, columns, line)
			}
		}
	}
}

// TestServerUsage: after a wrong option, zooid server prints how it is used, not its whole help.
func TestServerUsage(t *testing.T) {
	t.Parallel()
	var errs strings.Builder
	code := run([]string{"server", "-nosuch"}, io.Discard, &errs)
	if lines := strings.Split(errs.String(), "\n"); code != 2 || len(lines) > 5 ||
		lines[0] != `zooid server: unknown option "-nosuch"` || !strings.HasPrefix(lines[1], "usage: zooid server") ||
		!strings.HasSuffix(errs.String(), "\n  hint: zooid server -h tells more\n") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// fullDisk takes no byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputLost: a command whose output can't be written says so, and fails.
func TestOutputLost(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"version", "-v", "help", "help log", "docs", "docs operations", "explain",
		"explain ZD-2002",
		"health -h", "init -dir " + t.TempDir()} {
		var errs strings.Builder
		if code := run(strings.Fields(words), fullDisk{}, &errs); code != 1 ||
			errs.String() != "zooid: print the result: no space left on device\n" {
			t.Errorf("zooid %s: exit %d, %q", words, code, &errs)
		}
	}
	var errs strings.Builder // an error that the command reports itself comes first
	if code := run([]string{"nonsense"}, fullDisk{}, &errs); code != 2 || strings.Contains(errs.String(), "no space") {
		t.Errorf("exit %d, %q", code, &errs)
	}
}
