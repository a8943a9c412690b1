package config

import "strings"

// A doubt is a fault in the value of a key. It is an error if the key is read, and a warning otherwise: Apache's server
// doesn't read the keys of a part that is off, so it starts with any values there.
type doubt struct {
	code    string
	at      setting
	name    string
	problem string
}

func (l *loader) doubt(code string, at setting, name, problem string) {
	l.doubts = append(l.doubts, doubt{code, at, name, problem})
}

// settleDoubts decides about the doubts, once it is known which parts are on.
func (l *loader) settleDoubts() {
	for _, d := range l.doubts {
		switch off := l.unread(d.name); {
		case l.given[d.name] != d.at: // another value counts
		case off == "":
			l.failAt(d.code, d.at, d.name, d.problem)
		default:
			l.warnAt("ZD-1021", d.at, d.name, "accepted without effect, as long as "+off+": "+d.problem)
		}
	}
}

// unread returns why a key isn't read, or "" if it is.
func (l *loader) unread(name string) string {
	c := l.c
	quorumTLS := c.Quorum.TLS.Enabled || c.Quorum.TLS.PortUnification ||
		c.Admin.Enabled && (c.Admin.ForceHTTPS || c.Admin.PortUnification) // whose stores these are too
	switch prefixed := func(p string) bool { return strings.HasPrefix(name, p) }; {
	case prefixed("admin.") && name != "admin.enableServer" && !c.Admin.Enabled:
		return "there is no admin server"
	case prefixed("metricsProvider.") && name != "metricsProvider.className" && c.Metrics.Provider != PrometheusProvider:
		return "there is no endpoint for Prometheus"
	case name == "audit.impl.class" && !c.Audit.Enabled:
		return "there is no audit log"
	case prefixed("ssl.quorum.") && !quorumTLS:
		return "neither servers among themselves nor the admin server talk TLS"
	case prefixed("ssl.") && !prefixed("ssl.quorum.") && !l.clientTLS():
		return "there is no TLS port for clients"
	}
	return ""
}

// clientTLS reports whether there is, or may be, a TLS port for clients. The membership isn't read yet.
func (l *loader) clientTLS() bool {
	c := l.c
	for _, p := range l.servers {
		if strings.Count(p.value, ";") > 1 {
			return true
		}
	}
	return c.Secure.Port >= 0 || c.TLS.PortUnification || c.Quorum.DynamicFile != ""
}

// refuses reports whether a value is that of a key which is an error.
func (k key) refuses(value string) bool {
	switch {
	case k.refused == "" || strings.EqualFold(value, k.unless):
		return false
	case k.kind == yesNo:
		return k.isYes(value) != (k.unless == "yes")
	case k.kind == boolean && k.where == asProp: // anything but true is false
		return strings.EqualFold(value, "true")
	}
	return true
}
