package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/limit"
)

// applyRules checks and completes settings that depend on several keys. The order is that of Apache's startup.
func (l *loader) applyRules() {
	l.storageRules()
	l.portRules()
	l.sessionRules()
	l.limitRules()
	l.fourLetterRules()
	l.adminRules()
	l.metricsRules()
	if len(l.errs) == 0 {
		l.quorumRules()
	}
	if len(l.errs) == 0 { // the TLS port, and so the scheme x509, may come from a server line
		l.authRules()
	}
	if len(l.errs) == 0 && l.c.Profile == Strict {
		l.strictRules()
	}
}

// snapRetainMin is the fewest snapshots Apache keeps; snapCountMin its smallest snapCount.
const (
	snapRetainMin = 3
	snapCountMin  = 2
)

func (l *loader) storageRules() {
	s := &l.c.Storage
	if s.DataDir == "" {
		l.fail("ZD-1004", "dataDir", "missing; add dataDir=/path/of/a/directory")
	}
	if s.DataLogDir == "" || SameDirectory(s.DataLogDir, s.DataDir) {
		s.DataLogDir = s.DataDir
	}
	for _, name := range []string{"dataDir", "dataLogDir"} {
		if g, ok := l.given[name]; ok && l.c.File != "" && !filepath.IsAbs(g.value) && !strings.HasPrefix(g.value, "./") &&
			g.value != "" {
			l.warnAt("ZD-1028", g, name, "a relative path begins in the server's working directory; write ./ before it or an absolute path")
		}
	}
	l.atLeast("autopurge.snapRetainCount", &s.SnapRetainCount, snapRetainMin)
	l.atLeast("snapCount", &s.SnapCount, snapCountMin)
}

// SameDirectory reports whether two paths name one directory, such as a directory and a link to it.
func SameDirectory(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// atLeast raises a number below low to low, as Apache does, with a warning.
func (l *loader) atLeast(name string, n *int, low int) {
	if *n < low {
		l.warnAt("ZD-1024", l.given[name], name, fmt.Sprintf("%d is raised to %d, the least allowed", *n, low))
		*n = low
	}
}

func (l *loader) portRules() {
	for _, p := range []struct {
		key string
		to  *HostPort
	}{{"clientPort", &l.c.Client}, {"secureClientPort", &l.c.Secure}} {
		name := p.key + "Address"
		if _, given := l.given[name]; given && p.to.Port < 0 {
			l.fail("ZD-1004", name, "%s is missing; add it beside the address", p.key)
		}
		host := cmp.Or(p.to.Host, wildcard)
		host, err := canonicalHost(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
		if err != nil {
			l.fail("ZD-1002", name, "%v", err)
		}
		p.to.Host = host
	}
	if c, s := l.c.Client, l.c.Secure; c.Port > 0 && c == s {
		l.fail("ZD-1005", "secureClientPort", "it is the clientPort too; give each a port of its own, or set client.portUnification=true and leave it out")
	}
}

// wildcard is the address for listening on all interfaces.
const wildcard = "0.0.0.0"

func isWildcard(host string) bool { return host == wildcard || host == "0:0:0:0:0:0:0:0" }

// Default session timeouts, in ticks.
const (
	minTimeoutTicks = 2
	maxTimeoutTicks = 20
)

func (l *loader) sessionRules() {
	s := &l.c.Sessions
	if s.MinTimeout < 0 {
		s.MinTimeout = minTimeoutTicks * l.c.TickTime
	}
	if s.MaxTimeout < 0 {
		s.MaxTimeout = maxTimeoutTicks * l.c.TickTime
	}
	if s.MinTimeout > s.MaxTimeout {
		name := "minSessionTimeout"
		if _, ok := l.given[name]; !ok {
			name = "maxSessionTimeout"
		}
		l.fail("ZD-1005", name, "the shortest session timeout, %d ms, is longer than the longest, %d ms; they are %d and %d ticks unless given",
			s.MinTimeout/time.Millisecond, s.MaxTimeout/time.Millisecond, minTimeoutTicks, maxTimeoutTicks)
	}
}

func (l *loader) limitRules() {
	for s, text := range [limit.Scopes]string{
		l.c.Limits.Connection, l.c.Limits.Address, l.c.Limits.Identity, l.c.Limits.Path,
	} {
		if _, err := limit.Parse(limit.Scope(s), text, limit.Set{}); err != nil {
			l.fail("ZD-1002", "limits."+limit.Scope(s).String(), "%v", err)
		}
	}
	if l.c.Tree.SkipACL {
		l.warnAt("ZD-1026", l.given["skipACL"], "skipACL", "ACCESS CONTROL IS OFF: any client may read and change every znode")
	}
}

// saslMechanisms are the mechanisms that servers support.
var saslMechanisms = []string{"DIGEST-MD5", "SCRAM-SHA-256", "GSSAPI"}

func (l *loader) authRules() {
	a := &l.c.Auth
	if l.c.Secure.Port >= 0 || l.c.TLS.PortUnification {
		l.addScheme("x509")
	}
	for _, mechanism := range a.SASLMechanisms {
		if !slices.Contains(saslMechanisms, mechanism) {
			l.fail("ZD-1002", "sasl.enabled.mechanisms", "%s isn't a mechanism; allowed: %s", printable(mechanism),
				alternatives(saslMechanisms))
		}
	}
	if a.Bearer.Issuer == "" {
		for _, name := range []string{"audience", "jwks", "groupsClaim", "superUsers"} {
			if s := l.given["auth.bearer."+name]; s.value != "" {
				l.fail("ZD-1004", "auth.bearer."+name, "auth.bearer.issuer is missing; without it no token is taken")
			}
		}
	} else if len(a.Bearer.Audience) == 0 {
		l.fail("ZD-1004", "auth.bearer.issuer", "auth.bearer.audience is missing; without it tokens for others would be taken")
	}
	name := "enforce.auth.schemes"
	if a.RequireSASL {
		a.Enforce, a.EnforceSchemes = true, []string{"sasl"}
		name = "sessionRequireClientSASLAuth"
	}
	if !a.Enforce {
		return
	}
	if len(a.EnforceSchemes) == 0 {
		l.fail("ZD-1004", name, "enforce.auth.enabled=true needs at least one scheme here")
	}
	for _, scheme := range a.EnforceSchemes {
		if scheme == "ip" || scheme == "digest" && a.DigestEnabled || slices.Contains(a.Schemes, scheme) ||
			len(a.Providers) > 0 || scheme == "bearer" && a.Bearer.Issuer != "" || slices.ContainsFunc(a.External,
			func(e External) bool { return e.Scheme == scheme }) {
			continue // a provider's schemes are checked once it is open
		}
		l.fail("ZD-1005", name, "no provider serves the scheme %s; add authProvider.%s with its class", printable(scheme),
			printable(scheme))
	}
}

// metricsRules check the ports of the endpoint for Prometheus. With httpsPort alone there is no plain port.
func (l *loader) metricsRules() {
	m := &l.c.Metrics
	const secure = "metricsProvider.httpsPort"
	if _, given := l.given["metricsProvider.httpPort"]; !given && m.SecurePort >= 0 {
		m.Port = -1
	}
	switch {
	case m.Provider != PrometheusProvider:
	case m.Port < 0 && m.SecurePort < 0:
		l.fail("ZD-1005", "metricsProvider.httpPort", "Prometheus needs a port of 0 or more to read the metrics from")
	case m.SecurePort < 0:
	case m.TLS.Keys.Location == "":
		l.fail("ZD-1004", secure, "metricsProvider.ssl.keyStore.location is missing; name a file with a key and its certificate")
	case m.TLS.Trust.Location == "" && (m.NeedAuth || m.WantAuth):
		l.fail("ZD-1004", secure, "metricsProvider.ssl.trustStore.location is missing; name a file with the issuer of Prometheus's certificate, "+
			"or set metricsProvider.ssl.need.client.auth and metricsProvider.ssl.want.client.auth to false")
	}
}

// fourLetterWords are the words Apache knows.
var fourLetterWords = []string{"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok",
	"srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs"}

func (l *loader) fourLetterRules() {
	const name = "4lw.commands.whitelist"
	w := &l.c.FourLetter
	words := []string{"srvr"}
	if l.c.Sessions.ReadOnlyMode {
		words = append(words, "isro")
	}
	for _, word := range w.Words {
		if word == "*" { // the words after it don't matter
			w.All = true
			words = append(words, fourLetterWords...)
			break
		}
		if !slices.Contains(fourLetterWords, word) {
			l.warnAt("ZD-1029", l.given[name], name,
				fmt.Sprintf("%s isn't a four-letter word; known: %s", printable(word), strings.Join(fourLetterWords, " ")))
			continue
		}
		words = append(words, word)
	}
	slices.Sort(words)
	w.Words = slices.Compact(words)
}

// adminRules keep the admin server, whose commands any caller of its port may use, on this host unless the
// configuration says otherwise.
func (l *loader) adminRules() {
	a := &l.c.Admin
	if !a.Enabled {
		return
	}
	if !strings.HasPrefix(a.CommandURL, "/") {
		l.fail("ZD-1002", "admin.commandURL", "it is the beginning of a path; write a / before it")
	}
	host, err := canonicalHost(strings.TrimSuffix(strings.TrimPrefix(a.Host, "["), "]"))
	if err != nil {
		l.fail("ZD-1002", "admin.serverAddress", "%v", err)
		return
	}
	a.Host = host
	ip, err := netip.ParseAddr(host)
	if here := host == "localhost" || err == nil && ip.IsLoopback(); !here && !a.ForceHTTPS &&
		!a.PlainRemote {
		l.fail("ZD-1005", "admin.serverAddress", "other hosts could ask the admin server without TLS; set admin.forceHttps=true, or admin.plainRemote=true if the network is trusted, or leave it on 127.0.0.1")
	}
}
