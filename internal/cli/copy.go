package cli

import (
	"context"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// copied counts what a copy did.
type copied struct {
	Znodes     int `json:"znodes"`
	Ephemerals int `json:"ephemeralsLeftOut,omitempty"`
}

// runCp copies a subtree to where nothing is.
func runCp(ctx context.Context, s *shell, a *args) error {
	from, to, err := s.places(ctx, a)
	if err != nil {
		return err
	}
	defer from.close()
	defer to.close()
	done, err := s.copyTree(ctx, from, to, a)
	if err != nil {
		return err
	}
	s.printCopied(a, "copied", done)
	return nil
}

func (s *shell) printCopied(a *args, word string, done copied) {
	v := map[string]any{word: a.arg(0), "to": a.arg(1), "znodes": done.Znodes, "ephemeralsLeftOut": done.Ephemerals}
	s.out.show(v, func() { s.out.printf("%s %s\n", word, describeCount(done.Znodes)) })
	if done.Ephemerals > 0 {
		s.out.notef("%d ephemeral znodes were left out: they belong to their sessions", done.Ephemerals)
	}
}

// copyTree copies a subtree. Ephemeral znodes are left out.
func (s *shell) copyTree(ctx context.Context, from, to *place, a *args) (done copied, err error) {
	what := a.cmd.name + " " + from.label + " " + to.label
	if from.inside(to) {
		return done, failuref("name a target outside of it", "%s: the target lies within the source", what)
	}
	if err := s.exist(ctx, from); err != nil {
		return done, err
	}
	if _, ok, err := to.c.Exists(ctx, to.path); err != nil {
		return done, err
	} else if ok {
		return done, failuref("name one that doesn't; mirror writes over an existing subtree", "%s: the target exists already", what)
	}
	if err := makeParents(ctx, to.c, to.path); err != nil {
		return done, err
	}
	w := s.writer(to.c, a.cmd.name)
	defer w.progress.ofTree(ctx, from.c, from.path).end()
	for n, err := range from.walk(s, a.cmd.name, !a.has("noacl")).all(ctx) {
		if err != nil {
			return done, w.wroteError(what, err)
		}
		if kindOf(n.stat) == ephemeral {
			done.Ephemerals++
			continue
		}
		acl, err := readACL(n, !a.has("noacl"))
		if err == nil {
			err = w.create(ctx, to.at(from.relative(n.path)), n.data, acl)
		}
		if err != nil {
			return done, w.wroteError(what, err)
		}
	}
	err = w.finish(ctx)
	done.Znodes = w.done
	return done, w.wroteError(what, err)
}

const (
	moveAtOnce      = 1000      // znodes that mv moves in one transaction
	moveAtOnceBytes = 512 << 10 // and the bytes of their data and paths
	moveOverhead    = 100       // bytes of a znode's two operations beside these
)

// runMv renames a subtree: in one transaction if it is small enough.
func runMv(ctx context.Context, s *shell, a *args) error {
	from, to, err := s.places(ctx, a)
	if err != nil {
		return err
	}
	defer from.close()
	defer to.close()
	what := "mv " + from.label + " " + to.label
	if from.path == "/" {
		return failuref("cp copies it", "%s: the root can't be moved", what)
	}
	nodes, small, err := s.readSmall(ctx, from, a)
	if err != nil {
		return err
	}
	if small && !from.away && !to.away {
		if from.inside(to) {
			return failuref("name a target outside of it", "%s: the target lies within the source", what)
		}
		if err := s.moveAtOnce(ctx, from, to, nodes, a); err != nil {
			return advise(fmt.Errorf("%s: %w", what, err), "nothing was moved")
		}
		s.printCopied(a, "moved", copied{Znodes: len(nodes)})
		return nil
	}
	return s.moveInSteps(ctx, from, to, a)
}

// readSmall reads a subtree if it can be moved in one transaction; else it stops
// reading and returns false. An ephemeral znode is an error.
func (s *shell) readSmall(ctx context.Context, from *place, a *args) (nodes []*znode, small bool, err error) {
	size := 0
	for n, err := range from.walk(s, "mv", !a.has("noacl")).all(ctx) {
		if err != nil {
			return nil, false, err
		}
		if kindOf(n.stat) == ephemeral {
			return nil, false, failuref("it goes when its session ends", "mv %s: %s is ephemeral and belongs to the session %s", from.label, n.path, hex(n.stat.EphemeralOwner))
		}
		nodes = append(nodes, n)
		size += len(n.data) + 2*len(n.path) + moveOverhead
		if len(nodes) > moveAtOnce || size > moveAtOnceBytes {
			return nil, false, nil
		}
	}
	return nodes, true, nil
}

// moveAtOnce creates and deletes in one transaction, which fails if any znode's
// data has changed meanwhile.
func (s *shell) moveAtOnce(ctx context.Context, from, to *place, nodes []*znode, a *args) error {
	if err := makeParents(ctx, to.c, to.path); err != nil {
		return err
	}
	var ops []zk.MultiOp
	for _, n := range nodes {
		acl, err := readACL(n, !a.has("noacl"))
		if err != nil {
			return err
		}
		ops = append(ops, zk.CreateOp(to.at(from.relative(n.path)), n.data, zk.ModePersistent, acl))
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		ops = append(ops, zk.DeleteOp(nodes[i].path, nodes[i].stat.Version))
	}
	_, err := s.client.Multi(ctx, ops...)
	return err
}

// moveInSteps copies, compares, and deletes the source only if both are the same.
func (s *shell) moveInSteps(ctx context.Context, from, to *place, a *args) error {
	what := "mv " + from.label + " " + to.label
	s.out.notef("too much for one transaction: it is copied, compared, then deleted")
	done, err := s.copyTree(ctx, from, to, a)
	if err != nil {
		return err
	}
	differences := 0
	err = s.compare(ctx, "compare", from, to, !a.has("noacl"), func(difference) error {
		differences++
		return nil
	})
	if err != nil {
		return advise(fmt.Errorf("%s: compare the copy: %w", what, err), "the source is untouched; the copy stays")
	}
	if differences > 0 {
		return failuref("diff shows them; the source is untouched, and the copy stays",
			"%s: %d znodes were changed while they were copied", what, differences)
	}
	paths, err := s.below(ctx, from.c, from.path)
	if err == nil {
		_, err = s.deletePaths(ctx, from.c, paths, deleteBatch)
	}
	if err != nil {
		return advise(fmt.Errorf("%s: delete the source: %w", what, err), "the copy is whole; deleteall removes what is left of the source")
	}
	s.printCopied(a, "moved", done)
	return nil
}
