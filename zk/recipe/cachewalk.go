package recipe

import (
	"bytes"
	"context"
	"errors"
	"maps"

	"github.com/zooid-project/zooid/zk"
)

// How a cache reads: several znodes with each request, so that a million of them cost little more than their bytes, and
// several requests at a time, so that client and server work in parallel.
const (
	// batchMax bounds the znodes read by one request. With the usual jute.maxbuffer of 1 MB the reply is at most half
	// of what a client accepts (zk.DefaultMaxResponseBytes), however large the znodes are.
	batchMax = 32

	// listingMax bounds the names requested at once, unless one znode has more children. With some 20 bytes per name
	// the reply has a few hundred KB.
	listingMax = 20_000

	// requestsAtOnce is enough to hide the round trip, and leaves room for the client's other calls
	// (zk.DefaultMaxOutstanding).
	requestsAtOnce = 16
)

// A reader reads znodes for a cache.
type reader struct {
	c     *zk.Client
	batch int // znodes per request
}

// read calls take for each znode at paths that exists and that this client may read.
func (r *reader) read(ctx context.Context, paths []string, take func(path string, node zk.Node)) error {
	batches := (len(paths) + r.batch - 1) / r.batch
	batch := func(i int) []string { return paths[i*r.batch : min((i+1)*r.batch, len(paths))] }
	return r.pipelined(ctx, batches, func(p *zk.Pipeline, i int) zk.Future[[]zk.MultiResult] {
		return p.MultiRead(ctx, ops(batch(i), zk.GetOp)...)
	}, func(i int, results []zk.MultiResult) error {
		for j, path := range batch(i) {
			ok, err := readable(results[j])
			if err != nil {
				return err
			}
			if ok { // a copy, so that one znode doesn't keep the others of its batch in memory
				take(path, zk.Node{Data: bytes.Clone(results[j].Data), Stat: results[j].Stat})
			}
		}
		return nil
	})
}

// list calls take for each child of the znodes at parents. sizes are their numbers of children.
func (r *reader) list(ctx context.Context, parents []string, sizes []int32, take func(path string)) error {
	var ends []int // of the batches
	names := 0
	for i, size := range sizes {
		if begin := last(ends); i > begin && (i-begin >= r.batch || names+int(size) > listingMax) {
			ends, names = append(ends, i), 0
		}
		names += int(size)
	}
	ends = append(ends, len(parents))
	batch := func(i int) []string { return parents[last(ends[:i]):ends[i]] }
	return r.pipelined(ctx, len(ends), func(p *zk.Pipeline, i int) zk.Future[[]zk.MultiResult] {
		return p.MultiRead(ctx, ops(batch(i), zk.ChildrenOp)...)
	}, func(i int, results []zk.MultiResult) error {
		for j, path := range batch(i) {
			if _, err := readable(results[j]); err != nil {
				return err
			}
			for _, name := range results[j].Children {
				take(join(path, name))
			}
		}
		return nil
	})
}

// last returns the last element of v, 0 if v is empty.
func last(v []int) int {
	if len(v) == 0 {
		return 0
	}
	return v[len(v)-1]
}

func ops(paths []string, op func(string) zk.MultiOp) []zk.MultiOp {
	all := make([]zk.MultiOp, len(paths))
	for i, path := range paths {
		all[i] = op(path)
	}
	return all
}

// readable reports whether r is the result of a znode that exists and that this client may read.
func readable(r zk.MultiResult) (bool, error) {
	if errors.Is(r.Err, zk.ErrNoNode) || errors.Is(r.Err, zk.ErrNoAuth) {
		return false, nil
	}
	return r.Err == nil, r.Err
}

// pipelined sends n requests, up to requestsAtOnce at a time, and calls take for the replies in order.
func (r *reader) pipelined(ctx context.Context, n int, send func(*zk.Pipeline, int) zk.Future[[]zk.MultiResult],
	take func(int, []zk.MultiResult) error) error {
	p := r.c.Pipeline()
	var sent [requestsAtOnce]zk.Future[[]zk.MultiResult]
	for i := range n + requestsAtOnce {
		slot := &sent[i%requestsAtOnce]
		if done := i - requestsAtOnce; done >= 0 && done < n {
			results, err := slot.Wait(ctx)
			if err == nil {
				err = take(done, results)
			}
			if err != nil {
				return err
			}
		}
		if i < n {
			*slot = send(p, i)
		}
	}
	return nil
}

// walk returns all znodes that the cache covers. It reads one level after another. The watch reports changes made
// meanwhile, which are read again afterwards. The sync makes sure that a new session on a server that lags behind
// doesn't take the cache back in time. A read-only server can't sync, and the cache takes its state. When there is a
// server with quorum, the client moves to it, and everything is read again.
func (k *Cache) walk(ctx context.Context, r *reader) (map[string]zk.Node, error) {
	if err := r.c.Sync(ctx, k.root); err != nil && !errors.Is(err, zk.ErrNotReadOnly) {
		return nil, err
	}
	all := map[string]zk.Node{}
	level := []string{k.root}
	for depth := 0; len(level) > 0; depth++ {
		if len(level) > len(all) { // most znodes of a tree are in one level: make room at once
			grown := make(map[string]zk.Node, len(all)+len(level))
			maps.Copy(grown, all)
			all = grown
		}
		var parents []string
		var sizes []int32
		err := r.read(ctx, level, func(path string, node zk.Node) {
			all[path] = node
			if node.Stat.NumChildren > 0 && depth < k.depth {
				parents, sizes = append(parents, path), append(sizes, node.Stat.NumChildren)
			}
		})
		if err != nil {
			return nil, err
		}
		level = nil
		if len(parents) == 0 {
			break
		}
		if err := r.list(ctx, parents, sizes, func(path string) { level = append(level, path) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// onceMore reports whether to try reading again: after a lost connection, or after a batch that exceeded this client's
// limits, in which case each further request reads one znode.
func (r *reader) onceMore(ctx context.Context, err error) bool {
	if r.batch > 1 && (errors.Is(err, zk.ErrReplyTooLarge) || errors.Is(err, zk.ErrRequestTooLarge)) {
		r.batch = 1
		return true
	}
	return again(ctx, err)
}
