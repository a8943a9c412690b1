package keystore

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
)

// NamesHost returns nil if the first certificate of a chain names host. With commonName, a certificate without names of
// hosts or addresses names the host in its subject's common name, as in Apache. crypto/x509 doesn't apply an issuer's
// constraints on names to common names. So the common name doesn't count if the chain or the trust store's
// certificates, issuers, include an issuer with such constraints.
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

// byCommonName reports whether a certificate names a host only by its common name.
func byCommonName(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses) == 0 && c.Subject.CommonName != ""
}
