package keystore

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// parsePKCS12 parses a store with one key and its certificates, or with certificates that Java's keytool has marked as
// trusted.
func parsePKCS12(data []byte, password string) (contents, error) {
	key, leaf, issuers, keyErr := pkcs12.DecodeChain(data, password)
	if keyErr == nil {
		return contents{keys: []keyEntry{{key, append([]*x509.Certificate{leaf}, issuers...)}}}, nil
	}
	trusted, err := pkcs12.DecodeTrustStore(data, password)
	switch {
	case err == nil:
		return contents{trusted: trusted}, nil
	case errors.Is(keyErr, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrIncorrectPassword):
		return contents{}, errWrongPassword
	}
	var store asn1.RawValue
	if _, err := asn1.Unmarshal(data, &store); err != nil {
		return contents{}, fmt.Errorf("it is damaged, cut short or still being written, or isn't a PKCS12 store: %w", err)
	}
	return contents{}, errors.Join(
		errors.New("it is neither a key with its certificates nor certificates imported as trusted by keytool"), keyErr, err)
}
