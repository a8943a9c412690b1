package bench

import (
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// fakeServer is a small but correct server: a map of znodes, one-shot data watches, and sessions that can be resumed.
// Tests set its hooks to cause failures.
type fakeServer struct {
	addr string
	// refuse, if set, may return the code with which a request is refused; n counts the requests of its kind from 1. It
	// is called under mu.
	refuse func(op jute.Op, path string, n int) jute.Code
	// forget reports whether the server doesn't know a session that is to be resumed.
	forget func(id int64) bool
	// cut reports whether to close the connection instead of answering.
	cut func(op jute.Op, n int) bool
	// hurried reports whether to close connection n, counted from 1, before it is answered, as servers do when
	// connections begin too fast.
	hurried func(n int) bool

	mu       sync.Mutex
	znodes   map[string][]byte
	counts   map[jute.Op]int
	watches  map[string]map[*fakeConn]bool
	sessions int64
	resumed  int
	begun    int
	zxid     int64
}

type fakeConn struct {
	s   *fakeServer
	net net.Conn
}

func newFakeServer() *fakeServer {
	return &fakeServer{
		znodes: map[string][]byte{"/": nil}, counts: map[jute.Op]int{}, watches: map[string]map[*fakeConn]bool{},
	}
}

// startFake serves on a port of its own until the test ends; configure may set
// what goes wrong, before the first client comes.
func startFake(t *testing.T, configure ...func(*fakeServer)) *fakeServer {
	t.Helper()
	s := newFakeServer()
	for _, c := range configure {
		c(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, n)
			mu.Unlock()
			wg.Go(func() { s.serve(n) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, n := range conns {
			n.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *fakeServer) count(op jute.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// takenUp is how many sessions came back.
func (s *fakeServer) takenUp() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed
}

// left lists the znodes that are there, but for the root.
func (s *fakeServer) left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.znodes)), func(p string) bool { return p == "/" })
}

func (s *fakeServer) serve(n net.Conn) {
	c := &fakeConn{s, n}
	defer n.Close()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, set := range s.watches {
			delete(set, c)
		}
	}()
	f, err := jute.ReadFrame(n, nil, jute.ConnectRequestSizeMax)
	s.mu.Lock()
	s.begun++
	hurried := s.hurried != nil && s.hurried(s.begun)
	s.mu.Unlock()
	if err != nil || hurried || !c.welcome(f) {
		return
	}
	for {
		f, err := jute.ReadFrame(n, nil, jute.MaxBufferDefault)
		if err != nil || !c.handle(f) {
			return
		}
	}
}

func (c *fakeConn) welcome(f []byte) bool {
	var req jute.ConnectRequest
	req.Decode(jute.NewDecoder(f))
	resp := jute.ConnectResponse{
		Timeout: req.Timeout, SessionID: req.SessionID, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: req.HasReadOnly,
	}
	c.s.mu.Lock()
	if req.SessionID == 0 {
		c.s.sessions++
		resp.SessionID = c.s.sessions
	} else if c.s.forget != nil && c.s.forget(req.SessionID) {
		resp.Timeout, resp.SessionID = 0, 0
	} else {
		c.s.resumed++
	}
	c.s.mu.Unlock()
	_, err := c.net.Write(jute.AppendFrame(nil, resp.Append))
	return err == nil && resp.Timeout > 0
}

// handle answers one request; false ends the connection.
func (c *fakeConn) handle(f []byte) bool {
	d := jute.NewDecoder(f)
	var h jute.RequestHeader
	h.Decode(d)
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[h.Op]++
	if s.cut != nil && s.cut(h.Op, s.counts[h.Op]) {
		return false
	}
	body, code := c.do(h.Op, d)
	_, err := c.net.Write(jute.AppendReply(nil, jute.ReplyHeader{Xid: h.Xid, Zxid: s.zxid, Err: code}, jute.Encoded(body)))
	return err == nil && h.Op != jute.OpCloseSession
}

// do does one request; s.mu is held.
func (c *fakeConn) do(op jute.Op, d *jute.Decoder) ([]byte, jute.Code) {
	s := c.s
	switch op {
	case jute.OpPing, jute.OpCloseSession:
		return nil, jute.OK
	case jute.OpSync:
		var r jute.PathRequest
		r.Decode(d)
		return (&jute.PathResponse{Path: r.Path}).Append(nil), jute.OK
	case jute.OpSetWatches:
		var w jute.SetWatches
		w.Decode(d, op)
		for _, p := range w.Data {
			c.watch(p)
		}
		return nil, jute.OK
	case jute.OpMulti, jute.OpMultiRead:
		return c.multi(d)
	}
	var o jute.MultiOp
	o.Op = op
	watch := false
	switch op {
	case jute.OpCreate:
		var r jute.CreateRequest
		r.Decode(d)
		o.Path, o.Data = r.Path, r.Data
	case jute.OpSetData:
		var r jute.SetDataRequest
		r.Decode(d)
		o.Path, o.Data = r.Path, r.Data
	case jute.OpDelete:
		var r jute.PathVersionRequest
		r.Decode(d)
		o.Path = r.Path
	default:
		var r jute.PathWatchRequest
		r.Decode(d)
		o.Path, watch = r.Path, r.Watch
	}
	if s.refuse != nil {
		if code := s.refuse(op, o.Path, s.counts[op]); code != jute.OK {
			return nil, code
		}
	}
	if watch {
		c.watch(o.Path)
	}
	r := s.apply(&o)
	if r.Op == jute.OpError {
		return nil, r.Err
	}
	return r.Append(nil)[9:], jute.OK // without the multi header
}

func (c *fakeConn) watch(p string) {
	p = strings.Clone(p)
	if c.s.watches[p] == nil {
		c.s.watches[p] = map[*fakeConn]bool{}
	}
	c.s.watches[p][c] = true
}

// multi does all or nothing.
func (c *fakeConn) multi(d *jute.Decoder) ([]byte, jute.Code) {
	ops, err := jute.DecodeMulti(d)
	if err != nil {
		return nil, jute.ErrMarshallingError
	}
	before := maps.Clone(c.s.znodes)
	var results []jute.MultiResult
	failed, failure := -1, jute.OK
	for i := range ops {
		r := c.s.apply(&ops[i])
		if c.s.refuse != nil {
			if code := c.s.refuse(ops[i].Op, ops[i].Path, c.s.counts[jute.OpMulti]); code != jute.OK {
				r = jute.MultiResult{Op: jute.OpError, Err: code}
			}
		}
		results = append(results, r)
		if r.Op == jute.OpError && !ops[i].IsRead() {
			failed, failure = i, r.Err
			break
		}
	}
	if failed >= 0 {
		c.s.znodes = before
		results = results[:0]
		for i := range ops {
			code := jute.OK
			if i == failed {
				code = failure
			} else if i > failed {
				code = jute.ErrRuntimeInconsistency
			}
			results = append(results, jute.MultiResult{Op: jute.OpError, Err: code})
		}
	}
	var b []byte
	for i := range results {
		b = results[i].Append(b)
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// apply does one operation on the tree.
func (s *fakeServer) apply(o *jute.MultiOp) jute.MultiResult {
	fail := func(c jute.Code) jute.MultiResult { return jute.MultiResult{Op: jute.OpError, Err: c} }
	p := strings.Clone(o.Path)
	data, there := s.znodes[p]
	if !there && o.Op != jute.OpCreate {
		return fail(jute.ErrNoNode)
	}
	r := jute.MultiResult{Op: o.Op, Path: p}
	switch o.Op {
	case jute.OpCreate:
		if there {
			return fail(jute.ErrNodeExists)
		}
		if _, ok := s.znodes[path.Dir(p)]; !ok {
			return fail(jute.ErrNoNode)
		}
		s.zxid++
		s.znodes[p] = slices.Clone(o.Data)
	case jute.OpSetData:
		s.zxid++
		s.znodes[p] = slices.Clone(o.Data)
		s.fire(p)
	case jute.OpDelete:
		if len(s.childrenOf(p)) > 0 {
			return fail(jute.ErrNotEmpty)
		}
		s.zxid++
		delete(s.znodes, p)
	case jute.OpGetData:
		r.Data = data
	case jute.OpGetChildren:
		r.Children = s.childrenOf(p)
	}
	return r
}

func (s *fakeServer) childrenOf(p string) []string {
	names := []string{}
	for q := range s.znodes {
		if q != "/" && path.Dir(q) == p {
			names = append(names, path.Base(q))
		}
	}
	slices.Sort(names)
	return names
}

func (s *fakeServer) fire(p string) {
	for c := range s.watches[p] {
		e := jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: jute.StateSyncConnected, Path: p}
		c.net.Write(jute.AppendReply(nil, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: s.zxid}, e.Append))
	}
	delete(s.watches, p)
}
