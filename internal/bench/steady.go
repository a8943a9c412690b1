package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// steady measures one source by the trial's flags.
func (t *trial) steady(ctx context.Context, src source) (result, error) {
	conns, err := t.dialAll(ctx, t.conns, loadBuffer)
	if err != nil {
		return result{}, err
	}
	defer closeAll(conns)
	if err := t.settle(conns); err != nil {
		return result{}, err
	}
	l := &load{name: t.name, conns: conns, depth: evenly(t.depth), source: src, warm: t.warm, time: t.time,
		ops: t.ops, rate: t.rate, servers: t.measured, progress: t.progress}
	r, err := l.run(ctx)
	if t.rate == 0 {
		r.Depth = t.depth
	}
	return r, err
}

// The preparing of znodes takes few connections, deep.
const (
	prepareConns = 4
	prepareDepth = 64
)

// prepare creates n znodes by the request; any error ends it.
func (t *trial) prepare(ctx context.Context, n int, req request) error {
	conns, err := t.dialAll(ctx, prepareConns, loadBuffer)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	l := &load{name: "preparing", conns: conns, depth: evenly(prepareDepth), source: func(int) request { return req },
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

// keyPrefix is what the paths of the prepared znodes begin with.
func (t *trial) keyPrefix() string { return t.base + "/k" }

func (t *trial) key(i int) string { return numberedPath(t.keyPrefix(), i) }

// prepareKeys creates the znodes that key names.
func (t *trial) prepareKeys(ctx context.Context) error {
	data := t.value()
	create := newNumbered(t.keyPrefix(), func(path string) []byte { return createFrame(path, data) })
	return t.prepare(ctx, t.keys, func(b []byte, i uint64) ([]byte, kind) { return create.append(b, i), kindWrite })
}

// anyOf is a source that picks one of the frames at random.
func (t *trial) anyOf(frames [][]byte, k kind) source {
	return func(conn int) request {
		rng := t.rng(conn)
		n := uint64(len(frames))
		return func(b []byte, _ uint64) ([]byte, kind) { return append(b, frames[rng.Uint64N(n)]...), k }
	}
}

func (t *trial) getFrames() ([][]byte, error) {
	return prepare(t.keys, func(i int) []byte { return getFrame(t.key(i), false) })
}

func (t *trial) setFrames() ([][]byte, error) {
	data := t.value()
	return prepare(t.keys, func(i int) []byte { return setFrame(t.key(i), data) })
}

func runGet(ctx context.Context, t *trial) (result, error) {
	frames, err := t.getFrames()
	if err == nil {
		err = t.prepareKeys(ctx)
	}
	if err != nil {
		return result{}, err
	}
	return t.steady(ctx, t.anyOf(frames, 0))
}

func runSet(ctx context.Context, t *trial) (result, error) {
	frames, err := t.setFrames()
	if err == nil {
		err = t.prepareKeys(ctx)
	}
	if err != nil {
		return result{}, err
	}
	return t.steady(ctx, t.anyOf(frames, kindWrite))
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
	return t.steady(ctx, func(conn int) request {
		rng := t.rng(conn)
		return func(b []byte, _ uint64) ([]byte, kind) {
			key := rng.Uint64N(n)
			if rng.Uint64N(100) < percent {
				return append(b, gets[key]...), 0
			}
			return append(b, sets[key]...), kindWrite
		}
	})
}

// createSource makes each connection create znodes of its own numbering.
func (t *trial) createSource() source {
	data := t.value()
	return func(conn int) request {
		create := newNumbered(fmt.Sprintf("%s/c%d-", t.base, conn), func(path string) []byte { return createFrame(path, data) })
		return func(b []byte, i uint64) ([]byte, kind) { return create.append(b, i), kindWrite }
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
	del := newNumbered(t.keyPrefix(), deleteFrame)
	return t.steady(ctx, func(int) request {
		return func(b []byte, i uint64) ([]byte, kind) { return del.append(b, i), kindWrite }
	})
}

func runMulti(ctx context.Context, t *trial) (result, error) {
	data := t.value()
	frames, err := prepare(t.keys, func(i int) []byte {
		ops := make([]jute.MultiOp, t.batch)
		for j := range ops {
			ops[j] = jute.MultiOp{Op: jute.OpSetData, Path: t.key((i + j) % t.keys), Data: data, Version: -1}
		}
		return multiFrame(ops)
	})
	if err == nil {
		err = t.prepareKeys(ctx)
	}
	if err != nil {
		return result{}, err
	}
	return t.steady(ctx, t.anyOf(frames, kindWrite|kindMulti))
}

func runChildren(ctx context.Context, t *trial) (result, error) {
	if err := t.prepareKeys(ctx); err != nil {
		return result{}, err
	}
	return t.steady(ctx, t.anyOf([][]byte{childrenFrame(t.base)}, 0))
}

// pause waits for d, or for the end of ctx, which is an error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
