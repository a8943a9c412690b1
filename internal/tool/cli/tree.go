package cli

import (
	"context"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// foundJSON is a znode as tree, find and du print it.
type foundJSON struct {
	Path     string      `json:"path"`
	Kind     screen.Kind `json:"kind"`
	Bytes    int32       `json:"bytes"`
	Children int32       `json:"children"`
	Unread   bool        `json:"unread,omitempty"`
}

func found(n *subtree.Znode) foundJSON {
	return foundJSON{n.Path, screen.KindOf(n.Stat), n.Stat.DataLength, n.Stat.NumChildren, n.Err != nil}
}

// runTree draws a subtree.
func runTree(ctx context.Context, s *shell, a *args) error {
	depth, err := a.number("L", -1)
	if err != nil {
		return err
	}
	w := s.walk(s.client, a.argOr(0, "/"))
	w.System, w.Tolerant, w.DepthMax = true, true, int(depth)
	var lasts []bool // of the znodes from below the root to the current one
	count, bad := 0, subtree.Unread{Out: s.out}
	err = w.Each(ctx, func(n *subtree.Znode) error {
		count++
		if n.Err != nil {
			bad.N++ // its line says so
		}
		if s.out.JSON {
			s.out.Value(found(n))
			return nil
		}
		lasts = lasts[:max(0, n.Depth-1)]
		var line strings.Builder
		for _, last := range lasts {
			line.WriteString(map[bool]string{true: "    ", false: "│   "}[last])
		}
		if n.Depth > 0 {
			line.WriteString(map[bool]string{true: "└── ", false: "├── "}[n.Last])
			lasts = append(lasts, n.Last)
		}
		line.WriteString(s.out.PaintZnode(n.Name, n.Stat))
		switch {
		case n.Err != nil:
			line.WriteString(s.out.Paint(screen.Red, " [no permission]"))
		case a.has("s"):
			line.WriteString(" (" + sizeText(int64(n.Stat.DataLength), false) + ")")
		}
		s.out.Printf("%s\n", line.String())
		return nil
	})
	if err == nil && !s.out.JSON {
		s.out.Printf("\n%s\n", subtree.Count(count))
	}
	if err == nil {
		err = bad.Err("tree")
	}
	return err
}
