package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/access"
)

// patience bounds the wait for one name or server.
const patience = 3 * time.Second

// names reports hosts that don't resolve, and a server line of this server that names
// another machine.
func (e *examination) names() {
	q := &e.cfg.Quorum
	for _, m := range q.Members.Servers {
		for _, a := range m.Addrs {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			found, err := e.world.Resolve(ctx, a.Host)
			cancel()
			if err != nil {
				e.fault("enter the name into DNS or /etc/hosts of all servers, or correct the server line", "server.%d: the name %s doesn't resolve: %v",
					m.ID, a.Host, err)
				continue
			}
			if m.ID != q.MyID || q.ListenOnAllIPs || len(m.Addrs) > 1 {
				continue
			}
			local, err := e.world.Local()
			if err == nil &&
				!slices.ContainsFunc(found,
					func(ip string) bool { return isWildcard(ip) || config.IsLoopback(ip) || slices.Contains(local, ip) }) {
				e.fault("correct myid or the server line, or set quorumListenOnAllIPs=true if the address is translated on the way",
					"server.%d is this server, but %s (%s) isn't an address of this machine: it can't listen there", m.ID, a.Host,
					strings.Join(found, ", "))
			}
		}
	}
}

// listened returns the addresses that the server will listen on.
func (e *examination) listened() (all []string) {
	for _, c := range []config.HostPort{e.cfg.Client, e.cfg.Secure} {
		if c.Port > 0 {
			all = append(all, c.String())
		}
	}
	if a := &e.cfg.Admin; a.Enabled && a.Port > 0 {
		all = append(all, net.JoinHostPort(a.Host, strconv.Itoa(a.Port)))
	}
	if m, ok := e.cfg.Quorum.Members.Find(e.cfg.Quorum.MyID); ok && e.cfg.Quorum.Distributed {
		for _, a := range m.Addrs {
			host := a.Host
			if e.cfg.Quorum.ListenOnAllIPs {
				host = ""
			}
			all = append(all, net.JoinHostPort(host, strconv.Itoa(a.QuorumPort)))
		}
	}
	return all
}

// ports reports ports that another program uses, or may use.
func (e *examination) ports() {
	first, last := e.ephemeralPorts()
	seen := map[string]bool{}
	for _, addr := range e.listened() {
		_, text, _ := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(text)
		if seen[text] {
			e.fault("give each port a number of its own", "port %s is configured twice", text)
		}
		seen[text] = true
		if !e.running {
			switch err := e.world.Listen(addr); {
			case errors.Is(err, syscall.EADDRINUSE) && e.waits():
				// membership tells of the server that has it.
			case errors.Is(err, syscall.EADDRINUSE):
				e.fault("find that program (ss -ltnp) and stop it, or use another port", "%s is taken by another program", addr)
			case errors.Is(err, syscall.EACCES):
				e.fault("use a port above 1023, or give the service CAP_NET_BIND_SERVICE", "this user may not listen on %s: %v",
					addr, err)
			}
		}
		if port >= first && port <= last {
			e.warn(fmt.Sprintf("use ports below %d, or reserve them: net.ipv4.ip_local_reserved_ports=%s", first, text),
				"port %s is in the range that the system uses for outgoing connections (%d to %d): one of them may occupy it at the next start",
				text, first, last)
		}
	}
}

// ephemeralPorts returns the range of ports for outgoing connections. It is empty if it isn't
// known, or if some ports are reserved.
func (e *examination) ephemeralPorts() (first, last int) {
	b, err := fs.ReadFile(e.world.System, "proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, -1
	}
	if reserved, _ := fs.ReadFile(e.world.System, "proc/sys/net/ipv4/ip_local_reserved_ports"); strings.TrimSpace(
		string(reserved)) != "" {
		return 0, -1 // it has been taken care of
	}
	if n, _ := fmt.Sscan(string(b), &first, &last); n != 2 {
		return 0, -1
	}
	return first, last
}

// answers holds a server's answers.
type answers struct {
	addr          string
	srvr          string
	mntr          map[string]string
	before, after time.Time // when mntr was asked and answered, by this machine's clock
	err           error
}

// ask queries all servers with a known client port at the same time. It asks those with a plain port without TLS, and
// the others with the certificate that the flags or the profile name, or else with the one that this server shows its
// clients.
func (e *examination) ask() {
	e.told = map[int64]answers{}
	byTLS := e.cfg.TLS.Keys.Location != "" || e.world.Reach.Secure()
	secure := new(access.Access)
	*secure = *e.world.Reach.Reach()
	secure.Or(&e.cfg.TLS)
	secure.AnyHost = secure.AnyHost || !e.cfg.TLS.HostnameVerification
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range e.cfg.Quorum.Members.Servers {
		at, by := m.Client, &access.Access{}
		if at.IsZero() && m.ID == e.cfg.Quorum.MyID && e.cfg.Client.Port > 0 {
			at = e.cfg.Client
		}
		if at.IsZero() && byTLS {
			if at, by = m.Secure, secure; at.IsZero() && m.ID == e.cfg.Quorum.MyID && e.cfg.Secure.Port > 0 {
				at = e.cfg.Secure
			}
		}
		if at.IsZero() {
			continue // the address isn't known
		}
		if isWildcard(at.Host) {
			at.Host = m.Addrs[0].Host
		}
		wg.Go(func() {
			a := e.askOne(by, at.String())
			mu.Lock()
			e.told[m.ID] = a
			mu.Unlock()
		})
	}
	wg.Wait()
}

func (e *examination) askOne(by *access.Access, addr string) (a answers) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.addr = addr
	if a.srvr, a.err = e.world.Ask(ctx, by, addr, "srvr"); a.err != nil {
		return a
	}
	a.before = e.world.Now()
	text, err := e.world.Ask(ctx, by, addr, "mntr")
	a.after = e.world.Now()
	if err != nil {
		return a // mntr may not be in the whitelist
	}
	a.mntr = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			a.mntr[name] = value
		}
	}
	return a
}

// asked returns the ids of the servers that were asked, sorted.
func (e *examination) asked() []int64 { return slices.Sorted(maps.Keys(e.told)) }

// versions reports servers of different versions and, while this server runs, members that don't answer.
func (e *examination) versions() {
	of := map[string][]string{}
	var order []string
	for _, id := range e.asked() {
		a := e.told[id]
		if a.err != nil {
			if e.running {
				e.warn("start it, or find out why it can't be reached: zooid status "+e.file, "server %d doesn't answer at %s: %v",
					id, a.addr, a.err)
			}
			continue
		}
		first, _, _ := strings.Cut(a.srvr, "\n")
		version, ok := strings.CutPrefix(first, "Zookeeper version: ")
		if !ok && (strings.Contains(first, "not currently serving requests") ||
			strings.Contains(first, "is not in the whitelist")) {
			continue // a server without a quorum, or one that isn't allowed to answer
		}
		if !ok {
			e.fault("correct the server line: only one program can listen on a port", "something other than a server answers at the client address of server %d, %s",
				id, a.addr)
			continue
		}
		version, _, _ = strings.Cut(version, ", built on")
		if of[version] == nil {
			order = append(order, version)
		}
		of[version] = append(of[version], strconv.FormatInt(id, 10))
	}
	if len(order) < 2 {
		return
	}
	var parts []string
	for _, v := range order {
		parts = append(parts, fmt.Sprintf("%s on server %s", v, strings.Join(of[v], ", ")))
	}
	e.warn("finish the upgrade: one version on all servers", "the servers run different versions: %s",
		strings.Join(parts, "; "))
}
