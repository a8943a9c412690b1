package keystore

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
)

// NamesHost returns nil if the first of a chain of certificates names a host. With commonName, as at Apache, a
// certificate without any names of hosts or addresses names the one that is its subject's common name. An issuer that
// may name only some hosts can't be held to that, as the common name is no name to crypto/x509: beside such an issuer,
// in the chain or in the trust store's certs, the common name doesn't count.
func NamesHost(chain, issuers []*x509.Certificate, host string, commonName bool) error {
	cert := chain[0]
	err := cert.VerifyHostname(host)
	if err == nil || len(cert.DNSNames)+len(cert.IPAddresses) > 0 || cert.Subject.CommonName == "" {
		return err
	}
	name := cert.Subject.CommonName
	if !commonName {
		return fmt.Errorf("it names %.100q by its common name alone, which doesn't count: %w", name, err)
	}
	if slices.ContainsFunc(chain[1:], constrained) || slices.ContainsFunc(issuers, constrained) {
		return fmt.Errorf("it names %.100q by its common name alone, which doesn't count where an issuer may name only some hosts: %w",
			name, err)
	}
	named := &x509.Certificate{DNSNames: []string{name}}
	if ip := net.ParseIP(name); ip != nil {
		named = &x509.Certificate{IPAddresses: []net.IP{ip}}
	}
	if err := named.VerifyHostname(host); err != nil {
		return fmt.Errorf("it names no host but by its common name: %w", err)
	}
	return nil
}

// constrained reports whether an issuer may name only some hosts or addresses.
func constrained(c *x509.Certificate) bool {
	return len(c.PermittedDNSDomains)+len(c.ExcludedDNSDomains)+len(c.PermittedIPRanges)+len(c.ExcludedIPRanges) > 0
}

// byCommonName reports whether a certificate names a host by its common name alone.
func byCommonName(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses) == 0 && c.Subject.CommonName != ""
}
