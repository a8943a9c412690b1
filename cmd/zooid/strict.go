//go:build unix

package main

import (
	"log/slog"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/jute"
)

// logRisks logs, once, the things that the configuration leaves unprotected.
func logRisks(cfg *config.Config, log *slog.Logger) {
	if cfg.PeersUnproved() {
		log.Warn("ANYBODY WHO CAN REACH THE PORTS BETWEEN THE SERVERS DURING THEIR FIRST START CAN BECOME ONE OF THEM: neither sslQuorum=true nor quorum.secretFile is set", "code", "ZD-1231")
	}
	if cfg.PeersReadable() {
		log.Warn("traffic between the servers, including clients' data and password hashes, isn't encrypted: set sslQuorum=true", "code", "ZD-1233")
	}
	if at := exposedSecrets(cfg.File); at != "" {
		log.Warn("everybody on this machine can read the configuration, which contains passwords, password hashes or the ensemble's secret: chmod 600 it, or 640 with the server's group",
			"file", at, "code", "ZD-1234")
	}
	if risks := cfg.Risks(); len(risks) > 0 {
		log.Warn("this configuration has weaknesses that security.profile=strict forbids: "+strings.Join(risks, "; "), "code", "ZD-1230")
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
