package runbook

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/troubleshooting.md anew")

// TestEntries: codes have one form, ascend, and mean one thing each; texts are sentences.
func TestEntries(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ZD-[1-9][0-9]{3}$`)
	last, titles := "", map[string]string{}
	for _, s := range Sections() {
		for _, e := range s.Entries {
			if !form.MatchString(e.Code) || e.Code <= last {
				t.Errorf("%s after %s: codes are ZD- and four digits, ascending", e.Code, last)
			}
			last = e.Code
			if other := titles[e.Title]; other != "" {
				t.Errorf("%s and %s have one title", other, e.Code)
			}
			titles[e.Title] = e.Code
			if e.Title == "" || strings.HasSuffix(e.Title, ".") {
				t.Errorf("%s: the title is a line without a full stop", e.Code)
			}
			if !strings.HasSuffix(e.Cause, ".") || !strings.HasSuffix(e.Do, ".") {
				t.Errorf("%s: cause and what to do are sentences", e.Code)
			}
		}
	}
}

// TestPage holds docs/troubleshooting.md against the table; -rewrite writes it.
func TestPage(t *testing.T) {
	const page = "../../docs/troubleshooting.md"
	if *rewrite {
		if err := os.WriteFile(page, []byte(pageText()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != pageText() {
		t.Errorf("%s is not what the table says: write it with go test ./internal/runbook -run TestPage -rewrite", page)
	}
}

// pageWidth is the maximum line length of the page.
const pageWidth = 120

// pageText returns docs/troubleshooting.md.
func pageText() string {
	var b strings.Builder
	b.WriteString(`# Troubleshooting

Each warning and error of a server has a code. A log line has it at its end (code=ZD-2002), a message on the terminal
has it in parentheses. This page has an entry for each code; ` + "`zooid explain ZD-2002`" + ` prints one entry, and
` + "`zooid explain`" + ` lists all codes. A code keeps its meaning from version to version; the wording of messages may change.

This page is generated from the tables in internal/runbook.

`)
	for _, s := range Sections() {
		fmt.Fprintf(&b, "- [%s](#%s)\n", s.Title, anchor(s.Title))
	}
	for _, s := range Sections() {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, e := range s.Entries {
			fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n%s\n\n%s\n", e.Code, e.Title, Wrap(e.Cause, pageWidth),
				Wrap("**What to do.** "+e.Do, pageWidth))
		}
	}
	return b.String()
}

// anchor returns the link target of a heading: lower case, hyphens for spaces, no punctuation.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune(",'.:", r):
			return -1
		}
		return r
	}, strings.ToLower(title))
}

// TestText: a code is found through what wraps it, is no part of the error's own text, and each of several joined
// errors keeps its own.
func TestText(t *testing.T) {
	t.Parallel()
	full := Errorf("ZD-1114", "begin a log: %w", fs.ErrInvalid)
	slow := Errorf("ZD-2002", "sync the log")
	for _, c := range []struct {
		err        error
		code, text string
	}{
		{errors.New("plain"), "", "plain"},
		{full, "ZD-1114", "begin a log: invalid argument (ZD-1114)"},
		{fmt.Errorf("open: %w", full), "ZD-1114", "open: begin a log: invalid argument (ZD-1114)"},
		{Errorf("ZD-1100", "start: %w", full), "ZD-1100", "start: begin a log: invalid argument (ZD-1100)"},
		{errors.Join(full, errors.New("plain"), slow), "ZD-1114", "begin a log: invalid argument (ZD-1114)\nplain\nsync the log (ZD-2002)"},
		{fmt.Errorf("%w, nor this: %w", slow, full), "ZD-2002", "sync the log, nor this: begin a log: invalid argument (ZD-2002)"},
	} {
		if Code(c.err) != c.code || Text(c.err) != c.text {
			t.Errorf("%v: code %q, text %q; want %q, %q", c.err, Code(c.err), Text(c.err), c.code, c.text)
		}
	}
	if !errors.Is(full, fs.ErrInvalid) || strings.Contains(full.Error(), "ZD-") {
		t.Errorf("%v hides its cause, or shows its code", full)
	}
}
