package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Strict is the Profile with which a server refuses to start if its configuration leaves doors open.
const Strict = "strict"

// The four-letter words that the strict profile permits reveal no addresses or settings. Those of strictNamedWords have
// the server's numbers, only for clients that have shown a certificate.
var (
	strictWords      = []string{"isro", "ruok", "srvr"}
	strictNamedWords = []string{"dirs", "isro", "mntr", "ruok", "srvr"}
)

// strictAlgs are the hashes of passwords that the strict profile permits.
var strictAlgs = []string{"SHA-256", "SHA-384", "SHA-512", "SHA3-256", "SHA3-384", "SHA3-512"}

// strictRules refuse values that the strict profile doesn't permit, and change the defaults of keys that it does.
func (l *loader) strictRules() {
	c := l.c
	open := func(name, do string) { l.fail("ZD-1010", name, "security.profile=strict: %s", do) }
	if c.Client.Port >= 0 {
		open("clientPort", "clients talk TLS alone; use secureClientPort, and two semicolons before the port in a server line")
	}
	if c.Secure.Port < 0 {
		open("secureClientPort", "clients talk TLS alone; give a port for it")
	}
	if c.TLS.PortUnification {
		open("client.portUnification", "clients talk TLS alone; remove the key")
	}
	if c.Tree.SkipACL {
		open("skipACL", "remove the key")
	}
	if _, given := l.given["DigestAuthenticationProvider.digestAlg"]; !given {
		c.Auth.DigestAlg = strictAlgs[0]
	} else if !slices.Contains(strictAlgs, c.Auth.DigestAlg) {
		open("DigestAuthenticationProvider.digestAlg",
			"use "+alternatives(strictAlgs)+", and make new hashes for superDigest and ACLs (zooid digest)")
	}
	if _, given := l.given["auth.recheckSeconds"]; !given {
		c.Auth.Recheck = time.Minute
	}
	if c.Sessions.ApachePasswords {
		open("session.apachePasswords", "whoever knows a session's id could take it over; remove the key")
	}
	if c.Auth.AllowFailedSASL {
		open("allowSaslFailedClients", "remove the key")
	}
	if c.Auth.SASLAnyUser != "" {
		open("letAnySaslUserDoX", "remove the key")
	}
	if !c.Superuser() {
		open("X509AuthenticationProvider.superUser", "the root znode is the superusers' alone, and there is none; name one here, or by DigestAuthenticationProvider.superDigest or superUser")
	}
	permitted, more := strictWords, "; with ssl.clientAuth=need mntr and dirs too; the endpoint for Prometheus has the figures"
	if c.TLS.ClientAuth == "need" {
		permitted, more = strictNamedWords, ""
	}
	if slices.ContainsFunc(c.FourLetter.Words, func(word string) bool { return !slices.Contains(permitted, word) }) {
		open("4lw.commands.whitelist", "name none but "+alternatives(permitted)+more)
	}
	if c.Admin.Enabled && (!c.Admin.ForceHTTPS || !c.Admin.NeedClientAuth) {
		open("admin.enableServer", "callers of the admin server talk TLS and show a certificate; set admin.forceHttps=true and admin.needClientAuth=true, or remove the key")
	}
	if !c.TLS.HostnameVerification {
		open("ssl.hostnameVerification", "remove the key, and issue certificates that name their hosts")
	}
	if !c.Quorum.TLS.HostnameVerification {
		open("ssl.quorum.hostnameVerification", "remove the key, and issue certificates that name their hosts")
	}
	for _, k := range []struct {
		name string
		of   *TLS
	}{{"ssl.hostnameInCommonName", &c.TLS}, {"ssl.quorum.hostnameInCommonName", &c.Quorum.TLS.TLS}} {
		if _, given := l.given[k.name]; !given {
			k.of.CommonName = false
		} else if k.of.CommonName {
			open(k.name, "remove the key, and issue certificates with subject alternative names")
		}
	}
	if auth := c.Quorum.TLS.ClientAuth; auth != "need" && auth != "" {
		open("ssl.quorum.clientAuth", "use need")
	}
	if c.Quorum.TLS.PortUnification {
		open("portUnification", "servers talk TLS alone; remove the key")
	}
	if c.Quorum.Distributed && !c.Quorum.TLS.Enabled && c.remotePeers() {
		open("sslQuorum", "servers talk TLS to each other; set sslQuorum=true (zooid init -tls writes the certificates too)")
	}
}

// Superuser reports whether the configuration names a superuser.
func (c *Config) Superuser() bool {
	a := &c.Auth
	return a.SuperDigest != "" || a.X509SuperUser != "" || len(a.SASLSuperUsers) > 0 || len(a.Bearer.SuperUsers) > 0
}

// PeersUnproved reports whether, at the first start, servers on other hosts are believed to be members of the
// ensemble because they are the first to say so: there is neither TLS nor a shared secret between servers.
func (c *Config) PeersUnproved() bool {
	q := &c.Quorum
	return q.Distributed && !q.TLS.Enabled && q.Secret == "" && q.SecretFile == "" && c.remotePeers()
}

// PeersReadable reports whether the traffic between servers on different hosts, which includes the clients'
// data, can be read in transit. A shared secret proves the servers' identities and hides nothing.
func (c *Config) PeersReadable() bool {
	q := &c.Quorum
	return q.Distributed && !q.TLS.Enabled && c.remotePeers()
}

// remotePeers reports whether a server of the ensemble has an address on another host.
func (c *Config) remotePeers() bool {
	return slices.ContainsFunc(c.Quorum.Members.Servers, func(m Member) bool {
		return slices.ContainsFunc(m.Addrs, func(a PeerAddr) bool { return !IsLoopback(a.Host) })
	})
}

// Risks returns the things that the configuration leaves open to others than the users of this host, in a few words
// each.
func (c *Config) Risks() (all []string) {
	if c.Profile == Strict {
		return nil
	}
	if c.Client.Port >= 0 && !IsLoopback(c.Client.Host) {
		all = append(all, "clients of other hosts may connect without TLS, and send passwords in clear (clientPort)")
		if !c.Auth.Enforce || slices.ContainsFunc(c.Auth.EnforceSchemes, func(scheme string) bool {
			return scheme == "ip" || scheme == "digest" // every client has an address, and can make up a digest identity
		}) {
			all = append(all, "anybody who reaches the client port may create znodes below /, until its ACL is changed")
		}
	}
	if c.Tree.SkipACL {
		all = append(all, "no ACL is checked (skipACL)")
	}
	if c.Sessions.ApachePasswords {
		all = append(all, "whoever knows a session's id can take it over, as at Apache (session.apachePasswords)")
	}
	if c.Admin.Enabled && c.Admin.PlainRemote {
		all = append(all, "callers of the admin server send passwords in clear (admin.plainRemote)")
	}
	return all
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}
