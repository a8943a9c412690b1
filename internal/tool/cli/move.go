package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

const (
	moveAtOnce      = 1000      // znodes that mv moves in one transaction
	moveAtOnceBytes = 512 << 10 // and the bytes of their data, ACLs and paths
	moveOverhead    = 100       // bytes of a znode's two operations besides these
)

// move is one run of mv.
type move struct {
	s        *shell
	a        *args
	what     string
	from, to *place
	withACL  bool
	counters int // znodes whose sequence numbers begin again
}

// runMv renames a subtree: in one transaction if it is small enough, else in steps.
func runMv(ctx context.Context, s *shell, a *args, from, to *place) error {
	m := move{s: s, a: a, what: "mv " + from.label + " " + to.label, from: from, to: to, withACL: !a.has("noacl")}
	if from.path == "/" {
		return advice.Errorf("cp copies it", "%s: the root can't be moved", m.what)
	}
	again := a.has("resume")
	if err := s.checkCopy(ctx, m.what, from, to, again); err != nil {
		return err
	}
	if err := m.checkQuotas(ctx); err != nil {
		return err
	}
	nodes, err := m.survey(ctx)
	if err != nil {
		return err
	}
	switch {
	case again:
	case nodes == nil || from.away || to.away:
		s.out.Notef("too large for one transaction: it is copied, compared, then deleted")
	default:
		if err = m.atOnce(ctx, nodes); !errors.Is(err, zk.ErrNoAuth) {
			return m.end(err)
		}
		s.out.Notef("its ACLs prevent a single transaction: it is copied, compared, then deleted")
	}
	return m.end(m.inSteps(ctx))
}

// end reports the losses of the move, which -lossy allows.
func (m *move) end(err error) error {
	if err == nil && m.counters > 0 {
		m.s.out.Notef("sequence numbers restart below %s", subtree.Count(m.counters))
	}
	return err
}

// survey reads the whole source before anything is changed, and refuses znodes that can't
// be moved. It returns the znodes if they fit in one transaction.
func (m *move) survey(ctx context.Context) (nodes []*subtree.Znode, err error) {
	size, small := 0, true
	for n, err := range m.from.walk(m.s, "mv", m.withACL).All(ctx) {
		if err != nil {
			return nil, err
		}
		acl, err := m.check(n)
		if err != nil {
			return nil, err
		}
		size += len(n.Data) + 2*len(n.Path) + len(subtree.ACLText(acl)) + moveOverhead
		if small = small && size <= moveAtOnceBytes && len(nodes) < moveAtOnce; small {
			nodes = append(nodes, n)
		} else {
			nodes = nil
		}
	}
	return nodes, nil
}

// check refuses a znode that can't be moved as it is, and returns its ACL.
func (m *move) check(n *subtree.Znode) ([]zk.ACL, error) {
	if screen.KindOf(n.Stat) == screen.Ephemeral {
		return nil, advice.Errorf("its session's end removes it", "mv %s: %s is ephemeral and belongs to the session %s",
			m.from.label, n.Path, screen.Hex(n.Stat.EphemeralOwner))
	}
	if created := (int64(n.Stat.Cversion) + int64(n.Stat.NumChildren)) / 2; created > int64(n.Stat.NumChildren) {
		for _, name := range n.Children {
			if sequential(name) && !m.a.has("lossy") {
				return nil, advice.Errorf("-lossy moves it anyway; cp leaves the source unchanged",
					"%s: the sequence numbers below %s would restart: no client can set them", m.what, n.Path)
			}
		}
		m.counters++
	}
	return readACL(n, m.withACL)
}

// sequenceDigits is how many digits a server appends to the name of a sequential
// znode.
const sequenceDigits = 10

// sequential reports whether a name ends like those of sequential znodes.
func sequential(name string) bool {
	at := len(name) - sequenceDigits
	return at >= 0 && strings.Trim(name[at:], "0123456789") == ""
}

// checkQuotas refuses a subtree with quotas: they don't move with it.
func (m *move) checkQuotas(ctx context.Context) error {
	if m.a.has("lossy") {
		return nil
	}
	if m.from.chroot != "" {
		m.s.out.Notef("quotas lie outside of the chroot %s, and can't be seen here; %s's, if any, stay where they are",
			m.from.chroot, m.from.label)
		return nil
	}
	n, of, err := m.s.quotasOf(ctx, m.from)
	if err != nil {
		return fmt.Errorf("%s: look for quotas: %w", m.what, err)
	}
	if n > 0 {
		return advice.Errorf("delquota removes it, setquota sets it at the new place; -lossy leaves it where it is",
			"%s: %s has a quota, which doesn't move with it; nothing was changed", m.what, of)
	}
	return nil
}

// atOnce creates and deletes in one transaction. The transaction fails if a znode was changed since
// it was read: versions detect changed data, deleting a parent fails if it has new children, and a
// check just before detects the rest.
func (m *move) atOnce(ctx context.Context, nodes []*subtree.Znode) error {
	above, err := missingParents(ctx, m.to.c, m.to.path)
	if err != nil {
		return err
	}
	var ops []zk.MultiOp
	for _, path := range above {
		ops = append(ops, zk.CreateOp(path, nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)))
	}
	list := make([]subtree.Listed, len(nodes))
	for i, n := range nodes {
		acl, err := readACL(n, m.withACL)
		if err != nil {
			return err
		}
		ops = append(ops, zk.CreateOp(m.to.at(m.from.relative(n.Path)), n.Data, zk.ModePersistent, acl))
		list[i] = subtree.Listed{Path: n.Path, Stat: n.Stat}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		ops = append(ops, zk.DeleteOp(nodes[i].Path, nodes[i].Stat.Version))
	}
	now, err := subtree.Look(ctx, m.from.c, list)
	if err != nil {
		return advice.Add(fmt.Errorf("%s: %w", m.what, err), "nothing was moved")
	}
	for i, l := range list {
		if now[i] == nil || !subtree.Unchanged(*now[i], l.Stat) {
			return advice.Add(fmt.Errorf("%s: %w", m.what, &subtree.ChangedError{Path: l.Path}),
				"nothing was moved; run it again")
		}
	}
	if _, err := m.from.c.Multi(ctx, ops...); zk.MaybeApplied(err) {
		return advice.Add(fmt.Errorf("%s: it is unknown whether it was moved: %w", m.what, err),
			"it is complete at one of the two places: ls %s shows which", m.to.label)
	} else if err != nil {
		return advice.Add(fmt.Errorf("%s: %w", m.what, err), "nothing was moved")
	}
	m.print(copied{Znodes: len(nodes)})
	return nil
}

// inSteps copies the znodes that the target lacks, compares everything, and deletes from
// the source the znodes that were equal in both, if unchanged since. If it is
// interrupted, -resume continues it.
func (m *move) inSteps(ctx context.Context) error {
	done, err := m.copyMissing(ctx)
	if err != nil {
		return err
	}
	list, err := m.compare(ctx)
	if err != nil {
		return err
	}
	n, err := subtree.DeleteListed(ctx, m.s.out, m.from.c, list, deleteBatch)
	if err != nil {
		what := m.what + ": everything is copied; delete the source"
		return advice.Add(subtree.DeletedError(what, n, len(list), err), "%s", m.goOn())
	}
	done.Znodes = n
	m.print(done)
	return nil
}

func (m *move) goOn() string {
	return fmt.Sprintf("mv -resume %s %s continues; diff shows what only one of them has", m.from.label, m.to.label)
}

// copyMissing creates in the target the znodes that only the source has.
func (m *move) copyMissing(ctx context.Context) (done copied, err error) {
	q, err := subtree.NewSecurer(ctx, m.to.c)
	if err != nil {
		return done, fmt.Errorf("%s: %w", m.what, err)
	}
	if err := makeParents(ctx, m.to.c, m.to.path); err != nil {
		return done, err
	}
	w := subtree.NewWriter(nil, m.to.c, "")
	err = m.s.sideBySide(ctx, "mv", m.from, m.to, m.withACL, func(d difference) error {
		switch {
		case d.from != nil && screen.KindOf(d.from.Stat) == screen.Ephemeral:
			_, err := m.check(d.from)
			return err
		case d.from != nil && d.to == nil:
			return copyZnode(ctx, w, q, d.from, m.to.at(d.path), m.withACL)
		case d.acl && m.a.has("resume") && sameACL(d.to.ACL, q.Temporary):
			q.Later(m.to.at(d.path), d.from.ACL, d.to.Stat.Aversion) // an earlier run ended before it set this ACL
		}
		return nil
	})
	if err == nil {
		err = w.Finish(ctx)
	}
	if err == nil {
		err = q.Finish(ctx)
	}
	if err != nil {
		w.Settle(ctx)
		err = q.Unfinished(w.WroteError(m.what, err), "mirror "+m.from.label+" "+m.to.label)
		return done, advice.Add(err, "the source is untouched; %s", m.goOn())
	}
	return done, nil
}

// compare returns the source's znodes if the target has an equal znode for each.
func (m *move) compare(ctx context.Context) (list []subtree.Listed, err error) {
	differ, first := 0, ""
	err = m.s.sideBySide(ctx, "compare", m.from, m.to, m.withACL, func(d difference) error {
		switch {
		case d.from == nil:
		case screen.KindOf(d.from.Stat) == screen.Ephemeral, d.to == nil, d.data, d.acl:
			if differ++; first == "" {
				first = m.from.at(d.path)
			}
		default:
			list = append(list, subtree.Listed{Path: m.from.at(d.path), Stat: d.from.Stat})
		}
		return nil
	})
	if err != nil {
		return nil, advice.Add(fmt.Errorf("%s: compare the copy: %w", m.what, err), "the source is untouched; %s", m.goOn())
	}
	if differ > 0 {
		return nil, advice.Errorf("the source is untouched; mirror writes over the copy; then "+m.goOn(),
			"%s: %s in the source differ from the copy, the first is %s", m.what, subtree.Count(differ), first)
	}
	return list, nil
}

func (m *move) print(done copied) {
	m.s.printCopied(m.a, "moved", done)
	m.s.out.Notef("all are persistent: servers don't show which znodes are containers or have a TTL")
}
