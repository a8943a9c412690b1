package doctor

import (
	"crypto/x509"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/tool/access"
)

// renewBefore is how long before it expires a certificate should be renewed.
const renewBefore = 30 * 24 * time.Hour

// certificates reports stores that can't be used and certificates that aren't valid.
func (e *examination) certificates() {
	c := e.cfg
	if c.Secure.Port >= 0 || c.TLS.PortUnification {
		e.store("ssl.", &c.TLS, nil)
		if c.TLS.Keys.Location == "" {
			e.fault("set ssl.keyStore.location, or remove secureClientPort; zooid init -tls writes both", "there is a port for TLS, but no key store (ssl.keyStore.location)")
		}
		if c.TLS.ClientAuth != "none" && c.TLS.Trust.Location == "" {
			e.warn("set ssl.trustStore.location to a file with the clients' issuer, or ssl.clientAuth=none", "clients must show certificates, but there is no trust store (ssl.trustStore.location): a certificate from any of this system's authorities is accepted")
		}
	}
	if m := &c.Metrics; m.Provider == config.PrometheusProvider && m.SecurePort >= 0 {
		e.store("metricsProvider.ssl.", &m.TLS, nil)
	}
	if q := &c.Quorum; q.TLS.Enabled || q.TLS.PortUnification {
		var hosts []string
		if m, ok := q.Members.Find(q.MyID); ok && q.TLS.HostnameVerification {
			for _, a := range m.Addrs {
				hosts = append(hosts, a.Host)
			}
		}
		e.store("ssl.quorum.", &q.TLS.TLS, hosts)
		if q.TLS.Trust.Location == "" || q.TLS.Keys.Location == "" {
			e.fault("set ssl.quorum.keyStore.location and ssl.quorum.trustStore.location; zooid init -tls writes both", "servers must use TLS, but a store is missing")
		}
	}
}

// store examines the stores of one kind of port, whose certificate should name hosts.
func (e *examination) store(prefix string, t *config.TLS, hosts []string) {
	if t.CRLFile != "" {
		end, issuer, err := keystore.ListsEnd(t.CRLFile)
		if err != nil {
			e.fault("put it there (zooid init -tls and zooid cert write ca/crl.pem), or correct "+prefix+"crlFile", "%v", err)
		} else if !end.IsZero() && end.Before(e.world.Now()) {
			e.fault("put the issuer's current list there; the server rereads it automatically",
				"%s: the revocation list of %s is out of date since %s, so that servers refuse the issuer's certificates",
				t.CRLFile, issuer, end.Format(time.RFC3339))
		}
	}
	var pool *x509.CertPool
	if t.Trust.Location != "" {
		var err error
		if pool, err = access.StoreOf(t.Trust).Pool(); err != nil {
			e.fault("put it there, or correct "+prefix+"trustStore.*", "%v", err)
		}
	}
	if t.Keys.Location == "" {
		return
	}
	certs, err := access.StoreOf(t.Keys).Certificates()
	if err != nil {
		e.fault("put it there, or correct "+prefix+"keyStore.*", "%v", err)
		return
	}
	const renew = "issue a new one (zooid cert renew), and put it into the key store; the server rereads it automatically"
	now := e.world.Now()
	for _, cert := range certs {
		leaf := cert.Leaf
		name := leaf.Subject.String()
		switch left := leaf.NotAfter.Sub(now); {
		case left <= 0:
			e.fault(renew, "%s: the certificate of %s expired on %s", t.Keys.Location, name, leaf.NotAfter.Format(time.DateOnly))
		case now.Before(leaf.NotBefore):
			e.fault("correct the clock, or wait", "%s: the certificate of %s isn't valid before %s", t.Keys.Location, name,
				leaf.NotBefore.Format(time.RFC3339))
		case left < renewBefore:
			e.warn(renew, "%s: the certificate of %s expires on %s, in %d days", t.Keys.Location, name,
				leaf.NotAfter.Format(time.DateOnly), int(left.Hours()/24))
		}
		for _, host := range hosts {
			if keystore.NamesHost([]*x509.Certificate{leaf}, nil, host, t.CommonName) != nil {
				e.fault("issue one with this name, or correct the server line", "%s: the certificate of %s doesn't name %s, at which the others dial this server",
					t.Keys.Location, name, host)
			}
		}
		if prefix == "ssl.quorum." && pool != nil && now.After(leaf.NotBefore) && now.Before(leaf.NotAfter) {
			between := x509.NewCertPool()
			for _, raw := range cert.Certificate[1:] {
				if c, err := x509.ParseCertificate(raw); err == nil {
					between.AddCert(c)
				}
			}
			o := x509.VerifyOptions{
				Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			}
			if _, err := leaf.Verify(o); err != nil {
				e.fault("put its issuer into the trust store of all servers", "%s: the other servers won't trust the certificate of %s: %v",
					t.Keys.Location, name, err)
			}
		}
	}
}
