//go:build unix

package main

import (
	"log/slog"
	"os"
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
	if at := exposedSecrets(cfg.File); at != "" {
		log.Warn("everybody on this machine can read the configuration, which holds passwords, hashes of them or the ensemble's secret: chmod 600 it, or 640 with the server's group",
			"file", at, "code", "ZD-1234")
	}
	if risks := cfg.Risks(); len(risks) > 0 {
		log.Warn("this configuration leaves doors open, which security.profile=strict closes: "+strings.Join(risks, "; "), "code", "ZD-1230")
	}
}

// exposedSecrets returns the path of a configuration file that holds secrets and that everybody can read, else "".
func exposedSecrets(file string) string {
	st, err := os.Stat(file)
	if file == "" || err != nil || st.Mode().Perm()&0o007 == 0 {
		return ""
	}
	b, err := os.ReadFile(file)
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	if err != nil || config.Redact(text) == text {
		return ""
	}
	return file
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
