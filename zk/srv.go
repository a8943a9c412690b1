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

// A Resolver asks DNS; *net.Resolver is one. Its methods must return when ctx ends.
type Resolver interface {
	// LookupHost returns the addresses of a host's name.
	LookupHost(ctx context.Context, host string) (addrs []string, err error)

	// LookupSRV returns the SRV records of a name, in the order in which they are to be tried: by
	// priority, and at random by weight within one. service and proto are empty: name is whole.
	// Records beside an error are used, as those that *net.Resolver leaves when it drops others.
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

const (
	// srvServersMax bounds the servers that SRV records name. An ensemble has some dozens at most,
	// and an answer of DNS may have thousands of records; the first by priority are used.
	srvServersMax = 64

	// srvWait bounds one question to DNS.
	srvWait = 5 * time.Second
)

// badSRVName says what is wrong with the name of SRV records, "" if nothing is.
func badSRVName(name string) string {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return "the name of the SRV records is longer than DNS takes"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return fmt.Sprintf("%q is no name of SRV records, such as _zookeeper._tcp.example.com", name)
		}
	}
	return ""
}

// srvDomain returns the domain of a name of SRV records: what follows service and protocol.
func srvDomain(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for strings.HasPrefix(name, "_") {
		_, name, _ = strings.Cut(name, ".")
	}
	return name
}

// checkSRVHost refuses a host whose certificate would prove nothing: the host comes from DNS, so
// whoever forges an answer could name a host for which they have a certificate. Certificates of
// the domain that was asked for are given to its owner alone.
func checkSRVHost(srv, host string) error {
	host, domain := strings.ToLower(host), srvDomain(srv)
	if srv == "" || host == domain || domain != "" && strings.HasSuffix(host, "."+domain) {
		return nil
	}
	return fmt.Errorf("the SRV records of %s name it, and it isn't in the domain %s, so its certificate would prove "+
		"nothing; set the name that the servers' certificates have (tls.Config.ServerName, tls_server_name)", srv, domain)
}

// srvServers asks DNS for the servers, in the order in which they are to be tried. key has them
// with their priorities, and is the same whatever the order within a priority.
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
		case host == "": // RFC 2782: the service is decidedly not available at this domain
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

// firstServers asks DNS until it names servers. Its error is final.
func (s *session) firstServers() error {
	for n := 0; !s.followServers(); n++ {
		if sleep(s.ctx, jitter(roundPause<<min(n, roundLimit))) != nil {
			return ErrClosed
		}
	}
	return nil
}

// followServers asks DNS once and follows what it says. It reports false, and leaves the list, if
// DNS names no server.
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

// askServers has DNS asked again, beside what goes on: where servers are known, nothing waits for DNS.
func (s *session) askServers() {
	select {
	case s.ask <- struct{}{}:
	default: // it will be asked, or there is no name to ask for
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

// replaceServers replaces the list of servers, and leaves a server that the list wants left. The caller holds s.mu.
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
		s.abandon(errListChanged) // the attempt's server may be gone, and its time is that of the old list
	case s.link != nil && move:
		s.drain(s.link)
	}
}
