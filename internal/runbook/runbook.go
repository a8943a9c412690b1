// Package runbook holds the codes of errors and warnings, and what to do about each.
//
// A code is stable: it names one event for as long as Zooid can report that event, even if the wording changes. Log
// lines at the levels warn and error carry it as the attribute code, which Handler adds to lines from packages that
// run in the simulator. Errors carry it as a value that Code finds, and Text puts it after the message where an error
// leaves the program. `zooid explain CODE` prints an entry, and docs/troubleshooting.md is generated from all of them.
package runbook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Entry is what the runbook says about one code.
type Entry struct {
	Code  string // ZD- followed by four digits
	Title string // what happened, in one line
	Cause string // why it happens
	Do    string // what to do about it
}

// Section is a group of entries whose codes have a common prefix.
type Section struct {
	Title   string
	Entries []Entry
}

// Sections returns the whole runbook, sorted by code.
func Sections() []Section {
	return []Section{
		{"Configuration", configuration},
		{"Starting a server", starting},
		{"TLS, logins and the ensemble's secret", securing},
		{"The log and the disk", disk},
		{"Memory", memory},
		{"Leaders and clocks", leaders},
		{"Connections between servers", peers},
		{"Membership", membership},
		{"Versions and snapshots of peers", versions},
		{"Replicas that differ, entries that can't be applied", replicas},
		{"Clients", clients},
	}
}

// Find returns the entry of a code. Case doesn't matter, and the prefix ZD- may be left out.
func Find(code string) (Entry, bool) {
	code = strings.ToUpper(code)
	if !strings.HasPrefix(code, prefix) {
		code = prefix + code
	}
	for _, s := range Sections() {
		if i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Code == code }); i >= 0 {
			return s.Entries[i], true
		}
	}
	return Entry{}, false
}

const prefix = "ZD-"

// coded is an error with a code.
type coded struct {
	error
	code string
}

func (e *coded) Unwrap() error { return e.error }

// ErrorCode returns the code.
func (e *coded) ErrorCode() string { return e.code }

// Errorf is fmt.Errorf for an error with a code. The code isn't part of the error's text.
func Errorf(code, format string, args ...any) error { return &coded{fmt.Errorf(format, args...), code} }

// Code returns the code of err: the one of the outermost error in its tree that has one, or "".
func Code(err error) string {
	var c interface{ ErrorCode() string }
	if errors.As(err, &c) {
		return c.ErrorCode()
	}
	return ""
}

// Text returns err's message followed by its code. Joined errors have a line and a code each.
func Text(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines, plain []string
		for _, e := range joined.Unwrap() {
			lines, plain = append(lines, Text(e)), append(plain, e.Error())
		}
		if strings.Join(plain, "\n") == err.Error() { // rather than one message that wraps several errors
			return strings.Join(lines, "\n")
		}
	}
	if code := Code(err); code != "" {
		return err.Error() + " (" + code + ")"
	}
	return err.Error()
}

// Wrap breaks a text into lines of at most most characters.
func Wrap(text string, most int) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			width = n
		case width+1+n > most:
			b.WriteByte('\n')
			width = n
		default:
			b.WriteByte(' ')
			width += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
