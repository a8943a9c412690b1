package keystore

import (
	"crypto/tls"
	"errors"
)

// ClientOptions configure a client's TLS connections. The comments have the names of the settings of Java's client,
// without their prefix.
type ClientOptions struct {
	// Certificates are presented to servers that ask for one: always the first, whatever issuers the server lists. They
	// may be empty for servers that don't ask.
	Certificates []tls.Certificate
	Trust        Store // trustStore; without a Location, the system's authorities are trusted
	AnyHost      bool  // hostnameVerification=false: the certificate may name another host

	Protocol         string   // protocol: TLSv1.2 or TLSv1.3; "" for both
	EnabledProtocols []string // enabledProtocols; replaces Protocol
	CipherSuites     []string // ciphersuites, by Java's names; nil for the safe ones
	Revocation       bool     // crl or ocsp, which Client refuses
}

// Client reads the trust store and returns the configuration for connections to servers. The caller sets ServerName to
// each server's host. Client also returns a note, one sentence, for each option that can't be applied. An error has the
// name of the file or setting.
func Client(o ClientOptions) (*tls.Config, []string, error) {
	low, high, notes, err := versions(o.Protocol, o.EnabledProtocols)
	if err != nil {
		return nil, nil, err
	}
	suites, low, high, more, err := suiteIDs(o.CipherSuites, low, high)
	if err != nil {
		return nil, nil, err
	}
	if o.Revocation {
		return nil, nil, errors.New("check certificates against revocation lists (crl, ocsp): this is not supported; turn it off, and issue certificates that are short-lived instead")
	}
	cfg := &tls.Config{MinVersion: low, MaxVersion: high, CipherSuites: suites}
	if o.Trust.Location != "" {
		if cfg.RootCAs, err = o.Trust.Pool(); err != nil {
			return nil, nil, err
		}
	}
	if len(o.Certificates) > 0 {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &o.Certificates[0], nil
		}
	}
	if o.AnyHost {
		cfg.InsecureSkipVerify = true // VerifyConnection below does the remaining checks
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return issued(state, cfg.RootCAs) }
	}
	return cfg, append(notes, more...), nil
}
