package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

type usageJSON struct {
	Path       string `json:"path"`
	Znodes     int64  `json:"znodes"`
	Bytes      int64  `json:"bytes"` // of data
	Ephemerals int64  `json:"ephemerals"`
	depth      int
}

// usages adds up sizes along a walk: a subtree is complete when the walk leaves it.
type usages struct {
	open []usageJSON // from the root to the current znode
	done func(usageJSON)
}

func (u *usages) add(n *subtree.Znode) {
	u.leave(n.Depth)
	one := usageJSON{Path: n.Path, Znodes: 1, Bytes: int64(n.Stat.DataLength), depth: n.Depth}
	if screen.KindOf(n.Stat) == screen.Ephemeral {
		one.Ephemerals = 1
	}
	u.open = append(u.open, one)
}

// leave completes everything at depth and below.
func (u *usages) leave(depth int) {
	for len(u.open) > depth {
		one := u.open[len(u.open)-1]
		u.open = u.open[:len(u.open)-1]
		if len(u.open) > 0 {
			above := &u.open[len(u.open)-1]
			above.Znodes += one.Znodes
			above.Bytes += one.Bytes
			above.Ephemerals += one.Ephemerals
		}
		u.done(one)
	}
}

// runDu prints how many znodes and bytes each subtree holds.
func runDu(ctx context.Context, s *shell, a *args) error {
	depth, err := a.number("d", -1)
	if err != nil {
		return err
	}
	if a.has("s") {
		depth = 0
	}
	top, err := a.number("n", 0)
	if err != nil {
		return err
	}
	var kept []usageJSON
	u := usages{done: func(one usageJSON) {
		switch {
		case depth >= 0 && int64(one.depth) > depth:
		case top > 0:
			kept = append(kept, one)
			if int64(len(kept)) >= 2*top+1000 { // keep memory bounded
				kept = largest(kept, int(top))
			}
		default:
			s.printUsage(a, one)
		}
	}}
	w := s.walk(s.client, a.argOr(0, "/"))
	w.System, w.Tolerant = true, true
	bad := subtree.Unread{Out: s.out}
	err = w.Each(ctx, func(n *subtree.Znode) error {
		if !bad.Skip(n) {
			u.add(n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	u.leave(0)
	for _, one := range largest(kept, int(top)) {
		s.printUsage(a, one)
	}
	return bad.Err("du")
}

// largest returns the n subtrees with the most bytes, the largest first.
func largest(list []usageJSON, n int) []usageJSON {
	slices.SortStableFunc(list, func(a, b usageJSON) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Znodes, a.Znodes), cmp.Compare(a.Path, b.Path))
	})
	return list[:min(n, len(list))]
}

func (s *shell) printUsage(a *args, one usageJSON) {
	s.out.Show(one, func() {
		s.out.Printf("%10s %9d  %s\n", sizeText(one.Bytes, !a.has("h")), one.Znodes, s.out.Name(one.Path))
	})
}

// sizeText returns a number of bytes, in a unit that suits it unless exact.
func sizeText(n int64, exact bool) string {
	if exact || n < 1024 {
		if exact {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 3 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit])
}
