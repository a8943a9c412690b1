package zk

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// A Resolver looks up names in DNS. *net.Resolver implements it. Its methods must return when ctx ends.
type Resolver interface {
	// LookupHost returns the addresses of a host name.
	LookupHost(ctx context.Context, host string) (addrs []string, err error)

	// LookupSRV returns the SRV records of a name in the order in which to try them: by priority, and at random by
	// weight within one priority. service and proto are empty, and name is complete. Records returned together with an
	// error are used: *net.Resolver returns an error if it has dropped some records.
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

const (
	// srvServersMax bounds the servers taken from SRV records. An ensemble has at most some dozens, and a DNS answer
	// may have thousands of records. The first by priority are used.
	srvServersMax = 64

	// srvWait bounds one lookup.
	srvWait = 5 * time.Second
)

// badSRVName returns the reason why a name of SRV records is invalid, "" if it is valid.
func badSRVName(name string) string {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return "the name of the SRV records is longer than DNS permits"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return fmt.Sprintf("%q isn't a name of SRV records, such as _zookeeper._tcp.example.com", name)
		}
	}
	return ""
}

// srvDomain returns the domain of a name of SRV records: the rest after service and protocol.
func srvDomain(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for strings.HasPrefix(name, "_") {
		_, name, _ = strings.Cut(name, ".")
	}
	return name
}

// checkSRVHost refuses a host outside the domain of the SRV records. Its certificate would prove nothing: a forged DNS
// answer can name a host for which the attacker has a certificate. Only the owner of the domain can get certificates
// for hosts in it.
func checkSRVHost(srv, host string) error {
	host, domain := strings.ToLower(host), srvDomain(srv)
	if srv == "" || host == domain || domain != "" && strings.HasSuffix(host, "."+domain) {
		return nil
	}
	return fmt.Errorf("the SRV records of %s name it, and it isn't in the domain %s, so its certificate would prove "+
		"nothing; set the name that the servers' certificates have (tls.Config.ServerName, tls_server_name)", srv, domain)
}

// srvServers looks up the servers, in the order in which to try them. key has the servers with their priorities. It
// doesn't depend on the order within one priority.
func (s *session) srvServers() (servers []string, key string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, srvWait)
	defer cancel()
	name := s.opt.SRV
	_, records, err := s.opt.Resolver.LookupSRV(ctx, "", "", name)
	if err != nil && len(records) == 0 {
		return nil, "", fmt.Errorf("look up the SRV records of %s: %w", name, err)
	}
	var keys []string
	var dropped string
	for _, r := range records {
		host := strings.TrimSuffix(r.Target, ".")
		server, reason := parseServer(net.JoinHostPort(host, fmt.Sprint(r.Port)))
		switch {
		case host == "": // RFC 2782: the service is not available at this domain
			dropped = "; one says that there is no such service"
		case reason != "":
			dropped = fmt.Sprintf("; of %q port %d: %s", r.Target, r.Port, reason)
		case slices.Contains(servers, server):
		case len(servers) < srvServersMax:
			servers = append(servers, server)
			keys = append(keys, fmt.Sprintf("%d %s", r.Priority, server))
		}
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("look up the SRV records of %s: none of %d names a server%s", name, len(records), dropped)
	}
	slices.Sort(keys)
	return servers, strings.Join(keys, ","), nil
}

// firstServers asks DNS until it returns servers. Its error is final.
func (s *session) firstServers() error {
	for n := 0; !s.followServers(); n++ {
		if sleep(s.ctx, jitter(roundPause<<min(n, roundLimit))) != nil {
			return ErrClosed
		}
	}
	return nil
}

// followServers asks DNS once and uses the result. It returns false and keeps the list if there are no servers in it.
func (s *session) followServers() bool {
	servers, key, err := s.srvServers()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.log.Debug("zookeeper: can't look up the servers", "error", err)
		s.trouble[s.opt.SRV] = err
		return false
	}
	delete(s.trouble, s.opt.SRV)
	if key != s.srvKey {
		s.log.Info("zookeeper: servers found", "name", s.opt.SRV, "servers", strings.Join(servers, ","))
		s.srvKey = key
		s.replaceServers(servers)
	}
	return true
}

// askServers makes answerAsks ask DNS again in the background. If servers are known, nothing waits for DNS.
func (s *session) askServers() {
	select {
	case s.ask <- struct{}{}:
	default: // a question is already due, or there is no name to ask for
	}
}

// answerAsks asks DNS each time askServers was called, one question at a time, until the session ends.
func (s *session) answerAsks() {
	for {
		select {
		case <-s.ask:
			s.followServers()
		case <-s.ctx.Done():
			return
		}
	}
}

// replaceServers replaces the list of servers, and starts to leave the current server if the list decides so. The
// caller holds s.mu.
func (s *session) replaceServers(servers []string) {
	mine := ""
	if s.link != nil {
		mine = s.link.server
	}
	move := s.list.update(servers, mine)
	s.timing = timingOf(s.timing.session, len(servers))
	maps.DeleteFunc(s.trouble, func(server string, _ error) bool { return !slices.Contains(servers, server) })
	switch {
	case s.link == nil && s.abandon != nil:
		s.abandon(errListChanged) // the server of the attempt may be gone, and its timeout is that of the old list
	case s.link != nil && move:
		s.drain(s.link)
	}
}
