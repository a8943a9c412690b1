package cli

import (
	"context"
	"fmt"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// copied counts the results of a copy.
type copied struct {
	Znodes     int `json:"znodes"`
	Ephemerals int `json:"ephemeralsLeftOut,omitempty"`
	Quotas     int `json:"quotasLeftOut,omitempty"`
}

// runCp copies a subtree to a path where nothing exists.
func runCp(ctx context.Context, s *shell, a *args, from, to *place) error {
	done, err := s.copyTree(ctx, from, to, a)
	if err != nil {
		return err
	}
	done.Quotas = s.leaveQuotas(ctx, "cp", from)
	s.printCopied(a, "copied", done)
	return nil
}

func (s *shell) printCopied(a *args, word string, done copied) {
	v := map[string]any{word: a.arg(0), "to": a.arg(1), "znodes": done.Znodes, "ephemeralsLeftOut": done.Ephemerals}
	if done.Quotas > 0 {
		v["quotasLeftOut"] = done.Quotas
	}
	s.out.Show(v, func() { s.out.Printf("%s %s\n", word, subtree.Count(done.Znodes)) })
	if done.Ephemerals > 0 {
		s.out.Notef("%d ephemeral znodes were left out: they belong to their sessions", done.Ephemerals)
	}
}

// copyTree copies a subtree to a path where nothing exists. It leaves out ephemeral znodes.
func (s *shell) copyTree(ctx context.Context, from, to *place, a *args) (done copied, err error) {
	what := a.cmd.name + " " + from.label + " " + to.label
	if err := s.checkCopy(ctx, what, from, to, false); err != nil {
		return done, err
	}
	q, err := subtree.NewSecurer(ctx, to.c)
	if err != nil {
		return done, fmt.Errorf("%s: %w", what, err)
	}
	if err := makeParents(ctx, to.c, to.path); err != nil {
		return done, err
	}
	w := subtree.NewWriter(s.out, to.c, a.cmd.name)
	defer w.Progress.OfTree(ctx, from.c, from.path).End()
	for n, err := range from.walk(s, a.cmd.name, !a.has("noacl")).All(ctx) {
		if err == nil && screen.KindOf(n.Stat) == screen.Ephemeral {
			if n.Path == from.path {
				return done, advice.Errorf("name a persistent znode; ephemeral ones end with their sessions",
					"%s: the source is ephemeral", what)
			}
			done.Ephemerals++
			continue
		}
		if err == nil {
			err = copyZnode(ctx, w, q, n, to.at(from.relative(n.Path)), !a.has("noacl"))
		}
		if err != nil {
			w.Settle(ctx)
			return done, q.Unfinished(w.WroteError(what, err), "mirror "+from.label+" "+to.label)
		}
	}
	if err = w.Finish(ctx); err == nil {
		err = q.Finish(ctx)
	}
	done.Znodes = w.Done
	return done, q.Unfinished(w.WroteError(what, err), "mirror "+from.label+" "+to.label)
}

// copyZnode makes w create a copy of n at path.
func copyZnode(ctx context.Context, w *subtree.Writer, q *subtree.Securer, n *subtree.Znode, path string,
	withACL bool) error {
	acl, err := readACL(n, withACL)
	if err != nil {
		return err
	}
	return w.Create(ctx, path, n.Data, q.First(len(n.Children) > 0, path, acl))
}

// checkCopy refuses a target within the source, a source that doesn't exist and, unless
// again is set, a target that exists.
func (s *shell) checkCopy(ctx context.Context, what string, from, to *place, again bool) error {
	inside, _, err := s.overlap(ctx, what, from, to)
	if err != nil {
		return err
	}
	if inside {
		return advice.Errorf("name a target outside of it", "%s: the target lies within the source", what)
	}
	if err := s.exist(ctx, from); err != nil {
		return err
	}
	_, there, err := to.c.Exists(ctx, to.path)
	if err == nil && there && !again {
		return advice.Errorf("name a path that doesn't exist; mirror overwrites an existing subtree",
			"%s: the target exists already", what)
	}
	return err
}
