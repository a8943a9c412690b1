package keystore

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// storeBytesMax bounds a store's size. Java's own trust store has 200 KB.
const storeBytesMax = 16 << 20

// The types of store. The names are those of the ssl.keyStore.type key.
const (
	typeJKS    = "JKS"
	typePKCS12 = "PKCS12"
	typePEM    = "PEM"
	typeBCFKS  = "BCFKS"
)

// A Store names a file of keys or certificates.
type Store struct {
	Location     string
	Password     string
	PasswordPath string // a file with the password, which replaces Password; "" for none
	Type         string // JKS, PKCS12 or PEM; "" means that the file's extension decides
}

// ByName returns the store with the type PEM, unless its file's name says otherwise: for tools, whose users name files
// of any extension.
func (s Store) ByName() Store {
	switch strings.ToLower(filepath.Ext(s.Location)) {
	case ".jks", ".p12", ".pfx", ".bcfks":
	default:
		s.Type = typePEM
	}
	return s
}

// contents is the content of a store.
type contents struct {
	keys    []keyEntry
	trusted []*x509.Certificate // certificates without a key
}

// keyEntry is a private key with its certificate, followed by those of its issuers.
type keyEntry struct {
	key   any
	chain []*x509.Certificate
}

// load reads a store.
func (s Store) load() (contents, error) {
	kind, err := s.kind()
	if err != nil {
		return contents{}, err
	}
	password, err := s.password()
	if err != nil {
		return contents{}, err
	}
	data, err := readFile(s.Location, storeBytesMax)
	if err != nil {
		return contents{}, err
	}
	var c contents
	switch {
	case kind == typePEM:
		c, err = parsePEM(data, password)
	case isJKS(data): // of either type, as in Java
		c, err = parseJKS(data, password)
	default:
		c, err = parsePKCS12(data, password)
	}
	if err != nil {
		return contents{}, fmt.Errorf("read the %s store %s: %w", kind, s.Location, err)
	}
	return c, nil
}

// kind returns the store's type.
func (s Store) kind() (string, error) {
	kind := strings.ToUpper(s.Type)
	if kind == "" {
		switch strings.ToLower(filepath.Ext(s.Location)) {
		case ".jks":
			kind = typeJKS
		case ".p12", ".pfx":
			kind = typePKCS12
		case ".pem":
			kind = typePEM
		case ".bcfks":
			kind = typeBCFKS
		default:
			return "", fmt.Errorf("read the store %s: its extension is none of .jks, .p12, .pem; set the store's type",
				s.Location)
		}
	}
	switch kind {
	case typeJKS, typePKCS12, typePEM:
		return kind, nil
	case typeBCFKS:
		return "", fmt.Errorf("read the store %s: BCFKS is a format of a Java cryptography library that nothing else reads; convert the store by keytool -importkeystore -deststoretype PKCS12",
			s.Location)
	}
	return "", fmt.Errorf("read the store %s: unknown type %q; allowed: JKS, PKCS12, PEM", s.Location, s.Type)
}

// passwordBytesMax bounds a password file's size.
const passwordBytesMax = 4 << 10

// password returns the store's password, from its file if it has one. It removes a line end at the end of the file.
func (s Store) password() (string, error) {
	if s.PasswordPath == "" {
		return s.Password, nil
	}
	text, err := readFile(s.PasswordPath, passwordBytesMax)
	if err != nil {
		return "", fmt.Errorf("read the password of the store %s: %w", s.Location, err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > limit {
		return nil, fmt.Errorf("read %s: it isn't a regular file of at most %d bytes", path, limit)
	}
	return os.ReadFile(path)
}

// Errors of all formats.
var (
	errNoKey         = errors.New("it holds no private key with its certificate")
	errWrongPassword = errors.New("the password is wrong, or the file is damaged, cut short or still being written")
)

// isJKS reports whether a store begins with the magic number of JKS.
func isJKS(data []byte) bool { return bytes.HasPrefix(data, []byte{0xfe, 0xed, 0xfe, 0xed}) }
