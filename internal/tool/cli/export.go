package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/export"
	"github.com/zooid-project/zooid/zk"
)

// exported counts the results of an export.
type exported struct {
	Exported   string `json:"exported"`
	File       string `json:"file"`
	Znodes     int    `json:"znodes"`
	Ephemerals int    `json:"ephemeralsLeftOut"`
	Quotas     int    `json:"quotasLeftOut,omitempty"`
}

// runExport writes a subtree to a file, or to standard output.
func runExport(ctx context.Context, s *shell, a *args) (err error) {
	file := a.argOr(1, "-")
	form, zipped, err := format(a, file)
	if err != nil {
		return err
	}
	done := exported{Exported: a.arg(0), File: file}
	if a.has("dry-run") {
		if err := s.exportTo(ctx, a, form, io.Discard, &done); err != nil {
			return err
		}
		done.Quotas = s.leaveQuotas(ctx, "export", s.exportPlace(a))
		s.out.Show(done, func() { s.out.Printf("would write %s to %s\n", subtree.Count(done.Znodes), file) })
		return nil
	}
	if file == "-" {
		if err = s.exportOut(ctx, a, form, &done); err == nil {
			s.leaveQuotas(ctx, "export", s.exportPlace(a))
		}
	} else if err = s.exportFile(ctx, a, form, zipped, &done); err == nil {
		done.Quotas = s.leaveQuotas(ctx, "export", s.exportPlace(a))
		s.out.Show(done, func() { s.out.Printf("exported %s to %s\n", subtree.Count(done.Znodes), file) })
	}
	if err != nil {
		return fmt.Errorf("export %s to %s: %w", a.arg(0), file, err)
	}
	if done.Ephemerals > 0 {
		s.out.Notef("%d ephemeral znodes were left out: they belong to their sessions", done.Ephemerals)
	}
	return nil
}

// exportOut writes to standard output. A terminal gets only printable text.
func (s *shell) exportOut(ctx context.Context, a *args, form string, done *exported) error {
	switch {
	case !s.out.Terminal:
		return s.exportTo(ctx, a, form, s.out.W, done)
	case form == "tar":
		return advice.Errorf("name a file", "a terminal can't show a tar")
	}
	return s.exportTo(ctx, a, form, &screen.VisibleWriter{O: s.out}, done)
}

// exportFile writes a file that appears under its name only when it is complete.
func (s *shell) exportFile(ctx context.Context, a *args, form string, zipped bool, done *exported) error {
	f, err := export.CreateFile(done.File, zipped)
	if err != nil {
		return err
	}
	if err := f.Finish(s.exportTo(ctx, a, form, f, done)); err != nil {
		return err
	}
	for _, name := range f.Left() {
		s.out.Notef("%s belongs to an export that was killed or still runs", s.out.Name(name))
	}
	return nil
}

// exportPlace returns the place to export.
func (s *shell) exportPlace(a *args) *place {
	return &place{c: s.client, path: a.arg(0), label: a.arg(0), chroot: s.chroot()}
}

// exportTo writes the znodes to out.
func (s *shell) exportTo(ctx context.Context, a *args, form string, out io.Writer, done *exported) error {
	from := s.exportPlace(a)
	if err := s.exist(ctx, from); err != nil {
		return err
	}
	w, err := export.Create(form, out, from.path, time.Now())
	if err != nil {
		return err
	}
	err = from.walk(s, "export", !a.has("noacl")).Each(ctx, func(n *subtree.Znode) error {
		if screen.KindOf(n.Stat) == screen.Ephemeral {
			done.Ephemerals++
			return nil
		}
		acl, err := readACL(n, !a.has("noacl"))
		if err != nil {
			return err
		}
		done.Znodes++
		return w.Node(toExport(from.relative(n.Path), n, acl))
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// toExport returns the exported form of a znode with a relative path.
func toExport(relative string, n *subtree.Znode, acl []zk.ACL) export.Node {
	var entries []string // none is world:anyone:cdrwa
	if subtree.ACLText(acl) != subtree.ACLText(zk.WorldACL(zk.PermAll)) {
		entries = subtree.ACLEntries(acl)
	}
	return export.NewNode(cmp.Or(relative, "/"), n.Data, entries, time.UnixMilli(n.Stat.Mtime))
}

// format returns the format of a file, from the flag or from the file's name.
func format(a *args, file string) (name string, zipped bool, err error) {
	base := strings.TrimSuffix(file, ".gz")
	if strings.HasSuffix(file, ".tgz") {
		base = strings.TrimSuffix(file, ".tgz") + ".tar"
	}
	zipped = base != file
	name = cmp.Or(a.flags["format"], strings.TrimPrefix(filepath.Ext(base), "."))
	switch name {
	case "yml":
		name = "yaml"
	case "":
		name = "json"
	case "json", "yaml", "tar":
	default:
		return "", false, a.usagef("%s: the format %q is unknown; want json, yaml or tar (and .gz), by the file's name or -format",
			a.cmd.name, name)
	}
	return name, zipped, nil
}
