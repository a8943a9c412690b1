package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure how a port accepts TLS connections. The comments have the names of the keys of zoo.cfg, without
// their prefix.
type Options struct {
	Keys  Store // keyStore
	Trust Store // trustStore; the Location may be empty only with ClientAuth none or with SystemTrust
	// SystemTrust trusts the system's authorities if there is no trust store, as Apache does with Java's.
	SystemTrust bool

	Protocol         string   // protocol: TLSv1.2 or TLSv1.3; "" for both
	EnabledProtocols []string // enabledProtocols; replaces Protocol
	CipherSuites     []string // ciphersuites, by Java's names; nil for the safe ones

	ClientAuth       string // clientAuth: none, want or need; "" is need
	VerifyClientHost bool   // clientHostnameVerification: a client's certificate must name its address
	ReverseDNS       bool   // allowReverseDnsLookup: or the host name of that address
	CommonName       bool   // hostnameInCommonName: the common name of a certificate without names of hosts counts
	CRL, OCSP        bool   // crl, ocsp: reject revoked certificates
	CRLFile          string // crlFile: revocation lists in addition to those that certificates name

	StapleFile string // ocspStapleFile: an OCSP response for the port's own certificate, for clients that ask for one

	// Reloaded is called after each attempt to read changed stores, with the error if it failed; then the previous
	// stores stay in use. The same failure is reported again after remindEvery. Reloaded is called during a handshake
	// and must not block. It may be nil.
	Reloaded func(error)
}

const (
	reloadCheck = time.Second      // the minimum time between two checks of the stores' files
	remindEvery = 10 * time.Minute // how often a persisting failure is reported
)

// A Port is the server's side of TLS on a port. It is safe for concurrent use.
type Port struct {
	opt         Options
	low, high   uint16
	suites      []uint16
	clientAuth  tls.ClientAuthType // forClient adds the check of the client's certificate
	notes       []string
	checkEvery  time.Duration
	remindEvery time.Duration
	revoked     *revocation // nil if revocation isn't checked
	lookUp      func(ctx context.Context, address string) (names []string, err error)

	current    atomic.Pointer[current]
	unreadable atomic.Bool // see Unreadable

	mu      sync.Mutex
	checked time.Time
	seen    [filesPerPort]fileMark // the files from which current was built, or with which building failed
	failed  string                 // the last reported failure
	told    time.Time              // when it was reported
}

// current is the content of the stores.
type current struct {
	*tls.Config
	chains []*x509.Certificate // of Config.Certificates
	trust  *trusted            // nil if the port neither asks for certificates nor dials

	bare        *tls.Config // Config without the OCSP response, for use when the response has expired
	stapleUntil time.Time
}

// inForce returns the configuration to use at present.
func (c *current) inForce() *tls.Config {
	if time.Now().After(c.stapleUntil) {
		return c.bare
	}
	return c.Config
}

// NewPort reads the stores and returns the port. An error has the name of the file or setting.
func NewPort(o Options) (*Port, error) {
	p := &Port{opt: o, checkEvery: reloadCheck, remindEvery: remindEvery, lookUp: net.DefaultResolver.LookupAddr}
	var err error
	var notes []string
	if p.low, p.high, p.notes, err = versions(o.Protocol, o.EnabledProtocols); err != nil {
		return nil, err
	}
	if p.suites, p.low, p.high, notes, err = suiteIDs(o.CipherSuites, p.low, p.high); err != nil {
		return nil, err
	}
	p.notes = append(p.notes, notes...)
	switch o.ClientAuth {
	case "none":
		p.clientAuth = tls.NoClientCert
	case "want":
		p.clientAuth = tls.RequestClientCert
	case "need", "":
		p.clientAuth = tls.RequireAnyClientCert
	default:
		return nil, fmt.Errorf("unknown clientAuth %.40q; allowed: none, want, need", o.ClientAuth)
	}
	switch {
	case o.Keys.Location == "":
		return nil, errors.New("accept TLS connections: there is no key store; set keyStore.location to a JKS, PKCS12 or PEM file with the server's key and certificate")
	case o.Trust.Location == "" && p.clientAuth != tls.NoClientCert && o.SystemTrust:
		p.notes = append(p.notes, "there is no trust store, so a client's certificate from any authority that this system trusts is accepted; set trustStore.location to a file with the certificate of their issuer")
	case o.Trust.Location == "" && p.clientAuth != tls.NoClientCert:
		return nil, errors.New("verify the certificates of clients: there is no trust store; set trustStore.location to a file with the certificate of their issuer, or clientAuth=none to ask for no certificates")
	}
	p.revoked = newRevocation(o.CRL, o.OCSP, o.CRLFile)
	if err := p.revoked.readFile(); err != nil {
		return nil, err
	}
	p.seen = p.marks()
	cfg, err := p.build()
	if err != nil {
		return nil, err
	}
	p.current.Store(cfg)
	for _, c := range cfg.Certificates {
		if byCommonName(c.Leaf) {
			p.notes = append(p.notes, p.commonNameNote(c.Leaf))
		}
	}
	return p, nil
}

// Notes returns a sentence for the log for each option that can't be applied. What is used instead is never weaker.
func (p *Port) Notes() []string { return p.notes }

// Config returns the configuration for accepting connections. It follows changes of the stores: new connections use
// their current content. The caller must not modify it.
func (p *Port) Config() *tls.Config {
	return &tls.Config{MinVersion: p.low, MaxVersion: p.high, GetConfigForClient: p.forClient}
}

// build reads the stores.
func (p *Port) build() (*current, error) {
	certs, err := p.opt.Keys.Certificates()
	if err != nil {
		return nil, err
	}
	c := &current{
		Config: &tls.Config{
			Certificates: certs, MinVersion: p.low, MaxVersion: p.high, CipherSuites: p.suites, ClientAuth: p.clientAuth,
		},
		chains: chainsOf(certs),
	}
	if p.clientAuth != tls.NoClientCert || p.opt.Trust.Location != "" {
		if c.trust, err = p.trusted(); err != nil {
			return nil, err
		}
		c.ClientCAs = c.trust.pool
	}
	c.bare = c.Config.Clone()
	if c.Certificates, c.stapleUntil, err = stapled(certs, p.opt.StapleFile); err != nil {
		return nil, err
	}
	return c, nil
}

// trusted reads the trust store, or returns the system's authorities in its place.
func (p *Port) trusted() (*trusted, error) {
	if p.opt.Trust.Location != "" || !p.opt.SystemTrust {
		return p.opt.Trust.trusted()
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's authorities, as there is no trust store: %w", err)
	}
	return &trusted{pool: pool}, nil
}

// forClient returns the configuration for one connection.
func (p *Port) forClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	p.refresh()
	now := p.current.Load()
	if p.clientAuth == tls.NoClientCert {
		return now.inForce(), nil
	}
	cfg := now.inForce().Clone()
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil // RequireAnyClientCert already rejects it if a certificate is required
		}
		if err := now.trust.verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, p.revoked, nil); err != nil {
			return err
		}
		if !p.opt.VerifyClientHost {
			return nil
		}
		return p.verifyAddr(hello.Context(), hello.Conn.RemoteAddr(), state.PeerCertificates)
	}
	return cfg, nil
}

// Check verifies a client's certificates from an earlier handshake again, with the current trust store, time and
// revocation. It returns nil if the revocation status is unknown: the failure of a responder must not close all
// connections.
func (p *Port) Check(shown []*x509.Certificate) error {
	if p.clientAuth == tls.NoClientCert {
		return nil
	}
	return p.checkFor(shown, x509.ExtKeyUsageClientAuth)
}

// CheckPeer is Check for the certificates of another server. dialled says that this server made the connection.
func (p *Port) CheckPeer(shown []*x509.Certificate, dialled bool) error {
	if dialled {
		return p.checkFor(shown, x509.ExtKeyUsageServerAuth)
	}
	return p.Check(shown)
}

func (p *Port) checkFor(shown []*x509.Certificate, usage x509.ExtKeyUsage) error {
	if len(shown) == 0 {
		return nil
	}
	p.refresh()
	err := p.current.Load().trust.verify(shown, usage, p.revoked.forRechecks(), nil)
	if errors.Is(err, errUnknown) {
		return nil
	}
	return err
}

// commonNameNote returns the note about the port's own certificate if only its common name names its host.
func (p *Port) commonNameNote(cert *x509.Certificate) string {
	if p.opt.CommonName {
		return fmt.Sprintf("the certificate %.100q in %s names its host by its common name alone, as old ones do; programs other than Java's and these servers don't take that. Issue one with a subject alternative name",
			cert.Subject.CommonName, p.opt.Keys.Location)
	}
	return fmt.Sprintf("the certificate %.100q in %s names its host by its common name alone, which doesn't count: others won't believe that it is this host's. Issue one with a subject alternative name",
		cert.Subject.CommonName, p.opt.Keys.Location)
}

// verifyAddr checks that a certificate names an address, or with ReverseDNS the host name of the address.
func (p *Port) verifyAddr(ctx context.Context, addr net.Addr, chain []*x509.Certificate) error {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return fmt.Errorf("verify the host of a client: %w", err)
	}
	return p.verifyName(ctx, host, chain)
}

// verifyName checks that a certificate names a host or, with ReverseDNS, the host name of an address.
func (p *Port) verifyName(ctx context.Context, host string, chain []*x509.Certificate) error {
	issuers := p.current.Load().trust.certs
	wrong := NamesHost(chain, issuers, host, p.opt.CommonName)
	if wrong == nil || !p.opt.ReverseDNS || net.ParseIP(host) == nil {
		return wrong
	}
	names, err := p.lookUp(ctx, host)
	for _, name := range names {
		if NamesHost(chain, issuers, name, p.opt.CommonName) == nil {
			return nil
		}
	}
	return errors.Join(wrong, err)
}

// filesPerPort is the number of a port's files: two stores, their password files, and the OCSP response.
const filesPerPort = 5

// A fileMark identifies a version of a file.
type fileMark struct {
	modified time.Time
	size     int64
	mode     os.FileMode
}

func (p *Port) marks() (marks [filesPerPort]fileMark) {
	for i, path := range []string{
		p.opt.Keys.Location, p.opt.Keys.PasswordPath, p.opt.Trust.Location, p.opt.Trust.PasswordPath, p.opt.StapleFile,
	} {
		if st, err := os.Stat(path); err == nil {
			marks[i] = fileMark{st.ModTime(), st.Size(), st.Mode()}
		}
	}
	return marks
}

// refresh reads the stores again if their files have changed. After a failure it tries again at each check, since files
// that belong together may change one after the other.
func (p *Port) refresh() {
	if !p.mu.TryLock() {
		return // another goroutine is reading, and this connection needn't wait
	}
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.checked) < p.checkEvery {
		return
	}
	p.checked = now
	marks := p.marks()
	if marks == p.seen && p.failed == "" {
		return
	}
	p.seen = marks
	cfg, err := p.build()
	p.unreadable.Store(err != nil)
	if err != nil {
		if text := err.Error(); text != p.failed || now.Sub(p.told) >= p.remindEvery {
			p.failed, p.told = text, now
			p.report(fmt.Errorf("reload the key and trust stores, which have changed: %w; those read before stay in use", err))
		}
		return
	}
	p.failed = ""
	p.current.Store(cfg)
	p.report(nil)
}

// Refresh reads the stores again now, for new connections. If that fails, the previous stores stay in use. It also
// returns an error if the file of revocation lists can't be read, or has an older list than before.
func (p *Port) Refresh() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked, p.seen = time.Now(), p.marks()
	cfg, err := p.build()
	p.unreadable.Store(err != nil)
	if err != nil {
		p.failed = err.Error()
		return fmt.Errorf("read the key and trust stores again: %w; those read before stay in use", err)
	}
	p.failed = ""
	p.current.Store(cfg)
	if err := p.revoked.readFile(); err != nil {
		return fmt.Errorf("check certificates for revocation: %w", err)
	}
	return nil
}

// Unreadable reports whether the last attempt to read the stores failed, so that older stores are in use.
func (p *Port) Unreadable() bool { return p.unreadable.Load() }

func (p *Port) report(err error) {
	if p.opt.Reloaded != nil {
		p.opt.Reloaded(err)
	}
}
