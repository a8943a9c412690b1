package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/runbook"
)

// Error is one thing wrong with a configuration. Load returns all it found, joined: errors.As finds the first.
type Error struct {
	File    string // "" when the setting came with -D or from the command line
	Line    int    // 0 when the problem is not at one line, as for a key that is missing
	Key     string // as in zoo.cfg, or ""
	Value   string // what was given; *** for a secret, or ""
	Problem string // what is wrong, what is allowed or what to do
	Cause   error  // the file system's error, or nil
	Code    string // as in package runbook
}

// ErrorCode returns the code.
func (e *Error) ErrorCode() string { return e.Code }

// Unwrap returns the cause, so that errors.Is finds fs.ErrNotExist.
func (e *Error) Unwrap() error { return e.Cause }

// Error says place, key, value and problem in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(place(e.File, e.Line))
	switch {
	case e.Key != "" && e.Value != "":
		fmt.Fprintf(&b, "%s=%s: ", e.Key, printable(e.Value))
	case e.Key != "":
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Warning doesn't stop the server, but an operator should know about it. The caller logs it.
type Warning struct {
	File string // "" when the setting came with -D or from the command line
	Line int    // 0 when it is about no single line
	Key  string // as given
	Text string
	Code string // as in package runbook
}

// String says place, key and text in one line.
func (w Warning) String() string {
	if w.Key == "" {
		return place(w.File, w.Line) + w.Text
	}
	return place(w.File, w.Line) + printable(w.Key) + ": " + w.Text
}

// Do says what to do about it, in the words of its code's entry in the runbook.
func (w Warning) Do() string {
	entry, _ := runbook.Find(w.Code)
	return entry.Do
}

func place(file string, line int) string {
	switch {
	case file == "":
		return "command line: "
	case line == 0:
		return file + ": "
	}
	return fmt.Sprintf("%s:%d: ", file, line)
}

// printableMax bounds how much of a key or value is repeated in a message.
const printableMax = 200

// quoted puts a value in quotes, without control characters and cut to printableMax bytes.
func quoted(s string) string {
	if len(s) > printableMax {
		s = s[:printableMax] + "..."
	}
	return strconv.Quote(s)
}

// printable is quoted without the quotes.
func printable(s string) string {
	q := quoted(s)
	return q[1 : len(q)-1]
}
