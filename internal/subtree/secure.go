package subtree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// A Securer sets the ACLs of copies last if they would keep the copy from being
// finished: a parent whose ACL admits no children gets a temporary ACL, which admits
// this session alone, until everything below it is written.
type Securer struct {
	c         *zk.Client
	ids       []zk.Identity
	Temporary []zk.ACL
	pending   []pendingACL // parents before their children
}

// pendingACL is an ACL that is still to be set.
type pendingACL struct {
	path     string
	acl      []zk.ACL
	aversion int32 // of the ACL it replaces
}

// NewSecurer asks the server for this session's identities. Servers before 3.7 can't
// answer; temporary ACLs then admit everybody.
func NewSecurer(ctx context.Context, c *zk.Client) (*Securer, error) {
	q := &Securer{c: c, Temporary: zk.WorldACL(zk.PermAll)}
	ids, err := c.WhoAmI(ctx)
	if errors.Is(err, zk.ErrUnimplemented) {
		return q, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask who may write below copies without an ACL of their own yet: %w", err)
	}
	q.ids = ids
	for _, id := range ids {
		if id.Scheme == "ip" {
			q.Temporary = []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: id.User}}}
		}
	}
	if slices.ContainsFunc(ids, func(id zk.Identity) bool { return id.Scheme != "ip" }) {
		q.Temporary = zk.CreatorACL()
	}
	return q, nil
}

// First returns the ACL that a copy at path is created with; hasChildren says that
// there will be znodes below it.
func (q *Securer) First(hasChildren bool, path string, acl []zk.ACL) []zk.ACL {
	if !hasChildren || q.admitsChildren(acl) {
		return acl
	}
	q.Later(path, acl, 0)
	return q.Temporary
}

// Later notes an ACL for Finish to set.
func (q *Securer) Later(path string, acl []zk.ACL, aversion int32) {
	q.pending = append(q.pending, pendingACL{path, acl, aversion})
}

// admitsChildren reports whether this session certainly may create children under acl.
func (q *Securer) admitsChildren(acl []zk.ACL) bool {
	return slices.ContainsFunc(acl, func(e zk.ACL) bool {
		yes, sure := Admits(e, q.ids)
		return yes && sure && e.Perms&zk.PermCreate != 0
	})
}

// Finish sets the pending ACLs, the deepest first.
func (q *Securer) Finish(ctx context.Context) error {
	slices.Reverse(q.pending)
	for len(q.pending) > 0 {
		batch := q.pending[:min(len(q.pending), ReadsAhead)]
		_, err := InParallel(batch, func(p pendingACL) (zk.Stat, error) { return q.c.SetACL(ctx, p.path, p.acl, p.aversion) })
		if err != nil {
			return fmt.Errorf("set the ACLs: %w", err)
		}
		q.pending = q.pending[len(batch):]
	}
	return nil
}

// Unfinished adds to err which znodes don't have their ACLs yet, and the command that
// continues.
func (q *Securer) Unfinished(err error, command string) error {
	if err == nil || len(q.pending) == 0 {
		return err
	}
	return advice.Add(fmt.Errorf("%w; up to %s have a temporary or an old ACL, such as %s",
		err, Count(len(q.pending)), q.pending[0].path),
		"what was written stays; %s continues, and sets the ACLs", command)
}
