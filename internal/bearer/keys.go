package bearer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The limits of keys.
const (
	documentBytesMax = 256 << 10 // of the keys, and of the document that says where they are
	keysMax          = 32        // keys of an issuer; the rest is ignored
	rsaBitsMin       = 2048
	rsaBitsMax       = 8192
	fetchTimeout     = 5 * time.Second
	keysFresh        = 10 * time.Minute // older keys are fetched again
	keysStale        = time.Hour        // older keys aren't used: they may have been withdrawn
	fetchPause       = 10 * time.Second // between two fetches, however often unknown keys are asked for
)

// errNoKeys says that keys can't be fetched.
var errNoKeys = errors.New("the issuer's keys can't be had")

// A source provides an issuer's keys.
type source struct {
	issuer   string
	location string // a file or a URL; "" for the location that the issuer names
	client   *http.Client
	now      func() time.Time

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	fetched  time.Time // when keys were last fetched
	tried    time.Time // when fetching was last tried
	err      error     // the error of that try
	fetching chan struct{}
}

func newSource(issuer, location, caFile string) (*source, error) {
	s := &source{issuer: issuer, location: location, now: time.Now}
	if err := CheckLocation(s.first()); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read auth.caFile: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read auth.caFile: %s holds no certificate in PEM", caFile)
		}
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: config, DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: documentBytesMax,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if !isURL(s.first()) {
		return s, s.fetch() // a file must exist at the start
	}
	return s, nil
}

// first returns the location that is fetched first.
func (s *source) first() string {
	if s.location != "" {
		return s.location
	}
	return strings.TrimSuffix(s.issuer, "/") + "/.well-known/openid-configuration"
}

func isURL(location string) bool { return strings.Contains(location, "://") }

// CheckLocation returns an error if keys may not come from a location: an attacker that can change them in transit can
// impersonate any user.
func CheckLocation(location string) error {
	if !isURL(location) {
		if !strings.HasPrefix(location, "/") {
			return errors.New("write a file with its whole path, or a URL")
		}
		return nil
	}
	u, err := url.Parse(location)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("it isn't a URL, or it contains a password")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("write https://")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("keys that come without TLS can be changed on their way; use https")
	}
	return nil
}

// named returns the keys that may verify a token with this key id, "" for none. For an unknown id it fetches the keys
// again, but not too often. If that fails, it returns errNoKeys: the issuer may have a new key.
func (s *source) named(id string) ([]jose.JSONWebKey, error) {
	for again := false; ; again = true {
		s.mu.Lock()
		now := s.now()
		age := now.Sub(s.fetched)
		if age >= keysStale || age < 0 {
			s.keys = nil
		}
		keys, known := s.choose(id), len(s.keys) > 0
		old := !known || age >= keysFresh || len(keys) == 0
		wait := s.refresh(old && now.Sub(s.tried).Abs() >= fetchPause)
		err := s.err
		s.mu.Unlock()
		switch {
		case len(keys) > 0:
			return keys, nil
		case wait != nil && !again:
			<-wait // for at most fetchTimeout
		case err != nil: // a new key may have this id
			return nil, fmt.Errorf("%w: %w", errNoKeys, err)
		case !known:
			return nil, errNoKeys
		default:
			return nil, nil
		}
	}
}

// choose returns the keys with an id, all of them for "". The caller holds mu.
func (s *source) choose(id string) (chosen []jose.JSONWebKey) {
	for _, k := range s.keys {
		if id == "" || k.KeyID == id {
			chosen = append(chosen, k)
		}
	}
	return chosen
}

// refresh starts fetching the keys if asked and if no fetch is running. It returns a channel that is closed when the
// fetch has ended, nil if none is running. The caller holds mu.
func (s *source) refresh(asked bool) chan struct{} {
	if s.fetching == nil && asked {
		done := make(chan struct{})
		s.fetching, s.tried = done, s.now()
		go func() {
			_ = s.fetch() // fetch stores the error
			s.mu.Lock()
			s.fetching = nil
			s.mu.Unlock()
			close(done)
		}()
	}
	return s.fetching
}

// fetch fetches the keys; if it fails, the previous ones stay.
func (s *source) fetch() error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	keys, err := s.get(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	}
	return err
}

func (s *source) get(ctx context.Context) ([]jose.JSONWebKey, error) {
	location := s.location
	if location == "" {
		b, err := s.document(ctx, s.first())
		if err != nil {
			return nil, err
		}
		var d struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(b, &d); err != nil || d.Issuer != s.issuer {
			return nil, fmt.Errorf("read %s: it isn't about the issuer %.200q", s.first(), s.issuer)
		}
		if err := CheckLocation(d.Keys); err != nil || !isURL(d.Keys) {
			return nil, fmt.Errorf("read %s: its jwks_uri isn't usable", s.first())
		}
		location = d.Keys
	}
	b, err := s.document(ctx, location)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", location, err)
	}
	return keys, nil
}

// document reads a file or a URL.
func (s *source) document(ctx context.Context, location string) ([]byte, error) {
	var from io.ReadCloser
	if isURL(location) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
		if err != nil {
			return nil, err
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return nil, err
		}
		if from = resp.Body; resp.StatusCode != http.StatusOK {
			from.Close()
			return nil, fmt.Errorf("read %s: the status is %d", location, resp.StatusCode)
		}
	} else {
		file, err := os.Open(location)
		if err != nil {
			return nil, err
		}
		from = file
	}
	defer from.Close()
	b, err := io.ReadAll(io.LimitReader(from, documentBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(b) > documentBytesMax {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", location, documentBytesMax)
	}
	return b, nil
}

// parseKeys returns the public keys of a key set (RFC 7517) that may verify tokens. It skips other kinds of keys,
// which an issuer may have too.
func parseKeys(b []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, errors.New("it isn't a JSON Web Key Set")
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), keysMax)] {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && signs(&k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no public key of RSA, of an elliptic curve or of Ed25519 that signs")
	}
	return keys, nil
}

func signs(k *jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= rsaBitsMin && key.N.BitLen() <= rsaBitsMax
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return k.Valid()
	}
	return false
}
