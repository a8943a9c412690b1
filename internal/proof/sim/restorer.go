package sim

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The restorer is the client as which a server restores a snapshot for an administrator: it
// stores the snapshot's contents in pieces and then asks for tree.OpRestore.

// restoration is the state of the restorer.
type restoration struct {
	list   []byte // saved last, nil if nothing was
	stored []byte // being stored
	prefix string
	tries  int
	step   int // 0 creates the parent of the pieces, then come the pieces
	pieces int
}

// newRestorer returns the restorer, not yet connected.
func newRestorer(w *World) *client {
	c := newClient(w, w.plan.Clients+1)
	c.mix, c.user, c.silent, c.asksRO, c.left = nil, operatorUser, true, false, 0
	c.task = resting
	return c
}

// pieceBytes is the size of a piece, small so that there are many.
const pieceBytes = 1500

// restore begins to restore the last saved content, if any, and saves a server's present
// content for the next time.
func (w *World) restore(s *host) {
	if r := &w.restoring; r.list != nil && r.stored == nil && !w.healed {
		r.tries++
		r.stored, r.step, r.prefix = r.list, 0, fmt.Sprintf("%s/%d", tree.RestorePath, r.tries)
		r.pieces = (len(r.stored) + pieceBytes - 1) / pieceBytes
		w.restorer.task = working
		w.restorer.connect()
		w.restorer.work()
	}
	if l := s.life; l != nil && l.rep != nil && !s.paused() {
		w.restoring.list = l.rep.Znodes(nil)
		w.lists[sha256.Sum256(w.restoring.list)] = w.restoring.list
	}
}

// restoreNext sends the next request of a restoration.
func (c *client) restoreNext() {
	r := &c.w.restoring
	if len(c.pending) > 0 || r.stored == nil {
		return
	}
	switch piece := r.step - 1; {
	case piece < 0:
		q := jute.CreateRequest{Path: tree.RestorePath, ACL: jute.WorldACL(0)}
		c.send(jute.OpCreate, 0, q.Append(nil))
	case piece < r.pieces:
		q := jute.CreateRequest{Path: tree.PiecePath(r.prefix, piece), ACL: jute.WorldACL(0), Flags: jute.ModeEphemeral}
		q.Data = r.stored[piece*pieceBytes : min((piece+1)*pieceBytes, len(r.stored))]
		c.send(jute.OpCreate, 0, q.Append(nil))
	default:
		c.send(tree.OpRestore, 0, tree.AppendRestore(nil, r.prefix, r.pieces, sha256.Sum256(r.stored)))
	}
}

// restored handles the answer to a request of a restoration.
func (c *client) restored(op jute.Op, code jute.Code) {
	r := &c.w.restoring
	switch {
	case code == jute.OK && op == tree.OpRestore:
		c.w.stats.Restored++
	case code == jute.OK || code == jute.ErrNodeExists:
		r.step++
		return
	case code == jute.ErrThrottledOp || code == jute.ErrUnimplemented: // no room, or an older version is a member
	// its pieces are gone with its session, or it can't create any
	case code == jute.ErrNoNode || code == jute.ErrEphemeralOnLocalSession:
	default:
		c.w.fail("the restorer's %s is answered %s", op, code)
	}
	c.giveUpRestoring()
}

// giveUpRestoring ends a restoration, done or not: its pieces go with the session.
func (c *client) giveUpRestoring() {
	c.w.restoring.stored, c.task = nil, resting
	if c.conn != nil && c.greeted && !c.closing {
		c.closing = true
		c.send(jute.OpCloseSession, 0, nil)
	}
}

// restored returns the history's record of an OpRestore: see check.OpRestore.
func (w *World) restored(res *tree.Result, q *tree.Request) []byte {
	b := jute.AppendInt(nil, int32(len(res.Ended)))
	for _, id := range res.Ended {
		b = jute.AppendLong(b, id)
		w.ledger.over[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(w.ledger.begun)) {
		if !w.ledger.over[id] && id != q.Session {
			w.fail("S2: session %#x goes on although a snapshot was restored", id)
		}
	}
	list, ok := w.lists[[sha256.Size]byte(q.Body[len(q.Body)-sha256.Size:])]
	if !ok {
		w.fail("a replacement with znodes that nobody has saved")
	}
	w.ledger.restoredAt = w.now
	w.ledger.ages.restore(w.now, list, w.keeping)
	return append(b, list...)
}

// restore sets the ages to those of the znodes that a snapshot brings back, and tells k of the znodes.
func (a ages) restore(now int64, list []byte, k *keeping) {
	clear(a)
	d := jute.NewDecoder(list)
	for len(d.Rest()) > 0 {
		path := string([]byte(d.String()))
		kind, n := d.Byte(), &aging{alone: now}
		n.container = kind == 2
		n.ttl = d.Long()
		d.Long() // czxid
		d.Long() // mzxid
		d.Long() // pzxid
		d.Long() // ctime
		n.changed = d.Long()
		d.Int()
		d.Int()
		n.used = d.Long() > 0
		jute.DecodeACLs(d)
		k.restored(path, d.Buffer())
		a[path] = n
		if p := a[parentOf(path)]; p != nil && path != "/" {
			p.children++
		}
	}
}
