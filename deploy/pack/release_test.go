package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// keyFile writes a new key into a file, made at a time and valid for some seconds, 0 for ever.
func keyFile(t *testing.T, at time.Time, seconds uint32, public bool, passphrase string) string {
	t.Helper()
	config := &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, KeyLifetimeSecs: seconds, Time: func() time.Time { return at },
	}
	e, err := openpgp.NewEntity("test", "", "", config)
	if err != nil {
		t.Fatal(err)
	}
	block, write := openpgp.PrivateKeyType, func(w io.Writer) error { return e.SerializePrivateWithoutSigning(w, nil) }
	if public {
		block, write = openpgp.PublicKeyType, e.Serialize
	} else if passphrase != "" {
		if err := e.EncryptPrivateKeys([]byte(passphrase), config); err != nil {
			t.Fatal(err)
		}
	}
	text, err := armored(block, write)
	file := filepath.Join(t.TempDir(), "key.asc")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSigner: only a valid secret key signs, with its passphrase; a signature is as old as the commit, or as the key.
func TestSigner(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	long := now.Add(-1000 * time.Hour)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("-----BEGIN PGP"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	right := keyFile(t, long, 0, false, "")
	for name, c := range map[string]struct{ file, passphrase, want string }{
		"right":            {right, "", ""},
		"with passphrase":  {keyFile(t, long, 0, false, "words"), "words", ""},
		"wrong passphrase": {keyFile(t, long, 0, false, "words"), "word", "SIGNING_PASSPHRASE"},
		"no passphrase":    {keyFile(t, long, 0, false, "words"), "", "SIGNING_PASSPHRASE"},
		"public":           {keyFile(t, long, 0, true, ""), "", "the secret one signs"},
		"expired":          {keyFile(t, long, 3600, false, ""), "", "has expired"},
		"of tomorrow":      {keyFile(t, now.Add(24*time.Hour), 0, false, ""), "", "can't sign"},
		"garbage":          {garbage, "", "read the key"},
		"none":             {filepath.Join(t.TempDir(), "none"), "", "read the key"},
	} {
		_, err := newSigner(c.file, []byte(c.passphrase), now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, c := range []struct{ at, want time.Time }{
		{now.Add(-500 * time.Hour), now.Add(-500 * time.Hour)}, {long.Add(-time.Hour), long},
	} {
		s, err := newSigner(right, nil, c.at)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := s.bare([]byte("text"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := packet.Read(bytes.NewReader(signature))
		if sig, ok := p.(*packet.Signature); !ok || err != nil || !sig.CreationTime.Equal(c.want) {
			t.Errorf("a signature at %v: %+v, %v, want the time %v", c.at, p, err, c.want)
		}
	}
}

// aDeb and anRPM are packages without files.
func aDeb(t *testing.T, arch string) []byte {
	t.Helper()
	control, err := archiveOf(time.Unix(1e9, 0), []entry{{name: "./control", mode: 0o644,
		body: []byte("Package: zooid\nVersion: 1.2.3\nArchitecture: " + arch + "\nDescription: a\n b\n")}})
	if err != nil {
		t.Fatal(err)
	}
	b := []byte("!<arch>\n")
	for _, m := range []struct {
		name string
		body []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", mustCompress(t, control)}} {
		b = fmt.Appendf(b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", m.name, 0, 0, 0, 0o644, len(m.body), m.body)
		b = append(b, make([]byte, len(m.body)%2)...)
	}
	return b
}

func mustCompress(t *testing.T, b []byte) []byte {
	t.Helper()
	packed, err := compressed(b)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func anRPM() []byte {
	text := func(tag uint32, s string) rpmTag { return rpmTag{tag, rpmString, 1, append([]byte(s), 0)} }
	main := rpmSignatureHeader([]rpmTag{text(rpmName, "zooid"), text(rpmVersion, "1.2.3"), text(rpmRelease, "1"),
		text(rpmArch, "x86_64"), {rpmSize, rpmInt32, 1, binary.BigEndian.AppendUint32(nil, 77)}})
	lead := append([]byte{0xed, 0xab, 0xee, 0xdb}, make([]byte, rpmLeadBytes-4)...)
	signatures := rpmSignatureHeader([]rpmTag{{1000, rpmInt32, 1, binary.BigEndian.AppendUint32(nil, uint32(len(main)))},
		text(273, fmt.Sprintf("%x", sha256.Sum256(main)))})
	return append(append(append(lead, signatures...), main...), "payload"...)
}

// TestSignRelease: apt's Release is signed and has the sums of its lists, they that of the package; the .rpm and the
// list of its repository are signed; the sums of all files are. Twice the same gives the same bytes, and a package that
// is signed already gets one signature.
func TestSignRelease(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	key := keyFile(t, at.Add(-time.Hour), 0, false, "")
	var dirs [2]string
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), "a release")
		err := errors.Join(os.Mkdir(dirs[i], 0o700),
			os.WriteFile(filepath.Join(dirs[i], "zooid_amd64.deb"), aDeb(t, "amd64"), 0o600),
			os.WriteFile(filepath.Join(dirs[i], "zooid.rpm"), anRPM(), 0o600),
			os.WriteFile(filepath.Join(dirs[i], "zooid.tar.gz"), []byte("archive"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		for range i + 1 { // the second one is signed twice
			if err := signRelease(key, nil, at, dirs[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(i int, name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dirs[i], filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, name := range []string{
		"SHA256SUMS.asc", "zooid.rpm", "zooid.asc", "apt/dists/stable/InRelease", "rpm/repodata/repomd.xml.asc",
	} {
		if !bytes.Equal(read(0, name), read(1, name)) {
			t.Errorf("twice the same gives another %s", name)
		}
	}
	keys, err := openpgp.ReadKeyRing(bytes.NewReader(read(0, "zooid.gpg")))
	if err != nil || len(keys) != 1 || keys[0].PrivateKey != nil {
		t.Fatalf("zooid.gpg has %d keys: %v", len(keys), err)
	}
	verify := func(what string, text, signature []byte) {
		t.Helper()
		_, err := openpgp.CheckDetachedSignature(keys, bytes.NewReader(text), bytes.NewReader(signature), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	verifyArmored := func(text, signature string) {
		t.Helper()
		_, err := openpgp.CheckArmoredDetachedSignature(keys, bytes.NewReader(read(0, text)),
			bytes.NewReader(read(0, signature)), nil)
		if err != nil {
			t.Errorf("%s: %v", signature, err)
		}
	}
	verifyArmored("SHA256SUMS", "SHA256SUMS.asc")
	verifyArmored("apt/dists/stable/Release", "apt/dists/stable/Release.gpg")
	verifyArmored("rpm/repodata/repomd.xml", "rpm/repodata/repomd.xml.asc")
	block, _ := clearsign.Decode(read(0, "apt/dists/stable/InRelease"))
	if block == nil {
		t.Fatal("InRelease isn't signed")
	}
	_, err = block.VerifySignature(keys, nil)
	if err != nil || !bytes.Contains(block.Plaintext, []byte("Suite: stable\n")) {
		t.Errorf("InRelease: %v\n%s", err, block.Plaintext)
	}
	has := func(name, part string) {
		t.Helper()
		if b := read(0, name); !bytes.Contains(b, []byte(part)) {
			t.Errorf("%s lacks %q:\n%s", name, part, b)
		}
	}
	list := "apt/dists/stable/main/binary-amd64/Packages"
	has(list, fmt.Sprintf("Filename: pool/main/z/zooid/zooid_amd64.deb\nSize: %d\nSHA256: %x\n",
		len(aDeb(t, "amd64")), sha256.Sum256(aDeb(t, "amd64"))))
	has("apt/dists/stable/Release", fmt.Sprintf(" %x %d main/binary-amd64/Packages\n",
		sha256.Sum256(read(0, list)), len(read(0, list))))
	has("SHA256SUMS", fmt.Sprintf("%x  zooid.rpm\n", sha256.Sum256(read(0, "zooid.rpm"))))
	has("rpm/repodata/repomd.xml", "-primary.xml.gz")
	rpm := read(0, "zooid.rpm")
	_, start, end, err := rpmMainHeader(rpm)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := readRPMHeader(rpm[rpmLeadBytes:])
	if err != nil {
		t.Fatal(err)
	}
	for tag, text := range map[uint32][]byte{rpmHeaderSignature: rpm[start:end], rpmWholeSignature: rpm[start:]} {
		from, n := h.value(tag)
		verify(fmt.Sprint("tag ", tag), text, from[:n])
	}
	p, err := rpmListed(filepath.Join(dirs[0], "zooid.rpm"), at)
	if err != nil || p.Name != "zooid" || p.Size.Installed != 77 || p.Header != (rpmRange{start, end}) ||
		p.Version != (rpmEVR{0, "1.2.3", "1"}) {
		t.Errorf("the .rpm's entry is %+v, %v", p, err)
	}
}

// TestSignReleaseRefuses: packages that aren't whole, and a release without packages.
func TestSignReleaseRefuses(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour)
	key := keyFile(t, at, 0, false, "")
	deb, rpm := aDeb(t, "amd64"), anRPM()
	_, _, end, err := rpmMainHeader(rpm)
	if err != nil {
		t.Fatal(err)
	}
	for n := range end {
		if _, err := rpmListed(fileOf(t, "a.rpm", rpm[:n]), at); err == nil {
			t.Fatalf("an .rpm of %d of %d bytes is listed", n, len(rpm))
		}
	}
	for name, c := range map[string]struct{ deb, rpm []byte }{
		"no .deb":         {nil, rpm},
		"no .rpm":         {deb, nil},
		"a .deb cut":      {deb[:len(deb)/2], rpm},
		"an architecture": {aDeb(t, "../x"), rpm},
		"no architecture": {aDeb(t, ""), rpm},
	} {
		dir := t.TempDir()
		for file, b := range map[string][]byte{"a.deb": c.deb, "a.rpm": c.rpm} {
			if b != nil {
				if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := signRelease(key, nil, at, dir); err == nil {
			t.Errorf("%s: it is signed", name)
		}
	}
}

func fileOf(t *testing.T, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
