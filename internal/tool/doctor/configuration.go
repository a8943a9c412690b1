package doctor

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/config"
)

// configuration reports the settings that the server would refuse, or ignore with a warning.
func (e *examination) configuration() {
	for _, err := range split(e.err) {
		do := "correct it; docs/configuration.md has every key"
		bad := (*config.Error)(nil)
		switch known := errors.As(err, &bad); {
		case known && bad.File == e.file && errors.Is(bad.Cause, fs.ErrNotExist):
			do = "give the path of this server's zoo.cfg; zooid init writes one for a new server"
		case known && filepath.Base(bad.File) == "myid":
			if errors.Is(bad.Cause, fs.ErrPermission) {
				e.denied(e.world.UID, "%v", err)
				continue
			}
			do = "write the number N of this server's server.N line into the file, and nothing else"
		}
		e.fault(do, "%v", err)
	}
	if e.cfg == nil {
		return
	}
	for _, w := range e.cfg.Warnings {
		e.warn(w.Do(), "%v", w)
	}
}

// split returns the errors that were joined.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// tickMin is the shortest reasonable tick, the unit of session timeouts.
const tickMin = 100 * time.Millisecond

// riskyKeys reports values that work but are dangerous.
func (e *examination) riskyKeys() {
	c := e.cfg
	if c.Tree.SkipACL {
		e.fault("remove skipACL, and give znodes the ACLs that they need",
			"skipACL=yes: everybody may read and change every znode")
	}
	if c.FourLetter.All {
		e.warn("list only the words that are needed: 4lw.commands.whitelist=srvr,mntr,ruok,conf", "4lw.commands.whitelist=*: anybody who can reach the client port may list all sessions and watches, and reset figures")
	}
	if c.Storage.PurgeInterval == 0 {
		e.warn("set autopurge.purgeInterval=1", "autopurge.purgeInterval=0: snapshots and log segments are kept until the disk is full")
	}
	if c.Limits.MaxClientCnxns <= 0 && c.Limits.MaxCnxns <= 0 {
		e.warn("set maxClientCnxns or maxCnxns", "neither maxClientCnxns nor maxCnxns bounds the connections: one client can take all descriptors")
	}
	if c.TickTime < tickMin {
		e.warn("set tickTime to 1000 to 3000", "tickTime=%d ms: sessions expire on every short pause of a client or the network",
			c.TickTime.Milliseconds())
	}
	if c.Admin.Enabled && c.Admin.PlainRemote {
		e.warn("use TLS (admin.portUnification, admin.forceHttps) instead", "admin.plainRemote=true: callers of the admin server send their passwords in the clear")
	}
	for name, t := range map[string]*config.TLS{"ssl.": &c.TLS, "ssl.quorum.": &c.Quorum.TLS.TLS} {
		if t.Keys.Location == "" {
			continue
		}
		if !t.HostnameVerification {
			e.warn("remove the key, and issue certificates that name their hosts", "%shostnameVerification=false: any certificate of the issuer passes for any server",
				name)
		}
		if name == "ssl.quorum." && t.ClientAuth != "need" && t.ClientAuth != "" {
			e.fault("set ssl.quorum.clientAuth=need", "ssl.quorum.clientAuth=%s: anybody with the ensemble's secret passes for a server, without a certificate",
				t.ClientAuth)
		}
	}
	if q := &c.Quorum; q.Distributed {
		if q.TLS.PortUnification {
			e.warn("remove portUnification once all servers talk TLS", "portUnification=true: servers accept each other without TLS")
		}
		if !q.TLS.Enabled && q.Secret == "" && q.SecretFile == "" {
			e.warn("set quorum.secretFile on all servers (zooid init writes one), or sslQuorum=true", "neither sslQuorum nor quorum.secretFile: the servers agree on a secret at their first start, by trust on first use")
		}
		if q.ReconfigEnabled && c.Auth.SuperDigest == "" && c.Auth.X509SuperUser == "" && len(c.Auth.SASLSuperUsers) == 0 {
			e.warn("set DigestAuthenticationProvider.superDigest, or an ACL on /zookeeper/config", "reconfigEnabled=true, but there is no superuser: nobody may reconfig until an ACL on /zookeeper/config allows it")
		}
	}
}

// addresses reports members that can't be distinguished, or reached.
func (e *examination) addresses() {
	type place struct {
		host string
		port int
	}
	taken := map[place]int64{}
	loopback, others := int64(0), int64(0)
	for _, m := range e.cfg.Quorum.Members.Servers {
		var hosts []string
		for _, a := range m.Addrs {
			hosts = append(hosts, a.Host)
			if config.IsLoopback(a.Host) {
				loopback = m.ID
			} else {
				others = m.ID
			}
		}
		for _, c := range []config.HostPort{m.Client, m.Secure} {
			if c.IsZero() {
				continue
			}
			at := []string{c.Host}
			if isWildcard(c.Host) {
				at = hosts
			}
			for _, host := range at {
				p := place{host, c.Port}
				if before, twice := taken[p]; twice && before != m.ID {
					e.fault("give each server a client address of its own in the server lines", "server.%d and server.%d have the same client address %s",
						before, m.ID, net.JoinHostPort(p.host, strconv.Itoa(p.port)))
				}
				taken[p] = m.ID
			}
		}
	}
	if loopback != 0 && others != 0 {
		e.fault("name each server by the address at which all others reach it", "server.%d has a loopback address but server.%d doesn't: they can't reach each other",
			loopback, others)
	}
}

func isWildcard(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.IsUnspecified()
}
