package zk

import (
	"context"
	"errors"

	"github.com/zooid-project/zooid/jute"
)

// ConfigPath is the znode that holds the ensemble's membership.
const ConfigPath = "/zookeeper/config"

// Get returns a znode's data and metadata. It fails with ErrNoNode if there is no such znode. The data are nil if nil
// was written last, and empty but not nil for other data without a byte.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	k, err := c.readCall(jute.OpGetData, path, nil)
	return dataOf(c.run(ctx, k, err))
}

// GetW is like Get and sets a one-shot watch that fires when the znode's data change or the znode is deleted. No watch
// is set if err is not nil.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	w := c.newWatch(c.abs(path), watchData)
	k, err := c.readCall(jute.OpGetData, path, w)
	data, stat, err := dataOf(c.run(ctx, k, err))
	return data, stat, ifRegistered(w, err), err
}

// Exists returns a znode's metadata, and whether the znode exists. It isn't an error if the znode doesn't exist.
// Without PermRead it fails with ErrNoAuth, except at Apache's servers before 3.9.2.
func (c *Client) Exists(ctx context.Context, path string) (Stat, bool, error) {
	k, err := c.readCall(jute.OpExists, path, nil)
	return existsOf(c.run(ctx, k, err))
}

// ExistsW is like Exists and sets a one-shot watch that fires when the znode is created or deleted or its data change.
// No watch is set if err is not nil.
func (c *Client) ExistsW(ctx context.Context, path string) (Stat, bool, *Watch, error) {
	w := c.newWatch(c.abs(path), watchData)
	k, err := c.readCall(jute.OpExists, path, w)
	stat, ok, err := existsOf(c.run(ctx, k, err))
	return stat, ok, ifRegistered(w, err), err
}

// Children returns the names of a znode's children, in no particular order, and the znode's metadata.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	k, err := c.readCall(jute.OpGetChildren2, path, nil)
	return namesOf(c.run(ctx, k, err))
}

// ChildrenW is like Children and sets a one-shot watch that fires when a child is created or deleted, or the znode
// itself is deleted. No watch is set if err is not nil.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	w := c.newWatch(c.abs(path), watchChild)
	k, err := c.readCall(jute.OpGetChildren2, path, w)
	names, stat, err := namesOf(c.run(ctx, k, err))
	return names, stat, ifRegistered(w, err), err
}

// GetACL returns a znode's access control list and metadata.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	k, err := c.pathCall(jute.OpGetACL, path)
	if k, err = c.run(ctx, k, err); err != nil {
		return nil, Stat{}, err
	}
	defer k.release()
	return k.res.acl, k.res.stat, nil
}

// Sync waits until the server that this client is connected to has applied all writes that were acknowledged before the
// call, so that later reads see them, at any server. path may be any valid path; it doesn't limit the synchronization.
func (c *Client) Sync(ctx context.Context, path string) error {
	k, err := c.pathCall(jute.OpSync, path)
	return nothingOf(c.run(ctx, k, err))
}

// AllChildrenNumber returns the number of a znode's descendants at all levels, without the znode itself. Servers before
// 3.6 refuse it with ErrUnimplemented.
func (c *Client) AllChildrenNumber(ctx context.Context, path string) (int, error) {
	k, err := c.pathCall(jute.OpGetAllChildrenNumber, path)
	if k, err = c.run(ctx, k, err); err != nil {
		return 0, err
	}
	defer k.release()
	return int(k.res.count), nil
}

// GetEphemerals returns the paths of this session's ephemeral znodes that begin with the text prefix, in no particular
// order: "/a" also matches /ab, and "/" all. prefix must begin with a slash. It and the paths are relative to the
// chroot, and paths outside the chroot are omitted, unlike in Apache's client. Servers before 3.6 refuse it with
// ErrUnimplemented.
func (c *Client) GetEphemerals(ctx context.Context, prefix string) ([]string, error) {
	k, err := c.newCall(jute.OpGetEphemerals, prefix, true)
	if err != nil {
		return nil, err
	}
	abs := c.root + prefix
	r := jute.PathRequest{Path: abs}
	k, err = c.sized(k, r.Append(k.begin()))
	if k, err = c.run(ctx, k, err); err != nil {
		return nil, err
	}
	defer k.release()
	paths := k.res.names
	for i := range paths {
		paths[i] = stripRoot(c.root, paths[i])
	}
	return paths, nil
}

// WhoAmI returns the identities that the server has recorded for this client, including those of the scheme "ip".
// Servers before 3.7 refuse it with ErrUnimplemented.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	k := c.newPlainCall(jute.OpWhoAmI, "")
	k, err := c.sized(k, k.begin())
	if k, err = c.run(ctx, k, err); err != nil {
		return nil, err
	}
	defer k.release()
	return k.res.ids, nil
}

// GetConfig returns the ensemble's membership in the format of a dynamic configuration file, and the metadata of its
// znode (ConfigPath). The chroot doesn't apply.
func (c *Client) GetConfig(ctx context.Context) ([]byte, Stat, error) {
	return (&Client{s: c.s}).Get(ctx, ConfigPath)
}

// GetConfigW is like GetConfig and sets a one-shot watch that fires when the membership changes. The chroot doesn't
// apply; the event's path is ConfigPath.
func (c *Client) GetConfigW(ctx context.Context) ([]byte, Stat, *Watch, error) {
	return (&Client{s: c.s}).GetW(ctx, ConfigPath)
}

// readCall makes a call of exists, getData or getChildren2, which sets a watch if w is not nil.
func (c *Client) readCall(op jute.Op, path string, w *Watch) (*call, error) {
	k, err := c.newCall(op, path, false)
	if err != nil {
		return nil, err
	}
	abs := c.abs(path)
	if w != nil {
		k.watch, k.abs = w, abs
	}
	r := jute.PathWatchRequest{Path: abs, Watch: w != nil}
	return c.sized(k, r.Append(k.begin()))
}

// pathCall makes a call of an operation whose request is a path.
func (c *Client) pathCall(op jute.Op, path string) (*call, error) {
	k, err := c.newCall(op, path, false)
	if err != nil {
		return nil, err
	}
	r := jute.PathRequest{Path: c.abs(path)}
	return c.sized(k, r.Append(k.begin()))
}

// run is do, unless making the call has already failed with err.
func (c *Client) run(ctx context.Context, k *call, err error) (*call, error) {
	if err != nil {
		return nil, err
	}
	return k, c.do(ctx, k)
}

func dataOf(k *call, err error) ([]byte, Stat, error) {
	if err != nil {
		return nil, Stat{}, err
	}
	defer k.release()
	return k.res.data, k.res.stat, nil
}

func existsOf(k *call, err error) (Stat, bool, error) {
	switch {
	case err == nil:
		defer k.release()
		return k.res.stat, true, nil
	case errors.Is(err, ErrNoNode):
		return Stat{}, false, nil
	}
	return Stat{}, false, err
}

func namesOf(k *call, err error) ([]string, Stat, error) {
	if err != nil {
		return nil, Stat{}, err
	}
	defer k.release()
	return k.res.names, k.res.stat, nil
}

func statOf(k *call, err error) (Stat, error) {
	if err != nil {
		return Stat{}, err
	}
	defer k.release()
	return k.res.stat, nil
}

func nothingOf(k *call, err error) error {
	if err == nil {
		k.release()
	}
	return err
}

func ifRegistered(w *Watch, err error) *Watch {
	if err != nil {
		return nil
	}
	return w
}
