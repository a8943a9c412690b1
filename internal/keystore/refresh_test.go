package keystore

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
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
