package cli

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/export"
	"github.com/zooid-project/zooid/zk"
)

// znodeJSON is what get, ls and stat print.
type znodeJSON struct {
	Path string `json:"path"`
	content
	Children *[]string `json:"children,omitempty"`
	Stat     *statJSON `json:"stat,omitempty"`
}

// deprecated warns, as zkCli does, about "get path watch" and the like.
func (s *shell) deprecated(old, flags string) {
	command, _, _ := strings.Cut(old, " ")
	s.out.notef("'%s' has been deprecated. Please use '%s %s' instead.", old, command, flags)
}

func runGet(ctx context.Context, s *shell, a *args) error {
	path, watch := a.arg(0), a.has("w")
	if len(a.words) > 1 {
		watch = true
		s.deprecated("get path [watch]", "[-s] [-w] path")
	}
	var data []byte
	var st zk.Stat
	var err error
	if watch {
		var w *zk.Watch
		data, st, w, err = s.client.GetW(ctx, path)
		s.follow(w)
	} else {
		data, st, err = s.client.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	v := znodeJSON{Path: path, content: toContent(data), Stat: toJSON(st)}
	s.out.show(v, func() {
		s.printData(a, data)
		if a.has("s") {
			s.out.printStat(st)
		}
	})
	return nil
}

// printData prints data as the flags of get ask. Like zkCli it prints a znode
// without data as the word null, in whatever form.
func (s *shell) printData(a *args, data []byte) {
	if data == nil {
		data = []byte("null")
	}
	switch {
	case a.has("x"):
		s.out.hexDump(data)
	case a.has("b"):
		s.out.printf("%s\n", base64.StdEncoding.EncodeToString(data))
	default:
		s.out.printf("%s\n", s.out.printable(data))
		if s.out.terminal && !export.Readable(data) {
			s.out.notef("not all of the %d bytes can be shown; -x dumps them, -b prints base64", len(data))
		}
	}
}

func runLs(ctx context.Context, s *shell, a *args) error {
	path, watch := a.arg(0), a.has("w")
	if len(a.words) > 1 {
		watch = true
		s.deprecated("ls path [watch]", "[-w] path")
	}
	if a.has("R") {
		return s.listAll(ctx, path, watch)
	}
	children, st, err := s.children(ctx, path, watch)
	if err != nil {
		return err
	}
	slices.Sort(children)
	s.out.show(znodeJSON{Path: path, Children: &children, Stat: toJSON(st)}, func() {
		s.out.printf("[%s]\n", s.out.name(strings.Join(children, ", ")))
		if a.has("s") {
			s.out.printStat(st)
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
	w.system = true
	return w.each(ctx, func(n *znode) error {
		if watch {
			if _, _, err := s.children(ctx, n.path, true); err != nil && !gone(err) {
				return err
			}
		}
		s.out.show(map[string]string{"path": n.path}, func() { s.out.printf("%s\n", s.out.name(n.path)) })
		return nil
	})
}

func runStat(ctx context.Context, s *shell, a *args) error {
	path, watch := a.arg(0), a.has("w")
	if len(a.words) > 1 {
		watch = true
		s.deprecated("stat path [watch]", "[-w] path")
	}
	var st zk.Stat
	var ok bool
	var err error
	if watch {
		var w *zk.Watch
		st, ok, w, err = s.client.ExistsW(ctx, path)
		s.follow(w)
	} else {
		st, ok, err = s.client.Exists(ctx, path)
	}
	if err == nil && !ok {
		err = &zk.Error{Op: "exists", Path: path, Err: zk.ErrNoNode}
	}
	if err != nil {
		return err
	}
	s.out.show(znodeJSON{Path: path, Stat: toJSON(st)}, func() { s.out.printStat(st) })
	return nil
}

func runAllChildrenNumber(ctx context.Context, s *shell, a *args) error {
	n, err := s.client.AllChildrenNumber(ctx, a.arg(0))
	if err == nil {
		s.out.show(map[string]any{"path": a.arg(0), "allChildrenNumber": n}, func() { s.out.printf("%d\n", n) })
	}
	return err
}

func runEphemerals(ctx context.Context, s *shell, a *args) error {
	paths, err := s.client.GetEphemerals(ctx, a.argOr(0, "/"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	paths = append([]string{}, paths...) // null is no list
	s.out.show(map[string][]string{"ephemerals": paths}, func() {
		s.out.printf("[%s]\n", s.out.name(strings.Join(paths, ", ")))
	})
	return nil
}

func runSync(ctx context.Context, s *shell, a *args) error {
	err := s.client.Sync(ctx, a.arg(0))
	if err == nil {
		s.out.show(map[string]string{"synced": a.arg(0)}, func() { s.out.printf("Sync is OK\n") })
	}
	return err
}
