package cli

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// difference is one path at which two subtrees differ. from or to is nil if the znode
// is missing on that side.
type difference struct {
	path     string // relative; "" is the top
	from, to *subtree.Znode
	data     bool // the data differs
	acl      bool // the ACL differs
}

// compare walks two subtrees side by side and calls tell for each difference, in the
// order of the paths. Ephemeral znodes count as missing.
func (s *shell) compare(ctx context.Context, what string, from, to *place, withACL bool,
	tell func(difference) error) error {
	return s.sideBySide(ctx, what, from, to, withACL, func(d difference) error {
		if d.from != nil && screen.KindOf(d.from.Stat) == screen.Ephemeral {
			d.from = nil
		}
		if d.to != nil && screen.KindOf(d.to.Stat) == screen.Ephemeral {
			d.to = nil
		}
		if d.from == nil && d.to == nil || d.from != nil && d.to != nil && !d.data && !d.acl {
			return nil
		}
		return tell(d)
	})
}

// sideBySide walks two subtrees and calls tell for each path that exists in either, in
// order, whether or not the znodes differ. It is an error if the server hides part of
// an ACL, as that ACL can't be compared.
func (s *shell) sideBySide(ctx context.Context, what string, from, to *place, withACL bool,
	tell func(difference) error) error {
	p := s.out.Progress(what+" "+from.label+" "+to.label).OfTree(ctx, from.c, from.path)
	defer p.End()
	left, stopLeft := iter.Pull2(from.walk(s, "compare", withACL).All(ctx))
	defer stopLeft()
	right, stopRight := iter.Pull2(to.walk(s, "compare", withACL).All(ctx))
	defer stopRight()
	a, errA, _ := left()
	b, errB, _ := right()
	for {
		// If the top is missing, that side is empty.
		if errA != nil && !subtree.Gone(errA) {
			return errA
		}
		if errB != nil && !subtree.Gone(errB) {
			return errB
		}
		if a == nil && b == nil {
			return nil
		}
		p.Add(1)
		d := difference{from: a, to: b}
		switch order := orderOf(from, a, to, b); {
		case order < 0:
			d.to = nil
		case order > 0:
			d.from = nil
		}
		if d.from != nil {
			d.path = from.relative(a.Path)
			a, errA, _ = left()
		} else {
			d.path = to.relative(b.Path)
		}
		if d.to != nil {
			b, errB, _ = right()
		}
		if err := d.judge(withACL); err != nil {
			return err
		}
		if err := tell(d); err != nil {
			return err
		}
	}
}

// judge sets data and acl according to how the two znodes differ.
func (d *difference) judge(withACL bool) error {
	if d.from == nil || d.to == nil {
		return nil
	}
	d.data = !bytes.Equal(d.from.Data, d.to.Data) || (d.from.Data == nil) != (d.to.Data == nil)
	if !withACL {
		return nil
	}
	for _, n := range []*subtree.Znode{d.from, d.to} {
		if _, err := readACL(n, true); err != nil {
			return err
		}
	}
	d.acl = !sameACL(d.from.ACL, d.to.ACL)
	return nil
}

// orderOf compares the positions of two walks: negative if the first is behind, 0 if
// both are at the same path. A nil znode is after all others.
func orderOf(from *place, a *subtree.Znode, to *place, b *subtree.Znode) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return slices.Compare(strings.Split(from.relative(a.Path), "/"), strings.Split(to.relative(b.Path), "/"))
}

func sameACL(a, b []zk.ACL) bool { return subtree.ACLText(a) == subtree.ACLText(b) }

type differenceJSON struct {
	Path string   `json:"path"`
	Kind string   `json:"difference"` // onlyFrom, onlyTo, changed
	What []string `json:"what,omitempty"`
}

// runDiff prints where two subtrees differ: - only in the first, + only in the
// second, ! in both but different.
func runDiff(ctx context.Context, s *shell, a *args, from, to *place) error {
	if err := s.exist(ctx, from, to); err != nil {
		return err
	}
	same := true
	err := s.compare(ctx, "diff", from, to, !a.has("noacl"), func(d difference) error {
		same = false
		s.printDifference(d)
		return nil
	})
	if err == nil && !same {
		return verdictError{}
	}
	return err
}

// exist fails unless the top of each place exists: a typo must not look like an empty
// tree.
func (s *shell) exist(ctx context.Context, places ...*place) error {
	for _, p := range places {
		if _, ok, err := p.c.Exists(ctx, p.path); err != nil {
			return err
		} else if !ok {
			return &zk.Error{Op: "exists", Path: p.path, Err: zk.ErrNoNode}
		}
	}
	return nil
}

func (s *shell) printDifference(d difference) {
	v := differenceJSON{Path: d.path}
	v.Path = cmp.Or(v.Path, "/")
	mark, c := "!", screen.Yellow
	switch {
	case d.to == nil:
		v.Kind, mark, c = "onlyFrom", "-", screen.Red
	case d.from == nil:
		v.Kind, mark, c = "onlyTo", "+", screen.Green
	default:
		v.Kind = "changed"
		if d.data {
			v.What = append(v.What, "data")
		}
		if d.acl {
			v.What = append(v.What, "acl")
		}
	}
	s.out.Show(v, func() {
		line := mark + " " + s.out.Name(v.Path)
		if v.What != nil {
			line += " (" + strings.Join(v.What, ", ") + ")"
		}
		s.out.Printf("%s\n", s.out.Paint(c, line))
	})
}
