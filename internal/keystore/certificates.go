package keystore

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Certificates reads a key store. It returns at least one key, with its chain of certificates, in the order of their
// names.
func (s Store) Certificates() ([]tls.Certificate, error) {
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	var certs []tls.Certificate
	for _, k := range c.keys {
		cert, err := k.certificate()
		if err != nil {
			return nil, fmt.Errorf("read the key store %s: %w", s.Location, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("read the key store %s: %w", s.Location, errNoKey)
	}
	return certs, nil
}

// certificate returns a key with its chain. It puts the key's own certificate first, since not every tool does.
func (k keyEntry) certificate() (tls.Certificate, error) {
	signer, ok := k.key.(crypto.Signer)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("a private key of type %T can't sign; use RSA, ECDSA or Ed25519", k.key)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return tls.Certificate{}, fmt.Errorf("a private key of type %T is not known; use RSA, ECDSA or Ed25519", k.key)
	}
	own := slices.IndexFunc(k.chain, func(c *x509.Certificate) bool { return public.Equal(c.PublicKey) })
	if own < 0 {
		return tls.Certificate{}, fmt.Errorf("none of its %d certificates belongs to its private key", len(k.chain))
	}
	cert := tls.Certificate{PrivateKey: k.key, Leaf: k.chain[own], Certificate: [][]byte{k.chain[own].Raw}}
	for i, issuer := range k.chain {
		if i != own {
			cert.Certificate = append(cert.Certificate, issuer.Raw)
		}
	}
	return cert, nil
}

// Pool reads a trust store and returns its trusted issuers: all certificates without a key and, as in Java, those of
// keys.
func (s Store) Pool() (*x509.CertPool, error) {
	t, err := s.trusted()
	if err != nil {
		return nil, err
	}
	return t.pool, nil
}

// trusted is the content of a trust store.
type trusted struct {
	pool  *x509.CertPool
	certs []*x509.Certificate
}

func (s Store) trusted() (*trusted, error) {
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	for _, k := range c.keys {
		c.trusted = append(c.trusted, k.chain[:min(1, len(k.chain))]...)
	}
	if len(c.trusted) == 0 {
		return nil, fmt.Errorf("read the trust store %s: it holds no certificates", s.Location)
	}
	t := &trusted{x509.NewCertPool(), c.trusted}
	for _, cert := range c.trusted {
		t.pool.AddCert(cert)
	}
	return t, nil
}

// verify checks the certificates that the other side presented: the first must come from an issuer in the store. As in
// Java, a certificate that is itself in the store is accepted at any time, even if it has expired: it is trusted
// explicitly until it is removed from the store. No certificate may be revoked. stapled is the OCSP response that the
// other side presented, if any.
func (t *trusted) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, revoked *revocation, stapled []byte) error {
	if len(chain) == 0 {
		return errors.New("the other side shows no certificate")
	}
	cert := chain[0]
	opt := x509.VerifyOptions{Roots: t.pool, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range chain[1:] {
		opt.Intermediates.AddCert(c)
	}
	if slices.ContainsFunc(t.certs, cert.Equal) {
		opt.CurrentTime = cert.NotAfter
	}
	chains, err := cert.Verify(opt)
	if err != nil {
		return err
	}
	return revoked.check(chains, stapled)
}
