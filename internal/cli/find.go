package cli

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/export"
)

// filter decides which znodes find prints.
type filter struct {
	name     string         // glob; "" for any
	path     *regexp.Regexp // nil for any
	kind     kind           // "" for any
	bytes    bound
	children bound
	owner    string // "0x…"; "" for any
	after    int64  // changed since, ms; 0 for ever
	before   int64
}

// bound is a limit such as +10 (more), -10 (less) or 10.
type bound struct {
	set  bool
	sign byte // '+', '-' or 0
	n    int64
}

func (b bound) admits(n int64) bool {
	switch {
	case !b.set:
		return true
	case b.sign == '+':
		return n > b.n
	case b.sign == '-':
		return n < b.n
	}
	return n == b.n
}

func (a *args) bound(name string) (b bound, err error) {
	text, ok := a.flags[name]
	if !ok {
		return b, nil
	}
	b.set = true
	if text != "" && (text[0] == '+' || text[0] == '-') {
		b.sign, text = text[0], text[1:]
	}
	if b.n, err = strconv.ParseInt(text, 10, 64); err != nil {
		return b, a.usagef("%s -%s: want a number, +number for more or -number for less, not %q", a.cmd.name, name, a.flags[name])
	}
	return b, nil
}

func readFilter(a *args, now time.Time) (f filter, err error) {
	f.name, f.kind, f.owner = a.flags["name"], kind(a.flags["type"]), a.flags["owner"]
	if _, err := path.Match(f.name, ""); err != nil {
		return f, a.usagef("find -name %q: %v", f.name, err)
	}
	if f.kind != "" && f.kind != persistent && f.kind != ephemeral {
		return f, a.usagef("find -type %q: want persistent or ephemeral", f.kind)
	}
	if text, ok := a.flags["path"]; ok {
		if f.path, err = regexp.Compile(text); err != nil {
			return f, a.usagef("find -path: %v", err)
		}
	}
	if f.bytes, err = a.bound("size"); err != nil {
		return f, err
	}
	if f.children, err = a.bound("children"); err != nil {
		return f, err
	}
	for flag, limit := range map[string]*int64{"newer": &f.after, "older": &f.before} {
		age, err := a.duration(flag, 0)
		if err != nil {
			return f, err
		}
		if age > 0 {
			*limit = now.Add(-age).UnixMilli()
		}
	}
	return f, nil
}

func (f *filter) admits(n *znode) bool {
	if f.name != "" {
		if ok, _ := path.Match(f.name, n.path[strings.LastIndexByte(n.path, '/')+1:]); !ok {
			return false
		}
	}
	k := kindOf(n.stat)
	switch {
	case f.path != nil && !f.path.MatchString(n.path),
		f.kind != "" && f.kind != k,
		f.owner != "" && (k != ephemeral || f.owner != hex(n.stat.EphemeralOwner)),
		f.after != 0 && n.stat.Mtime < f.after,
		f.before != 0 && n.stat.Mtime > f.before:
		return false
	}
	return f.bytes.admits(int64(n.stat.DataLength)) && f.children.admits(int64(n.stat.NumChildren))
}

// runFind prints the paths of znodes that all the flags describe.
func runFind(ctx context.Context, s *shell, a *args) error {
	f, err := readFilter(a, time.Now())
	if err != nil {
		return err
	}
	depth, err := a.number("maxdepth", -1)
	if err != nil {
		return err
	}
	w := s.walk(s.client, a.argOr(0, "/"))
	w.system, w.tolerant, w.depthMax = true, true, int(depth)
	bad, hits := unread{s: s}, 0
	err = w.each(ctx, func(n *znode) error {
		if bad.skip(n) || !f.admits(n) {
			return nil
		}
		hits++
		s.out.show(found(n), func() { s.out.printf("%s\n", s.out.painted(n.path, n.stat)) })
		return nil
	})
	return searched(err, &bad, "find", hits)
}

// searched is what find and grep end with.
func searched(err error, bad *unread, what string, hits int) error {
	if err == nil {
		err = bad.err(what)
	}
	if err == nil && hits == 0 {
		return verdictError{}
	}
	return err
}

type grepJSON struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`
	Hits int    `json:"hits,omitempty"`
}

// runGrep prints the lines of znodes' data that match a pattern.
func runGrep(ctx context.Context, s *shell, a *args) error {
	text := a.arg(0)
	if a.has("F") {
		text = regexp.QuoteMeta(text)
	}
	if a.has("i") {
		text = "(?i)" + text
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return a.usagef("grep: %v; -F takes the pattern as plain text", err)
	}
	w := s.walk(s.client, a.argOr(1, "/"))
	w.data, w.system, w.tolerant = true, true, true
	bad, hits := unread{s: s}, 0
	err = w.each(ctx, func(n *znode) error {
		if bad.skip(n) || !pattern.Match(n.data) {
			return nil
		}
		hits++
		s.printMatches(a, n, pattern)
		return nil
	})
	return searched(err, &bad, "grep", hits)
}

func (s *shell) printMatches(a *args, n *znode, pattern *regexp.Regexp) {
	switch name := s.out.paint(magenta, s.out.name(n.path)); {
	case a.has("l"):
		s.out.show(grepJSON{Path: n.path}, func() { s.out.printf("%s\n", name) })
	case a.has("c"):
		count := 0
		for line := range bytes.Lines(n.data) {
			if pattern.Match(line) {
				count++
			}
		}
		s.out.show(grepJSON{Path: n.path, Hits: count}, func() { s.out.printf("%s: %d\n", name, count) })
	case !export.Readable(n.data):
		s.out.show(grepJSON{Path: n.path}, func() { s.out.printf("%s: binary data matches\n", name) })
	default:
		number := 0
		for line := range bytes.Lines(n.data) {
			number++
			line = bytes.TrimSuffix(line, []byte("\n"))
			if !pattern.Match(line) {
				continue
			}
			s.out.show(grepJSON{Path: n.path, Line: number, Text: string(line)}, func() {
				marked := pattern.ReplaceAllStringFunc(s.out.printable(line), func(m string) string { return s.out.paint(red, m) })
				s.out.printf("%s:%d: %s\n", name, number, marked)
			})
		}
	}
}

// describeCount returns "1 znode", "2 znodes".
func describeCount(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return fmt.Sprintf("%d znodes", n)
}
