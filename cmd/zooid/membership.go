//go:build unix

package main

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/jute"
)

// membership tells the server how to read the contents of /zookeeper/config and
// reconfig requests. first is the membership of a new ensemble.
func membership(first config.Members) server.Membership {
	return server.Membership{
		Text:   withoutVersion(first),
		Parse:  parseMembers,
		Change: changeMembers,
		At:     memberAt,
	}
}

// memberAt returns a membership text with another host for the peer ports of server id.
func memberAt(text string, id uint64, host string) (string, bool) {
	m, err := config.ParseMembers(text)
	if err != nil {
		return "", false
	}
	for i, s := range m.Servers {
		if s.ID == serverid.MyID(id) && len(s.Addrs) == 1 {
			m.Servers[i].Addrs = []config.PeerAddr{s.Addrs[0]}
			m.Servers[i].Addrs[0].Host = host
			return withoutVersion(m), true
		}
	}
	return "", false
}

// withoutVersion returns the text of a membership without its last line, the version, which the server adds.
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
		member := server.Member{ID: serverid.Raft(s.ID), Observer: s.Observer}
		for _, a := range s.Addrs {
			member.Addrs = append(member.Addrs, net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)))
		}
		all = append(all, member)
	}
	return all
}

// clientAddresses returns where the other servers may serve clients: at the client ports of their lines, or else, on
// other hosts than this server's, at this server's own ports, since most ensembles use the same on all machines.
func clientAddresses(cfg *config.Config) map[uint64][]string {
	own, _ := cfg.Quorum.Members.Find(cfg.Quorum.MyID)
	ours := []int{cfg.Client.Port, cfg.Secure.Port, own.Client.Port, own.Secure.Port}
	all := map[uint64][]string{}
	for _, s := range cfg.Quorum.Members.Servers {
		theirs := []int{s.Client.Port, s.Secure.Port}
		for _, a := range s.Addrs {
			here := slices.ContainsFunc(own.Addrs, func(b config.PeerAddr) bool { return a.Host == b.Host })
			ports := theirs
			if here {
				ports = slices.DeleteFunc(slices.Clone(theirs), func(port int) bool { return slices.Contains(ours, port) })
			} else if slices.Max(theirs) <= 0 {
				ports = ours
			}
			for _, port := range ports {
				at := net.JoinHostPort(a.Host, strconv.Itoa(port))
				if id := serverid.Raft(s.ID); port > 0 && s.ID != own.ID && !slices.Contains(all[id], at) {
					all[id] = append(all[id], at)
				}
			}
		}
	}
	return all
}

// changeMembers evaluates a reconfig request. Text that can't be read, and a membership without a voter, are bad
// arguments, with the two exceptions that Apache makes. So is one with a server 0, unless zero is set.
func changeMembers(current string, req *jute.ReconfigRequest, zero bool) (string, jute.Code) {
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
		if err == nil && next.Voters() == 0 {
			return "", jute.ErrMarshallingError // as Apache
		}
	} else {
		for id := range strings.SplitSeq(text(req.Leaving), ",") {
			if _, bad := strconv.ParseInt(strings.TrimSpace(id), 10, 64); bad != nil && strings.TrimSpace(id) != "" {
				return "", jute.ErrMarshallingError // as Apache
			}
		}
		next, err = now.Change(text(req.Joining), text(req.Leaving))
	}
	if err != nil || next.Voters() == 0 {
		return "", jute.ErrBadArguments
	}
	if _, named := next.Find(0); named && !zero {
		return "", jute.ErrBadArguments
	}
	return withoutVersion(next), jute.OK
}

// shown returns the values that the four-letter word conf shows about the ensemble.
func shown(q *config.Quorum) server.ShownEnsemble {
	var quorum, election []string
	self, _ := q.Members.Find(q.MyID)
	for _, a := range self.Addrs {
		quorum = append(quorum, strconv.Itoa(a.QuorumPort))
		election = append(election, strconv.Itoa(a.ElectionPort))
	}
	return server.ShownEnsemble{
		InitLimit: q.InitLimit, SyncLimit: q.SyncLimit,
		QuorumPorts: strings.Join(quorum, "|"), ElectionPorts: strings.Join(election, "|"),
	}
}

// listening returns the addresses at which a membership has server id listen. ok is
// false if the membership doesn't name the server or can't be read.
func listening(text string, id uint64, allIPs bool) (l server.Listening, ok bool) {
	m, err := config.ParseMembers(text)
	if err != nil {
		return l, false
	}
	self, ok := m.Find(serverid.MyID(id))
	if !ok {
		return l, false
	}
	if !self.Client.IsZero() {
		l.Clients = net.JoinHostPort(self.Client.Host, strconv.Itoa(self.Client.Port))
	}
	if !self.Secure.IsZero() {
		l.Secure = net.JoinHostPort(self.Secure.Host, strconv.Itoa(self.Secure.Port))
	}
	l.Peers, _ = peerListen(self, allIPs) // fails if the quorum ports differ; then the listener doesn't move
	return l, true
}

// peerListen returns where a server listens for its peers. There is one listener: with
// several addresses it listens on all interfaces, so their ports must be equal.
func peerListen(m config.Member, all bool) (string, error) {
	host, port := m.Addrs[0].Host, m.Addrs[0].QuorumPort
	for _, a := range m.Addrs[1:] {
		if a.QuorumPort != port {
			return "", runbook.Errorf("ZD-1105", "listen for peers as server.%d on several addresses: they need one quorum port, not %d and %d; change the server line",
				m.ID, port, a.QuorumPort)
		}
		all = true
	}
	if all {
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
