//go:build unix

package main

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/kerberos"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/scram"
)

// sectionDefault is the section of the login file that Apache's server uses by default.
// It may be missing from the file.
const sectionDefault = "Server"

// logins are the SASL mechanisms by which clients can log in, and the users.
type logins struct {
	mechanism sasl.Mechanism
	secrets   map[string]string // by user of the login file: the password or its SCRAM verifier
	note      string            // why the section's Kerberos module isn't used; "" if it is, or if there is none
}

// loginMechanism reads the login file and returns the mechanisms that its section
// configures, or nil if there is no file or no section for the server.
func loginMechanism(a *config.Auth) (*logins, error) {
	section, err := loginSection(a)
	if err != nil || section == nil {
		return nil, err
	}
	users, err := section.Users()
	if err != nil {
		return nil, runbook.Errorf("ZD-1215", "set up logins by SASL: %w", err)
	}
	var all sasl.Several
	l := &logins{secrets: maps.Clone(users)}
	if k := section.Kerberos(); k != nil {
		m, err := kerberos.New(kerberos.Options{
			Keytab: k.Keytab, Principal: k.Principal, Rules: a.KerberosRules, RemoveHost: a.KerberosRemoveHost,
			RemoveRealm: a.KerberosRemoveRealm,
		})
		switch {
		case err != nil && k.Dispensable:
			l.note = fmt.Sprintf("%v (section %q of the login file %s)", err, section.Name, a.LoginConfig)
		case err != nil:
			return nil, runbook.Errorf("ZD-1215", "%w (section %q of the login file %s; it needs useKeyTab=true, keyTab and principal)",
				err, section.Name, a.LoginConfig)
		case slices.Contains(a.SASLMechanisms, kerberos.Name):
			all = append(all, m)
		}
		if len(users) == 0 && l.note == "" {
			l.mechanism = all
			return l, nil
		}
	}
	if slices.Contains(a.SASLMechanisms, "DIGEST-MD5") {
		all = append(all, sasl.NewDigestMD5(passwords(users), a.SASLSuperPassword.Reveal(), rand.Reader))
	}
	if password := a.SASLSuperPassword.Reveal(); password != "" && users["super"] != "" {
		users["super"], l.secrets["super"] = password, password
	}
	if slices.Contains(a.SASLMechanisms, scram.Name) {
		secret := make([]byte, 32)
		rand.Read(secret)
		m, err := scram.New(users, secret)
		if err != nil {
			return nil, runbook.Errorf("ZD-1215", "set up logins by SASL: %w", err)
		}
		all = append(all, m)
	}
	l.mechanism = all
	return l, nil
}

// warn logs the unused parts of the login file.
func (l *logins) warn(log *slog.Logger) {
	if l.note != "" {
		log.Warn("no client can log in by Kerberos: the login file's Kerberos module can't be used, but isn't required; the other users of its section can log in",
			"err", l.note, "code", "ZD-1235")
	}
}

// passwords returns the users whose passwords are in the login file. A user with a SCRAM
// verifier in place of the password can log in by SCRAM only.
func passwords(users map[string]string) map[string]string {
	known := map[string]string{}
	for user, password := range users {
		if !scram.IsVerifier(password) {
			known[user] = password
		}
	}
	return known
}

// loginSection returns the server's section of the login file, or nil if there is none.
func loginSection(a *config.Auth) (*sasl.Section, error) {
	var sections []sasl.Section
	if a.LoginConfig != "" {
		text, err := os.ReadFile(a.LoginConfig)
		if err != nil {
			return nil, runbook.Errorf("ZD-1213", "read the login file (java.security.auth.login.config): %w", err)
		}
		if sections, err = sasl.ParseLogin(a.LoginConfig, text); err != nil {
			return nil, runbook.Errorf("ZD-1213", "read the login file (java.security.auth.login.config): %w", err)
		}
	}
	i := slices.IndexFunc(sections, func(s sasl.Section) bool { return s.Name == a.SASLSection })
	switch {
	case i < 0 && a.SASLSection != sectionDefault:
		return nil, runbook.Errorf("ZD-1214", "set up logins by SASL: the login file %q has no section %q, which sasl.serverconfig names",
			a.LoginConfig, a.SASLSection)
	case i < 0:
		return nil, nil
	}
	return &sections[i], nil
}
