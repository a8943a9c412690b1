package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// importBatch is how many znodes of a file are looked up together.
const importBatch = subtree.ReadsAhead

// imported counts the results of an import, or of its dry run.
type imported struct {
	Created   int `json:"created"`
	Same      int `json:"same"`
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"` // left alone: the znode exists already, as an ephemeral one or with other data or ACL
}

// loader is one run of import.
type loader struct {
	s         *shell
	to        *place
	w         *subtree.Writer
	secure    *subtree.Securer // nil in a dry run
	dry       bool
	overwrite bool
	withACL   bool
	done      imported
	first     string // the first conflict
}

// runImport creates the znodes of an exported file. It reads the whole file first:
// nothing is written from a damaged one.
func runImport(ctx context.Context, s *shell, a *args) error {
	form, zipped, err := format(a, a.arg(0))
	if err != nil {
		return err
	}
	f, err := s.openImport(ctx, a.arg(0), form, zipped)
	if err != nil {
		return fmt.Errorf("import %s: %w", a.arg(0), err)
	}
	defer f.close()
	whole, err := f.verify(ctx, a)
	if err != nil {
		return err
	}
	to := &place{c: s.client, path: whole.target, label: whole.target}
	l := loader{s: s, to: to, dry: a.has("dry-run"), overwrite: a.has("overwrite"), withACL: !a.has("noacl")}
	l.w = subtree.NewWriter(s.out, s.client, "import")
	defer l.w.Progress.Of(whole.Znodes()).End()
	if !l.dry {
		if l.secure, err = subtree.NewSecurer(ctx, s.client); err != nil {
			return fmt.Errorf("import %s: %w", a.arg(0), err)
		}
		if err := makeParents(ctx, s.client, whole.target); err != nil {
			return err
		}
	}
	r, err := f.again(a)
	if err == nil {
		err = l.load(ctx, r)
	}
	if err == nil && r.Sum() != whole.Sum() {
		err = errors.New("the file was changed while it was read")
	}
	if err == nil && !l.dry {
		err = l.secure.Finish(ctx)
	}
	if err != nil {
		err = l.w.WroteError("import "+a.arg(0), err)
		if !l.dry {
			err = l.secure.Unfinished(err, "import -overwrite "+a.arg(0)+" "+whole.target)
		}
		return err
	}
	return l.finish(a.arg(0))
}

// load reads the file in batches and writes what is missing or different.
func (l *loader) load(ctx context.Context, r *importReader) error {
	var batch []loaded
	for {
		n, err := r.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the file: %w", err)
		}
		ready := len(batch) // the last znode waits: its children, if any, come next
		if err == nil {
			if ready > 0 && subtree.Parent(l.to.at(n.relative)) == l.to.at(batch[ready-1].relative) {
				batch[ready-1].hasChildren = true
			}
			batch = append(batch, n)
		}
		if ready >= importBatch || err != nil {
			if err := l.write(ctx, batch[:ready]); err != nil {
				return err
			}
			batch = slices.Clone(batch[ready:])
		}
		if err != nil {
			return l.w.Finish(ctx)
		}
	}
}

// present is the existing znode at the path of an imported one.
type present struct {
	there     bool
	ephemeral bool
	data      []byte
	acl       []zk.ACL
	version   int32 // of data
	aversion  int32 // of acl
}

// write looks a batch up, then writes it.
func (l *loader) write(ctx context.Context, batch []loaded) error {
	now, err := subtree.InParallel(batch, func(n loaded) (p present, err error) {
		path := l.to.at(n.relative)
		var st zk.Stat
		p.data, st, err = l.s.client.Get(ctx, path)
		p.version, p.ephemeral = st.Version, screen.KindOf(st) == screen.Ephemeral
		if subtree.Gone(err) {
			return p, nil
		}
		if err == nil && l.withACL {
			p.acl, st, err = l.s.client.GetACL(ctx, path)
			p.aversion = st.Aversion
		}
		p.there = true
		return p, err
	})
	if err != nil {
		return err
	}
	for i, n := range batch {
		if err := l.one(ctx, n, now[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) one(ctx context.Context, n loaded, now present) error {
	path, data, acl := l.to.at(n.relative), n.data, n.acl
	if !l.withACL {
		acl = zk.WorldACL(zk.PermAll)
	}
	if !now.there {
		return l.create(ctx, path, n, acl)
	}
	sameData := bytes.Equal(data, now.data) && (data == nil) == (now.data == nil)
	sameList := !l.withACL || sameACL(acl, now.acl)
	switch {
	case sameData && sameList && !now.ephemeral:
		l.done.Same++
		return nil
	case !l.overwrite, now.ephemeral: // an ephemeral belongs to its session
		if l.done.Conflicts++; l.first == "" {
			l.first = path
		}
		l.plan("leave alone", path)
		return nil
	}
	l.done.Changed++
	l.plan("change", path)
	if l.dry {
		return nil
	}
	if !sameData {
		if err := l.w.SetAt(ctx, path, data, now.version); err != nil {
			return err
		}
	}
	if !sameList {
		l.secure.Later(path, acl, now.aversion)
	}
	return nil
}

func (l *loader) create(ctx context.Context, path string, n loaded, acl []zk.ACL) error {
	l.done.Created++
	l.plan("create", path)
	if l.dry {
		return nil
	}
	return l.w.Create(ctx, path, n.data, l.secure.First(n.hasChildren, path, acl))
}

// plan prints the planned changes.
func (l *loader) plan(what, path string) {
	if l.dry {
		l.s.out.Show(map[string]string{"would": what, "path": path}, func() {
			l.s.out.Printf("would %s %s\n", what, l.s.out.Name(path))
		})
	}
}

func (l *loader) finish(file string) error {
	l.s.out.Show(l.done, func() {
		would := map[bool]string{true: "would be "}[l.dry]
		l.s.out.Printf("%d %screated, %d %schanged, %d the same\n", l.done.Created, would, l.done.Changed, would, l.done.Same)
	})
	if l.done.Conflicts == 0 {
		return nil
	}
	what, hint := "with other content", "-overwrite replaces them, except ephemeral ones; -dry-run lists them"
	if l.overwrite {
		what, hint = "as ephemeral", "import it again when their sessions have ended"
	}
	left := map[bool]string{true: "would leave alone", false: "left alone"}[l.dry]
	return advice.Errorf(hint, "import %s: %s, %s: %s, the first is %s", file, left, what, subtree.Count(l.done.Conflicts),
		l.first)
}
