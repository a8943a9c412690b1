package cli

import (
	"context"
	"fmt"
)

// mirrored counts what mirror did, or would.
type mirrored struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	Extra   int `json:"extra"` // only in the target, and left there
}

// runMirror makes the target like the source, writing only what differs.
func runMirror(ctx context.Context, s *shell, a *args) error {
	from, to, err := s.places(ctx, a)
	if err != nil {
		return err
	}
	defer from.close()
	defer to.close()
	what := "mirror " + from.label + " " + to.label
	if from.inside(to) || to.inside(from) {
		return failuref("name two subtrees that don't overlap", "%s: one lies within the other", what)
	}
	if err := s.exist(ctx, from); err != nil {
		return err
	}
	m := mirror{s: s, a: a, from: from, to: to, dry: a.has("dry-run")}
	m.w = s.silentWriter(to.c) // progress is told by the comparison
	if !m.dry {
		if err := makeParents(ctx, to.c, to.path); err != nil {
			return err
		}
	}
	err = s.compare(ctx, "mirror", from, to, !a.has("noacl"), func(d difference) error { return m.write(ctx, d) })
	if err == nil {
		err = m.w.finish(ctx)
	}
	if err != nil {
		return m.w.wroteError(what, err)
	}
	if err := m.delete(ctx); err != nil {
		return err
	}
	s.out.show(m.done, func() {
		would := map[bool]string{true: "would be "}[m.dry]
		s.out.printf("%d %screated, %d %schanged, %d %sdeleted", m.done.Created, would, m.done.Changed, would, m.done.Deleted, would)
		if m.done.Extra > 0 {
			s.out.printf("; %d only in the target (-delete removes them)", m.done.Extra)
		}
		s.out.printf("\n")
	})
	return nil
}

// mirror is one run of it.
type mirror struct {
	s        *shell
	a        *args
	from, to *place
	dry      bool
	w        *writer
	extra    []string // to be deleted, each before those below it
	done     mirrored
}

// write does what one difference asks for.
func (m *mirror) write(ctx context.Context, d difference) error {
	path := m.to.at(d.path)
	switch {
	case d.from == nil:
		if !m.a.has("delete") {
			m.done.Extra++
			return nil
		}
		m.extra = append(m.extra, path)
		m.done.Deleted++
		m.plan("delete", path)
		return nil
	case d.to == nil:
		m.done.Created++
		m.plan("create", path)
	default:
		m.done.Changed++
		m.plan("change", path)
	}
	acl, err := readACL(d.from, !m.a.has("noacl"))
	if err != nil || m.dry {
		return err
	}
	if d.to == nil {
		return m.w.create(ctx, path, d.from.data, acl)
	}
	if d.data {
		if err := m.w.set(ctx, path, d.from.data); err != nil {
			return err
		}
	}
	if d.acl {
		return m.w.setACL(ctx, path, acl)
	}
	return nil
}

// plan says what would be done.
func (m *mirror) plan(what, path string) {
	if m.dry {
		m.s.out.show(map[string]string{"would": what, "path": path}, func() {
			m.s.out.printf("would %s %s\n", what, m.s.out.name(path))
		})
	}
}

// delete removes what only the target has.
func (m *mirror) delete(ctx context.Context) error {
	if m.dry || len(m.extra) == 0 {
		return nil
	}
	n, err := m.s.deletePaths(ctx, m.to.c, m.extra, deleteBatch)
	if err != nil {
		return advise(fmt.Errorf("mirror: delete what only %s has: about %d of %d are gone: %w", m.to.label, n, len(m.extra), err),
			"everything else is written; ephemeral znodes below them must go first; run it again")
	}
	return nil
}
