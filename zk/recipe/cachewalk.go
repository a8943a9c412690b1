package recipe

import (
	"context"
	"errors"

	"github.com/zooid-project/zooid/zk"
)

// readsAtOnce bounds the reads a cache has under way: enough to hide the round
// trip, few enough to leave room for the client's other calls
// (zk.OutstandingMaxDefault).
const readsAtOnce = 256

// read returns those of the znodes at paths that exist and may be read.
func read(ctx context.Context, c *zk.Client, paths []string) (map[string]zk.Node, error) {
	found := make(map[string]zk.Node, len(paths))
	err := pipelined(ctx, c, paths, func(p *zk.Pipeline, path string) zk.Future[zk.Node] {
		return p.Get(ctx, path)
	}, func(path string, node zk.Node) { found[path] = node })
	return found, err
}

// pipelined sends a read for each path, and hands what there is to take.
func pipelined[T any](ctx context.Context, c *zk.Client, paths []string, send func(*zk.Pipeline, string) zk.Future[T], take func(string, T)) error {
	p := c.Pipeline()
	for len(paths) > 0 {
		some := paths[:min(readsAtOnce, len(paths))]
		paths = paths[len(some):]
		var sent []zk.Future[T]
		for _, path := range some {
			sent = append(sent, send(p, path))
		}
		for i, f := range sent {
			result, err := f.Wait(ctx)
			switch {
			case err == nil:
				take(some[i], result)
			case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
				return err
			}
		}
	}
	return nil
}

// walk returns all znodes the cache covers. It reads one level after the other.
// What changes meanwhile is told by the watch, and read again after. The sync
// makes sure that a new session on a server that lags behind doesn't take the
// cache back in time.
func (k *Cache) walk(ctx context.Context, c *zk.Client) (map[string]zk.Node, error) {
	if err := c.Sync(ctx, k.root); err != nil {
		return nil, err
	}
	all := map[string]zk.Node{}
	level := []string{k.root}
	for depth := 0; len(level) > 0; depth++ {
		found, err := read(ctx, c, level)
		if err != nil {
			return nil, err
		}
		var parents []string
		for _, path := range level {
			node, ok := found[path]
			if !ok {
				continue
			}
			all[path] = node
			if node.Stat.NumChildren > 0 && depth < k.depth {
				parents = append(parents, path)
			}
		}
		level = nil
		err = pipelined(ctx, c, parents, func(p *zk.Pipeline, path string) zk.Future[zk.Listing] {
			return p.Children(ctx, path)
		}, func(path string, l zk.Listing) {
			for _, name := range l.Children {
				level = append(level, join(path, name))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
