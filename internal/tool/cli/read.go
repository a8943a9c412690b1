package cli

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/export"
	"github.com/zooid-project/zooid/zk"
)

// znodeJSON is the output of get, ls and stat.
type znodeJSON struct {
	Path string `json:"path"`
	screen.Content
	Children *[]string        `json:"children,omitempty"`
	Stat     *screen.StatJSON `json:"stat,omitempty"`
}

// pathAndWatch returns the path of get, ls or stat, and whether to leave a watch. In zkCli's old form, a second word
// asks for a watch. pathAndWatch then warns, as zkCli does, that usage has replaced that form.
func (s *shell) pathAndWatch(a *args, usage string) (path string, watch bool) {
	if len(a.words) > 1 {
		s.out.Notef("'%s path [watch]' has been deprecated. Please use '%s %s' instead.", a.cmd.name, a.cmd.name, usage)
		return a.arg(0), true
	}
	return a.arg(0), a.has("w")
}

// checkOnePath refuses a second argument that looks like a path. In zkCli's old form, any second word asks for a watch.
func checkOnePath(a *args) error {
	if len(a.words) > 1 && strings.HasPrefix(a.words[1], "/") {
		return a.usagef("%s takes one path, and %q is one more", a.cmd.name, a.words[1])
	}
	return nil
}

// readWatched reads a znode by plain. If watch is set, it reads by watched instead, and the shell follows the watch.
func readWatched[A, B any](ctx context.Context, s *shell, path string, watch bool,
	plain func(*zk.Client, context.Context, string) (A, B, error),
	watched func(*zk.Client, context.Context, string) (A, B, *zk.Watch, error)) (A, B, error) {
	if !watch {
		return plain(s.client, ctx, path)
	}
	a, b, w, err := watched(s.client, ctx, path)
	s.follow(w)
	return a, b, err
}

func runGet(ctx context.Context, s *shell, a *args) error {
	path, watch := s.pathAndWatch(a, "[-s] [-w] path")
	data, st, err := readWatched(ctx, s, path, watch, (*zk.Client).Get, (*zk.Client).GetW)
	if err != nil {
		return err
	}
	v := znodeJSON{Path: path, Content: screen.ToContent(data), Stat: screen.ToJSON(st)}
	s.out.Show(v, func() {
		s.printData(a, data)
		if a.has("s") {
			s.out.PrintStat(st)
		}
	})
	return nil
}

// printData prints data as the flags of get say. Like zkCli it prints the word null for a znode
// without data, in every form, and a newline after data. If get is the only command and prints to a
// file or a pipe, it prints nothing but the data.
func (s *shell) printData(a *args, data []byte) {
	exact := s.single && !s.out.Terminal && !a.has("x") && !a.has("b") && !a.has("s")
	if data == nil && !exact {
		data = []byte("null")
	}
	switch {
	case exact:
		s.out.Printf("%s", data)
	case a.has("x"):
		s.out.HexDump(data)
	case a.has("b"):
		s.out.Printf("%s\n", base64.StdEncoding.EncodeToString(data))
	default:
		s.out.Printf("%s\n", s.out.Printable(data))
		if s.out.Terminal && !export.Readable(data) {
			s.out.Notef("not all of the %d bytes can be shown; -x dumps them, -b prints base64", len(data))
		}
	}
}

func runLs(ctx context.Context, s *shell, a *args) error {
	path, watch := s.pathAndWatch(a, "[-w] path")
	if a.has("R") {
		return s.listAll(ctx, path, watch)
	}
	children, st, err := s.children(ctx, path, watch)
	if err != nil {
		return err
	}
	slices.Sort(children)
	s.out.Show(znodeJSON{Path: path, Children: &children, Stat: screen.ToJSON(st)}, func() {
		s.out.Printf("[%s]\n", s.out.Name(strings.Join(children, ", ")))
		if a.has("s") {
			s.out.PrintStat(st)
		}
	})
	return nil
}

func (s *shell) children(ctx context.Context, path string, watch bool) ([]string, zk.Stat, error) {
	if !watch {
		return s.client.Children(ctx, path)
	}
	children, st, w, err := s.client.ChildrenW(ctx, path)
	s.follow(w)
	return children, st, err
}

// listAll prints a path and everything below it; with watch, each gets a watch.
func (s *shell) listAll(ctx context.Context, root string, watch bool) error {
	w := s.walk(s.client, root)
	w.System = true
	return w.Each(ctx, func(n *subtree.Znode) error {
		if watch {
			if _, _, err := s.children(ctx, n.Path, true); err != nil && !subtree.Gone(err) {
				return err
			}
		}
		s.out.Show(map[string]string{"path": n.Path}, func() { s.out.Printf("%s\n", s.out.Name(n.Path)) })
		return nil
	})
}

func runStat(ctx context.Context, s *shell, a *args) error {
	path, watch := s.pathAndWatch(a, "[-w] path")
	st, ok, err := readWatched(ctx, s, path, watch, (*zk.Client).Exists, (*zk.Client).ExistsW)
	if err == nil && !ok {
		err = &zk.Error{Op: "exists", Path: path, Err: zk.ErrNoNode}
	}
	if err != nil {
		return err
	}
	s.out.Show(znodeJSON{Path: path, Stat: screen.ToJSON(st)}, func() { s.out.PrintStat(st) })
	return nil
}

func runAllChildrenNumber(ctx context.Context, s *shell, a *args) error {
	n, err := s.client.AllChildrenNumber(ctx, a.arg(0))
	if err == nil {
		s.out.Show(map[string]any{"path": a.arg(0), "allChildrenNumber": n}, func() { s.out.Printf("%d\n", n) })
	}
	return err
}

func runEphemerals(ctx context.Context, s *shell, a *args) error {
	paths, err := s.client.GetEphemerals(ctx, a.argOr(0, "/"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	paths = append([]string{}, paths...) // so that JSON has an empty list, not null
	s.out.Show(map[string][]string{"ephemerals": paths}, func() {
		s.out.Printf("[%s]\n", s.out.Name(strings.Join(paths, ", ")))
	})
	return nil
}

func runSync(ctx context.Context, s *shell, a *args) error {
	err := s.client.Sync(ctx, a.arg(0))
	if err == nil {
		s.out.Show(map[string]string{"synced": a.arg(0)}, func() { s.out.Printf("Sync is OK\n") })
	}
	return err
}
