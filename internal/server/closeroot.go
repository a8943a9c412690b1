package server

import (
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// closedPaths are the znodes of a new ensemble that anybody may change.
var closedPaths = []string{"/", "/zookeeper", "/zookeeper/quota"}

// closeRootPause is the interval of closeRoot's checks; closeRootTimeout bounds one attempt.
const (
	closeRootPause   = 200 * time.Millisecond
	closeRootTimeout = 10 * time.Second
)

// closeRoot sets the ACL of closedPaths to Options.RootACL, and retries until none of them can be
// changed by anybody.
func (s *Server) closeRoot() {
	defer s.wg.Done()
	for failed := false; s.pause(closeRootPause); {
		st := s.Status()
		if !st.Serving || st.ReadOnly {
			continue
		}
		var open []string
		for _, path := range closedPaths {
			if s.replica.Permits(path, jute.PermAll&^jute.PermRead, nil) {
				open = append(open, path)
			}
		}
		if len(open) == 0 {
			return
		}
		err := s.setRootACL(open)
		switch {
		case err == nil:
			s.log.Info("znodes that anybody could change are the superusers' now (security.profile=strict)", "znodes", open)
		case !failed:
			failed = true
			s.log.Warn("znodes that anybody may change can't be closed yet; it is tried again", "znodes", open, "err", err, "code", "ZD-1232")
		}
	}
}

// setRootACL sets the ACLs like a client, over a connection within this process.
func (s *Server) setRootACL(paths []string) error {
	client, server := net.Pipe()
	defer client.Close()
	client.SetDeadline(time.Now().Add(closeRootTimeout))
	s.wg.Add(1)
	go s.serveSuper(server)
	request := jute.ConnectRequest{Timeout: int32(closeRootTimeout.Milliseconds()), Passwd: make([]byte, jute.PasswdSize)}
	if _, err := client.Write(jute.AppendFrame(nil, request.Append)); err != nil {
		return err
	}
	if _, err := jute.ReadFrame(client, nil, jute.ConnectRequestSizeMax); err != nil {
		return err
	}
	call := func(xid int32, op jute.Op, record func([]byte) []byte) error {
		if _, err := client.Write(jute.AppendRequest(nil, xid, op, record)); err != nil {
			return err
		}
		frame, err := jute.ReadFrame(client, nil, s.opt.MaxFrame)
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
		r := jute.SetACLRequest{Path: path, ACL: s.opt.RootACL, Version: -1}
		if err := call(int32(i+1), jute.OpSetACL, r.Append); err != nil {
			return fmt.Errorf("set the ACL of %s: %w", path, err)
		}
	}
	return call(int32(len(paths)+1), jute.OpCloseSession, nil)
}

// serveSuper is serve for a connection from the server itself, which has the rights of a superuser.
func (s *Server) serveSuper(nc net.Conn) {
	defer s.wg.Done()
	defer nc.Close()
	ids := []jute.ID{{Scheme: "super"}}
	for _, scheme := range s.opt.Auth.EnforceSchemes {
		ids = append(ids, jute.ID{Scheme: scheme, ID: "server"})
	}
	in := s.readHead(nc)
	if in == nil {
		return
	}
	c := s.greet(nc, in, nil)
	if c == nil {
		return
	}
	c.Identify(ids)
	c.Socket.(*clientSocket).self = true
	in, err := s.handshake(nc, c, in)
	if err == nil {
		err = s.readRequests(nc, c, in)
	}
	s.ended(c, err)
}
