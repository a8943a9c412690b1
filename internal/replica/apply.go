package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Apply evaluates committed entries, in order, and queues the resulting replies and notifications
// for the clients connected here. An error means that this server's log holds something that this
// program did not write; continuing would make the state diverge.
func (r *Replica) Apply(entries []quorum.Entry) (err error) {
	var push *Client
	defer func() {
		if push != nil {
			push.Socket.Push()
		}
	}()
	now := r.now()
	r.mu.Lock()
	held := r.now()
	r.broken.applying.Store(true)
	defer r.breakDown(&err)
	visit := func(res *tree.Result) { r.applied(res, now); r.broken.requests++ }
	for _, e := range entries {
		r.broken.entry, r.broken.requests = e, 0
		r.loop.arrives(&e, now)
		if err := r.applyEntry(e, visit); err != nil {
			r.broken.applying.Store(false)
			r.mu.Unlock()
			newer, missing := (*tree.NewerError)(nil), (*tree.MissingRuleError)(nil)
			diverged := (*quorum.DivergedAloneError)(nil)
			if errors.As(err, &newer) || errors.As(err, &missing) || errors.As(err, &diverged) {
				return fmt.Errorf("apply log entry %d of term %d: %w", e.Index, e.Term, err)
			}
			return fmt.Errorf("apply log entry %d of term %d: %w. %s", e.Index, e.Term, err, stopsAtEntry)
		}
		r.progress.countEntry(e, now)
		r.catchUp()
	}
	r.stats.writes.flush()
	r.stats.answers.flush(r)
	r.noteSizes()
	end := r.now()
	r.appliedAt = end
	push = r.flush(end)
	r.broken.entry = quorum.Entry{} // its memory belongs to the log
	r.broken.applying.Store(false)
	if !r.progress.replaying {
		r.meters.Stages.apply.Observe(end - now)
		r.holds[holdApply].Note(held, end)
	}
	r.mu.Unlock()
	return nil
}

// applyEntry evaluates one committed entry.
func (r *Replica) applyEntry(e quorum.Entry, visit func(*tree.Result)) error {
	if len(e.Data) == 0 {
		err := r.tree.NewTerm(e.Term, e.Index)
		r.loop.digests.note(e.Index, r.tree.Digest())
		return err
	}
	if len(e.Data) < proposals.DigestSize {
		return fmt.Errorf("it has %d bytes, too few for its digest", len(e.Data))
	}
	index, digest := binary.BigEndian.Uint64(e.Data), binary.BigEndian.Uint64(e.Data[8:])
	if r.loop.digests.differs(index, digest) {
		if r.alone {
			return &quorum.DivergedAloneError{Index: index, Digest: digest}
		}
		r.loop.doubtful = true // the quorum determines which state is right
	}
	before := r.tree.Time()
	err := r.tree.Apply(e.Term, e.Index, e.Data[proposals.DigestSize:], visit)
	r.clock.noteTime(before)
	r.loop.digests.note(e.Index, r.tree.Digest())
	return err
}

// applied updates this server after one request was evaluated, and answers the client. mu is held for writing.
func (r *Replica) applied(res *tree.Result, now int64) {
	r.mu.Held()
	r.progress.zxids.Take(res.Zxid, "the zxid of what is applied")
	r.snapshots.since++
	r.progress.requests++
	r.proposals.Applied(res.Request, now)
	r.progress.noteDigest(res.Zxid, r.tree)
	if r.observe != nil {
		r.observe(res)
	}
	for i := range res.Events {
		r.stats.changed(&res.Events[i])
		r.limiter.noteLimits(&res.Events[i])
	}
	r.fire(res.Events, res.Zxid, now)
	switch res.Op {
	case tree.OpSettings, tree.OpLineage:
		r.levels.note()
	case tree.OpRestore:
		r.restored(res)
	case jute.OpCreateSession, tree.OpAttach:
		r.attached(res)
		return
	case tree.OpEnter:
		r.locals.entered(res)
		return
	case jute.OpCloseSession, tree.OpExpire:
		if c := r.clients[res.Cnx]; c != nil {
			c.arrival.applied = res.Seq
		}
		r.ended(res, now)
		return
	}
	c := r.clients[res.Cnx]
	if c == nil || res.Session == 0 {
		return
	}
	if res.Outcome == tree.SessionGone && r.locals.sessions[res.Session] != nil {
		return // its session is entering, and the write is sent again after that
	}
	c.arrival.applied = res.Seq
	switch res.Outcome {
	case tree.Applied:
		if res.Limit != tree.NoLimit {
			r.refused(c, res.Limit)
		}
		if res.OverQuota != "" {
			r.meters.overQuota.With(strings.Clone(namespace(res.OverQuota))).Inc()
		}
		r.complete(c, res, now)
	case tree.Moved:
		r.movedFrom(c, "its session moved to another connection")
	case tree.SessionGone:
		c.CloseAfter("its session ended")
	}
}
