package auth

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestDigest has the hash of "super:test" by each algorithm, from Java 17.
func TestDigest(t *testing.T) {
	for name, want := range map[string]string{
		"":            "D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"SHA1":        "D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"SHA-1":       "D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"sha":         "D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"MD5":         "yzhcGieXAe2NBWh0Znxa3g==",
		"SHA-224":     "opwh3FU/0WUpM+8JAOS98bsQFC+823kv438mIg==",
		"SHA-256":     "wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=",
		"sha-256":     "wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=",
		"SHA-384":     "FA/2SgoedA21NnGcUl5C1HBsMwuibAPXlAq/FqXTuUQPExUJgxpf8gWeD4eOupjP",
		"SHA-512":     "cMAGk13FCMtJkaVQImGEKhjqoGELCiVjYdIhiD8stB1FnIpdGeFvKwAHh5mf4tUYmBR2ZY9181dZTXEHMlkVhg==",
		"SHA-512/224": "Jbob8j2c9tikAuLuqxcIJr3TG4aS6fcELZsiHw==",
		"SHA-512/256": "GV6U44a5U7SXgFZS9GkWgmwq2+im64wGlYXjCHia3mo=",
		"SHA3-224":    "774X6Nz1d3BUO6raVFndfjoMF6e1LHrnHVv5IA==",
		"SHA3-256":    "cRy/KPYuDpW/dtsepniTMpuiuupnWgdU9txltIfv3hA=",
		"SHA3-384":    "a3efqz9Fj+qRHgJMpOPAzqpMP86/aPKowwZfSsm/gM+qBf87ZmeQYtueLs53P8Rw",
		"SHA3-512":    "AdTSPtJYC1bEo1Z0UG5z1VXkw2AEUReEjF0RV0jap6VKcDva8ZPEO/WxrOy888alfiJyM5cm5BKhrI4X/YFcTg==",
	} {
		if got, err := Digest(name, "super:test"); err != nil || got != "super:"+want {
			t.Errorf("Digest(%q): %q, %v", name, got, err)
		}
	}
	if _, err := Digest("MD2", "super:test"); err == nil || !strings.Contains(err.Error(), "digestAlg") {
		t.Errorf("an unknown algorithm gives %v, which doesn't name the setting", err)
	}
}

// TestDigestOfOddBytes compares with what Java 17 makes of malformed UTF-8.
func TestDigestOfOddBytes(t *testing.T) {
	for in, want := range map[string]string{
		"a:\xe4ss":             "a:\ufffdss",
		"a:\xe4\xb8s":          "a:\ufffds",
		"\xf0\x9f\x98:b":       "\ufffd:b",
		"\xc0\xaf":             "\ufffd\ufffd",
		"\xed\xa0\x80":         "\ufffd",
		"\xf5\x80":             "\ufffd\ufffd",
		"\x80\x80":             "\ufffd\ufffd",
		"\xe0\x80\x80":         "\ufffd\ufffd\ufffd",
		"\xf0\x90":             "\ufffd",
		"\xf4\x90\x80\x80":     "\ufffd\ufffd\ufffd\ufffd",
		"\xe4":                 "\ufffd",
		"\xc3(":                "\ufffd(",
		"\xf1\x80\x80x":        "\ufffdx",
		"\xed\x9f":             "\ufffd",
		"\xf4\x8f\xbf":         "\ufffd",
		"\xe1\x80\xe1\x80":     "\ufffd\ufffd",
		"grün:\U0001f600\xff":  "grün:\U0001f600\ufffd",
		"already \ufffd there": "already \ufffd there",
		"\ufffd\xff":           "\ufffd\ufffd",
	} {
		if got := javaString([]byte(in)); got != want {
			t.Errorf("javaString(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestDigestOfAnyBytes compares with what Java 17 makes of each four bytes that are at the edges of UTF-8's ranges. For
// the first byte of the four there are the first eight bytes of the SHA-256 of all texts, each with a line feed.
func TestDigestOfAnyBytes(t *testing.T) {
	edges := []byte{
		'A', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4,
		0xf5, 0xff,
	}
	const alone = "41c5ea7f80079c36" // the first byte begins nothing
	java := map[byte]string{
		'A': "81c602348e6a1d48", 0x7f: "f6de52eeaa7b32b7", 0xc2: "93331913722156f4", 0xdf: "5e0e99d901049d2c",
		0xe0: "88c75a1e7d3bbf6b", 0xe1: "4d72bedcfcc39838", 0xed: "2fb00eadde6167a0", 0xee: "b6b2002065c760d7",
		0xef: "ee8afd0e79908c2f", 0xf0: "e637292d6786a9fd", 0xf1: "9fd94ff56c050f61", 0xf4: "1b21fb02eccffb65",
	}
	for _, first := range edges {
		h := sha256.New()
		for _, b := range edges {
			for _, c := range edges {
				for _, d := range edges {
					h.Write([]byte(javaString([]byte{first, b, c, d}) + "\n"))
				}
			}
		}
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != cmp.Or(java[first], alone) {
			t.Errorf("texts that begin with %x: %s, want %s", first, got, cmp.Or(java[first], alone))
		}
	}
}

func registry(t *testing.T, o Options) *Registry {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAuthenticate(t *testing.T) {
	const (
		addr    = "ip:10.0.0.1"
		superID = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
	)
	ann, err := Digest("", "ann:pw")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name         string
		o            Options
		have         string
		scheme, auth string
		want         string
		err          error
	}{
		{"digest", Options{}, addr, "digest", "ann:pw", addr + " digest:" + ann, nil},
		{"digest again", Options{}, addr + " digest:" + ann, "digest", "ann:pw", addr + " digest:" + ann, nil},
		{"digest stacked", Options{}, addr + " digest:" + ann,
			"digest", "super:test", addr + " digest:" + ann + " digest:" + superID, nil},
		{"super", Options{SuperDigest: superID}, addr, "digest", "super:test", addr + " super: digest:" + superID, nil},
		{"super wrong password", Options{SuperDigest: superID}, addr,
			"digest", "super:tes", addr + " digest:super:NYTkEfP5+Z45ihH0ERJTUxAJJaA=", nil},
		{"super of another hash", Options{SuperDigest: superID, DigestAlgorithm: "SHA-256"}, addr,
			"digest", "super:test", addr + " digest:super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=", nil},
		{"digest disabled", Options{DigestDisabled: true}, addr, "digest", "ann:pw", "", ErrFailed},
		{"super with digest disabled", Options{DigestDisabled: true, SuperDigest: superID}, addr,
			"digest", "super:test", "", ErrFailed},
		{"ip", Options{}, "", "ip", "ignored", addr, nil},
		{"ip again", Options{}, addr, "ip", "", addr, nil},
		{"unknown", Options{}, addr, "foo", "x", "", ErrFailed},
		{"empty scheme", Options{}, addr, "", "x", "", ErrFailed},
		{"world", Options{}, addr, "world", "anyone", "", ErrFailed},
		{"super scheme", Options{}, addr, "super", "", "", ErrFailed},
		{"auth scheme", Options{}, addr, "auth", "", "", ErrFailed},
		{"hidden scheme", Options{SASL: true, AnySASLUser: "any"}, addr, "sasl*", "any", "", ErrFailed},
		{"sasl off", Options{}, addr, "sasl", "ann", "", ErrFailed},
		{"sasl", Options{SASL: true}, addr, "sasl", "ann", "", ErrFailed},
		{"x509 off", Options{}, addr, "x509", "CN=a", "", ErrFailed},
		{"x509", Options{X509: true}, addr, "x509", "CN=a", "", ErrFailed},
		{"x509 over TLS", Options{X509: true}, addr + " x509:CN=a", "x509", "CN=b", addr + " x509:CN=a", nil},
		{"ensemble off", Options{}, addr, "ensemble", "prod", "", ErrFailed},
		{"ensemble", Options{Ensemble: true, EnsembleNames: []string{"test", "prod"}}, addr, "ensemble", "prod", addr, nil},
		{"ensemble without names", Options{Ensemble: true}, addr, "ensemble", "prod", addr, nil},
		{"ensemble without a name sent", Options{Ensemble: true, EnsembleNames: []string{"prod"}}, addr, "ensemble", "", addr,
			nil},
		{"ensemble wrong", Options{Ensemble: true, EnsembleNames: []string{"prod"}}, addr,
			"ensemble", "test", "", ErrWrongEnsemble},
	} {
		r := registry(t, tc.o)
		have := append(make([]jute.ID, 0, 10), ids(tc.have)...) // room that must stay unused
		before := slices.Clone(have[:10])
		proof, err := r.Authenticate(have, ids(addr)[0], &jute.AuthPacket{Scheme: tc.scheme, Auth: []byte(tc.auth)}, nil)
		if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) ||
			err == nil && !slices.Equal(proof.IDs, ids(tc.want)) {
			t.Errorf("%s: %v, %v; want %q, %v", tc.name, proof.IDs, err, tc.want, tc.err)
		}
		if !slices.Equal(have[:10], before) {
			t.Errorf("%s: the identities handed in became %v", tc.name, have)
		}
	}
}

// TestAuthenticateForgetsThePacket: decoded packets are windows on a network
// buffer, identities live as long as the connection.
func TestAuthenticateForgetsThePacket(t *testing.T) {
	r := registry(t, Options{})
	packet := []byte("ann:pw")
	proof, err := r.Authenticate(nil, jute.ID{}, &jute.AuthPacket{Scheme: "digest", Auth: packet}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := proof.IDs
	want := got[0].Scheme + got[0].ID
	want = string([]byte(want))
	clear(packet)
	if now := got[0].Scheme + got[0].ID; now != want {
		t.Errorf("the identity became %q", now)
	}
}

// TestErrorsHideCredentials: what fails is logged, what was sent isn't.
func TestErrorsHideCredentials(t *testing.T) {
	for _, scheme := range []string{"digest", "sasl", "x509", "foo"} {
		_, err := registry(t, Options{DigestDisabled: true, SASL: true, X509: true}).Authenticate(nil, jute.ID{},
			&jute.AuthPacket{Scheme: scheme, Auth: []byte("ann:planted")}, nil)
		if err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

func TestIDsMax(t *testing.T) {
	r := registry(t, Options{})
	have := ids("ip:10.0.0.1")
	for i := 1; i < IDsMax; i++ {
		proof, err := r.Authenticate(have, have[0], &jute.AuthPacket{Scheme: "digest", Auth: fmt.Appendf(nil, "u%d:p", i)},
			nil)
		if err != nil {
			t.Fatalf("identity %d: %v", i, err)
		}
		have = proof.IDs
	}
	if _, err := r.Authenticate(have, have[0], &jute.AuthPacket{Scheme: "digest", Auth: []byte("u1:p")}, nil); err != nil {
		t.Errorf("an identity there already: %v", err)
	}
	if _, err := r.Authenticate(have, have[0], &jute.AuthPacket{Scheme: "digest", Auth: []byte("one:more")},
		nil); !errors.Is(err, ErrFailed) {
		t.Errorf("identity %d: %v", IDsMax+1, err)
	}
}

// TestIDsBytesMax adds identities, large and small, up to the last byte allowed.
func TestIDsBytesMax(t *testing.T) {
	r := registry(t, Options{SASL: true, X509: true})
	address := jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	have := []jute.ID{address}
	digest := func(userBytes int) error {
		credential := append(bytes.Repeat([]byte{'u'}, userBytes), ":p"...)
		proof, err := r.Authenticate(have, address, &jute.AuthPacket{Scheme: "digest", Auth: credential}, nil)
		if err == nil {
			have = proof.IDs
		}
		return err
	}
	const hash = len(":") + 28 // base64 of SHA-1
	left := IDsBytesMax - len("ip10.0.0.1") - len("digest") - hash
	if err := digest(1 << 20); !errors.Is(err, ErrFailed) {
		t.Errorf("a megabyte: %v", err)
	}
	if err := digest(left + 1); !errors.Is(err, ErrFailed) {
		t.Errorf("a byte too many: %v", err)
	}
	if err := digest(left); err != nil {
		t.Errorf("all bytes allowed: %v", err)
	}
	if err := digest(1); !errors.Is(err, ErrFailed) {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.AddSASL(have, "ann"); !errors.Is(err, ErrFailed) {
		t.Errorf("one more by SASL: %v", err)
	}
	if _, err := r.AddX509(nil, strings.Repeat("x", IDsBytesMax)); !errors.Is(err, ErrFailed) {
		t.Errorf("a large subject: %v", err)
	}
}

func TestSuperUsers(t *testing.T) {
	r := registry(t,
		Options{SASL: true, SASLSuperUsers: []string{"root", "zk"}, AnySASLUser: "any", X509: true, X509SuperUser: "CN=root"})
	for _, tc := range []struct {
		add      func([]jute.ID, string) (Proof, error)
		id, want string
	}{
		{r.AddSASL, "ann", "ip:1.1.1.1 sasl:ann sasl*:any"},
		{r.AddSASL, "zk", "ip:1.1.1.1 sasl:zk super: sasl*:any"},
		{r.AddX509, "CN=ann", "ip:1.1.1.1 x509:CN=ann"},
		{r.AddX509, "CN=root", "ip:1.1.1.1 super:CN=root x509:CN=root"},
	} {
		if got, err := tc.add(ids("ip:1.1.1.1"), tc.id); err != nil || !slices.Equal(got.IDs, ids(tc.want)) {
			t.Errorf("%q: %v, %v; want %q", tc.id, got.IDs, err, tc.want)
		}
	}
	r = registry(t, Options{SASL: true, X509: true})
	sasl, err1 := r.AddSASL(nil, "")
	x509, err2 := r.AddX509(nil, "")
	if err1 != nil || err2 != nil || len(sasl.IDs) != 1 || len(x509.IDs) != 1 {
		t.Errorf("empty names with no superuser configured: %v, %v, %v, %v", sasl, err1, x509, err2)
	}
}

func TestEnforcement(t *testing.T) {
	for _, tc := range []struct {
		schemes []string
		ids     string
		want    bool
	}{
		{nil, "", true},
		{[]string{"digest"}, "ip:10.0.0.1", false},
		{[]string{"digest"}, "", false},
		{[]string{"digest"}, "ip:10.0.0.1 digest:a:b", true},
		{[]string{"sasl"}, "ip:10.0.0.1 digest:a:b super:", false},
		{[]string{"sasl"}, "sasl*:any", false},
		{[]string{"sasl", "digest"}, "digest:a:b", true},
		{[]string{"ip"}, "ip:10.0.0.1", true},
	} {
		r := registry(t, Options{SASL: true, EnforceSchemes: tc.schemes})
		if got := r.Satisfied(ids(tc.ids)); got != tc.want {
			t.Errorf("%v by %q: %v", tc.schemes, tc.ids, got)
		}
	}
	for _, o := range []Options{
		{EnforceSchemes: []string{}},
		{EnforceSchemes: []string{"sasl"}},
		{EnforceSchemes: []string{"digest"}, DigestDisabled: true},
		{EnforceSchemes: []string{"digest", "foo"}},
		{EnforceSchemes: []string{"world"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "enforce.auth.schemes") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestEnabledSchemes(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{}, "digest ip"},
		{Options{DigestDisabled: true}, "ip"},
		{Options{SASL: true, X509: true, Ensemble: true}, "digest ensemble ip sasl x509"},
	} {
		if got := strings.Join(registry(t, tc.o).Schemes(), " "); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.o, got, tc.want)
		}
	}
	if _, err := New(Options{DigestAlgorithm: "FOO"}); err == nil {
		t.Error("digestAlg=FOO is accepted")
	}
}
