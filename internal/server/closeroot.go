package server

import (
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// closedPaths are the znodes of a new ensemble that anybody may change.
var closedPaths = []string{"/", "/zookeeper", "/zookeeper/quota"}

// closeRootPause is the interval of its checks; closeRootTimeout bounds one attempt.
const (
	closeRootPause   = 200 * time.Millisecond
	closeRootTimeout = 10 * time.Second
)

// A rootACL closes znodes that anybody could change.
type rootACL struct {
	*engine
	acceptor *acceptor
}

// close sets the ACL of closedPaths to Options.RootACL, and retries until none of them can be
// changed by anybody.
func (r rootACL) close() {
	for failed := false; r.pause(closeRootPause); {
		if v := r.replica.View(); !v.Serving || v.ReadOnly {
			continue
		}
		var open []string
		for _, path := range closedPaths {
			if r.replica.Permits(path, jute.PermAll&^jute.PermRead, nil) {
				open = append(open, path)
			}
		}
		if len(open) == 0 {
			return
		}
		err := r.set(open)
		switch {
		case err == nil:
			r.log.Info("znodes that anybody could change are the superusers' now (security.profile=strict)", "znodes", open)
		case !failed:
			failed = true
			r.log.Warn("znodes that anybody may change can't be closed yet; it is tried again", "znodes", open, "err", err, "code", "ZD-1232")
		}
	}
}

// set sets the ACLs like a client, over a connection within this process.
func (r rootACL) set(paths []string) error {
	client, server := net.Pipe()
	defer client.Close()
	client.SetDeadline(time.Now().Add(closeRootTimeout))
	r.wg.Go(func() { r.acceptor.serveSuper(server) })
	hello := jute.ConnectRequest{Timeout: int32(closeRootTimeout.Milliseconds()), Passwd: make([]byte, jute.PasswdSize)}
	if _, err := client.Write(jute.AppendFrame(nil, hello.Append)); err != nil {
		return err
	}
	if _, err := jute.ReadFrame(client, nil, jute.ConnectRequestSizeMax); err != nil {
		return err
	}
	call := func(xid int32, op jute.Op, record func([]byte) []byte) error {
		if _, err := client.Write(jute.AppendRequest(nil, xid, op, record)); err != nil {
			return err
		}
		frame, err := jute.ReadFrame(client, nil, r.opt.MaxFrame)
		if err != nil {
			return err
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		if h.Decode(d); d.Err() != nil || h.Err != jute.OK {
			return fmt.Errorf("%v, %w", h.Err, d.Err())
		}
		return nil
	}
	for i, path := range paths {
		request := jute.SetACLRequest{Path: path, ACL: r.opt.RootACL, Version: -1}
		if err := call(int32(i+1), jute.OpSetACL, request.Append); err != nil {
			return fmt.Errorf("set the ACL of %s: %w", path, err)
		}
	}
	return call(int32(len(paths)+1), jute.OpCloseSession, nil)
}

// serveSuper is serve for a connection from the server itself, which has the rights of a superuser.
func (a *acceptor) serveSuper(nc net.Conn) {
	defer nc.Close()
	ids := []jute.ID{{Scheme: "super"}}
	for _, scheme := range a.opt.Auth.EnforceSchemes {
		ids = append(ids, jute.ID{Scheme: scheme, ID: "server"})
	}
	in := a.readHead(nc)
	if in == nil {
		return
	}
	c := a.greet(nc, in, nil)
	if c == nil {
		return
	}
	c.Identify(ids)
	c.Socket.(*clientSocket).self = true
	in, err := a.handshake(nc, c, in)
	if err == nil {
		err = a.requests.readRequests(nc, c, in)
	}
	a.ended(c, err)
}
