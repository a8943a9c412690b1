package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// load returns a load with the trial's flags, and opens its connections, to servers that have applied all earlier
// writes. The caller sets its source and closes the connections.
func (t *trial) load(ctx context.Context) (*load, error) {
	conns, err := t.dialAll(ctx, t.conns, wire.LoadBuffer)
	if err != nil {
		return nil, err
	}
	if err := t.settle(conns); err != nil {
		closeAll(conns)
		return nil, err
	}
	return &load{name: t.name, conns: conns, depth: evenly(t.depth), warm: t.warm, time: t.time, ops: t.ops,
		rate: t.rate, servers: t.measured, progress: t.progress}, nil
}

// steady measures one source with the trial's flags.
func (t *trial) steady(ctx context.Context, src wire.Source) (result, error) {
	l, err := t.load(ctx)
	if err != nil {
		return result{}, err
	}
	defer closeAll(l.conns)
	l.source = src
	r, err := l.run(ctx)
	if t.rate == 0 {
		r.Depth = t.depth
	}
	return r, err
}

// The znodes are prepared over few connections with many unanswered requests each.
const (
	prepareConns = 4
	prepareDepth = 64
)

// prepare creates n znodes with req. It stops at the first error.
func (t *trial) prepare(ctx context.Context, n int, req wire.Request) error {
	conns, err := t.dialAll(ctx, prepareConns, wire.LoadBuffer)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	l := &load{name: "preparing", conns: conns, depth: evenly(prepareDepth), source: func(int) wire.Request { return req },
		ops: int64(n), progress: t.progress}
	r, err := l.run(ctx)
	if err == nil && r.errorCount() > 0 {
		err = fmt.Errorf("%d of %d creates failed: %v", r.errorCount(), n, r.Errors)
	}
	if err != nil {
		return fmt.Errorf("prepare %d znodes below %s: %w", n, t.base, err)
	}
	return nil
}

// keyPrefix returns the prefix of the prepared znodes' paths.
func (t *trial) keyPrefix() string { return t.base + "/k" }

func (t *trial) key(i int) string { return wire.NumberedPath(t.keyPrefix(), i) }

// prepareKeys creates the znodes whose paths key returns.
func (t *trial) prepareKeys(ctx context.Context) error {
	data := t.value()
	create := wire.NewNumbered(t.keyPrefix(), func(path string) []byte { return wire.CreateFrame(path, data) })
	return t.prepare(ctx, t.keys,
		func(b []byte, i uint64) ([]byte, wire.Kind) { return create.Append(b, i), wire.KindWrite })
}

// anyOf returns a source that picks one of the frames at random.
func (t *trial) anyOf(frames [][]byte, k wire.Kind) wire.Source {
	return func(conn int) wire.Request {
		rng := t.rng(conn)
		n := uint64(len(frames))
		return func(b []byte, _ uint64) ([]byte, wire.Kind) { return append(b, frames[rng.Uint64N(n)]...), k }
	}
}

func (t *trial) getFrames() ([][]byte, error) {
	return wire.Prepare(t.keys, func(i int) []byte { return wire.GetFrame(t.key(i), false) })
}

func (t *trial) setFrames() ([][]byte, error) {
	data := t.value()
	return wire.Prepare(t.keys, func(i int) []byte { return wire.SetFrame(t.key(i), data) })
}

// steadyOnKeys measures frames picked at random, after preparing the znodes.
func (t *trial) steadyOnKeys(ctx context.Context, k wire.Kind, frames [][]byte, err error) (result, error) {
	if err == nil {
		err = t.prepareKeys(ctx)
	}
	if err != nil {
		return result{}, err
	}
	return t.steady(ctx, t.anyOf(frames, k))
}

func runGet(ctx context.Context, t *trial) (result, error) {
	frames, err := t.getFrames()
	return t.steadyOnKeys(ctx, 0, frames, err)
}

func runSet(ctx context.Context, t *trial) (result, error) {
	frames, err := t.setFrames()
	return t.steadyOnKeys(ctx, wire.KindWrite, frames, err)
}

func runMixed(ctx context.Context, t *trial) (result, error) {
	gets, err := t.getFrames()
	if err != nil {
		return result{}, err
	}
	sets, err := t.setFrames()
	if err == nil {
		err = t.prepareKeys(ctx)
	}
	if err != nil {
		return result{}, err
	}
	n, percent := uint64(t.keys), uint64(t.reads)
	return t.steady(ctx, func(conn int) wire.Request {
		rng := t.rng(conn)
		return func(b []byte, _ uint64) ([]byte, wire.Kind) {
			key := rng.Uint64N(n)
			if rng.Uint64N(100) < percent {
				return append(b, gets[key]...), 0
			}
			return append(b, sets[key]...), wire.KindWrite
		}
	})
}

// createSource returns a source for which each connection creates znodes with its own numbers.
func (t *trial) createSource() wire.Source {
	data := t.value()
	return func(conn int) wire.Request {
		create := wire.NewNumbered(fmt.Sprintf("%s/c%d-", t.base, conn),
			func(path string) []byte { return wire.CreateFrame(path, data) })
		return func(b []byte, i uint64) ([]byte, wire.Kind) { return create.Append(b, i), wire.KindWrite }
	}
}

func runCreate(ctx context.Context, t *trial) (result, error) { return t.steady(ctx, t.createSource()) }

func runDelete(ctx context.Context, t *trial) (result, error) {
	if t.rate > 0 {
		return result{}, usagef("delete ends when nothing is left to delete, so it takes no -rate")
	}
	if err := t.prepareKeys(ctx); err != nil {
		return result{}, err
	}
	t.ops = int64(t.keys)
	del := wire.NewNumbered(t.keyPrefix(), wire.DeleteFrame)
	return t.steady(ctx, func(int) wire.Request {
		return func(b []byte, i uint64) ([]byte, wire.Kind) { return del.Append(b, i), wire.KindWrite }
	})
}

func runMulti(ctx context.Context, t *trial) (result, error) {
	data := t.value()
	frames, err := wire.Prepare(t.keys, func(i int) []byte {
		ops := make([]jute.MultiOp, t.batch)
		for j := range ops {
			ops[j] = jute.MultiOp{Op: jute.OpSetData, Path: t.key((i + j) % t.keys), Data: data, Version: -1}
		}
		return wire.MultiFrame(ops)
	})
	return t.steadyOnKeys(ctx, wire.KindWrite|wire.KindMulti, frames, err)
}

func runChildren(ctx context.Context, t *trial) (result, error) {
	return t.steadyOnKeys(ctx, 0, [][]byte{wire.ChildrenFrame(t.base)}, nil)
}

// pause waits for d. It returns an error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
