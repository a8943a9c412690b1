package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// Dialled returns the configuration for dialling a server at host that has the same kind of stores, as the servers of
// an ensemble do: it presents the key store's certificate, and the server's must come from an issuer in the trust
// store and, with verifyHost (hostnameVerification), name host. Like Config it follows the stores. The trust store
// must be set.
func (p *Port) Dialled(host string, verifyHost bool) *tls.Config {
	p.refresh()
	current := p.current.Load()
	return &tls.Config{
		ServerName: host,
		MinVersion: current.MinVersion, MaxVersion: current.MaxVersion, CipherSuites: current.CipherSuites,
		// The data comes in large pieces, and the receiver needs all of a piece.
		DynamicRecordSizingDisabled: true,
		// Presented even if the server names other issuers: its error is clearer then.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &current.Certificates[0], nil
		},
		InsecureSkipVerify: true, // VerifyConnection verifies instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := current.trust.verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, p.revoked,
				state.OCSPResponse); err != nil || !verifyHost {
				return err
			}
			return state.PeerCertificates[0].VerifyHostname(host)
		},
	}
}

// issued checks that a server's certificate comes from an issuer in roots.
func issued(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// VerifyPeer checks that the certificate of a connecting peer names one of hosts or the address that the peer connects
// from. Whether a peer may have none is up to ClientAuth. With ReverseDNS it is enough if the certificate names the
// host name of the address; looking that up may take until ctx ends.
func (p *Port) VerifyPeer(ctx context.Context, state tls.ConnectionState, from net.Addr, hosts []string) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	cert := state.PeerCertificates[0]
	for _, host := range hosts {
		if cert.VerifyHostname(host) == nil {
			return nil
		}
	}
	return p.verifyAddr(ctx, from, cert)
}
