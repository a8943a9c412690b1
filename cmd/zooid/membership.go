package main

import (
	"net"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/jute"
)

// membership tells the server how to read what /zookeeper/config holds and
// reconfig asks for; first is what a new ensemble begins with.
func membership(first config.Members) server.Membership {
	return server.Membership{
		Text:   withoutVersion(first),
		Parse:  parseMembers,
		Change: changeMembers,
	}
}

// withoutVersion writes a membership without its last line; the server adds that.
func withoutVersion(m config.Members) string {
	text := m.String()
	if at := strings.LastIndex(text, "version="); at >= 0 {
		text = text[:at]
	}
	return text
}

func parseMembers(text string) ([]server.Member, error) {
	m, err := config.ParseMembers(text)
	if err != nil {
		return nil, err
	}
	return peers(m), nil
}

func peers(m config.Members) []server.Member {
	var all []server.Member
	for _, s := range m.Servers {
		member := server.Member{ID: uint64(s.ID), Observer: s.Observer}
		for _, a := range s.Addrs {
			member.Addrs = append(member.Addrs, net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)))
		}
		all = append(all, member)
	}
	return all
}

// changeMembers evaluates a reconfig request. Whatever it can't read, and a
// membership without a voter, is a bad argument.
func changeMembers(current string, req *jute.ReconfigRequest) (string, jute.Code) {
	now, err := config.ParseMembers(current)
	if err != nil {
		return "", jute.ErrBadArguments
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	var next config.Members
	if req.NewMembers != nil && *req.NewMembers != "" {
		next, err = config.ParseNewMembers(*req.NewMembers)
	} else {
		next, err = now.Change(text(req.Joining), text(req.Leaving))
	}
	if err != nil || next.Voters() == 0 {
		return "", jute.ErrBadArguments
	}
	for _, s := range next.Servers {
		if s.ID < 1 {
			return "", jute.ErrBadArguments
		}
	}
	return withoutVersion(next), jute.OK
}
