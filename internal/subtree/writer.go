package subtree

import (
	"context"
	"fmt"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

const (
	// writeBatch is how many writes go into one transaction: servers take them several
	// times as fast that way, and it is far below any limit.
	writeBatch = 100
	// writeBatchBytes bounds a transaction, well below jute.maxbuffer. One write
	// larger than this is sent by itself.
	writeBatchBytes = 128 << 10
	// writeOverhead is what an operation takes besides its path and its data.
	writeOverhead = 60
	// batchesUnderWay is how many transactions may be unanswered.
	batchesUnderWay = 16
)

// Writer sends writes in transactions, in order, so that a parent exists before its
// children, and without waiting for each. The first failure ends it.
type Writer struct {
	c        *zk.Client
	p        *zk.Pipeline
	batch    int          // writes to a transaction
	ops      []zk.MultiOp // of the next transaction
	bytes    int          // of ops
	queue    []written
	Done     int // znodes certainly written
	Progress *screen.Progress
}

// written is a write under way.
type written struct {
	wait func(context.Context) error
	n    int // znodes
}

// NewWriter returns a writer to c that reports its progress to out; the caller ends the
// progress. If out is nil, it reports none.
func NewWriter(out *screen.Output, c *zk.Client, what string) *Writer {
	w := &Writer{c: c, p: c.Pipeline(), batch: writeBatch}
	if out != nil {
		w.Progress = out.Progress(what)
	}
	return w
}

// add adds one operation, of about this many bytes.
func (w *Writer) add(ctx context.Context, op zk.MultiOp, bytes int) error {
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
func (w *Writer) flush(ctx context.Context) error {
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

// alone sends one large operation by itself: within a transaction, a value just below
// jute.maxbuffer would exceed it.
func (w *Writer) alone(ctx context.Context, op zk.MultiOp) func(context.Context) error {
	if op.ACL != nil { // a create
		f := w.p.Create(ctx, op.Path, op.Data, op.Flags, op.ACL)
		return func(ctx context.Context) error { _, err := f.Wait(ctx); return err }
	}
	f := w.p.Set(ctx, op.Path, op.Data, op.Version)
	return func(ctx context.Context) error { _, err := f.Wait(ctx); return err }
}

// push queues a write, and waits for the oldest if too many are under way.
func (w *Writer) push(ctx context.Context, e written) error {
	w.queue = append(w.queue, e)
	if len(w.queue) <= batchesUnderWay {
		return nil
	}
	return w.pop(ctx)
}

func (w *Writer) pop(ctx context.Context) error {
	e := w.queue[0]
	w.queue = w.queue[1:]
	if err := e.wait(ctx); err != nil {
		w.Settle(ctx)
		return err
	}
	w.Done += e.n
	w.Progress.Add(int64(e.n))
	return nil
}

// Settle waits for what is under way after a failure, and counts it.
func (w *Writer) Settle(ctx context.Context) {
	for _, e := range w.queue {
		if e.wait(ctx) == nil {
			w.Done += e.n
		}
	}
	w.queue = nil
}

// Finish sends the rest and waits for everything.
func (w *Writer) Finish(ctx context.Context) error {
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

// Create makes a persistent znode.
func (w *Writer) Create(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	return w.add(ctx, zk.CreateOp(path, data, zk.ModePersistent, acl), len(data)+len(ACLText(acl)))
}

// SetAt replaces data that has the given version.
func (w *Writer) SetAt(ctx context.Context, path string, data []byte, version int32) error {
	return w.add(ctx, zk.SetOp(path, data, version), len(data))
}

// WroteError says how far a long piece of work got.
func (w *Writer) WroteError(what string, err error) error {
	if err == nil {
		return nil
	}
	hint := "what was written stays"
	if Conflict(err) {
		hint = "another client writes there, and its changes were left alone; " + hint
	}
	return advice.Add(fmt.Errorf("%s: stopped after %d znodes written: %w", what, w.Done, err), "%s", hint)
}
