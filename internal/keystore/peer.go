package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Dialled returns the configuration for dialling another server of the ensemble at host, which has the same kind of
// stores. It presents the key store's certificate. The other server's certificate must come from an issuer in the trust
// store and, with verifyHost (hostnameVerification), name host. Like Config it follows changes of the stores. The trust
// store must be set.
func (p *Port) Dialled(host string, verifyHost bool) *tls.Config {
	p.refresh()
	current := p.current.Load()
	return &tls.Config{
		ServerName: host,
		MinVersion: current.MinVersion, MaxVersion: current.MaxVersion, CipherSuites: current.CipherSuites,
		// The data comes in large pieces, and the receiver needs all of a piece.
		DynamicRecordSizingDisabled: true,
		// Present it even if the server lists other issuers: its error is clearer then.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &current.Certificates[0], nil
		},
		InsecureSkipVerify: true, // VerifyConnection verifies instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := current.trust.verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, p.revoked,
				state.OCSPResponse); err != nil || !verifyHost {
				return err
			}
			return NamesHost(state.PeerCertificates, current.trust.certs, host, p.opt.CommonName)
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

// VerifyPeer checks that the certificate of a connecting peer is valid for servers, since servers use the same key
// store for both directions, and that it names one of hosts unless hosts is nil. ClientAuth decides whether a peer may
// have no certificate. With ReverseDNS, the certificate may instead name the host name of an address in hosts; the
// look-up may take until ctx ends. The address that the peer connects from isn't checked, since it proves nothing.
func (p *Port) VerifyPeer(ctx context.Context, state tls.ConnectionState, hosts []string) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	if err := p.checkFor(state.PeerCertificates, x509.ExtKeyUsageServerAuth); err != nil {
		return fmt.Errorf("it isn't a server's: %w", err)
	}
	var errs []error
	for _, host := range hosts {
		err := p.verifyName(ctx, host, state.PeerCertificates)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
