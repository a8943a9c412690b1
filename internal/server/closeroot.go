package server

import (
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// closedPaths are the znodes that a new ensemble has and that anybody may change there.
var closedPaths = []string{"/", "/zookeeper", "/zookeeper/quota"}

// The pauses of closeRoot: between two looks, and until a try has failed.
const (
	closeRootPause   = 200 * time.Millisecond
	closeRootTimeout = 10 * time.Second
)

// closeRoot gives closedPaths Options.RootACL as long as anybody may change one of them.
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

// setRootACL sets the ACLs as a client would, by a connection inside of this process.
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

// serveSuper is serve for a connection of the server's own, which is a superuser's.
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
	c := s.greet(nc, in, ids)
	if c == nil {
		return
	}
	c.Withdrawn = nil // it is the server itself
	in, err := s.handshake(nc, c, in)
	if err == nil {
		err = s.readRequests(nc, c, in)
	}
	s.ended(c, err)
}
