package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// An issuer of certificates.
type issuer struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: "issuer"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, private}
}

// issue makes a certificate for a host name or address.
func (i *issuer) issue(t *testing.T, host string) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: host},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, i.cert, public, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// mutual is mutual TLS with these certificates, of servers that trust the issuer.
func (i *issuer) mutual(certs ...tls.Certificate) Secure {
	pool := x509.NewCertPool()
	pool.AddCert(i.cert)
	return Secure{
		Client: func(host string) *tls.Config {
			return &tls.Config{Certificates: certs, RootCAs: pool, ServerName: host}
		},
		Server: &tls.Config{Certificates: certs, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
	}
}

// A lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), part)
}

// runningSecure starts a transport that listens on loopback.
func runningSecure(t *testing.T, id uint64, secure Secure) (*transport, string, *lines) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	if secure.Keys == nil {
		secure.Keys = sharing("a secret").Keys
	}
	tr := newTransport(id, 7, secure, slog.New(slog.NewTextHandler(log, nil)))
	tr.snapshot = func(c net.Conn, _ uint64) { c.Close() }
	tr.listen(l)
	t.Cleanup(tr.close)
	return tr, l.Addr().String(), log
}

// TestRollingToTLS: every step of a change from plain text to TLS and back talks
// to its neighbours, and what doesn't is told why.
func TestRollingToTLS(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	whole := ca.mutual(ca.issue(t, "127.0.0.1"))
	steps := []Secure{
		{}, {Server: whole.Server, Plain: true}, {Client: whole.Client, Server: whole.Server, Plain: true}, whole,
	}
	names := []string{"plain", "accepts both", "dials TLS", "TLS only"}
	for from, dialler := range steps {
		for to, listener := range steps {
			why := ""
			switch {
			case from < 2 && to == 3:
				why = "accepts TLS only"
			case from >= 2 && to == 0:
				why = "does it accept TLS"
			}
			_, addr, log := runningSecure(t, 1, listener)
			dialler.Keys = sharing("a secret").Keys
			d := newTransport(2, 7, dialler, slog.New(slog.DiscardHandler))
			c, err := d.greet(t.Context(), addr, hello{connPing, 7, 2, 1}, false)
			if err == nil {
				c.Close()
			}
			if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%s dials %s: %v, want %q", names[from], names[to], err, why)
			}
			within(func() bool { return why == "" || log.count("level=WARN") > 0 })
			if why != "" && log.count("TLS") != 1 {
				t.Errorf("%s dials %s: the listener logs\n%s", names[from], names[to], log.buf.String())
			}
		}
	}
}

// TestFramesOverTLS: what is sent arrives, in order and whole.
func TestFramesOverTLS(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	secure := ca.mutual(ca.issue(t, "127.0.0.1"))
	a, addrA, _ := runningSecure(t, 1, secure)
	b, addrB, _ := runningSecure(t, 2, secure)
	a.setPeer(2, []string{addrB})
	b.setPeer(1, []string{addrA})
	if e := next(t, a); e.Kind != quorum.EventConnected {
		t.Fatalf("first event %+v", e)
	}
	sizes := []int{0, 1, 16 << 10, 1 << 20, 3}
	for i, size := range sizes {
		if !a.send(2, quorum.FrameForward, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("frame %d was dropped", i)
		}
	}
	for got := 0; got < len(sizes); {
		e := next(t, b)
		if e.Kind == quorum.EventConnected {
			continue
		}
		if e.Kind != quorum.EventForward || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(got)}, sizes[got])) {
			t.Fatalf("%v with %d bytes, want frame %d", e.Kind, len(e.Data), got)
		}
		got++
	}
	a.close()
	for e := next(t, b); e.Kind != quorum.EventLost; e = next(t, b) {
		if e.Kind != quorum.EventConnected {
			t.Fatalf("event %+v after the peer closed", e)
		}
	}
}

// TestStrangersCertificate: who has no certificate of the ensemble's issuer, or
// one of another server, is refused; either side says so, once however often it
// is tried.
func TestStrangersCertificate(t *testing.T) {
	t.Parallel()
	ca, foreign := newIssuer(t), newIssuer(t)
	ours := ca.mutual(ca.issue(t, "127.0.0.1"))
	for name, c := range map[string]struct {
		dialler      Secure
		told, logged string
	}{
		"foreign issuer": {
			foreign.mutual(foreign.issue(t, "127.0.0.1")), "signed by unknown authority", "accept this server's certificate",
		},
		"foreign, trusting": {
			Secure{Client: ca.mutual(foreign.issue(t, "127.0.0.1")).Client}, "accept this server's certificate",
			"signed by unknown authority",
		},
		"no certificate": {
			Secure{Client: ca.mutual().Client}, "accept this server's certificate", "didn't provide a certificate",
		},
		"plain text": {Secure{}, "accepts TLS only", "accepts TLS only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, addr, log := runningSecure(t, 1, ours)
			d := newTransport(2, 7, c.dialler, slog.New(slog.DiscardHandler))
			for range 5 {
				if conn, err := d.greet(t.Context(), addr, hello{connMessages, 7, 2, 1}, false); err == nil ||
					!strings.Contains(err.Error(), c.told) {
					t.Errorf("connected: %v, error %v; want one with %q", conn.Conn != nil, err, c.told)
				}
			}
			within(func() bool { return log.count(c.logged) > 0 })
			if log.count(c.logged) != 1 || log.count("level=WARN") != 1 {
				t.Errorf("the log does not say %q in one line:\n%s", c.logged, log.buf.String())
			}
		})
	}
}

// TestCertificateOfAnotherServer: a server is who its certificate says, by the
// hosts that the configuration gives it.
func TestCertificateOfAnotherServer(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	secure := ca.mutual(ca.issue(t, "127.0.0.1"))
	var asked []string
	secure.Verify = func(_ context.Context, state tls.ConnectionState, hosts []string) error {
		asked = hosts
		if hosts == nil {
			return nil
		}
		return state.PeerCertificates[0].VerifyHostname(hosts[0])
	}
	a, addr, _ := runningSecure(t, 1, secure)
	a.setPeer(2, []string{"two.example:1"})
	a.setPeer(3, []string{"three.example:1"})
	for id, want := range map[uint64]string{
		2: "", 3: "your certificate doesn't say so", 4: "is not in this server's configuration",
	} {
		theirs := ca.mutual(ca.issue(t, "two.example"))
		theirs.Keys = sharing("a secret").Keys
		d := newTransport(id, 7, theirs, slog.New(slog.DiscardHandler))
		c, err := d.greet(t.Context(), addr, hello{connMessages, 7, id, 1}, false)
		if err == nil {
			c.Close()
		}
		var refused *refusedError
		if (err == nil) != (want == "") ||
			err != nil && (!errors.As(err, &refused) || !strings.Contains(refused.reason, want)) {
			t.Errorf("as server %d: %v (hosts %q), want %q", id, err, asked, want)
		}
	}
}

// TestWithdrawnCertificate: a recheck closes the connections to and from a peer whose certificate
// is no longer accepted, logs that once, and leaves the others alone.
func TestWithdrawnCertificate(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	one, two, three := ca.issue(t, "127.0.0.1"), ca.issue(t, "127.0.0.1"), ca.issue(t, "127.0.0.1")
	secure := ca.mutual(one)
	var dialled, accepted atomic.Int32 // certificates of two that were checked
	var withdrawn atomic.Bool
	secure.Check = func(shown []*x509.Certificate, byUs bool) error {
		if !bytes.Equal(shown[0].Raw, two.Certificate[0]) {
			return nil
		}
		if byUs {
			dialled.Add(1)
		} else {
			accepted.Add(1)
		}
		if withdrawn.Load() {
			return errors.New("it was withdrawn")
		}
		return nil
	}
	a, addrA, log := runningSecure(t, 1, secure)
	others := map[uint64]*transport{}
	for id, cert := range map[uint64]tls.Certificate{2: two, 3: three} {
		tr, addr, _ := runningSecure(t, id, ca.mutual(cert))
		tr.setPeer(1, []string{addrA})
		a.setPeer(id, []string{addr})
		others[id] = tr
	}
	current := func(id uint64) (heard, made net.Conn) {
		r := a.remote(id)
		a.mu.Lock()
		heard = a.reading[id].conn
		a.mu.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		return heard, r.conn
	}
	both := func(id uint64) bool {
		heard, made := current(id)
		return heard != nil && made != nil
	}
	waitFor := func(what string, holds func() bool) {
		t.Helper()
		if !within(holds) {
			t.Fatalf("never: %s\n%s", what, log.buf.String())
		}
	}
	go func() { // nobody reads the events otherwise
		for {
			select {
			case <-a.events:
			case <-others[2].events:
			case <-others[3].events:
			case <-a.ctx.Done():
				return
			}
		}
	}()
	waitFor("all are connected", func() bool { return both(2) && both(3) })
	heard2, made2 := current(2)
	heard3, made3 := current(3)
	a.recheck()
	if heard, made := current(2); heard != heard2 || made != made2 {
		t.Error("a recheck closed a connection whose certificate is accepted")
	}
	if dialled.Load() != 1 || accepted.Load() != 1 {
		t.Errorf("%d certificates of dialled and %d of accepted connections were checked", dialled.Load(), accepted.Load())
	}
	withdrawn.Store(true)
	a.recheck()
	waitFor("the connections are made anew", func() bool {
		heard, made := current(2)
		return heard != nil && made != nil && heard != heard2 && made != made2
	})
	if heard, made := current(3); heard != heard3 || made != made3 {
		t.Error("a recheck closed a connection of another server")
	}
	if n := log.count("no longer accepted"); n != 1 {
		t.Errorf("%d lines of the log say so:\n%s", n, log.buf.String())
	}
	a.cancel() // it stops
	before := dialled.Load() + accepted.Load()
	if a.recheck(); dialled.Load()+accepted.Load() != before {
		t.Error("a recheck asks for certificates though the server stops")
	}
}
