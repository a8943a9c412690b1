package keystore

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// parsePEM parses text blocks: a private key, plain or encrypted, and certificates. With a key the certificates are its
// chain; without one they are trusted.
func parsePEM(data []byte, password string) (contents, error) {
	var certs []*x509.Certificate
	var keys []any
	blocks, err := pemBlocks(data)
	if err != nil {
		return contents{}, err
	}
	for _, block := range blocks {
		switch {
		case block.Type == "CERTIFICATE" || block.Type == "X509 CERTIFICATE" || block.Type == "TRUSTED CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return contents{}, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
			}
			certs = append(certs, cert)
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			key, err := pemKey(block, password)
			if err != nil {
				return contents{}, err
			}
			keys = append(keys, key)
		}
	}
	switch {
	case len(keys) > 1:
		return contents{}, errors.New("it holds several private keys; leave one")
	case len(keys) == 1 && len(certs) == 0:
		return contents{}, errors.New("it holds a private key but no certificate; put the key's certificate into the same file")
	case len(keys) == 1:
		return contents{keys: []keyEntry{{keys[0], certs}}}, nil
	case len(certs) == 0:
		return contents{}, errors.New("it holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
	}
	return contents{trusted: certs}, nil
}

// pemBegin matches the line that begins a block, unless the line is a comment. The line may contain other text, such as
// the end of the previous block in files that were joined without a line break.
var pemBegin = regexp.MustCompile(`(?m)^[^#\n]*-----BEGIN `)

// pemBlocks returns the blocks of a PEM file. pem.Decode alone skips blocks that it can't decode: while a file is being
// written, it returns the blocks that are already there, as if the others had been removed.
func pemBlocks(data []byte) (blocks []*pem.Block, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, block)
	}
	if bytes.Count(data, []byte("-----BEGIN ")) == len(blocks) {
		return blocks, nil
	}
	if begun := len(pemBegin.FindAllIndex(data, -1)); begun > len(blocks) {
		return nil, fmt.Errorf("%d of its %d PEM blocks can't be decoded: the file is damaged, cut short or still being written",
			begun-len(blocks), begun)
	}
	return blocks, nil
}

// pemKey parses one private key.
func pemKey(block *pem.Block, password string) (any, error) {
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		var plain []byte
		if plain, err = decryptPKCS8(block.Bytes, password); err == nil {
			key, err = x509.ParsePKCS8PrivateKey(plain)
		}
	case "RSA PRIVATE KEY", "EC PRIVATE KEY":
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("its private key is encrypted in OpenSSL's old way, which is weak; convert it by openssl pkcs8 -topk8")
		}
		if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); block.Type == "EC PRIVATE KEY" {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
	default:
		return nil, fmt.Errorf("its private key is a %.40q, which is not known; convert it by openssl pkcs8 -topk8",
			block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("its private key: %w", err)
	}
	return key, nil
}
