package keystore

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate makes a certificate of localhost and its key; issuer nil makes it sign itself.
func certificate(t *testing.T, ends time.Time, usage []x509.ExtKeyUsage, issuer *tls.Certificate) *tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: ends, Subject: pkix.Name{
			CommonName: "c",
		},
		DNSNames: []string{"localhost"}, ExtKeyUsage: usage, BasicConstraintsValid: true, IsCA: issuer == nil,
	}
	parent, signer := template, any(private)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}
}

// pemStore writes certificates to a file, and with key the first one's key.
func pemStore(t *testing.T, key bool, certs ...*tls.Certificate) Store {
	t.Helper()
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})...)
	}
	if key {
		der, err := x509.MarshalPKCS8PrivateKey(certs[0].PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	}
	s := Store{Location: filepath.Join(t.TempDir(), "store.pem")}
	if err := os.WriteFile(s.Location, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestExpiredCertificates: a certificate whose time is over counts if it is in the trust store itself, as in Java, on
// both sides of a connection; nothing else about it may be wrong.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := certificate(t, future, nil, nil)
	old := certificate(t, past, both, ca)
	alike := certificate(t, past, both, ca) // with the same names and another key
	fresh := certificate(t, future, both, ca)
	signing := certificate(t, past, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, ca)
	for _, c := range []struct {
		name  string
		shows *tls.Certificate
		trust []*tls.Certificate
		ok    bool
	}{
		{"of a known issuer", fresh, []*tls.Certificate{ca}, true},
		{"expired, of a known issuer", old, []*tls.Certificate{ca}, false},
		{"expired and in the store", old, []*tls.Certificate{old}, true},
		{"expired and in the store, with its issuer", old, []*tls.Certificate{ca, old}, true},
		{"another with the names of one in the store", alike, []*tls.Certificate{old}, false},
		{"for another use, and in the store", signing, []*tls.Certificate{signing}, false},
		{"in the store, which has not its issuer", fresh, []*tls.Certificate{fresh}, true},
	} {
		trust := pemStore(t, false, c.trust...)
		p, err := NewPort(Options{Keys: pemStore(t, true, fresh), Trust: trust})
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(ca.Leaf)
		_, clientErr, serverErr := connect(t, p, &tls.Config{RootCAs: pool, ServerName: "localhost",
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.shows, nil }})
		if (clientErr == nil && serverErr == nil) != c.ok {
			t.Errorf("a client's certificate, %s: client %v, server %v", c.name, clientErr, serverErr)
		}
		server, err := NewPort(Options{Keys: pemStore(t, true, c.shows), Trust: pemStore(t, false, ca)})
		if err != nil {
			t.Fatal(err)
		}
		for _, verifyHost := range []bool{false, true} {
			_, clientErr, serverErr = connect(t, server, p.Dialled("localhost", verifyHost))
			if (clientErr == nil && serverErr == nil) != c.ok {
				t.Errorf("a server's certificate, %s, its host verified %v: dialler %v, server %v", c.name, verifyHost, clientErr,
					serverErr)
			}
		}
	}
}
