package check

import (
	"cmp"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// If the model rests on a guess, a mismatch proves nothing. This file finds the nodes for which it does. With the
// servers' logs, nothing in this file applies.

// guessing reports whether, at zxid and at the time of the event being checked, any part of the model may differ from
// the servers' state: some unanswered change is open, or was placed by a guess.
func (c *checker) guessing(zxid int64) bool {
	return slices.ContainsFunc(c.unanswered, func(b *unanswered) bool {
		return (!b.placed || b.guessed) && b.after < zxid && (b.o != nil || c.now >= b.deadline())
	})
}

// closed returns the zxid from which on b can't have happened any more, 0 if none is known.
func (b *unanswered) closed() int64 {
	z := b.before
	if b.s != nil && b.s.endZxid != 0 && (z == 0 || b.s.endZxid < z) {
		z = b.s.endZxid
	}
	return z
}

// tainted reports whether n's state at zxid rests on a guess: an unanswered change touched it or may have, and no
// matching read has come since.
func (c *checker) tainted(n *node, zxid int64) bool {
	for _, b := range n.unanswered {
		if b.after < zxid && (!b.placed || b.guessed) {
			if z := b.closed(); z == 0 || n.verified < z {
				return true
			}
		}
	}
	return false
}

// undecide stops checking the nodes on which a mismatch may rest if one of them is tainted, and reports whether it did.
func (c *checker) undecide(nodes []*node, zxid int64) bool {
	if !c.anyTainted(nodes, zxid) {
		return false
	}
	c.rep.Undecided++
	for _, n := range nodes {
		if n.path != "/" && !n.opaque {
			n.opaque, n.lost = true, true
			n.watchersLostFrom = cmp.Or(n.watchersLostFrom, zxid)
		}
	}
	return true
}

func (c *checker) anyTainted(nodes []*node, zxid int64) bool {
	for _, n := range nodes {
		if c.tainted(n, zxid) || n.blind() || c.doomed(n, zxid) {
			return true
		}
		for _, child := range n.kids {
			if child.lost || c.tainted(child, zxid) || c.doomed(child, zxid) {
				return true
			}
		}
	}
	return false
}

// doomed reports whether the servers may have removed n by zxid, with its session or because it was empty.
func (c *checker) doomed(n *node, zxid int64) bool {
	if n.reapGuessed {
		return true
	}
	for v := n.last; v != nil; v = v.before {
		if v.life != ephemeral {
			continue
		}
		s := c.sessions[v.owner]
		if s == nil || s.end == nil {
			continue
		}
		if s.end.guessed || !s.end.placed && s.end.after < zxid && c.now >= s.end.deadline() {
			return true
		}
	}
	return false
}

// blind reports whether n, or a node above it, was lost.
func (n *node) blind() bool {
	for up := n; up != nil; up = up.parent {
		if up.lost {
			return true
		}
	}
	return false
}

// recover resumes checking a lost node if a getData shows everything about it that the model doesn't know.
func (c *checker) recover(n *node, op jute.Op, w *shown) {
	if op != jute.OpGetData || w.code != jute.OK || w.bad != nil || c.supposing || n.parent.blind() {
		return
	}
	s := n.now()
	g := &w.stat
	if s == nil || int(g.NumChildren) != len(n.children) || g.Aversion != s.aversion ||
		(g.EphemeralOwner != 0) != (s.life == ephemeral) || g.EphemeralOwner != s.owner {
		return
	}
	for _, child := range n.children {
		if child.lost {
			return
		}
	}
	next := *s
	next.czxid, next.mzxid, next.pzxid = g.Czxid, g.Mzxid, g.Pzxid
	next.ctime, next.mtime = &stamp{ms: g.Ctime, known: true}, &stamp{ms: g.Mtime, known: true}
	next.version, next.numChildren, next.creations = g.Version, g.NumChildren, (g.Cversion+g.NumChildren)/2
	next.data = w.data
	c.m.set(n, w.zxid, &next)
	n.opaque, n.lost = false, false
}

// inDoubt reports whether an unanswered write, or a session's end with an unknown zxid, may have touched n or one of
// its children by zxid.
func (c *checker) inDoubt(n *node, zxid int64) bool {
	for _, b := range n.unanswered {
		if (!b.placed || b.guessed) && b.after < zxid {
			return true
		}
	}
	if n.parent != nil {
		for _, b := range n.parent.unanswered {
			if b.o != nil && (!b.placed || b.guessed) && b.after < zxid {
				return true // it may be a sequential create, whose name is unknown
			}
		}
	}
	if c.doomed(n, zxid) {
		return true
	}
	for _, child := range n.kids {
		if c.doomed(child, zxid) {
			return true
		}
	}
	return false
}

// excuse reports whether an unanswered write that nothing else shows may be the cause of an event on n.
func (c *checker) excuse(k *conn, n *node, zxid int64) bool {
	switch {
	case c.exact:
		return false
	case c.opt.NotificationsUnnumbered:
		if !c.guessing(k.maxSeen + 1) {
			return false
		}
	case zxid <= 0 && !c.inDoubt(n, k.max), zxid > 0 && !c.inDoubt(n, zxid):
		return false
	}
	if k.excused == nil {
		k.excused = map[*node]bool{}
	}
	k.excused[n] = true
	return true
}
