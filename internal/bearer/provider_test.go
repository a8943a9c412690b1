package bearer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
)

// An issuer makes tokens and key sets by hand, from RFC 7515 and RFC 7517 and not by the
// library that reads them.
type issuer struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	var i issuer
	var errs [3]error
	i.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	i.ec, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, i.ed, errs[2] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return &i
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keys is the issuer's key set; suffix ends the names of its keys.
func (i *issuer) keys(suffix string) string {
	return fmt.Sprintf(`{"keys":[
{"kty":"oct","kid":"oct","k":"c2VjcmV0"},
{"kty":"RSA","kid":"enc%[1]s","use":"enc","n":%[2]q,"e":"AQAB"},
{"kty":"RSA","kid":"rsa%[1]s","use":"sig","alg":"RS256","n":%[2]q,"e":"AQAB"},
{"kty":"EC","kid":"ec%[1]s","crv":"P-256","x":%[3]q,"y":%[4]q},
{"kty":"OKP","kid":"ed%[1]s","crv":"Ed25519","x":%[5]q},
{"kty":"unheard of","kid":"new"}]}`, suffix, b64(i.rsa.N.Bytes()), b64(i.ec.X.FillBytes(make([]byte, 32))),
		b64(i.ec.Y.FillBytes(make([]byte, 32))), b64(i.ed.Public().(ed25519.PublicKey)))
}

// claims are those of a token that is let in at the time now, with some changed; nil takes one
// away.
func claims(now time.Time, changed map[string]any) map[string]any {
	all := map[string]any{
		"iss": "https://issuer.example.com", "aud": []string{"other", "zooid"}, "sub": "ann",
		"exp": now.Unix() + 300, "iat": now.Unix(), "realm": map[string]any{"roles": []string{"staff", "dev"}},
	}
	for name, value := range changed {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// token signs claims; the header may have more fields.
func (i *issuer) token(t testing.TB, algorithm, kid string, claims, header map[string]any) string {
	t.Helper()
	head := map[string]any{"alg": algorithm}
	if kid != "" {
		head["kid"] = kid
	}
	for name, value := range header {
		head[name] = value
	}
	h, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	c, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	text := b64(h) + "." + b64(c)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch algorithm {
	case "RS256":
		signature, err = rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum[:])
	case "PS256":
		signature, err = rsa.SignPSS(rand.Reader, i.rsa, crypto.SHA256, sum[:], nil)
	case "ES256":
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, i.ec, sum[:]); err == nil {
			signature = s.FillBytes(append(r.FillBytes(make([]byte, 32)), make([]byte, 32)...)[32:])
			signature = append(r.FillBytes(make([]byte, 32)), signature...)
		}
	case "EdDSA":
		signature = ed25519.Sign(i.ed, []byte(text))
	case "HS256": // with the public key as the secret
		der, _ := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + b64(signature)
}

func options(keys string) Options {
	return Options{
		Issuer: "https://issuer.example.com", Audience: []string{"zooid"}, Keys: keys, Algorithms: []string{
			"RS256", "ES256", "EdDSA",
		},
		IDClaim: "sub", GroupsClaim: "realm.roles", SuperUsers: []string{"root", "group/admins"}, Skew: 30 * time.Second,
	}
}

// fileProvider has the issuer's keys from a file.
func fileProvider(t testing.TB, i *issuer) *Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(i.keys("")), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(options(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func handle(p *Provider, token string) (authprovider.Identities, error) {
	return p.HandleAuthentication(authprovider.Request{Scheme: Scheme, Auth: []byte(token), Address: "10.0.0.1"})
}

// TestTokens: who is let in as whom, and until when; and who isn't.
func TestTokens(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	p := fileProvider(t, i)
	if p.Scheme() != "bearer" || !p.IsValid("group/x") || p.IsValid("") || p.IsValid("a\x00") || !p.IsAuthenticated() {
		t.Error("it is another scheme")
	}
	now := time.Now()
	type m = map[string]any
	jwk := m{"kty": "RSA", "n": b64(other.rsa.N.Bytes()), "e": "AQAB"}
	for name, c := range map[string]struct {
		token string
		ids   string // "" for nobody
		super bool
	}{
		"RS256": {
			i.token(t, "RS256", "rsa", claims(now, nil), m{"typ": "JWT"}), "ann group/staff group/dev", false,
		},
		"ES256": {
			i.token(t, "ES256", "ec", claims(now, nil), m{"typ": "at+jwt"}), "ann group/staff group/dev", false,
		},
		"EdDSA":        {i.token(t, "EdDSA", "ed", claims(now, m{"realm": nil}), nil), "ann", false},
		"no key named": {i.token(t, "ES256", "", claims(now, nil), nil), "ann group/staff group/dev", false},
		"space around it": {
			" " + i.token(t, "RS256", "rsa", claims(now, nil), nil) + "\n", "ann group/staff group/dev", false,
		},
		"one audience": {
			i.token(t, "RS256", "rsa", claims(now, m{"aud": "zooid"}), nil), "ann group/staff group/dev", false,
		},
		"one group": {i.token(t, "RS256", "rsa", claims(now, m{"realm.roles": "x"}), nil), "ann group/x", false},
		"superuser": {
			i.token(t, "RS256", "rsa", claims(now, m{"sub": "root"}), nil), "root group/staff group/dev", true,
		},
		"group of super": {
			i.token(t, "RS256", "rsa", claims(now, m{"realm": m{"roles": "admins"}}), nil), "ann group/admins", true,
		},
		"within the skew": {
			i.token(t, "RS256", "rsa", claims(now, m{"exp": now.Unix() - 10, "nbf": now.Unix() + 10}), nil),
			"ann group/staff group/dev", false,
		},
		"algorithm none":  {i.token(t, "none", "rsa", claims(now, nil), nil), "", false},
		"None":            {i.token(t, "None", "", claims(now, nil), nil), "", false},
		"HMAC by the key": {i.token(t, "HS256", "rsa", claims(now, nil), nil), "", false},
		"HMAC by oct":     {i.token(t, "HS256", "oct", claims(now, nil), nil), "", false},
		"not permitted":   {i.token(t, "PS256", "rsa", claims(now, nil), nil), "", false},
		"key of another":  {other.token(t, "RS256", "rsa", claims(now, nil), nil), "", false},
		"brings its key":  {other.token(t, "RS256", "", claims(now, nil), m{"jwk": jwk}), "", false},
		"says where": {
			other.token(t, "RS256", "", claims(now, nil),
				m{"jku": "https://evil.example.com/", "x5u": "https://evil.example.com/"}), "", false,
		},
		"key to encrypt":   {i.token(t, "RS256", "enc", claims(now, nil), nil), "", false},
		"wrong key":        {i.token(t, "ES256", "rsa", claims(now, nil), nil), "", false},
		"unknown critical": {i.token(t, "RS256", "rsa", claims(now, nil), m{"crit": []string{"x"}, "x": 1}), "", false},
		"other type":       {i.token(t, "RS256", "rsa", claims(now, nil), m{"typ": "secevent+jwt"}), "", false},
		"other issuer": {
			i.token(t, "RS256", "rsa", claims(now, m{"iss": "https://issuer.example.com/"}), nil), "", false,
		},
		"no issuer":        {i.token(t, "RS256", "rsa", claims(now, m{"iss": nil}), nil), "", false},
		"other audience":   {i.token(t, "RS256", "rsa", claims(now, m{"aud": "other"}), nil), "", false},
		"no audience":      {i.token(t, "RS256", "rsa", claims(now, m{"aud": nil}), nil), "", false},
		"expired":          {i.token(t, "RS256", "rsa", claims(now, m{"exp": now.Unix() - 40}), nil), "", false},
		"no end":           {i.token(t, "RS256", "rsa", claims(now, m{"exp": nil}), nil), "", false},
		"not yet":          {i.token(t, "RS256", "rsa", claims(now, m{"nbf": now.Unix() + 100}), nil), "", false},
		"of tomorrow":      {i.token(t, "RS256", "rsa", claims(now, m{"iat": now.Unix() + 100}), nil), "", false},
		"no name":          {i.token(t, "RS256", "rsa", claims(now, m{"sub": nil}), nil), "", false},
		"name of a group":  {i.token(t, "RS256", "rsa", claims(now, m{"sub": "group/admins"}), nil), "", false},
		"name in lines":    {i.token(t, "RS256", "rsa", claims(now, m{"sub": "ann\nroot"}), nil), "", false},
		"number as a name": {i.token(t, "RS256", "rsa", claims(now, m{"sub": 7}), nil), "", false},
		"many groups": {
			i.token(t, "RS256", "rsa",
				claims(now, m{"realm": m{"roles": strings.Split(strings.Repeat("x ", groupsMax+1)+"x", " ")}}), nil), "", false,
		},
		"long groups": {
			i.token(t, "RS256", "rsa", claims(now, m{"realm": m{"roles": strings.Repeat("x", idsBytesMax)}}), nil), "", false,
		},
		"too long": {
			i.token(t, "RS256", "rsa", claims(now, m{"x": strings.Repeat("x", tokenBytesMax)}), nil), "", false,
		},
		"cut":       {strings.TrimSuffix(i.token(t, "RS256", "rsa", claims(now, nil), nil), "A")[:400], "", false},
		"nothing":   {"", "", false},
		"garbage":   {"a.b.c", "", false},
		"an object": {`{"payload":"e30","signatures":[]}`, "", false},
	} {
		ids, err := handle(p, c.token)
		if (err == nil) != (c.ids != "") || strings.Join(ids.IDs, " ") != c.ids || ids.Super != c.super {
			t.Errorf("%s: %+v, %v; want %q", name, ids, err, c.ids)
		}
		if errors.Is(err, authprovider.ErrUndecided) ||
			err != nil && len(c.token) > 40 && strings.Contains(err.Error(), c.token[20:40]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ids, err := handle(p, i.token(t, "RS256", "rsa", claims(now, nil), nil))
	if want := time.Unix(now.Unix()+330, 0); err != nil || !ids.Expires.Equal(want) {
		t.Errorf("it ends at %v, want %v, the token's end and the skew; %v", ids.Expires, want, err)
	}
}

// TestRotatedKeys: the issuer, found by its name, changes its keys; a flood of tokens with
// made-up keys has them fetched once in a while; an issuer that is away for long is trusted no
// more.
func TestRotatedKeys(t *testing.T) {
	t.Parallel()
	first, second := newIssuer(t), newIssuer(t)
	var body atomic.Pointer[string]
	var asked atomic.Int64
	set := func(s string) { body.Store(&s) }
	set(first.keys("1"))
	mux := http.NewServeMux()
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, s.URL, s.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if b := *body.Load(); b != "" {
			fmt.Fprint(w, b)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	o := options("")
	o.Issuer, o.CAFile = s.URL, ca
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64 // s
	p.keys.now = func() time.Time { return time.Unix(1_800_000_000+passed.Load(), 0) }
	p.now = p.keys.now
	token := func(i *issuer, kid string) string {
		return i.token(t, "RS256", kid, claims(p.now(), map[string]any{"iss": s.URL}), nil)
	}
	want := func(step, token string, in, undecided bool, fetched int64) {
		t.Helper()
		_, err := handle(p, token)
		p.keys.mu.Lock()
		wait := p.keys.fetching
		p.keys.mu.Unlock()
		if wait != nil {
			<-wait
		}
		if (err == nil) != in || errors.Is(err, authprovider.ErrUndecided) != undecided || asked.Load() != fetched {
			t.Errorf("%s: %v, fetched %d times; want in: %v, undecided: %v, fetched %d times", step, err, asked.Load(), in,
				undecided, fetched)
		}
	}
	want("first token", token(first, "rsa1"), true, false, 1)
	want("second token", token(first, "rsa1"), true, false, 1)
	for range 100 {
		want("made-up key", token(second, "made-up"), false, false, 1)
	}
	set(second.keys("2"))
	want("new key, too early", token(second, "rsa2"), false, false, 1)
	passed.Add(10)
	want("new key", token(second, "rsa2"), true, false, 2)
	want("withdrawn key", token(first, "rsa1"), false, false, 2)
	passed.Add(600)
	want("old keys are fetched beside", token(second, "rsa2"), true, false, 3)
	set("")
	passed.Add(600)
	want("the issuer is away", token(second, "rsa2"), true, false, 4)
	want("and may have new keys", token(first, "rsa1"), false, true, 4)
	passed.Add(3000)
	want("for long", token(second, "rsa2"), false, true, 5)
	want("and isn't asked each time", token(second, "rsa2"), false, true, 5)
	set(second.keys("2"))
	passed.Add(10)
	want("it is back", token(second, "rsa2"), true, false, 6)

	for name, bad := range map[string]string{
		"too long": second.keys("2") + strings.Repeat(" ", documentBytesMax), "garbage": "{", "no keys": `{"keys":[]}`,
		"private": `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`,
	} {
		set(bad)
		if err := p.keys.fetch(); err == nil {
			t.Errorf("%s is taken for keys", name)
		}
	}
}

// TestLocations: keys don't come by ways on which they can be changed, and a file must be there.
func TestLocations(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{
		"keys.json", "/missing/keys.json", "http://example.com/", "ftp://example.com/", "https://u:p@example.com/",
		"https://",
	} {
		if _, err := New(options(keys)); err == nil {
			t.Errorf("keys from %s are taken", keys)
		}
	}
	good := options("https://example.com/")
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Issuer = "" }, func(o *Options) { o.Audience = nil }, func(o *Options) { o.IDClaim = "" },
		func(o *Options) { o.Algorithms = nil }, func(o *Options) { o.Algorithms = []string{"HS256"} }, func(o *Options) {
			o.Algorithms = []string{"none"}
		},
		func(o *Options) { o.CAFile = "/missing" },
	} {
		o := good
		if change(&o); true {
			if _, err := New(o); err == nil {
				t.Errorf("%+v is taken", o)
			}
		}
	}
	if keys, err := parseKeys(
		[]byte(fmt.Sprintf(`{"keys":[{"kty":"RSA","n":%q,"e":"AQAB"}]}`,
			b64(slices.Repeat([]byte{0xff}, 128))))); err == nil {
		t.Errorf("a key of 1,024 bits is taken: %v", keys)
	}
}

// FuzzToken: no token ends the server, and none that isn't the issuer's is let in.
func FuzzToken(f *testing.F) {
	i := newIssuer(f)
	p := fileProvider(f, i)
	good := i.token(f, "RS256", "rsa", claims(time.Now(), nil), nil)
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if ids, err := handle(p, token); err == nil &&
			!strings.HasPrefix(strings.TrimSpace(token), good[:strings.LastIndexByte(good, '.')]) {
			t.Errorf("%q is %+v", token, ids)
		}
	})
}

// FuzzKeys: no document of an issuer ends the server, and no key in one is taken that doesn't sign, or is too short.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","use":"enc"},{"kty":"oct","k":"c2VjcmV0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		keys, err := parseKeys(document)
		if err != nil {
			return
		}
		for _, k := range keys {
			if !k.IsPublic() || !k.Valid() || k.Use == "enc" {
				t.Errorf("%q gives the key %+v", document, k)
			}
		}
	})
}
