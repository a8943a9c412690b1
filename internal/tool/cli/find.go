package cli

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/export"
)

// filter selects the znodes that find prints.
type filter struct {
	name     string         // glob; "" for any
	path     *regexp.Regexp // nil for any
	kind     screen.Kind    // "" for any
	bytes    bound
	children bound
	owner    string // "0x…"; "" for any
	after    int64  // changed at or after this time, ms since 1970; 0 for any
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
		return b, a.usagef("%s -%s: want a number, +number for more or -number for less, not %q", a.cmd.name, name,
			a.flags[name])
	}
	return b, nil
}

func readFilter(a *args, now time.Time) (f filter, err error) {
	f.name, f.kind, f.owner = a.flags["name"], screen.Kind(a.flags["type"]), a.flags["owner"]
	if _, err := path.Match(f.name, ""); err != nil {
		return f, a.usagef("find -name %q: %v", f.name, err)
	}
	if f.kind != "" && f.kind != screen.Persistent && f.kind != screen.Ephemeral {
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

func (f *filter) admits(n *subtree.Znode) bool {
	if f.name != "" {
		if ok, _ := path.Match(f.name, n.Path[strings.LastIndexByte(n.Path, '/')+1:]); !ok {
			return false
		}
	}
	k := screen.KindOf(n.Stat)
	switch {
	case f.path != nil && !f.path.MatchString(n.Path),
		f.kind != "" && f.kind != k,
		f.owner != "" && (k != screen.Ephemeral || f.owner != screen.Hex(n.Stat.EphemeralOwner)),
		f.after != 0 && n.Stat.Mtime < f.after,
		f.before != 0 && n.Stat.Mtime > f.before:
		return false
	}
	return f.bytes.admits(int64(n.Stat.DataLength)) && f.children.admits(int64(n.Stat.NumChildren))
}

// runFind prints the paths of the znodes that match all flags.
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
	w.System, w.Tolerant, w.DepthMax = true, true, int(depth)
	bad, hits := subtree.Unread{Out: s.out}, 0
	err = w.Each(ctx, func(n *subtree.Znode) error {
		if bad.Skip(n) || !f.admits(n) {
			return nil
		}
		hits++
		s.out.Show(found(n), func() { s.out.Printf("%s\n", s.out.PaintZnode(n.Path, n.Stat)) })
		return nil
	})
	return searched(err, &bad, "find", hits)
}

// searched returns the error that find and grep end with.
func searched(err error, bad *subtree.Unread, what string, hits int) error {
	if err == nil {
		err = bad.Err(what)
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
	w.Data, w.System, w.Tolerant = true, true, true
	bad, hits := subtree.Unread{Out: s.out}, 0
	err = w.Each(ctx, func(n *subtree.Znode) error {
		if bad.Skip(n) || !pattern.Match(n.Data) {
			return nil
		}
		hits++
		s.printMatches(a, n, pattern)
		return nil
	})
	return searched(err, &bad, "grep", hits)
}

func (s *shell) printMatches(a *args, n *subtree.Znode, pattern *regexp.Regexp) {
	switch name := s.out.Paint(screen.Magenta, s.out.Name(n.Path)); {
	case a.has("l"):
		s.out.Show(grepJSON{Path: n.Path}, func() { s.out.Printf("%s\n", name) })
	case a.has("c"):
		count := 0
		for line := range bytes.Lines(n.Data) {
			if pattern.Match(line) {
				count++
			}
		}
		s.out.Show(grepJSON{Path: n.Path, Hits: count}, func() { s.out.Printf("%s: %d\n", name, count) })
	case !export.Readable(n.Data):
		s.out.Show(grepJSON{Path: n.Path}, func() { s.out.Printf("%s: binary data matches\n", name) })
	default:
		number := 0
		for line := range bytes.Lines(n.Data) {
			number++
			line = bytes.TrimSuffix(line, []byte("\n"))
			if !pattern.Match(line) {
				continue
			}
			s.out.Show(grepJSON{Path: n.Path, Line: number, Text: string(line)}, func() {
				marked := pattern.ReplaceAllStringFunc(s.out.Printable(line),
					func(m string) string { return s.out.Paint(screen.Red, m) })
				s.out.Printf("%s:%d: %s\n", name, number, marked)
			})
		}
	}
}
