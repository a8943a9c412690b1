package replica

import (
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// The read operations. Each appends the body of its reply to out, or returns a code other than OK, in which case the
// appended bytes are discarded. r.mu is held at least for reading, and c.mu is held.

// reads answers the read operations from the applied state.
type reads struct {
	*outside
	*state
	limiter *limiter
	levels  *levels
	watches *watches
	memory  *memoryAccount
}

// pathWatch decodes the record of most reads: a path and a watch flag.
func pathWatch(body []byte) (path string, watch bool, ok bool) {
	var req jute.PathWatchRequest
	var d jute.Decoder
	d.Reset(body)
	req.Decode(&d)
	return req.Path, req.Watch, d.Err() == nil
}

func pathOnly(body []byte) (path string, ok bool) {
	var d jute.Decoder
	d.Reset(body)
	path = d.String()
	return path, d.Err() == nil
}

func (w *watches) add(c *Client, path string, kind watch.Kind) {
	w.mu.Lock()
	w.table.Add(c.id, path, kind)
	w.mu.Unlock()
	c.limits.noteWatched(1)
}

func (r *reads) readPing(_ *Client, out, _ []byte) ([]byte, jute.Code) { return out, jute.OK }

func (r *reads) readSync(_ *Client, out, body []byte) ([]byte, jute.Code) {
	path, ok := pathOnly(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	return jute.AppendString(out, path), jute.OK
}

// readExists sets its watch even if the znode doesn't exist, but not if the client may not read the znode.
func (r *reads) readExists(c *Client, out, body []byte) ([]byte, jute.Code) {
	path, wanted, ok := pathWatch(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	if wanted && !r.limiter.mayWatch(c) {
		return out, jute.ErrThrottledOp
	}
	out, code := r.tree.AppendExists(out, path, c.identities())
	if wanted && (code == jute.OK || code == jute.ErrNoNode) {
		r.watches.add(c, path, watch.Data)
	}
	return out, code
}

// readWatched runs a read that sets its watch if it succeeds.
func (r *reads) readWatched(c *Client, out, body []byte, kind watch.Kind, read treeRead) ([]byte, jute.Code) {
	path, wanted, ok := pathWatch(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	if wanted && !r.limiter.mayWatch(c) {
		return out, jute.ErrThrottledOp
	}
	out, code := read(r.tree, out, path, c.identities())
	if wanted && code == jute.OK {
		r.watches.add(c, path, kind)
	}
	return out, code
}

// A treeRead appends the body of the reply to a read of one path.
type treeRead func(t *tree.Tree, dst []byte, path string, ids []jute.ID) ([]byte, jute.Code)

func (r *reads) readGetData(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.readWatched(c, out, body, watch.Data, (*tree.Tree).AppendGetDataInRoom)
}

func (r *reads) readGetACL(c *Client, out, body []byte) ([]byte, jute.Code) {
	path, ok := pathOnly(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	return r.tree.AppendGetACL(out, path, c.identities())
}

func (r *reads) readGetChildren(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.readWatched(c, out, body, watch.Child, (*tree.Tree).AppendGetChildren)
}

func (r *reads) readGetChildren2(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.readWatched(c, out, body, watch.Child, (*tree.Tree).AppendGetChildren2)
}

func (r *reads) readGetAllChildrenNumber(c *Client, out, body []byte) ([]byte, jute.Code) {
	path, ok := pathOnly(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	return r.tree.AppendAllChildrenNumber(out, path, c.identities())
}

func (r *reads) readGetEphemerals(c *Client, out, body []byte) ([]byte, jute.Code) {
	prefix, ok := pathOnly(body)
	if !ok {
		return out, jute.ErrMarshallingError
	}
	return r.tree.AppendEphemerals(out, c.session, prefix)
}

func (r *reads) readMulti(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.tree.AppendMultiRead(out, body, c.identities(), r.multiReadMax())
}

// multiReadMax returns the largest reply to a multiRead, in bytes.
func (r *reads) multiReadMax() int { return multiReadFrames * r.limits.frameMax }

func (r *reads) readWhoAmI(c *Client, out, _ []byte) ([]byte, jute.Code) {
	res := auth.WhoAmI(c.identities())
	return res.Append(out), jute.OK
}

func (r *reads) readAddWatch(c *Client, out, body []byte) ([]byte, jute.Code) {
	var req jute.AddWatchRequest
	var d jute.Decoder
	d.Reset(body)
	req.Decode(&d)
	kind := watch.Persistent
	if req.Mode == jute.AddWatchPersistentRecursive {
		kind = watch.Recursive
	}
	if d.Err() != nil || req.Mode != jute.AddWatchPersistent && req.Mode != jute.AddWatchPersistentRecursive {
		return out, jute.ErrMarshallingError
	}
	if !r.limiter.mayWatch(c) {
		return out, jute.ErrThrottledOp
	}
	r.watches.add(c, req.Path, kind)
	return jute.AppendInt(out, 0), jute.OK
}

func (r *reads) readCheckWatches(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.oneOfWatches(c, out, body, r.watches.table.Check)
}

func (r *reads) readRemoveWatches(c *Client, out, body []byte) ([]byte, jute.Code) {
	return r.oneOfWatches(c, out, body, r.watches.table.Remove)
}

// oneOfWatches decodes the record of a checkWatches or removeWatches request and calls do.
func (r *reads) oneOfWatches(c *Client, out, body []byte,
	do func(watcher int64, path string, typ jute.WatcherType) jute.Code) ([]byte, jute.Code) {
	var req jute.WatchesRequest
	var d jute.Decoder
	d.Reset(body)
	req.Decode(&d)
	if d.Err() != nil {
		return out, jute.ErrMarshallingError
	}
	r.watches.mu.Lock()
	defer r.watches.mu.Unlock()
	return out, do(c.id, req.Path, req.Type)
}

// readSetWatches exists for the table of operations. setWatches appends frames of its own before
// the reply, so it is always done as a long read.
func (r *reads) readSetWatches(_ *Client, out, _ []byte) ([]byte, jute.Code) {
	return out, tree.LongRead
}
