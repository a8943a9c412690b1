package keystore

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func options() Options {
	return Options{Keys: stored("server.jks"), Trust: stored("trust.jks")}
}

// connect makes a connection between a client with its own configuration and the
// port, and returns what either side says of the handshake.
func connect(t *testing.T, p *Port, client *tls.Config) (server tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer nc.Close()
		conn := tls.Server(nc, p.Config())
		if serverErr = conn.Handshake(); serverErr == nil {
			server = conn.ConnectionState()
			_, serverErr = conn.Write([]byte("x"))
		}
		io.Copy(io.Discard, nc) // so that an alert reaches the client
	}()
	conn, clientErr := tls.Dial("tcp", l.Addr().String(), client)
	if clientErr == nil {
		_, clientErr = io.ReadFull(conn, make([]byte, 1))
		conn.Close()
	} else {
		l.Close()
	}
	<-done
	return server, clientErr, serverErr
}

// trusting is the configuration of a client that knows the test CA.
func trusting(t *testing.T, change func(*tls.Config)) *tls.Config {
	t.Helper()
	pool, err := stored("trust.pem").Pool()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if change != nil {
		change(cfg)
	}
	return cfg
}

func withCertificate(t *testing.T, name string) func(*tls.Config) {
	certs, err := stored(name).Certificates()
	if err != nil {
		t.Fatal(err)
	}
	// Always sent, even if the server didn't name its issuer.
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
}

func TestClientAuth(t *testing.T) {
	t.Parallel()
	stranger := stored("odd.pem") // a certificate that issued none
	for _, c := range []struct {
		auth  string
		trust Store
		cert  string // of the client; "" for none
		ok    bool
	}{
		{"need", stored("trust.jks"), "client.pem", true},
		{"", stored("trust.jks"), "client.pem", true},
		{"need", stored("trust.jks"), "", false},
		{"need", stranger, "client.pem", false},
		{"want", stored("trust.jks"), "client.pem", true},
		{"want", stored("trust.jks"), "", true},
		{"want", stranger, "client.pem", false},
		{"none", Store{}, "", true},
		{"none", Store{}, "client.pem", true},
	} {
		o := options()
		o.ClientAuth, o.Trust = c.auth, c.trust
		p, err := NewPort(o)
		if err != nil {
			t.Fatal(err)
		}
		var change func(*tls.Config)
		if c.cert != "" {
			change = withCertificate(t, c.cert)
		}
		state, clientErr, serverErr := connect(t, p, trusting(t, change))
		if ok := clientErr == nil && serverErr == nil; ok != c.ok {
			t.Errorf("clientAuth %q, trust %s, certificate %q: client %v, server %v; want success %v", c.auth, c.trust.Location,
				c.cert, clientErr, serverErr, c.ok)
		}
		if c.ok && c.auth != "none" && (len(state.PeerCertificates) > 0) != (c.cert != "") {
			t.Errorf("clientAuth %q, certificate %q: the server sees %d certificates", c.auth, c.cert, len(state.PeerCertificates))
		}
	}
}

func TestVersionsAndSuites(t *testing.T) {
	t.Parallel()
	const both = "1.2 1.3"
	for _, c := range []struct {
		protocol string
		enabled  []string
		suites   []string
		works    string // client versions that get through
		notes    int
		err      string
	}{
		{works: both},
		{protocol: "TLSv1.2", works: "1.2"},
		{protocol: "TLSv1.3", works: "1.3"},
		{protocol: "TLSv1.2", enabled: []string{"TLSv1.2", "TLSv1.3"}, works: both},
		{enabled: []string{"TLSv1", "TLSv1.1", "TLSv1.2"}, works: "1.2", notes: 2},
		{enabled: []string{"TLSv1"}, err: "all are broken"},
		{enabled: []string{"TLS9"}, err: "unknown TLS protocol"},
		{suites: []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, works: "1.2"},
		{suites: []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}, works: "1.3"},
		{suites: []string{"TLS_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, works: both, notes: 1},
		{suites: []string{
			"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "SSL_RSA_WITH_3DES_EDE_CBC_SHA",
		}, works: "1.2", notes: 2},
		{suites: []string{"SSL_RSA_WITH_RC4_128_SHA"}, err: "none can be had"},
		{protocol: "TLSv1.2", suites: []string{"TLS_AES_128_GCM_SHA256"}, err: "none is of an enabled protocol"},
		{protocol: "TLSv1.3", suites: []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
			err: "none is of an enabled protocol"},
	} {
		o := options()
		o.Protocol, o.EnabledProtocols, o.CipherSuites, o.ClientAuth = c.protocol, c.enabled, c.suites, "none"
		p, err := NewPort(o)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var works []string
		for _, v := range []struct {
			name string
			id   uint16
		}{{"1.1", tls.VersionTLS11}, {"1.2", tls.VersionTLS12}, {"1.3", tls.VersionTLS13}} {
			_, clientErr, serverErr := connect(t, p,
				trusting(t, func(c *tls.Config) { c.MinVersion, c.MaxVersion = v.id, v.id }))
			if clientErr == nil && serverErr == nil {
				works = append(works, v.name)
			}
		}
		if got := strings.Join(works, " "); got != c.works || len(p.Notes()) != c.notes {
			t.Errorf("%+v: works with %q, notes %q", c, got, p.Notes())
		}
	}
}

func TestPortErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"no key store":           func(o *Options) { o.Keys = Store{} },
		"no trust store":         func(o *Options) { o.Trust = Store{} },
		"unknown clientAuth":     func(o *Options) { o.ClientAuth = "maybe" },
		"read revocation lists":  func(o *Options) { o.CRLFile = "missing" },
		"testdata/trust.jks":     func(o *Options) { o.Keys = stored("trust.jks") },
		"testdata/missing.jks":   func(o *Options) { o.Trust = stored("missing.jks") },
		"testdata/untrusted.p12": func(o *Options) { o.Trust = stored("untrusted.p12") },
	} {
		o := options()
		change(&o)
		if _, err := NewPort(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestVerifyClientHost: a client whose certificate names another host is refused.
func TestVerifyClientHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		check bool
		names []string // addresses in the certificate
		ok    bool
	}{{true, []string{"127.0.0.1"}, true}, {true, []string{"192.0.2.1"}, false}, {true, nil, false}, {false, nil, true}} {
		o := options()
		o.VerifyClientHost = c.check
		o.Trust.Location = filepath.Join(t.TempDir(), "self.pem")
		cert := selfSigned(t, o.Trust.Location, c.names)
		p, err := NewPort(o)
		if err != nil {
			t.Fatal(err)
		}
		_, clientErr, serverErr := connect(t, p,
			trusting(t, func(cfg *tls.Config) { cfg.Certificates = []tls.Certificate{cert} }))
		if (clientErr == nil && serverErr == nil) != c.ok {
			t.Errorf("%+v: client %v, server %v", c, clientErr, serverErr)
		}
	}
}

// TestReverseLookup: a certificate that names no address speaks for one that has its name, if the names of addresses
// are looked up: that of a client, and that of a peer.
func TestReverseLookup(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		o := options()
		o.VerifyClientHost, o.ReverseDNS = true, reverse
		o.Trust.Location = filepath.Join(t.TempDir(), "self.pem")
		cert := selfSigned(t, o.Trust.Location, []string{"named.example"})
		p, err := NewPort(o)
		if err != nil {
			t.Fatal(err)
		}
		p.lookUp = func(_ context.Context, address string) ([]string, error) {
			if address == "127.0.0.1" {
				return []string{"other.example.", "named.example."}, nil
			}
			return []string{"other.example."}, nil
		}
		state, clientErr, serverErr := connect(t, p,
			trusting(t, func(cfg *tls.Config) { cfg.Certificates = []tls.Certificate{cert} }))
		if (clientErr == nil && serverErr == nil) != reverse {
			t.Errorf("lookups %t: a client gets %v, the server %v", reverse, clientErr, serverErr)
		}
		if !reverse {
			leaf, err := x509.ParseCertificate(cert.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			state = tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		}
		if err := p.VerifyPeer(t.Context(), state, []string{"127.0.0.1"}); (err == nil) != reverse {
			t.Errorf("lookups %t: a peer gets %v", reverse, err)
		}
		for _, host := range []string{"192.0.2.1", "zk1.example"} {
			if err := p.VerifyPeer(t.Context(), state, []string{host}); err == nil {
				t.Errorf("lookups %t: a peer passes for %s, which has another name", reverse, host)
			}
		}
	}
}

// selfSigned makes a certificate for addresses or names and writes it to a file.
func selfSigned(t *testing.T, file string, addresses []string) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: "self"},
	}
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, a)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// TestReload changes the stores under a running port, breaks them, and mends them.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var told []string
	o := options()
	o.Keys.Location, o.ClientAuth = filepath.Join(dir, "key.jks"), "none"
	o.Reloaded = func(err error) { told = append(told, map[bool]string{true: "taken", false: "failed"}[err == nil]) }
	when := time.Now()
	put := func(name string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(o.Keys.Location, data, 0o600)
		}
		when = when.Add(time.Second) // no two versions of the file have the same time
		if err = errors.Join(err, os.Chtimes(o.Keys.Location, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	put("server.jks")
	p, err := NewPort(o)
	if err != nil {
		t.Fatal(err)
	}
	p.checkEvery = 0
	for _, step := range []struct {
		put  string
		want []string
	}{
		{"", nil},
		{"server.p12", []string{"taken"}},
		{"make.sh", []string{"taken", "failed"}},
		{"", []string{"taken", "failed"}},
		{"server.jks", []string{"taken", "failed", "taken"}},
		{"", []string{"taken", "failed", "taken"}},
	} {
		if step.put != "" {
			put(step.put)
		}
		before := p.current.Load()
		if _, clientErr, serverErr := connect(t, p, trusting(t, nil)); clientErr != nil || serverErr != nil {
			t.Fatalf("after %q: client %v, server %v", step.put, clientErr, serverErr)
		}
		if !slices.Equal(told, step.want) {
			t.Fatalf("after %q: told %q, want %q", step.put, told, step.want)
		}
		taken := step.put != "" && step.put != "make.sh"
		if (p.current.Load() != before) != taken {
			t.Errorf("after %q: the configuration changed: %v", step.put, !taken)
		}
	}
}

// TestCBCIsOff: suites of TLS 1.2 with CBC are there for those who ask for them.
func TestCBCIsOff(t *testing.T) {
	t.Parallel()
	const suite = tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
	for _, asked := range []bool{false, true} {
		o := options()
		o.ClientAuth = "none"
		if asked {
			o.CipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"}
		}
		p, err := NewPort(o)
		if err != nil {
			t.Fatal(err)
		}
		_, clientErr, _ := connect(t, p,
			trusting(t, func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite} }))
		if (clientErr == nil) != asked {
			t.Errorf("asked for %v: %v", asked, clientErr)
		}
	}
	client, _, err := Client(ClientOptions{})
	if err != nil || len(client.CipherSuites) == 0 || slices.Contains(client.CipherSuites, suite) {
		t.Errorf("a client has %v, %v", client.CipherSuites, err)
	}
}

// TestWithdrawnStore: a store that is gone is told though nobody connects, and again; what
// was read before stays in use.
func TestWithdrawnStore(t *testing.T) {
	t.Parallel()
	o := options()
	text, err := os.ReadFile(o.Trust.Location)
	if err != nil {
		t.Fatal(err)
	}
	o.Trust.Location = filepath.Join(t.TempDir(), filepath.Base(o.Trust.Location))
	if err := os.WriteFile(o.Trust.Location, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var told []error
	o.Reloaded = func(err error) { told = append(told, err) }
	p, err := NewPort(o)
	if err != nil {
		t.Fatal(err)
	}
	p.checkEvery, p.remindEvery = 0, time.Hour
	look := func(want int) {
		t.Helper()
		before := p.current.Load()
		if _, err := p.Config().GetConfigForClient(&tls.ClientHelloInfo{}); err != nil || p.current.Load() != before {
			t.Errorf("what was read before isn't used: %v", err)
		}
		if len(told) != want {
			t.Fatalf("told %q, want %d times", told, want)
		}
	}
	look(0)
	if err := os.Remove(o.Trust.Location); err != nil {
		t.Fatal(err)
	}
	look(1)
	look(1)
	p.remindEvery = 0
	look(2)
}
