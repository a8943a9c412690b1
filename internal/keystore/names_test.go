package keystore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// named issues a certificate with a common name and other names, some of which its issuer may have been denied.
func named(t *testing.T, name string, hosts []string, issuer *tls.Certificate, permitted ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		IsCA: issuer == nil || len(permitted) > 0, PermittedDNSDomains: permitted,
	}
	parent, signer := template, any(key)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestCommonNames(t *testing.T) {
	t.Parallel()
	ca := named(t, "ca", nil, nil)
	for _, c := range []struct {
		name, host string
		hosts      []string
		counts, ok bool
	}{
		{"zk1.example", "zk1.example", nil, true, true},
		{"ZK1.Example", "zk1.example", nil, true, true},
		{"zk1.example", "zk2.example", nil, true, false},
		{"*.example", "zk1.example", nil, true, true},
		{"*.example", "a.zk1.example", nil, true, false},
		{"*", "zk1", nil, true, false},
		{"10.0.0.1", "10.0.0.1", nil, true, true},
		{"10.0.0.1", "10.0.0.2", nil, true, false},
		{"zk1.example", "zk1.example", []string{"other.example"}, true, false}, // names, so that the common one is none
		{"", "zk1.example", nil, true, false},
		{"zk1.example", "zk1.example", nil, false, false},
		{"", "zk1.example", []string{"zk1.example"}, false, true},
	} {
		chain := []*x509.Certificate{named(t, c.name, c.hosts, ca).Leaf, ca.Leaf}
		if err := NamesHost(chain, nil, c.host, c.counts); (err == nil) != c.ok {
			t.Errorf("%q and %q for %s, common names count %t: %v", c.name, c.hosts, c.host, c.counts, err)
		}
	}
}

// TestCommonNameBesideConstraints: an issuer that may name hosts of dev alone can't name others by common names.
func TestCommonNameBesideConstraints(t *testing.T) {
	t.Parallel()
	ca := named(t, "ca", nil, nil)
	dev := named(t, "dev", nil, ca, "dev")
	leaf := named(t, "zk1.prod", nil, dev).Leaf
	for _, c := range [][2][]*x509.Certificate{{{leaf, dev.Leaf}, {ca.Leaf}}, {{leaf}, {ca.Leaf, dev.Leaf}}} {
		if err := NamesHost(c[0], c[1], "zk1.prod", true); err == nil || !strings.Contains(err.Error(), "only some hosts") {
			t.Errorf("a chain of %d: %v", len(c[0]), err)
		}
	}
}

// TestServersByCommonName: servers whose certificates have a common name alone connect, unless that is turned off.
func TestServersByCommonName(t *testing.T) {
	t.Parallel()
	ca := named(t, "ca", nil, nil)
	server := named(t, "localhost", nil, ca)
	for _, counts := range []bool{true, false} {
		p, err := NewPort(Options{
			Keys: pemStore(t, true, server), Trust: pemStore(t, false, ca), CommonName: counts,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, clientErr, serverErr := connect(t, p, p.Dialled("localhost", true))
		if (clientErr == nil) != counts {
			t.Errorf("common names count %t: dialling: %v, %v", counts, clientErr, serverErr)
		}
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{server.Leaf}}
		if err := p.VerifyPeer(context.Background(), state, []string{"localhost"}); (err == nil) != counts {
			t.Errorf("common names count %t: a peer that connects: %v", counts, err)
		}
		chain := []*x509.Certificate{named(t, "127.0.0.1", nil, ca).Leaf}
		at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
		if err := p.verifyAddr(context.Background(), at, chain); (err == nil) != counts {
			t.Errorf("common names count %t: a client: %v", counts, err)
		}
		if told := strings.Contains(strings.Join(p.Notes(), "\n"), "common name"); !told {
			t.Errorf("common names count %t: notes %q", counts, p.Notes())
		}
	}
}

// TestSystemTrust: without a trust store, a client port starts as in Apache, and doesn't trust a stranger's issuer.
func TestSystemTrust(t *testing.T) {
	t.Parallel()
	ca := named(t, "ca", nil, nil)
	keys := pemStore(t, true, named(t, "", []string{"localhost"}, ca))
	if _, err := NewPort(Options{Keys: keys}); err == nil || !strings.Contains(err.Error(), "trust store") {
		t.Errorf("a port that must have a trust store: %v", err)
	}
	p, err := NewPort(Options{Keys: keys, SystemTrust: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes()) != 1 || !strings.Contains(p.Notes()[0], "no trust store") {
		t.Errorf("notes %q", p.Notes())
	}
	if err := p.Check([]*x509.Certificate{named(t, "client", nil, ca).Leaf}); err == nil {
		t.Error("an authority that the system doesn't know counts")
	}
	if _, err := NewPort(Options{Keys: keys, SystemTrust: true, ClientAuth: "none"}); err != nil {
		t.Errorf("without certificates of clients: %v", err)
	}
}
