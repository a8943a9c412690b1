package auth

import (
	certs "crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSubject compares with what Java printed (internal/keystore/testdata/make.sh).
func TestSubject(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../keystore/testdata/subjects.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		data, err := os.ReadFile(filepath.Join("..", "keystore", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		cert, err := certs.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Subject(cert); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestSubjectOfOddTypes(t *testing.T) {
	t.Parallel()
	oid := asn1.ObjectIdentifier{2, 5, 4, 3}
	for _, c := range []struct {
		value asn1.RawValue
		want  string
	}{
		{asn1.RawValue{Tag: asn1.TagBMPString, Bytes: []byte{0x4f, 0x60, 0, 'a'}}, "CN=你a"},
		// As Java 25 has them; Java 17 reads the bytes as UTF-8.
		{asn1.RawValue{Tag: asn1.TagBMPString, Bytes: []byte{0, 'A', 0, ','}}, `CN=A\,`},
		{asn1.RawValue{Tag: asn1.TagBMPString, Bytes: []byte{0, 'A', 0, ' '}}, `CN=A\ `},
		{asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte{0xe9}}, "CN=é"},
		{asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte{'A', 0xc3, 0xa9}}, "CN=AÃ©"},
		{asn1.RawValue{Tag: asn1.TagGeneralString, Bytes: []byte{'A', 0xe9}}, "CN=Aé"},
		{asn1.RawValue{Tag: asn1.TagInteger, Bytes: []byte{1}}, "CN=#020101"},
		{asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("a\x00b")}, `CN=a\00b`},
		{asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("   ")}, `CN=\ \ \ `},
		{asn1.RawValue{Tag: asn1.TagUTF8String}, "CN="},
	} {
		raw, err := asn1.Marshal([]attributeSET{{{Type: oid, Value: c.value}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Subject(&certs.Certificate{RawSubject: raw}); got != c.want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
	if got, err := Subject(&certs.Certificate{RawSubject: []byte{1, 2}}); err == nil {
		t.Errorf("a damaged subject is %q", got)
	}
}
