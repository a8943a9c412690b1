package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// Ends returns when the first certificate in use ends: of those that the port shows,
// with their issuers, and of those in its trust store. It is the zero time where there
// are none. Like Config it follows the stores.
func (p *Port) Ends() (shown, trusted time.Time) {
	p.refresh()
	now := p.current.Load()
	shown = firstEnd(now.chains)
	if now.trust != nil {
		trusted = firstEnd(now.trust.certs)
	}
	return shown, trusted
}

// firstEnd returns when the first of some certificates ends.
func firstEnd(certs []*x509.Certificate) (first time.Time) {
	for _, c := range certs {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// chainsOf returns all certificates that are shown. One that can't be parsed is left out: nobody
// would take it.
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
