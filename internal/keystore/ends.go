package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// Ends returns the times at which the first certificates expire: of those that the port presents, including their
// issuers, and of those in its trust store. A time is zero if there are none. Like Config it follows changes of the
// stores.
func (p *Port) Ends() (shown, trusted time.Time) {
	p.refresh()
	now := p.current.Load()
	shown = firstEnd(now.chains)
	if now.trust != nil {
		trusted = firstEnd(now.trust.certs)
	}
	return shown, trusted
}

// firstEnd returns when the first of several certificates expires.
func firstEnd(certs []*x509.Certificate) (first time.Time) {
	for _, c := range certs {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// chainsOf returns all presented certificates. It omits those that can't be parsed, which no client would accept.
func chainsOf(keys []tls.Certificate) (all []*x509.Certificate) {
	for _, key := range keys {
		for _, raw := range key.Certificate {
			if c, err := x509.ParseCertificate(raw); err == nil {
				all = append(all, c)
			}
		}
	}
	return all
}
