package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	// authorityYears and certificateDays are how long certificates last. Programs accept at
	// most certificateDays.
	authorityYears  = 10
	certificateDays = 825
	// clockSlack is how far another machine's clock may be behind.
	clockSlack = time.Hour
)

// An authority issues the certificates of one ensemble and its clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	text string // the certificate as PEM
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "zooid ensemble"},
		NotBefore: now.Add(-clockSlack), NotAfter: now.AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	return &authority{key, cert, block("CERTIFICATE", raw)}, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b) // never fails (crypto/rand)
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// listBlock is the type of a PEM block with a revocation list.
const listBlock = "X509 CRL"

func block(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func (a *authority) keyText() (string, error) { return keyText(a.key) }

func keyText(key *ecdsa.PrivateKey) (string, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return block("PRIVATE KEY", raw), nil
}

// issue returns a key with its certificate, which names hosts and lasts until an instant, as PEM.
// It is valid for both sides of a connection, since servers dial each other. Without hosts it is
// valid only for clients, and no peer port accepts it.
func (a *authority) issue(name string, hosts []string, now, until time.Time) (string, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSlack), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
	}
	if len(hosts) == 0 {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, strings.ToLower(host))
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return "", nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return "", nil, err
	}
	text, err := keyText(key)
	return text + block("CERTIFICATE", raw), cert, err
}

// revoke returns the authority's revocation list. Its number is one higher than that of last, which may be nil. It
// lasts as long as the authority: servers refuse all certificates once their list is out of date, and no new one is
// written periodically.
func (a *authority) revoke(entries []x509.RevocationListEntry, last *x509.RevocationList, now time.Time) ([]byte,
	error) {
	number := big.NewInt(1)
	if last != nil && last.Number != nil {
		number.Add(last.Number, number)
	}
	raw, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: number, ThisUpdate: now.Add(-clockSlack), NextUpdate: a.cert.NotAfter, RevokedCertificateEntries: entries,
	}, a.cert, a.key)
	if err != nil {
		return nil, fmt.Errorf("make the revocation list: %w", err)
	}
	return []byte(block(listBlock, raw)), nil
}
