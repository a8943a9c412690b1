package zk

import (
	"context"

	"github.com/zooid-project/zooid/jute"
)

// AddWatch sets a persistent watch on path alone or on path with all its descendants. The znode need not exist. The
// watch stays until it is closed or removed, or the session ends. No watch is set if err is not nil. If ctx ended
// before the reply, the server may have one, which the client removes once it has no other watch on the path. Several
// watches may cover one znode, also both modes on one path; each gets all its events. Servers before 3.9 keep one watch
// per path and client: on such servers, don't combine a persistent watch with one-shot watches, or with one of the
// other mode, on the same path. Servers before 3.6 refuse it with ErrUnimplemented.
func (c *Client) AddWatch(ctx context.Context, path string, mode AddWatchMode) (*Watch, error) {
	k, err := c.newCall(jute.OpAddWatch, path, false)
	if err != nil {
		return nil, err
	}
	kind := watchPersistent
	switch mode {
	case AddWatchPersistent:
	case AddWatchPersistentRecursive:
		kind = watchRecursive
	default:
		return nil, &Error{Op: "addWatch", Path: path, Err: ErrBadArguments, detail: "unknown mode"}
	}
	k.abs = c.abs(path)
	k.watch = c.newWatch(k.abs, kind)
	w := k.watch
	r := jute.AddWatchRequest{Path: k.abs, Mode: mode}
	k, err = c.sized(k, r.Append(k.begin()))
	err = nothingOf(c.run(ctx, k, err))
	return ifRegistered(w, err), err
}

// RemoveWatches removes this client's watches of type t on path, here and at the server, including those set through
// Chroot views of the same session. It fails with ErrNoWatcher if the server has none. Servers before 3.9 don't
// distinguish the types of watches on one path and remove all. The watches end as if closed. If RemoveWatches fails,
// they continue; if ctx ended before the reply, they end once the server has removed them. To end one Watch, Close it.
func (c *Client) RemoveWatches(ctx context.Context, path string, t WatcherType) error {
	k, err := c.watchesCall(jute.OpRemoveWatches, path, t)
	if err == nil {
		k.drop = t
	}
	return nothingOf(c.run(ctx, k, err))
}

// CheckWatches fails with ErrNoWatcher unless the server has a watch of type t on path for this client.
func (c *Client) CheckWatches(ctx context.Context, path string, t WatcherType) error {
	k, err := c.watchesCall(jute.OpCheckWatches, path, t)
	return nothingOf(c.run(ctx, k, err))
}

func (c *Client) watchesCall(op jute.Op, path string, t WatcherType) (*call, error) {
	k, err := c.newCall(op, path, false)
	if err != nil {
		return nil, err
	}
	if t < WatcherChildren || t > WatcherPersistentRecursive {
		return nil, &Error{Op: op.String(), Path: path, Err: ErrBadArguments, detail: "unknown watcher type"}
	}
	k.abs = c.abs(path)
	r := jute.WatchesRequest{Path: k.abs, Type: t}
	return c.sized(k, r.Append(k.begin()))
}
