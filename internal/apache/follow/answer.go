package follow

import (
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// answer answers one request. It returns false if that was the connection's last.
func (c *client) answer(h jute.RequestHeader, d *jute.Decoder) bool {
	if h.Op == jute.OpAuth {
		return c.authenticate(h, d)
	}
	f := c.s.f
	f.mu.RLock()
	defer f.mu.RUnlock()
	body, code := c.body(h.Op, d)
	if code == jute.OK && d.Err() != nil {
		code = jute.ErrMarshallingError
	}
	if code != jute.OK {
		body = nil
	}
	header := jute.ReplyHeader{Xid: h.Xid, Zxid: f.state.Zxid, Err: code}
	c.put(func(b []byte) []byte { return jute.AppendReply(b, header, jute.Encoded(body)) })
	return h.Op != jute.OpCloseSession && code != jute.ErrMarshallingError
}

// authenticate adds an identity to the connection.
func (c *client) authenticate(h jute.RequestHeader, d *jute.Decoder) bool {
	var p jute.AuthPacket
	p.Decode(d)
	if d.Err() != nil {
		return false
	}
	now := time.Now().UnixNano()
	guess := c.s.registry.GuessOf(c.ids, c.address, &p)
	header := jute.ReplyHeader{Xid: h.Xid}
	if !c.s.throttle.Allows(&guess, now) {
		header.Err = jute.ErrAuthFailed
	} else if proof, err := c.s.registry.Authenticate(c.ids, c.address, &p, nil); err != nil {
		header.Err = jute.ErrAuthFailed
		c.s.throttle.Judged(&guess, err, now)
	} else {
		c.s.throttle.Judged(&guess, nil, now)
		c.ids = proof.IDs
	}
	c.put(func(b []byte) []byte { return jute.AppendReply(b, header, jute.Encoded(nil)) })
	return header.Err == jute.OK
}

// body returns the body of a reply. The caller holds the follower's lock.
func (c *client) body(op jute.Op, d *jute.Decoder) ([]byte, jute.Code) {
	switch op {
	case jute.OpPing, jute.OpCloseSession:
		return nil, jute.OK
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		return c.readPath(op, d)
	case jute.OpGetACL:
		return c.readACL(d.String())
	case jute.OpGetAllChildrenNumber:
		z, code := c.readable(d.String())
		if code != jute.OK {
			return nil, code
		}
		return jute.AppendInt(nil, below(z)), jute.OK
	case jute.OpGetEphemerals:
		res := jute.ChildrenResponse{Children: c.s.f.state.Ephemerals(c.session, d.String())}
		return res.Append(nil), jute.OK
	case jute.OpMultiRead:
		return c.readMulti(d)
	case jute.OpWhoAmI:
		res := auth.WhoAmI(c.ids)
		return res.Append(nil), jute.OK
	case jute.OpSetWatches, jute.OpSetWatches2:
		return nil, c.setWatches(op, d)
	case jute.OpAddWatch:
		var req jute.AddWatchRequest
		req.Decode(d)
		kind := watch.Persistent
		if req.Mode == jute.AddWatchPersistentRecursive {
			kind = watch.Recursive
		}
		return jute.AppendInt(nil, 0), c.watch(req.Path, kind)
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		var req jute.WatchesRequest
		req.Decode(d)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if op == jute.OpCheckWatches {
			return nil, c.s.watches.Check(c.id, req.Path, req.Type)
		}
		return nil, c.s.watches.Remove(c.id, req.Path, req.Type)
	}
	if op.IsWrite() || op == jute.OpSync || op == jute.OpCheck {
		return nil, jute.ErrNotReadOnly
	}
	return nil, jute.ErrUnimplemented
}

// watch leaves a watch.
func (c *client) watch(path string, kind watch.Kind) jute.Code {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.watches.SizeOf(c.id) >= watchesMax {
		return jute.ErrThrottledOp
	}
	c.s.watches.Add(c.id, path, kind)
	return jute.OK
}

// readable returns a znode that the client may read.
func (c *client) readable(path string) (*files.Znode, jute.Code) {
	z := c.s.f.state.Find(path)
	switch {
	case jute.CheckPath(path) != nil:
		return nil, jute.ErrBadArguments
	case z == nil:
		return nil, jute.ErrNoNode
	case !auth.Permits(z.ACL.List, jute.PermRead, c.ids):
		return nil, jute.ErrNoAuth
	}
	return z, jute.OK
}

// readPath answers a read that may leave a watch.
func (c *client) readPath(op jute.Op, d *jute.Decoder) (b []byte, code jute.Code) {
	var req jute.PathWatchRequest
	req.Decode(d)
	if d.Err() != nil {
		return nil, jute.ErrMarshallingError
	}
	state := c.s.f.state
	z, code := c.readable(req.Path)
	kind := watch.Data
	switch {
	case op == jute.OpExists && (code == jute.ErrNoAuth || code == jute.OK):
		z, code = state.Find(req.Path), jute.OK
		st := state.Visible(z)
		b = st.Append(nil)
	case code != jute.OK:
	case op == jute.OpGetData:
		st, data := state.Visible(z), state.VisibleData(z)
		b = st.Append(jute.AppendBuffer(nil, data))
	default:
		kind = watch.Child
		b = jute.AppendStrings(nil, slices.Sorted(z.Children()))
		if op == jute.OpGetChildren2 {
			st := state.Visible(z)
			b = st.Append(b)
		}
	}
	if req.Watch && (code == jute.OK || op == jute.OpExists && code == jute.ErrNoNode) {
		if late := c.watch(req.Path, kind); late != jute.OK {
			return nil, late
		}
	}
	return b, code
}

func (c *client) readACL(path string) ([]byte, jute.Code) {
	state := c.s.f.state
	z := state.Find(path)
	if z == nil {
		return nil, jute.ErrNoNode
	}
	res := jute.GetACLResponse{ACL: z.ACL.List, Stat: state.Visible(z)}
	if !auth.Permits(z.ACL.List, jute.PermAdmin, c.ids) {
		if !auth.Permits(z.ACL.List, jute.PermRead, c.ids) {
			return nil, jute.ErrNoAuth
		}
		res.ACL = auth.Mask(res.ACL)
	}
	return res.Append(nil), jute.OK
}

// below returns the number of a znode's descendants.
func below(z *files.Znode) (n int32) {
	for child := range z.Below() {
		n += 1 + below(child)
	}
	return n
}

// readMulti answers several reads at once. It refuses a request whose reply would be too large.
func (c *client) readMulti(d *jute.Decoder) (b []byte, code jute.Code) {
	ops, err := jute.DecodeMulti(d)
	if err != nil {
		return nil, jute.ErrMarshallingError
	}
	state := c.s.f.state
	for _, op := range ops {
		if !op.IsRead() {
			return nil, jute.ErrUnimplemented
		}
		res := jute.MultiResult{Op: op.Op}
		z, code := c.readable(op.Path)
		switch {
		case code != jute.OK:
			res = jute.MultiResult{Op: jute.OpError, Err: code}
		case op.Op == jute.OpGetData:
			res.Data, res.Stat = state.VisibleData(z), state.Visible(z)
		default:
			res.Children = slices.Sorted(z.Children())
		}
		if b = res.Append(b); len(b) > outputMax {
			return nil, jute.ErrMarshallingError
		}
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// setWatches sets the watches that a client had on another connection, and sends the events that the client has missed.
func (c *client) setWatches(op jute.Op, d *jute.Decoder) jute.Code {
	var req jute.SetWatches
	req.Decode(d, op)
	if d.Err() != nil {
		return jute.ErrMarshallingError
	}
	state := c.s.f.state
	for _, w := range []struct {
		paths []string
		kind  watch.Kind
		fires func(z *files.Znode) jute.EventType // 0 for none
	}{
		{req.Data, watch.Data, func(z *files.Znode) jute.EventType {
			return since(z, z != nil && z.Stat.Mzxid > req.RelativeZxid, jute.EventNodeDataChanged)
		}},
		{req.Exist, watch.Data, func(z *files.Znode) jute.EventType {
			if z != nil {
				return jute.EventNodeCreated
			}
			return 0
		}},
		{req.Child, watch.Child, func(z *files.Znode) jute.EventType {
			return since(z, z != nil && z.Stat.Pzxid > req.RelativeZxid, jute.EventNodeChildrenChanged)
		}},
		{req.Persistent, watch.Persistent, nil},
		{req.PersistentTree, watch.Recursive, nil},
	} {
		for _, path := range w.paths {
			if w.fires != nil {
				if event := w.fires(state.Find(path)); event != 0 {
					c.notify(event, path, state.Zxid)
					continue
				}
			}
			if code := c.watch(path, w.kind); code != jute.OK {
				return code
			}
		}
	}
	return jute.OK
}

// since returns the event that a watch missed.
func since(z *files.Znode, changed bool, event jute.EventType) jute.EventType {
	switch {
	case z == nil:
		return jute.EventNodeDeleted
	case changed:
		return event
	}
	return 0
}

// word answers a four-letter word.
func (f *Follower) word(word string) (reply string, ok bool) {
	switch word {
	case "ruok":
		return "imok", true
	case "isro":
		return "ro", true
	case "srvr", "stat", "mntr":
		return f.Status().text(word == "mntr"), true
	}
	return "", word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}
