package keystore

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
)

const password = "apassword" // of the stores that testdata/make.sh makes

func stored(name string) Store {
	return Store{Location: filepath.Join("testdata", name), Password: password}
}

// TestCertificates reads the same key from stores of all kinds.
func TestCertificates(t *testing.T) {
	t.Parallel()
	want, err := stored("server.pem").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	for name, chain := range map[string]int{
		"server.pem": 2, "server-encrypted.pem": 1, "server-old.pem": 1, "server.p12": 2, "server-keytool.p12": 2,
		"server.jks": 2, "really-pkcs12.jks": 2,
	} {
		certs, err := stored(name).Certificates()
		if err != nil {
			t.Error(err)
			continue
		}
		if len(certs) != 1 || len(certs[0].Certificate) != chain || !bytes.Equal(certs[0].Leaf.Raw, want[0].Leaf.Raw) {
			t.Errorf("%s: %d keys, the first with %d certificates, want 1 with %d, of localhost", name, len(certs),
				len(certs[0].Certificate), chain)
		}
		if !certs[0].PrivateKey.(*ecdsa.PrivateKey).Equal(want[0].PrivateKey) {
			t.Errorf("%s: another private key", name)
		}
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	want, err := stored("trust.pem").Pool()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trust.jks", "trust.p12"} {
		pool, err := stored(name).Pool()
		if err != nil || !pool.Equal(want) {
			t.Errorf("%s: not the pool of trust.pem: %v", name, err)
		}
	}
	// The certificate of a key counts too, its issuers in the same store don't.
	for _, name := range []string{"server.jks", "server.p12"} {
		pool, err := stored(name).Pool()
		if err != nil {
			t.Error(err)
			continue
		}
		only := x509.NewCertPool()
		certs, _ := stored(name).Certificates()
		only.AddCert(certs[0].Leaf)
		if !pool.Equal(only) {
			t.Errorf("%s: the pool is not the key's certificate alone", name)
		}
	}
}

// alteredKey returns a copy of server-old.pem with some bytes of its key replaced.
func alteredKey(t *testing.T, old, instead []byte) string {
	t.Helper()
	text, err := os.ReadFile("testdata/server-old.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(text)
	if !bytes.Contains(block.Bytes, old) {
		t.Fatalf("no % x in the key", old)
	}
	block.Bytes = bytes.Replace(block.Bytes, old, instead, 1)
	path := filepath.Join(t.TempDir(), "altered.pem")
	if err := os.WriteFile(path, append(pem.EncodeToMemory(block), rest...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	wrong := func(s Store) Store { s.Password = "a wrong secret"; return s }
	typed := func(s Store, kind string) Store { s.Type = kind; return s }
	damaged := filepath.Join(t.TempDir(), "damaged.jks")
	good, err := os.ReadFile("testdata/server.jks")
	if err != nil {
		t.Fatal(err)
	}
	good[100] ^= 1
	if err := os.WriteFile(damaged, good, 0o600); err != nil {
		t.Fatal(err)
	}
	rc2 := alteredKey(t, []byte{12, 1, 3}, []byte{12, 1, 6})
	endless := alteredKey(t, []byte{2, 2, 8, 0}, []byte{2, 2, 0x80, 0}) // 2048 iterations to a negative number
	for _, c := range []struct {
		store Store
		want  string
	}{
		{stored("missing.jks"), "no such file"},
		{stored("make.sh"), "set the store's type"},
		{typed(stored("trust.pem"), "DKS"), "unknown type"},
		{typed(stored("trust.pem"), "BCFKS"), "convert the store by keytool"},
		{stored("store.bcfks"), "BCFKS is a format"},
		{wrong(stored("server.jks")), "password is wrong"},
		{wrong(stored("server.p12")), "password is wrong"},
		{wrong(stored("server-keytool.p12")), "password is wrong"},
		{wrong(stored("trust.p12")), "password is wrong"},
		{wrong(stored("server-encrypted.pem")), "password is wrong"},
		{wrong(stored("server-old.pem")), "password is wrong"},
		{Store{Location: rc2, Password: password}, "convert it by openssl pkcs8"},
		{Store{Location: endless, Password: password}, "iterations"},
		{stored("untrusted.p12"), "neither a key"},
		{stored("trust.pem"), "no private key"},
		{stored("trust.jks"), "no private key"},
		{typed(stored("server.jks"), "PEM"), "no certificate in PEM form"},
		{typed(stored("server.pem"), "JKS"), "neither a key"},
		{Store{Location: damaged, Password: password}, "the file is damaged"},
		{Store{Location: "testdata", Type: "PEM"}, "isn't a regular file"},
		{Store{Location: "testdata/server.jks", PasswordPath: "testdata/missing"},
			"read the password of the store testdata/server.jks"},
	} {
		_, err := c.store.Certificates()
		switch {
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s (%s): %v, want %q", c.store.Location, c.store.Type, err, c.want)
		case !strings.Contains(err.Error(), c.store.Location):
			t.Errorf("the error does not name the file %s: %v", c.store.Location, err)
		case strings.Contains(err.Error(), c.store.Password) && c.store.Password != "":
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestPasswordPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Store{Location: "testdata/server.jks", Password: "not this one", PasswordPath: file}
	if _, err := s.Certificates(); err != nil {
		t.Error(err)
	}
}

// TestChainOrder: the key's certificate comes first wherever the store has it.
func TestChainOrder(t *testing.T) {
	t.Parallel()
	certs, err := stored("server.pem").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(certs[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, leaf := certs[0].Certificate[1], certs[0].Certificate[0]
	write := func(chain ...[]byte) Store {
		text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		for _, c := range chain {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
		}
		file := filepath.Join(t.TempDir(), "chain.pem")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return Store{Location: file}
	}
	got, err := write(ca, leaf).Certificates()
	if err != nil || !bytes.Equal(got[0].Certificate[0], leaf) || len(got[0].Certificate) != 2 {
		t.Errorf("issuer first: %v", err)
	}
	if _, err := write(ca).Certificates(); err == nil || !strings.Contains(err.Error(), "belongs to its private key") {
		t.Errorf("issuer alone: %v", err)
	}
	if _, err := write().Certificates(); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("key alone: %v", err)
	}
}

// TestSeveralKeys: a JKS may hold several, under names that differ in case.
func TestSeveralKeys(t *testing.T) {
	t.Parallel()
	certs, err := stored("server.pem").Certificates()
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(certs[0].PrivateKey)
	ks := jks.New(jks.WithCaseExactAliases())
	for _, alias := range []string{"one", "ONE", "two"} {
		entry := jks.PrivateKeyEntry{
			PrivateKey: der, CertificateChain: []jks.Certificate{{Type: "X.509", Content: certs[0].Certificate[0]}},
		}
		if err := ks.SetPrivateKeyEntry(alias, entry, latin1("pässword")); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := ks.Store(&file, latin1("pässword")); err != nil {
		t.Fatal(err)
	}
	c, err := parseJKS(file.Bytes(), "pässword")
	if err != nil || len(c.keys) != 3 {
		t.Errorf("%d keys, %v; want 3", len(c.keys), err)
	}
}

// TestDamagedJKS cuts a store off at each byte, and changes each: what counts the
// entries and certificates too.
func TestDamagedJKS(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/server.jks")
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0xff
		for _, data := range [][]byte{bad, good[:i]} {
			if _, err := parseJKS(data, password); !errors.Is(err, errWrongPassword) {
				t.Fatalf("byte %d of %d: %v", i, len(data), err)
			}
		}
	}
}

// FuzzParse: no store, however broken, is a crash.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"server.jks", "trust.jks", "server.p12", "trust.p12", "server-encrypted.pem"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := parsePEM(data, password); err == nil && len(c.keys)+len(c.trusted) == 0 {
			t.Fatal("a PEM store without contents is no error")
		}
		if isJKS(data) {
			parseJKS(data, password)
		} else {
			parsePKCS12(data, password)
		}
	})
}

// TestStoreBytesMax: a store and a file with its password may be as large as their limits, and no larger.
func TestStoreBytesMax(t *testing.T) {
	t.Parallel()
	pem, err := os.ReadFile("testdata/server.pem")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := Store{Location: filepath.Join(dir, "keys.pem"), PasswordPath: filepath.Join(dir, "password")}
	for _, c := range []struct {
		store, password int
		ok              bool
	}{
		{storeBytesMax, passwordBytesMax, true}, {storeBytesMax + 1, passwordBytesMax, false},
		{storeBytesMax, passwordBytesMax + 1, false},
	} {
		padded := append(bytes.Clone(pem), bytes.Repeat([]byte("\n"), c.store-len(pem))...)
		password := "apassword" + strings.Repeat("\n", c.password-len("apassword"))
		if err := errors.Join(os.WriteFile(s.Location, padded, 0o600),
			os.WriteFile(s.PasswordPath, []byte(password), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.load(); (err == nil) != c.ok {
			t.Errorf("a store of %d bytes, and a password of %d: %v", c.store, c.password, err)
		}
	}
}
