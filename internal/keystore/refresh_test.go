package keystore

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRefresh: a port reads its stores again when told to, though it has just looked at them, and keeps those read
// before if that fails.
func TestRefresh(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.pem")
	put := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	put(read("server.pem"))
	p, err := NewPort(Options{Keys: Store{Location: file, Password: "apassword"}, ClientAuth: "none"})
	if err != nil {
		t.Fatal(err)
	}
	p.checkEvery = time.Hour
	p.checked = time.Now()
	shown := func() []byte {
		t.Helper()
		cfg, err := p.Config().GetConfigForClient(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Certificates[0].Certificate[0]
	}
	first := shown()
	put([]byte("garbage"))
	if err := p.Refresh(); err == nil || !p.Unreadable() {
		t.Errorf("garbage: %v, and it can be read: %t", err, !p.Unreadable())
	}
	if !bytes.Equal(shown(), first) {
		t.Error("after garbage it shows another certificate")
	}
	put(read("client.pem"))
	if err := p.Refresh(); err != nil || p.Unreadable() {
		t.Errorf("%v, and it can be read: %t", err, !p.Unreadable())
	}
	put([]byte("garbage"))
	for p.checkEvery = 0; !p.Unreadable(); {
		shown() // as for each connection
	}
	put(read("client.pem"))
	for p.Unreadable() {
		shown()
	}
	if bytes.Equal(shown(), first) {
		t.Error("after Refresh it shows the old certificate")
	}
}

// TestRefreshLists: Refresh returns an error if the file of revocation lists can't be read, or has an older list than
// before. The stores are read all the same.
func TestRefreshLists(t *testing.T) {
	t.Parallel()
	a, other := newTestAuthority(t), newTestAuthority(t)
	made := func(of *testAuthority, age time.Duration) []byte {
		t.Helper()
		now := time.Now()
		l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-age), NextUpdate: now.Add(time.Hour)}
		b, err := x509.CreateRevocationList(rand.Reader, l, of.cert, of.key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: b})
	}
	first, second, theirs := made(a, time.Hour), made(a, time.Minute), made(other, 2*time.Hour)
	file := filepath.Join(t.TempDir(), "lists.pem")
	put := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	p, err := NewPort(Options{
		Keys:       Store{Location: filepath.Join("testdata", "server.pem"), Password: "apassword"},
		ClientAuth: "none", CRLFile: file,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"the same", first, ""}, {"another issuer's too", append(bytes.Clone(theirs), first...), ""}, {"newer", second, ""},
		{"older", first, "is older than the one before"}, {"older still", first, "is older than the one before"},
		{"older beside the newer one", append(bytes.Clone(first), second...), ""},
		{"garbage", []byte("x"), "read revocation lists"}, {"none", second, ""},
	} {
		put(c.content)
		if err := p.Refresh(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			p.Unreadable() {
			t.Errorf("%s: %v, want %q; the stores can be read: %t", c.name, err, c.want, !p.Unreadable())
		}
	}
}

// TestEnds: the first certificate that ends counts, of those that are shown and of those that are trusted, as read
// last.
func TestEnds(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	in := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	first, second := certificate(t, in(70), nil, nil), certificate(t, in(60), nil, nil)
	leaf := certificate(t, in(80), nil, second)
	keys, trust := pemStore(t, true, leaf, second), pemStore(t, false, first, second, leaf)
	p, err := NewPort(Options{Keys: keys, Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	want := func(shown, trusted time.Time) {
		t.Helper()
		if gotShown, gotTrusted := p.Ends(); !gotShown.Equal(shown) || !gotTrusted.Equal(trusted) {
			t.Errorf("they end %v and %v, want %v and %v", gotShown, gotTrusted, shown, trusted)
		}
	}
	want(in(60), in(60)) // the issuer of the leaf, which is sent with it
	p.checkEvery = 0
	other, err := os.ReadFile(pemStore(t, true, certificate(t, in(-1), nil, first)).Location)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys.Location, other, 0o600); err != nil {
		t.Fatal(err)
	}
	want(in(-1), in(60))
	if p, err = NewPort(Options{Keys: keys, ClientAuth: "none"}); err != nil {
		t.Fatal(err)
	}
	want(in(-1), time.Time{})
}
