package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ocsp"
)

// stapled adds the OCSP response in a DER file to the certificate that it is for. It returns the time until which the
// response may be presented. Clients that ask for it needn't ask the issuer.
func stapled(certs []tls.Certificate, file string) (with []tls.Certificate, until time.Time, err error) {
	if file == "" {
		return certs, until, nil
	}
	b, err := readFile(file, ocspBytesMax)
	if err != nil {
		return nil, until, fmt.Errorf("read the OCSP answer about the server's certificate: %w", err)
	}
	with = slices.Clone(certs)
	for i := range with {
		leaf, issuer, parseErr := ends(&with[i])
		if parseErr != nil {
			return nil, until, parseErr
		}
		answer, answerErr := ocsp.ParseResponseForCert(b, leaf, issuer)
		if answerErr != nil {
			err = answerErr
			continue
		}
		if answer.SerialNumber.Cmp(leaf.SerialNumber) != 0 || answer.Status != ocsp.Good {
			err = fmt.Errorf("it doesn't say that the certificate of %q is good", leaf.Subject.String())
			continue
		}
		with[i].OCSPStaple = b
		if until = answer.NextUpdate; until.IsZero() {
			until = answer.ThisUpdate.Add(answerLasts)
		}
		return with, until, nil
	}
	return nil, until, fmt.Errorf("use the OCSP answer in %s: %w; have one made by openssl ocsp -respout, for the certificate in the key store",
		file, err)
}

// ends returns a certificate and its issuer, which is nil if the chain has only one certificate.
func ends(c *tls.Certificate) (leaf, issuer *x509.Certificate, err error) {
	if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil || len(c.Certificate) < 2 {
		return leaf, nil, err
	}
	issuer, err = x509.ParseCertificate(c.Certificate[1])
	return leaf, issuer, err
}
