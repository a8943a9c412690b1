package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Change returns the membership that an incremental reconfig request asks for: first those in leaving go (server ids
// separated by commas; ids of no member are ignored), then those in joining come, each [anything.]N=spec as in a
// server line; a joiner with a member's id takes its place. A joiner must say where it serves clients, and none of its
// addresses may be another member's, loopback and wildcard addresses aside. Version is kept. Any text is safe to pass.
// Whether enough voters remain is for the caller to judge.
func (m Members) Change(joining, leaving string) (Members, error) {
	next := Members{Version: m.Version, Servers: slices.Clone(m.Servers)}
	for _, text := range listed(leaving) {
		id, err := parseID(text)
		if err != nil {
			return Members{}, fmt.Errorf("leaving servers: %w", err)
		}
		next.remove(id)
	}
	for _, text := range listed(joining) {
		key, spec, ok := strings.Cut(text, "=")
		if !ok {
			return Members{}, fmt.Errorf("joining servers: %s has no =; the form is server.N=spec", quoted(text))
		}
		key = trimJava(key)
		joiner, err := parseMember(key[strings.LastIndexByte(key, '.')+1:], trimJava(spec))
		if err != nil {
			return Members{}, fmt.Errorf("joining servers: %s: %w", quoted(text), err)
		}
		if joiner.Client.IsZero() && joiner.Secure.IsZero() {
			return Members{}, fmt.Errorf("joining servers: %s names no client port; append ;clientPort", quoted(text))
		}
		next.remove(joiner.ID)
		if err := next.add(joiner); err != nil {
			return Members{}, fmt.Errorf("joining servers: %w", err)
		}
	}
	return next, nil
}

// listed splits a comma-separated list, and drops blanks around the elements and empty elements.
func listed(text string) []string {
	var all []string
	for _, item := range strings.Split(text, ",") {
		if item = trimJava(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

func (m *Members) remove(id int64) {
	m.Servers = slices.DeleteFunc(m.Servers, func(s Member) bool { return s.ID == id })
}

// add inserts a member in order of id, unless one of its addresses is taken.
func (m *Members) add(joiner Member) error {
	at := 0
	for i, other := range m.Servers {
		if other.ID < joiner.ID {
			at = i + 1
		}
		for _, a := range joiner.addresses() {
			if slices.Contains(other.addresses(), a) {
				return fmt.Errorf("%s of server.%d is also an address of server.%d", a, joiner.ID, other.ID)
			}
		}
	}
	if len(m.Servers) >= membersMax {
		return fmt.Errorf("more than %d servers", membersMax)
	}
	m.Servers = slices.Insert(m.Servers, at, joiner)
	return nil
}

// addresses returns every address of the member that can clash with another server's.
func (m Member) addresses() []HostPort {
	all := []HostPort{m.Client, m.Secure}
	for _, a := range m.Addrs {
		all = append(all, HostPort{a.Host, a.QuorumPort}, HostPort{a.Host, a.ElectionPort})
	}
	return slices.DeleteFunc(all, func(a HostPort) bool {
		ip, err := netip.ParseAddr(a.Host)
		return a.IsZero() || a.Host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
	})
}

// LetIn says how the server of c, which belongs to no ensemble yet, gets into one that serves without it: an ensemble's
// membership comes from requests to its members, never from a stranger's file. It is "" if no server line is c's.
func (c *Config) LetIn() string {
	own, ok := c.Quorum.Members.Find(c.Quorum.MyID)
	if !ok || len(own.Addrs) == 0 {
		return ""
	}
	at := net.JoinHostPort(own.Addrs[0].Host, strconv.Itoa(own.Addrs[0].QuorumPort))
	if own.Client.IsZero() && c.Client.Port > 0 {
		own.Client = HostPort{Host: "0.0.0.0", Port: c.Client.Port}
	}
	if own.Secure.IsZero() && c.Secure.Port > 0 {
		own.Secure = HostPort{Host: "0.0.0.0", Port: c.Secure.Port}
	}
	return fmt.Sprintf("if the others serve without it, run 'zooid allow-join %d zoo.cfg %s' on one of them: it then follows without a vote and serves clients; 'zooid cli reconfig -add \"server.%d=%s\"' gives it a vote, by servers with reconfigEnabled=true",
		own.ID, at, own.ID, own)
}
