package cli

import (
	"context"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

const (
	// writeBatch is how many writes go into one transaction: servers take them
	// several times as fast so, and it is far from any limit.
	writeBatch = 100
	// writeBatchBytes bounds a transaction, well below jute.maxbuffer. One write
	// larger than this goes alone.
	writeBatchBytes = 128 << 10
	// writeOverhead is what an operation takes beside its path and its data.
	writeOverhead = 60
	// batchesUnderWay is how many transactions may be unanswered.
	batchesUnderWay = 16
)

// writer sends writes in transactions without waiting for each, in order, so that
// a parent is there before its children. The first failure ends it.
type writer struct {
	c        *zk.Client
	p        *zk.Pipeline
	batch    int          // writes to a transaction
	ops      []zk.MultiOp // of the next transaction
	bytes    int          // of ops
	queue    []written
	done     int // znodes certainly written
	progress *progress
}

// written is a write under way.
type written struct {
	wait func(context.Context) error
	n    int // znodes
}

// writer returns a writer to c. The caller ends its progress.
func (s *shell) writer(c *zk.Client, what string) *writer {
	w := s.silentWriter(c)
	w.progress = s.out.progress(what)
	return w
}

// silentWriter returns a writer without progress.
func (s *shell) silentWriter(c *zk.Client) *writer {
	return &writer{c: c, p: c.Pipeline(), batch: writeBatch}
}

// add takes one more operation, of about so many bytes.
func (w *writer) add(ctx context.Context, op zk.MultiOp, bytes int) error {
	bytes += len(op.Path) + writeOverhead
	if len(w.ops) >= w.batch || len(w.ops) > 0 && w.bytes+bytes > writeBatchBytes {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.ops = append(w.ops, op)
	w.bytes += bytes
	return nil
}

// flush sends the operations taken so far.
func (w *writer) flush(ctx context.Context) error {
	if len(w.ops) == 0 {
		return nil
	}
	ops, n := w.ops, len(w.ops)
	alone := n == 1 && w.bytes > writeBatchBytes
	w.ops, w.bytes = nil, 0
	if alone {
		return w.push(ctx, written{w.alone(ctx, ops[0]), 1})
	}
	f := w.p.Multi(ctx, ops...)
	return w.push(ctx, written{func(ctx context.Context) error {
		_, err := f.Wait(ctx)
		return err
	}, n})
}

// alone sends one large operation by itself: as part of a transaction a value just
// below jute.maxbuffer would be above it.
func (w *writer) alone(ctx context.Context, op zk.MultiOp) func(context.Context) error {
	if op.ACL != nil { // a create
		f := w.p.Create(ctx, op.Path, op.Data, op.Flags, op.ACL)
		return func(ctx context.Context) error { _, err := f.Wait(ctx); return err }
	}
	f := w.p.Set(ctx, op.Path, op.Data, op.Version)
	return func(ctx context.Context) error { _, err := f.Wait(ctx); return err }
}

// push queues a write, and waits for the oldest if too many are under way.
func (w *writer) push(ctx context.Context, e written) error {
	w.queue = append(w.queue, e)
	if len(w.queue) <= batchesUnderWay {
		return nil
	}
	return w.pop(ctx)
}

func (w *writer) pop(ctx context.Context) error {
	e := w.queue[0]
	w.queue = w.queue[1:]
	if err := e.wait(ctx); err != nil {
		w.settle(ctx)
		return err
	}
	w.done += e.n
	w.progress.add(int64(e.n))
	return nil
}

// settle waits for what is under way after a failure, and counts it.
func (w *writer) settle(ctx context.Context) {
	for _, e := range w.queue {
		if e.wait(ctx) == nil {
			w.done += e.n
		}
	}
	w.queue = nil
}

// finish sends the rest and waits for everything.
func (w *writer) finish(ctx context.Context) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	for len(w.queue) > 0 {
		if err := w.pop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create makes a persistent znode.
func (w *writer) create(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	return w.add(ctx, zk.CreateOp(path, data, zk.ModePersistent, acl), len(data)+len(aclText(acl)))
}

// setAt replaces data that has a version.
func (w *writer) setAt(ctx context.Context, path string, data []byte, version int32) error {
	return w.add(ctx, zk.SetOp(path, data, version), len(data))
}

// wroteError says how far a long piece of work came.
func (w *writer) wroteError(what string, err error) error {
	if err == nil {
		return nil
	}
	hint := "what is written stays"
	if conflict(err) {
		hint = "somebody else writes there, and that was left alone; " + hint
	}
	return advise(fmt.Errorf("%s: stopped after %d znodes written: %w", what, w.done, err), "%s", hint)
}
