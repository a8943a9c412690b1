package auth

import (
	"reflect"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestDigestIDs, TestPrincipals and TestDNs were checked against Java 17's
// String.split, Apache's pattern for Kerberos names, and X500Principal.
func TestDigestIDs(t *testing.T) {
	for s, want := range map[string]bool{
		"a:b": true, ":b": true, "a:b:": true, "a:b::": true, "a:": false, "a::": false, ":": false,
		"::b": false, "": false, "a": false, "a:b:c": false, "a::b": false,
	} {
		if got := validID(jute.ID{Scheme: "digest", ID: s}); got != want {
			t.Errorf("digest id %q: %v", s, got)
		}
	}
}

func TestPrincipals(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "ann": true, "ann/host": true, "a/b/c": true, "ann@R": true, "ann/host@R": true, "@": true, "/@": true,
		"a/b/c@R": false, "ann@R@S": false, "ann@R/x": false, "a@b@": false,
	} {
		if got := validID(jute.ID{Scheme: "sasl", ID: s}); got != want {
			t.Errorf("sasl id %q: %v", s, got)
		}
	}
}

func TestDNs(t *testing.T) {
	for _, s := range []string{
		"", "CN=a", "cn=a, o = b",
		"CN=a;O=b", "CN=a+OU=b", "CN=", "1.2.3=a", "OID.1.2.3=a", "oid.1.2.3=a", "2.999=a", "01.2=a", "0.39=a",
		`CN="a,b"`, `CN="a" ,O=b`,
		`CN="a"+O=b`, `CN=""`, `CN="a\"b"`, `O="x\41"`, "CN=#0401ff", `CN=a\,b`, `CN=a\41`, "CN=a=b", "CN=a#b", "CN= a ",
		"CN=a\nO=b", "C=DE", "DC=x", "EMAILADDRESS=x@y", "SURNAME=x", "STREET=s", "T=x", "UID=u", "dnQualifier=x", "CN=ä",
		`CN=\ a`, "CN=a/OU=b",
		`CN=\#a`, `C=D\C3\A4`, "CN=\x00", `CN=a\\`, "CN=;O=b",
	} {
		if !validID(jute.ID{Scheme: "x509", ID: s}) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"  ", "CN", "=a", "XX=a", "3.2=a", "1=a", "1.50=a", "1.40=a", "1.2.=a", "1.2.x=a", `CN="a"x`, `CN="a`, `CN="a\q"`,
		`CN="a\`, "CN=#04", "CN=#0", "CN=#",
		"CN=#0401ff ,O=b", "CN=#zz", "CN=#04 01ff",
		`CN=a\`, `CN=a\zz`, `CN=a\q`, `CN=a\0`, `CN=\3`, "CN=a<b", "CN=a>b", `CN=a"b`, "CN=a,", "CN=a,,O=b",
		",CN=a", "E=x@y", "SN=x", "TITLE=x", "CN=a+", "anyone", "user:x", "CN=a;",
	} {
		if validID(jute.ID{Scheme: "x509", ID: s}) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func FuzzDN(f *testing.F) {
	f.Add(`CN="a,b"+O=x\41,1.2.3=#0401ff`)
	f.Fuzz(func(t *testing.T, s string) {
		if validDN(s) && s != "" && !validDN(s+",CN=a") {
			// A separator may be swallowed by nothing: an escape or quote would
			// have made s invalid.
			t.Errorf("%q is valid, with another pair behind it not", s)
		}
	})
}

func TestWhoAmI(t *testing.T) {
	got := WhoAmI(ids("ip:10.0.0.1 super: digest:ann:HASH sasl:ann/h@R sasl*:any x509:CN=a digest:"))
	want := []jute.ClientInfo{{Scheme: "ip", User: "10.0.0.1"}, {Scheme: "super"}, {Scheme: "digest", User: "ann"},
		{Scheme: "sasl", User: "ann/h@R"}, {Scheme: "x509", User: "CN=a"}, {Scheme: "digest"}}
	if !reflect.DeepEqual(got.Clients, want) {
		t.Errorf("WhoAmI: %v", got.Clients)
	}
}

func TestShown(t *testing.T) {
	var got []string
	for _, id := range ids("ip:10.0.0.1 super: super:CN=a digest:ann:HASH sasl:ann/h@R sasl*:any x509:CN=a digest: team?:ann") {
		got = append(got, Shown(id))
	}
	want := []string{
		"ip:10.0.0.1", "super", "super", "digest:ann", "sasl:ann/h@R", "sasl*", "x509:CN=a", "digest", "team:ann",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAuthenticated(t *testing.T) {
	for s, want := range map[string]bool{
		"digest": true, "sasl": true, "x509": true, "ip": false, "super": false, "world": false, "ensemble": false,
		"sasl*": false, "": false,
	} {
		if got := Authenticated(jute.ID{Scheme: s, ID: "x"}); got != want {
			t.Errorf("Authenticated(%q) = %v", s, got)
		}
	}
}

func TestSchemes(t *testing.T) {
	s := NewSchemes("x509", "ip", "digest", "ip")
	if !reflect.DeepEqual(s, Schemes{"digest", "ip", "x509"}) {
		t.Errorf("NewSchemes: %v", s)
	}
	if !s.Has("ip") || s.Has("sasl") || s.Has("") || Schemes(nil).Has("ip") {
		t.Error("Has is wrong")
	}
}
