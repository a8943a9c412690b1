package cli

import (
	"context"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// foundJSON is a znode as tree, find and du print it.
type foundJSON struct {
	Path     string `json:"path"`
	Kind     kind   `json:"kind"`
	Bytes    int32  `json:"bytes"`
	Children int32  `json:"children"`
	Unread   bool   `json:"unread,omitempty"`
}

func found(n *znode) foundJSON {
	return foundJSON{n.path, kindOf(n.stat), n.stat.DataLength, n.stat.NumChildren, n.err != nil}
}

// painted returns a znode's name in the colour of its kind.
func (o *output) painted(name string, st zk.Stat) string {
	name = o.name(name)
	switch {
	case kindOf(st) == ephemeral:
		return o.paint(magenta, name)
	case st.NumChildren > 0:
		return o.paint(blue, name)
	}
	return name
}

// runTree draws a subtree.
func runTree(ctx context.Context, s *shell, a *args) error {
	depth, err := a.number("L", -1)
	if err != nil {
		return err
	}
	w := s.walk(s.client, a.argOr(0, "/"))
	w.system, w.tolerant, w.depthMax = true, true, int(depth)
	var lasts []bool // of the znodes from below the root to the current one
	count, bad := 0, unread{s: s}
	err = w.each(ctx, func(n *znode) error {
		count++
		if n.err != nil {
			bad.n++ // its line says so
		}
		if s.out.json {
			s.out.value(found(n))
			return nil
		}
		lasts = lasts[:max(0, n.depth-1)]
		var line strings.Builder
		for _, last := range lasts {
			line.WriteString(map[bool]string{true: "    ", false: "│   "}[last])
		}
		if n.depth > 0 {
			line.WriteString(map[bool]string{true: "└── ", false: "├── "}[n.last])
			lasts = append(lasts, n.last)
		}
		line.WriteString(s.out.painted(n.name, n.stat))
		switch {
		case n.err != nil:
			line.WriteString(s.out.paint(red, " [no permission]"))
		case a.has("s"):
			line.WriteString(" (" + sizeText(int64(n.stat.DataLength), false) + ")")
		}
		s.out.printf("%s\n", line.String())
		return nil
	})
	if err == nil && !s.out.json {
		s.out.printf("\n%s\n", describeCount(count))
	}
	if err == nil {
		err = bad.err("tree")
	}
	return err
}
