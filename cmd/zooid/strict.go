//go:build unix

package main

import (
	"log/slog"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/jute"
)

// logRisks logs, once, what the configuration leaves unprotected.
func logRisks(cfg *config.Config, log *slog.Logger) {
	if cfg.PeersUnproved() {
		log.Warn("ANYBODY WHO REACHES THE PORTS BETWEEN THE SERVERS AT THEIR FIRST START MAY BE ONE OF THEM: there is neither sslQuorum=true nor quorum.secretFile", "code", "ZD-1231")
	}
	if cfg.PeersReadable() {
		log.Warn("what the servers say to each other crosses the network in clear, clients' data and the hashes of their passwords too: there is no sslQuorum=true", "code", "ZD-1233")
	}
	if risks := cfg.Risks(); len(risks) > 0 {
		log.Warn("this configuration leaves doors open, which security.profile=strict closes: "+strings.Join(risks, "; "), "code", "ZD-1230")
	}
}

// rootACL returns the ACL that the strict profile gives the root znode: superusers only.
func rootACL(cfg *config.Config) (acl []jute.ACL) {
	if cfg.Profile != config.Strict {
		return nil
	}
	a := &cfg.Auth
	add := func(scheme, id string) {
		if id != "" {
			acl = append(acl, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: scheme, ID: id}})
		}
	}
	add("digest", a.SuperDigest.Reveal())
	add("x509", a.X509SuperUser)
	for _, user := range a.SASLSuperUsers {
		add("sasl", user)
	}
	for _, id := range a.Bearer.SuperUsers {
		add("bearer", id)
	}
	return acl
}
