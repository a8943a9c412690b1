package auth

import (
	certs "crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// attribute is one type=value of a name. attributeSET is an ASN.1 SET of them; package asn1
// recognizes it by the suffix of its name.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type attributeSET []attribute

// keywords are the names that RFC 2253 has for attribute types.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
	"2.5.4.11":                   "OU",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// Subject returns the subject of a certificate as the id of an x509 identity. The form is that of RFC 2253, exactly as
// Java's X500Principal.getName writes it, since it is compared with the ids in ACLs byte by byte.
func Subject(cert *certs.Certificate) (string, error) {
	var name []attributeSET
	if rest, err := asn1.Unmarshal(cert.RawSubject, &name); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("read the subject of a certificate: it is damaged: %v", err)
	}
	var b strings.Builder
	for i := len(name) - 1; i >= 0; i-- { // RFC 2253 begins with the last part
		for j, a := range name[i] {
			if j > 0 {
				b.WriteByte('+')
			} else if b.Len() > 0 {
				b.WriteByte(',')
			}
			a.appendTo(&b)
		}
	}
	return b.String(), nil
}

func (a attribute) appendTo(b *strings.Builder) {
	keyword := keywords[a.Type.String()]
	text, ok := derText(a.Value)
	if keyword != "" && ok {
		b.WriteString(keyword + "=" + escape(text))
		return
	}
	if keyword == "" {
		keyword = a.Type.String()
	}
	b.WriteString(keyword + "=#" + hex.EncodeToString(a.Value.FullBytes))
}

// derText returns the text of a value with a string type.
func derText(v asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal || v.IsCompound {
		return "", false
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString:
		return string(v.Bytes), true
	case asn1.TagIA5String, asn1.TagT61String, asn1.TagGeneralString:
		runes := make([]rune, len(v.Bytes))
		for i, c := range v.Bytes {
			runes[i] = rune(c)
		}
		return string(runes), true
	case asn1.TagBMPString:
		units := make([]uint16, len(v.Bytes)/2)
		for i := range units {
			units[i] = uint16(v.Bytes[2*i])<<8 | uint16(v.Bytes[2*i+1])
		}
		return string(utf16.Decode(units)), true
	}
	return "", false
}

// escape puts a backslash before the characters that RFC 2253 requires to be escaped.
func escape(text string) string {
	trimmed := strings.TrimLeft(text, " \r")
	lead := len(text) - len(trimmed)
	trail := lead + len(strings.TrimRight(trimmed, " \r"))
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r), (i < lead || i >= trail) && r <= unicode.MaxASCII:
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
