package keystore

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"fmt"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
)

// parseJKS parses Java's own format. The keys must have the password of the store, as in Apache.
func parseJKS(data []byte, password string) (contents, error) {
	secret := latin1(password)
	if !intact(data, secret) {
		return contents{}, errWrongPassword
	}
	store := jks.New(jks.WithOrderedAliases(), jks.WithCaseExactAliases())
	if err := store.Load(bytes.NewReader(data), secret); err != nil {
		return contents{}, err
	}
	var c contents
	for _, alias := range store.Aliases() {
		if store.IsTrustedCertificateEntry(alias) {
			entry, err := store.GetTrustedCertificateEntry(alias)
			if err != nil {
				return contents{}, fmt.Errorf("entry %q: %w", alias, err)
			}
			cert, err := x509.ParseCertificate(entry.Certificate.Content)
			if err != nil {
				return contents{}, fmt.Errorf("entry %q: %w", alias, err)
			}
			c.trusted = append(c.trusted, cert)
			continue
		}
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := jksKey(store, alias, secret)
		if err != nil {
			return contents{}, fmt.Errorf("entry %q: %w", alias, err)
		}
		c.keys = append(c.keys, entry)
	}
	return c, nil
}

// intact checks the digest at the end of a store, which also covers the password, before anything else is read: the
// library allocates memory by the store's counts, so a damaged or incomplete file could exhaust memory.
//
//	store := entries | SHA-1(password in UTF-16 | "Mighty Aphrodite" | entries)
func intact(data, secret []byte) bool {
	if len(data) < sha1.Size {
		return false
	}
	h := sha1.New()
	for _, c := range secret {
		h.Write([]byte{0, c})
	}
	h.Write([]byte("Mighty Aphrodite"))
	entries := data[:len(data)-sha1.Size]
	h.Write(entries)
	return subtle.ConstantTimeCompare(h.Sum(nil), data[len(entries):]) == 1
}

func jksKey(store jks.KeyStore, alias string, secret []byte) (keyEntry, error) {
	entry, err := store.GetPrivateKeyEntry(alias, secret)
	if err != nil {
		return keyEntry{}, fmt.Errorf("%w (a key must have the same password as its store)", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
	if err != nil {
		return keyEntry{}, err
	}
	e := keyEntry{key: key}
	for _, raw := range entry.CertificateChain {
		cert, err := x509.ParseCertificate(raw.Content)
		if err != nil {
			return keyEntry{}, err
		}
		e.chain = append(e.chain, cert)
	}
	return e, nil
}

// latin1 returns one byte per character, which the JKS library widens to Java's two bytes. A password with other
// characters can't match any JKS store that the library can read.
func latin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		b = append(b, byte(r))
	}
	return b
}
