package keystore

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// A testAuthority issues certificates, and says over HTTP which are withdrawn.
type testAuthority struct {
	t       testing.TB
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
	url     string
	serial  atomic.Int64
	down    atomic.Bool
	huge    atomic.Bool
	expired atomic.Bool
	forged  atomic.Bool // answers are signed by another key
	revoked atomic.Int64
	asked   atomic.Int64
	age     atomic.Int64 // ns by which lists are older
}

// newTestAuthority returns an authority that answers at its URL.
func newTestAuthority(t testing.TB) *testAuthority {
	t.Helper()
	a := newSilentAuthority(t)
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

// newSilentAuthority returns one that answers nowhere.
func newSilentAuthority(t testing.TB) *testAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		SubjectKeyId: []byte{
			1,
		},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &testAuthority{t: t, key: key}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.serial.Store(1)
	return a
}

// signer is the key that signs answers.
func (a *testAuthority) signer() *ecdsa.PrivateKey {
	if !a.forged.Load() {
		return a.key
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return other
}

func (a *testAuthority) validity() (from, to time.Time) {
	from = time.Now().Add(-time.Minute)
	if a.expired.Load() {
		from = from.Add(-24 * time.Hour)
	}
	from = from.Add(-time.Duration(a.age.Load()))
	return from, from.Add(time.Hour)
}

func (a *testAuthority) list() []byte {
	from, to := a.validity()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: from, NextUpdate: to}
	if n := a.revoked.Load(); n > 0 {
		l.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: big.NewInt(n), RevocationTime: from}}
	}
	issuer := *a.cert
	if a.forged.Load() {
		issuer.PublicKey = nil
	}
	b, err := x509.CreateRevocationList(rand.Reader, l, &issuer, a.signer())
	if err != nil {
		a.t.Error(err)
	}
	return b
}

func (a *testAuthority) answer(serial *big.Int) []byte {
	from, to := a.validity()
	r := ocsp.Response{Status: ocsp.Good, SerialNumber: serial, ThisUpdate: from, NextUpdate: to}
	if serial.Int64() == a.revoked.Load() {
		r.Status, r.RevokedAt = ocsp.Revoked, from
	}
	b, err := ocsp.CreateResponse(a.cert, a.cert, r, a.signer())
	if err != nil {
		a.t.Error(err)
	}
	return b
}

func (a *testAuthority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	switch {
	case a.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case a.huge.Load():
		for range crlBytesMax>>20 + 1 {
			w.Write(make([]byte, 1<<20))
		}
	case r.URL.Path == "/list":
		w.Write(a.list())
	default:
		b, _ := io.ReadAll(r.Body)
		q, err := ocsp.ParseRequest(b)
		if err != nil {
			a.t.Error(err)
			return
		}
		w.Write(a.answer(q.SerialNumber))
	}
}

// issue returns a certificate, which names where to ask if it is to.
func (a *testAuthority) issue(lists, responder bool) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: "somebody"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{
			net.IPv4(127, 0, 0, 1),
		},
	}
	if lists {
		template.CRLDistributionPoints = []string{a.url + "/list"}
	}
	if responder {
		template.OCSPServer = []string{a.url + "/ask"}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}

// pemFile writes a certificate, with its key if it has one.
func pemFile(t *testing.T, cert []byte, key any) string {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	if key != nil {
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})...)
	}
	file := filepath.Join(t.TempDir(), "store.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// accepts reports whether a port lets a client with a certificate in.
func accepts(t *testing.T, p *Port, cert tls.Certificate) error {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for _, c := range []net.Conn{near, far} {
		c.SetDeadline(time.Now().Add(30 * time.Second))
	}
	go func() {
		client := tls.Client(far, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}})
		client.Handshake()
		io.Copy(io.Discard, client)
	}()
	return tls.Server(near, p.Config()).Handshake()
}

// TestRevokedCertificates: a revoked certificate isn't accepted, in handshakes of both directions, and neither is one
// whose status can't be found out.
func TestRevokedCertificates(t *testing.T) {
	t.Parallel()
	const good, revoked, unknown = "good", "revoked", "unknown"
	for i, c := range []struct {
		crl, ocsp, file  bool // the settings
		lists, responder bool // what the certificate names
		how              string
		withdrawn        bool
		want             string
	}{
		{crl: true, lists: true, want: good},
		{crl: true, lists: true, withdrawn: true, want: revoked},
		{crl: true, want: unknown},
		{crl: true, lists: true, how: "down", want: unknown},
		{crl: true, lists: true, how: "huge", want: unknown},
		{crl: true, lists: true, how: "expired", want: unknown},
		{crl: true, lists: true, how: "forged", want: unknown},
		{ocsp: true, responder: true, want: good},
		{ocsp: true, responder: true, withdrawn: true, want: revoked},
		{ocsp: true, want: unknown},
		{ocsp: true, responder: true, how: "down", want: unknown},
		{ocsp: true, responder: true, how: "huge", want: unknown},
		{ocsp: true, responder: true, how: "expired", want: unknown},
		{ocsp: true, responder: true, how: "forged", want: unknown},
		{crl: true, ocsp: true, lists: true, want: good},
		{crl: true, ocsp: true, lists: true, withdrawn: true, want: revoked},
		{file: true, want: good},
		{file: true, withdrawn: true, want: revoked},
		{lists: true, responder: true, withdrawn: true, want: good}, // nobody looks
	} {
		a := newTestAuthority(t)
		client := a.issue(c.lists, c.responder)
		server := a.issue(false, false)
		if c.withdrawn {
			a.revoked.Store(client.Leaf.SerialNumber.Int64())
		}
		if how := map[string]*atomic.Bool{
			"down": &a.down, "huge": &a.huge, "expired": &a.expired, "forged": &a.forged,
		}[c.how]; how != nil {
			how.Store(true)
		}
		o := Options{
			Keys: Store{Location: pemFile(t, server.Certificate[0], server.PrivateKey)}, Trust: Store{
				Location: pemFile(t, a.cert.Raw, nil),
			}, CRL: c.crl, OCSP: c.ocsp,
		}
		if c.file {
			o.CRLFile = filepath.Join(t.TempDir(), "lists.pem")
			if err := os.WriteFile(o.CRLFile, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: a.list()}),
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := NewPort(o)
		if err != nil {
			t.Fatal(err)
		}
		kind := func(err error) string {
			switch {
			case err == nil:
				return good
			case errors.Is(err, errRevoked):
				return revoked
			case errors.Is(err, errUnknown):
				return unknown
			}
			return err.Error()
		}
		if got := kind(accepts(t, p, client)); got != c.want {
			t.Errorf("case %d, a client connects: %s, want %s", i, got, c.want)
		}
		// For a certificate accepted before, an unknown status is no reason to close its connection.
		lasting := map[string]string{good: good, revoked: revoked, unknown: good}[c.want]
		if got := kind(p.Check([]*x509.Certificate{client.Leaf})); got != lasting {
			t.Errorf("case %d, a client is looked at again: %s, want %s", i, got, lasting)
		}
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{client.Leaf}}
		if got := kind(p.Dialled("127.0.0.1", true).VerifyConnection(state)); got != c.want {
			t.Errorf("case %d, a server is dialled: %s, want %s", i, got, c.want)
		}
		if c.ocsp && c.how != "" && c.how != "huge" { // what the server staples is enough
			a.down.Store(false)
			a.expired.Store(false)
			a.forged.Store(false)
			state.OCSPResponse = a.answer(client.Leaf.SerialNumber)
			a.down.Store(true)
			if err := p.Dialled("127.0.0.1", true).VerifyConnection(state); err != nil {
				t.Errorf("case %d, with a stapled answer: %v", i, err)
			}
		}
	}
}

// TestRevocationAnswersAreKept: the same question is asked once; what is kept is bounded.
func TestRevocationAnswersAreKept(t *testing.T) {
	t.Parallel()
	a := newTestAuthority(t)
	r := newRevocation(true, true, "")
	cert := a.issue(true, true).Leaf
	check := func() error { return r.check([][]*x509.Certificate{{cert, a.cert}}, nil) }
	for range 10 {
		if err := check(); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	a.revoked.Store(cert.SerialNumber.Int64())
	r.now = func() time.Time { return time.Now().Add(answerLasts) }
	if err := check(); !errors.Is(err, errRevoked) {
		t.Errorf("later: %v", err)
	}
	for n := range answersMax {
		r.asked[[32]byte{byte(n), byte(n >> 8), 1}] = keptAnswer{}
		r.lists[fmt.Sprint(n)] = keptList{}
	}
	cert = a.issue(true, true).Leaf
	if err := check(); err != nil || len(r.asked) > answersMax {
		t.Errorf("%d answers are kept; %v", len(r.asked), err)
	}
	if _, err := r.list(a.url+"/list", a.cert); err != nil || len(r.lists) > answersMax {
		t.Errorf("%d lists are kept; %v", len(r.lists), err)
	}
	if _, err := r.fetch(http.MethodGet, "ldap://x/", nil, 1); err == nil || !strings.Contains(err.Error(), "HTTP") {
		t.Errorf("ask by LDAP: %v", err)
	}
}

// TestSilentResponder: rechecks ask a responder that doesn't answer once, for any number of certificates; a new
// connection asks again. Once it has answered, rechecks ask it too.
func TestSilentResponder(t *testing.T) {
	t.Parallel()
	a := newSilentAuthority(t)
	var asked atomic.Int64
	var answers atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); answers.Load() {
			a.ServeHTTP(w, r)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	s.Config.SetKeepAlivesEnabled(false) // a client may ask again over another connection
	a.url = s.URL
	r := newRevocation(false, true, "")
	check := func(by *revocation) error {
		return by.check([][]*x509.Certificate{{a.issue(false, true).Leaf, a.cert}}, nil)
	}
	step := func(what string, by *revocation, err error, questions int64) {
		t.Helper()
		asked.Store(0)
		if got := check(by); !errors.Is(got, err) || asked.Load() != questions {
			t.Errorf("%s: %v after %d questions; want %v after %d", what, got, asked.Load(), err, questions)
		}
	}
	step("the first recheck", r.forRechecks(), errUnknown, 1)
	for range 3 {
		step("another recheck", r.forRechecks(), errUnknown, 0)
	}
	step("a new connection", r, errUnknown, 1)
	answers.Store(true)
	step("another one", r, nil, 1)
	step("a recheck after the answer", r.forRechecks(), nil, 1)
	answers.Store(false)
	step("a recheck", r.forRechecks(), errUnknown, 1)
	r.now = func() time.Time { return time.Now().Add(silenceLasts) }
	step("a recheck later", r.forRechecks(), errUnknown, 1)
}

// TestNewestListDecides: of several lists that are current the last one decides, whatever their order in a file, and
// an older one doesn't take the place of a newer one from the same URL.
func TestNewestListDecides(t *testing.T) {
	t.Parallel()
	a := newTestAuthority(t)
	cert := a.issue(true, false).Leaf
	made := func(age time.Duration, number int64, withdrawn, reason int64) []byte {
		from := time.Now().Add(-age).Truncate(time.Second)
		l := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: from, NextUpdate: from.Add(2 * time.Hour)}
		if withdrawn > 0 {
			l.RevokedCertificateEntries = []x509.RevocationListEntry{
				{SerialNumber: big.NewInt(withdrawn), RevocationTime: from, ReasonCode: int(reason)},
			}
		}
		b, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: b})
	}
	own := cert.SerialNumber.Int64()
	for name, c := range map[string]struct {
		older, newer []byte
		revoked      bool
	}{
		"revoked since":          {made(time.Hour, 1, 0, 0), made(time.Minute, 2, own, 0), true},
		"revoked in one second":  {made(time.Minute, 1, 0, 0), made(time.Minute, 2, own, 0), true},
		"a hold that was lifted": {made(time.Hour, 1, own, 6), made(time.Minute, 2, own, reasonRemoved), false},
		"another's":              {made(time.Hour, 1, 0, 0), made(time.Minute, 2, own+1, 0), false},
	} {
		for _, order := range [][]byte{append(bytes.Clone(c.older), c.newer...), append(bytes.Clone(c.newer), c.older...)} {
			file := filepath.Join(t.TempDir(), "lists.pem")
			if err := os.WriteFile(file, order, 0o600); err != nil {
				t.Fatal(err)
			}
			err := newRevocation(false, false, file).check([][]*x509.Certificate{{cert, a.cert}}, nil)
			if errors.Is(err, errRevoked) != c.revoked || !c.revoked && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}

	// From a URL: first the newer list, then, when it is asked for again, one from before the certificate was revoked.
	r := newRevocation(true, false, "")
	check := func() error { return r.check([][]*x509.Certificate{{cert, a.cert}}, nil) }
	later := func() { r.mu.Lock(); outdated(r.lists); r.mu.Unlock() }
	a.revoked.Store(own)
	if err := check(); !errors.Is(err, errRevoked) {
		t.Errorf("the newer list: %v", err)
	}
	a.revoked.Store(0)
	a.age.Store(int64(10 * time.Minute))
	later()
	if err := check(); !errors.Is(err, errRevoked) {
		t.Errorf("the older list after the newer one: %v", err)
	}
	if len(r.lists) != 1 || r.bytes != len(r.lists[a.url+"/list"].list.Raw) {
		t.Errorf("%d lists of %d bytes are counted", len(r.lists), r.bytes)
	}
	// A list signed by a stranger doesn't count, however new it is.
	a.forged.Store(true)
	a.age.Store(-int64(20 * time.Second))
	later()
	if err := check(); !errors.Is(err, errUnknown) {
		t.Errorf("a forged list: %v", err)
	}
	a.forged.Store(false)
	a.age.Store(int64(10 * time.Minute))
	later()
	if err := check(); !errors.Is(err, errRevoked) {
		t.Errorf("the older list after a forged one: %v", err)
	}
	a.age.Store(-int64(20 * time.Second))
	later()
	if err := check(); err != nil {
		t.Errorf("a newer list of the authority: %v", err)
	}
}

// TestOutdatedList: a certificate is refused if the file's newest list is out of date, and the error says so. ListsEnd
// says it in advance, and ignores older lists.
func TestOutdatedList(t *testing.T) {
	t.Parallel()
	a := newTestAuthority(t)
	cert := a.issue(true, false).Leaf
	list := func(number int64, end time.Time) []byte {
		b, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
			Number: big.NewInt(number), ThisUpdate: end.Add(-time.Hour), NextUpdate: end,
		}, a.cert, a.key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: b})
	}
	past, soon := time.Now().Add(-time.Hour).Truncate(time.Second), time.Now().Add(time.Minute).Truncate(time.Second)
	for _, c := range []struct {
		name    string
		data    []byte
		refused string
		end     time.Time
	}{
		{"out of date", list(1, past), "is out of date", past},
		{"two out of date", append(list(2, past), list(1, past.Add(-time.Hour))...), "is out of date", past},
		{"current beside an older one", append(list(1, past), list(2, soon)...), "", soon},
	} {
		file := filepath.Join(t.TempDir(), "lists.pem")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := newRevocation(false, false, file).check([][]*x509.Certificate{{cert, a.cert}}, nil)
		if (err != nil) != (c.refused != "") ||
			err != nil && (!errors.Is(err, errUnknown) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
		end, issuer, err := ListsEnd(file)
		if err != nil || !end.Equal(c.end) || issuer != a.cert.Subject.String() {
			t.Errorf("%s: ends %v, %q, %v; want %v", c.name, end, issuer, err, c.end)
		}
	}
}

// outdated makes the lists in the cache ones that are asked for again.
func outdated(lists map[string]keptList) {
	for at, l := range lists {
		l.until = time.Time{}
		lists[at] = l
	}
}

// FuzzRevocation: no revocation list and no OCSP response ends the server, and only the issuer's own decide about a
// certificate.
func FuzzRevocation(f *testing.F) {
	a, other := newSilentAuthority(f), newSilentAuthority(f)
	cert := a.issue(true, true).Leaf
	list, answer := a.list(), a.answer(cert.SerialNumber)
	f.Add(list, answer)
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list}), other.answer(cert.SerialNumber))
	f.Add(other.list(), []byte(nil))
	r := newRevocation(true, true, "")
	f.Fuzz(func(t *testing.T, lists, staple []byte) {
		if parsed, err := parseLists(lists); err == nil {
			for _, l := range parsed {
				if r.covers(l, cert, a.cert, "") == nil && !bytes.Equal(l.Raw, list) {
					t.Errorf("a list that the issuer didn't sign is taken: %x", l.Raw)
				}
			}
		}
		if _, err := r.parseOCSP(staple, cert, a.cert); err == nil && !bytes.Contains(staple, answer[len(answer)-64:]) {
			t.Errorf("an answer that the issuer didn't sign is taken: %x", staple)
		}
	})
}

// TestStapled: a port shows what its issuer says of its certificate while that is true, and follows the file; an answer
// about another certificate, or that it was revoked, isn't taken.
func TestStapled(t *testing.T) {
	t.Parallel()
	a := newTestAuthority(t)
	cert := a.issue(false, true)
	file := filepath.Join(t.TempDir(), "staple.der")
	write := func(answer []byte) {
		t.Helper()
		if err := os.WriteFile(file, answer, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := Store{Location: pemFile(t, cert.Certificate[0], cert.PrivateKey)}
	o := Options{Keys: keys, ClientAuth: "none", StapleFile: file}
	if _, err := NewPort(o); err == nil {
		t.Error("a file that isn't there is taken")
	}
	for what, answer := range map[string][]byte{"another's": a.answer(big.NewInt(99)), "garbage": []byte("x")} {
		write(answer)
		if _, err := NewPort(o); err == nil {
			t.Errorf("%s answer is taken", what)
		}
	}
	a.revoked.Store(cert.Leaf.SerialNumber.Int64())
	write(a.answer(cert.Leaf.SerialNumber))
	if _, err := NewPort(o); err == nil {
		t.Error("an answer that the certificate was revoked is taken")
	}
	a.revoked.Store(0)
	good := a.answer(cert.Leaf.SerialNumber)
	write(good)
	p, err := NewPort(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := shownStaple(t, p); !bytes.Equal(got, good) {
		t.Errorf("%x is stapled", got)
	}
	next := a.answer(cert.Leaf.SerialNumber) // signed anew
	write(next)
	if err := p.Refresh(); err != nil {
		t.Fatal(err)
	}
	if got := shownStaple(t, p); !bytes.Equal(got, next) {
		t.Errorf("%x is stapled after the file has changed", got)
	}
	a.expired.Store(true)
	write(a.answer(cert.Leaf.SerialNumber))
	if err := p.Refresh(); err != nil {
		t.Fatal(err)
	}
	if got := shownStaple(t, p); got != nil {
		t.Errorf("%x is stapled, which is out of date", got)
	}
}

// shownStaple returns what a port staples for a client.
func shownStaple(t *testing.T, p *Port) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Server(near, p.Config()).Handshake()
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	client.SetDeadline(time.Now().Add(30 * time.Second))
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().OCSPResponse
}
