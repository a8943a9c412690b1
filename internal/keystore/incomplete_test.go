package keystore

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestIncompletePEM: a store of which a block can't be decoded is refused as a whole. Without the block, a trust store
// that is being written would reject the clients of the issuers that are still missing.
func TestIncompletePEM(t *testing.T) {
	t.Parallel()
	one, err := os.ReadFile("testdata/trust.pem")
	if err != nil {
		t.Fatal(err)
	}
	two := append(bytes.Clone(one), one...)
	bare, text := bytes.TrimSpace(one), []byte("text\n")
	for _, c := range []struct {
		name    string
		data    []byte
		trusted int // 0 for an error
	}{
		{"two", two, 2},
		{"text before, between and behind", bytes.Join([][]byte{text, one, one, text}, text), 2},
		{"line ends of Windows", bytes.ReplaceAll(two, []byte("\n"), []byte("\r\n")), 2},
		{"one in a comment", append([]byte("# -----BEGIN CERTIFICATE----- and so on\n"), one...), 1},
		{"cut in the second block", two[:len(two)-100], 0},
		{"cut in the second end line", two[:len(two)-10], 0},
		{"cut behind the second begin line", two[:len(one)+len("-----BEGIN CERTIFICATE-----\n")], 0},
		{"damage in the first block", append(bytes.Replace(one, []byte("\nMII"), []byte("\nM*I"), 1), one...), 0},
		{"no line break between the blocks", bytes.Join([][]byte{bare, bare, one}, nil), 0},
		{"a byte order mark before the first block", append([]byte("\ufeff"), two...), 0},
	} {
		file := filepath.Join(t.TempDir(), "trust.pem")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Store{Location: file}.trusted()
		switch {
		case c.trusted > 0 && (err != nil || len(got.certs) != c.trusted):
			t.Errorf("%s: %v, %v; want %d certificates", c.name, got, err, c.trusted)
		case c.trusted == 0 && (err == nil || !strings.Contains(err.Error(), "PEM blocks can't be decoded")):
			t.Errorf("%s: %v, want an error about its blocks", c.name, err)
		}
	}
}

// TestIncompleteStores: the error for a store that is cut anywhere, within its key too, says that it may be cut, not
// only that its password is wrong or that it has the wrong content.
func TestIncompleteStores(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"server.p12", "server-keytool.p12", "trust.p12", "server.jks", "client.pem"} {
		whole, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		s := Store{Location: filepath.Join(t.TempDir(), name), Password: "changeit"}
		for _, size := range []int{100, len(whole) / 4, len(whole) / 2, len(whole) - 60} {
			if err := os.WriteFile(s.Location, whole[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.load(); err == nil || !strings.Contains(err.Error(), "cut short") ||
				strings.Contains(err.Error(), "neither a key") {
				t.Errorf("%d of %d bytes: %v", size, len(whole), err)
			}
		}
	}
}

// TestIncompleteLists: a certificate isn't accepted by an older list while the newer one, which revokes it, is being
// written behind it.
func TestIncompleteLists(t *testing.T) {
	t.Parallel()
	a := newTestAuthority(t)
	cert := a.issue(true, false).Leaf
	list := func(number int64, revoked ...x509.RevocationListEntry) []byte {
		l := &x509.RevocationList{
			Number: big.NewInt(number), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour),
			RevokedCertificateEntries: revoked,
		}
		b, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: b})
	}
	older := list(1)
	newer := list(2, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now()})
	both := append(older, newer...)
	for _, c := range []struct {
		size int
		want error
	}{{len(older), nil}, {len(older) + 100, errUnknown}, {len(both) - 10, errUnknown}, {len(both), errRevoked}} {
		file := filepath.Join(t.TempDir(), "lists.pem")
		if err := os.WriteFile(file, both[:c.size], 0o600); err != nil {
			t.Fatal(err)
		}
		err := newRevocation(false, false, file).check([][]*x509.Certificate{{cert, a.cert}}, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("the first %d of %d bytes: %v, want %v", c.size, len(both), err, c.want)
		}
	}
}
