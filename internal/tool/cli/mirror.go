package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// mirrored counts the results of a mirror, or of its dry run.
type mirrored struct {
	Created    int `json:"created"`
	Changed    int `json:"changed"`
	Deleted    int `json:"deleted"`
	Extra      int `json:"extra"` // only in the target, and left there
	Ephemerals int `json:"ephemeralsLeftOut,omitempty"`
	Quotas     int `json:"quotasLeftOut,omitempty"`
}

// runMirror makes the target like the source, writing only what differs. It reads both
// subtrees completely before it changes anything, and refuses impossible changes.
func runMirror(ctx context.Context, s *shell, a *args, from, to *place) error {
	what := "mirror " + from.label + " " + to.label
	if into, outOf, err := s.overlap(ctx, what, from, to); err != nil {
		return err
	} else if into || outOf {
		return advice.Errorf("name two subtrees that don't overlap", "%s: one lies within the other", what)
	}
	if err := s.exist(ctx, from); err != nil {
		return err
	}
	m := mirror{s: s, a: a, what: what, from: from, to: to, planned: map[string]int64{}}
	m.withACL, m.dry = !a.has("noacl"), a.has("dry-run")
	if err := s.sideBySide(ctx, "mirror", from, to, m.withACL, m.plan); err != nil {
		return err
	}
	if err := m.agree(); err != nil {
		return err
	}
	if !m.dry {
		if err := m.run(ctx); err != nil {
			return err
		}
	}
	m.done.Quotas = s.leaveQuotas(ctx, "mirror", from)
	m.print()
	return nil
}

// mirror is one run of the command mirror.
type mirror struct {
	s        *shell
	a        *args
	what     string
	from, to *place
	withACL  bool
	dry      bool
	w        *subtree.Writer
	secure   *subtree.Securer

	targets int              // znodes in the target
	under   string           // path of a persistent target znode where the source has an ephemeral one; "" for none
	planned map[string]int64 // czxids of the znodes that may be deleted, by path
	extra   []subtree.Listed // to be deleted, each before those below it
	late    string           // a znode that came into the target after the plan
	left    int              // znodes of the target that stand where the source has ephemerals
	done    mirrored
}

// plan plans the change of one path, before anything is changed.
func (m *mirror) plan(d difference) error {
	if d.path == "" && d.from == nil {
		return m.sourceGone()
	}
	if d.to != nil {
		m.targets++
	}
	path := m.to.at(d.path)
	switch {
	case d.from != nil && screen.KindOf(d.from.Stat) == screen.Ephemeral:
		if d.path == "" {
			return advice.Errorf("name a persistent znode; ephemeral ones end with their sessions", "%s: the source is ephemeral",
				m.what)
		}
		m.done.Ephemerals++
		m.standsFor(d, path)
	case d.to != nil && screen.KindOf(d.to.Stat) == screen.Ephemeral:
		return m.planEphemeral(d, path)
	case d.from == nil && m.under != "" && within(m.under, path):
		m.left++
	case d.from == nil && !m.a.has("delete"):
		m.done.Extra++
	case d.from == nil:
		m.planned[path] = d.to.Stat.Czxid
		m.done.Deleted++
		m.tell("delete", path)
	case d.to == nil:
		if _, err := readACL(d.from, m.withACL); err != nil {
			return err
		}
		m.done.Created++
		m.tell("create", path)
	case d.data || d.acl:
		m.done.Changed++
		m.tell("change", path)
	}
	return nil
}

// sourceGone returns the error for a source that was deleted meanwhile.
func (m *mirror) sourceGone() error {
	return advice.Errorf("nothing was deleted", "%s: the source was deleted in the meantime", m.what)
}

// standsFor records that the target has a persistent znode where the source has an ephemeral one. mirror leaves that
// znode and everything below it alone.
func (m *mirror) standsFor(d difference, path string) {
	if d.to != nil && screen.KindOf(d.to.Stat) == screen.Persistent {
		m.left++
		m.under = path
	}
}

// planEphemeral refuses an ephemeral znode of the target that stands in the way.
func (m *mirror) planEphemeral(d difference, path string) error {
	_, doomed := m.planned[subtree.Parent(path)]
	if d.from == nil && !doomed {
		return nil // it goes with its session
	}
	return advice.Errorf("wait until its session ends, or delete it first",
		"%s: %s is ephemeral in the target and can't be replaced", m.what, path)
}

// Limits of mirror's deletions without -yes.
const (
	mirrorDeletesMax  = 1000 // more is not a small clean-up
	mirrorDeletesPart = 10   // nor is more than one in this many of the target's znodes
)

// agree asks for confirmation before much is deleted.
func (m *mirror) agree() error {
	n := m.done.Deleted
	if n <= mirrorDeletesMax && n*mirrorDeletesPart <= m.targets || m.a.has("yes") {
		return nil
	}
	text := fmt.Sprintf("%s: it would delete %d of the target's %s", m.what, n, subtree.Count(m.targets))
	if m.s.ask != nil && !m.dry {
		answer, err := m.s.ask(text + ". Do it? (yes/no) ")
		if err == nil && strings.EqualFold(strings.TrimSpace(answer), "yes") {
			return nil
		}
	}
	return advice.Errorf("mirror -dry-run lists them; -yes does it; nothing was changed", "%s", text)
}

// run carries out the plan while it still applies: a change by another client ends it.
func (m *mirror) run(ctx context.Context) error {
	m.w = subtree.NewWriter(nil, m.to.c, "") // the comparison shows the progress
	var err error
	if m.secure, err = subtree.NewSecurer(ctx, m.to.c); err != nil {
		return fmt.Errorf("%s: %w", m.what, err)
	}
	left := m.done.Ephemerals
	m.done, m.under, m.left = mirrored{Ephemerals: left}, "", 0
	err = makeParents(ctx, m.to.c, m.to.path)
	if err == nil {
		err = m.s.sideBySide(ctx, "mirror", m.from, m.to, m.withACL, func(d difference) error { return m.write(ctx, d) })
	}
	if err == nil {
		err = m.w.Finish(ctx)
	}
	if err != nil {
		return m.secure.Unfinished(m.w.WroteError(m.what, err), "mirror "+m.from.label+" "+m.to.label)
	}
	m.done.Deleted, err = subtree.DeleteListed(ctx, m.s.out, m.to.c, m.extra, deleteBatch)
	if err != nil {
		err = subtree.DeletedError(m.what+": everything is written; delete what only the target has", m.done.Deleted,
			len(m.extra), err)
		return m.secure.Unfinished(err, "mirror "+m.from.label+" "+m.to.label)
	}
	if err := m.secure.Finish(ctx); err != nil {
		return m.secure.Unfinished(fmt.Errorf("%s: %w", m.what, err), "mirror "+m.from.label+" "+m.to.label)
	}
	if m.late != "" {
		return advice.Errorf("everything else is done; run it again",
			"%s: %s was created in the target meanwhile and was left alone", m.what, m.late)
	}
	return nil
}

// write applies one difference.
func (m *mirror) write(ctx context.Context, d difference) error {
	path := m.to.at(d.path)
	switch {
	case d.path == "" && d.from == nil:
		return m.sourceGone()
	case d.from != nil && screen.KindOf(d.from.Stat) == screen.Ephemeral:
		m.standsFor(d, path)
		return nil
	case d.to != nil && screen.KindOf(d.to.Stat) == screen.Ephemeral:
		if d.from != nil {
			m.late = path // the plan would have refused it
		}
		return nil
	case d.from == nil && m.under != "" && within(m.under, path):
		m.left++
		return nil
	case d.from == nil:
		m.collect(d, path)
		return nil
	case d.to == nil:
		m.done.Created++
		acl, err := readACL(d.from, m.withACL)
		if err != nil {
			return err
		}
		return m.w.Create(ctx, path, d.from.Data, m.secure.First(len(d.from.Children) > 0, path, acl))
	case !d.data && !d.acl:
		return nil
	}
	m.done.Changed++
	if d.acl {
		m.secure.Later(path, d.from.ACL, d.to.Stat.Aversion)
	}
	if d.data {
		return m.w.SetAt(ctx, path, d.from.Data, d.to.Stat.Version)
	}
	return nil
}

// collect records a znode that only the target has for deletion, if the plan included it.
func (m *mirror) collect(d difference, path string) {
	switch czxid, planned := m.planned[path]; {
	case !m.a.has("delete"):
		m.done.Extra++
	case planned && czxid == d.to.Stat.Czxid:
		m.extra = append(m.extra, subtree.Listed{Path: path, Stat: d.to.Stat})
	default:
		m.late = path
	}
}

// tell prints the planned changes, in a dry run.
func (m *mirror) tell(what, path string) {
	if m.dry {
		m.s.out.Show(map[string]string{"would": what, "path": path}, func() {
			m.s.out.Printf("would %s %s\n", what, m.s.out.Name(path))
		})
	}
}

// print prints the changes, made or planned.
func (m *mirror) print() {
	m.s.out.Show(m.done, func() {
		would := map[bool]string{true: "would be "}[m.dry]
		d := m.done
		m.s.out.Printf("%d %screated, %d %schanged, %d %sdeleted", d.Created, would, d.Changed, would, d.Deleted, would)
		if m.done.Extra > 0 {
			m.s.out.Printf("; %d only in the target (-delete removes them)", m.done.Extra)
		}
		m.s.out.Printf("\n")
	})
	if m.done.Ephemerals > 0 {
		m.s.out.Notef("%d ephemeral znodes were left out: they belong to their sessions", m.done.Ephemerals)
	}
	if m.left > 0 {
		m.s.out.Notef("%s in the target, where the source has ephemeral ones, stay as they are", subtree.Count(m.left))
	}
}
