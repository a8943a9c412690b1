package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// exported counts what export wrote.
type exported struct {
	Exported   string `json:"exported"`
	File       string `json:"file"`
	Znodes     int    `json:"znodes"`
	Ephemerals int    `json:"ephemeralsLeftOut"`
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
		if err := s.exportTo(ctx, a, newDocumentWriter(form, io.Discard), &done); err != nil {
			return err
		}
		s.out.show(done, func() { s.out.printf("would write %s to %s\n", describeCount(done.Znodes), file) })
		return nil
	}
	if file == "-" {
		err = s.exportTo(ctx, a, newDocumentWriter(form, s.out.w), &done)
	} else if err = s.exportFile(ctx, a, form, zipped, &done); err == nil {
		s.out.show(done, func() { s.out.printf("exported %s to %s\n", describeCount(done.Znodes), file) })
	}
	if err != nil {
		return fmt.Errorf("export %s to %s: %w", a.arg(0), file, err)
	}
	if done.Ephemerals > 0 {
		s.out.notef("%d ephemeral znodes were left out: they belong to their sessions", done.Ephemerals)
	}
	return nil
}

// exportFile writes a file that appears under its name only when it is whole.
func (s *shell) exportFile(ctx context.Context, a *args, form string, zipped bool, done *exported) (err error) {
	part := done.File + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(part)
		}
	}()
	var w io.Writer = f
	finish := func() error { return nil }
	if zipped {
		z := gzip.NewWriter(f)
		w, finish = z, z.Close
	}
	if err := s.exportTo(ctx, a, newDocumentWriter(form, w), done); err != nil {
		return err
	}
	if err := errors.Join(finish(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(part, done.File)
}

// exportTo writes the znodes to w.
func (s *shell) exportTo(ctx context.Context, a *args, w documentWriter, done *exported) error {
	from := &place{c: s.client, path: a.arg(0), label: a.arg(0)}
	if err := s.exist(ctx, from); err != nil {
		return err
	}
	if err := w.head(documentHead{documentFormat, from.path, time.Now().UTC().Format(jsonTime)}); err != nil {
		return err
	}
	err := from.walk(s, "export", !a.has("noacl")).each(ctx, func(n *znode) error {
		if kindOf(n.stat) == ephemeral {
			done.Ephemerals++
			return nil
		}
		acl, err := readACL(n, !a.has("noacl"))
		if err != nil {
			return err
		}
		done.Znodes++
		return w.node(toDocument(from.relative(n.path), n, acl))
	})
	if err != nil {
		return err
	}
	return w.close()
}
