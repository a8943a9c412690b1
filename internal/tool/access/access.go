// Package access has the settings with which tools connect to servers and authenticate: TLS files, identities and
// logins. The settings come from flags, profiles, the environment, or properties of Java's client.
package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/zk"
)

// Access holds the settings for connecting to servers. The zero value means no TLS and no identity.
type Access struct {
	Server      string // the ensemble, as a connect string; "" if not set
	Profile     string // the profile with the settings that aren't given; "" for none
	Secure      bool   // use TLS
	Keys, Trust keystore.Store
	KeyFile     string // of the key, if Keys is a PEM file with only the certificate
	AnyHost     bool   // accept a certificate that names another host
	RequestMax  int    // bytes; 0 for the usual limit

	plain      bool // no TLS, whatever a profile or the environment says
	settled    bool // the profile and the environment have been applied
	protocol   string
	protocols  []string
	suites     []string
	revocation bool
	auth       []zk.Auth
	login      login
}

// Put sets the options of a client.
func (a *Access) Put(o *zk.Options) {
	o.Auth = a.auth
	if a.Secure {
		o.GetTLSConfig = a.tls
	}
	if a.RequestMax > 0 {
		o.MaxRequestBytes, o.MaxResponseBytes = a.RequestMax, max(a.RequestMax, zk.DefaultMaxResponseBytes)
	}
	a.login.put(o)
}

// Use sets a server's own key and trust stores.
func (a *Access) Use(tls *config.TLS) {
	a.Secure, a.Keys, a.Trust = true, StoreOf(tls.Keys), StoreOf(tls.Trust)
}

// StoreOf returns the store described in a configuration.
func StoreOf(s config.Store) keystore.Store {
	return keystore.Store{Location: s.Location, Password: s.Password.Reveal(), PasswordPath: s.PasswordPath, Type: s.Type}
}

// SetServer sets the ensemble.
func (a *Access) SetServer(text string) error {
	_, err := zk.ParseConnectString(text)
	a.Server = text
	return err
}

// Check takes missing settings from the profile and the environment, and reads all files once, so that a problem with
// them is reported at the start and not at a connection.
func (a *Access) Check() error {
	if err := a.Settle(); err != nil {
		return err
	}
	if a.KeyFile != "" && a.Keys.Location == "" {
		return errors.New("-tls-key (tls.key in a profile) needs the key's certificate: -tls-cert (tls.cert) names its file")
	}
	if err := a.login.read(); err != nil {
		return err
	}
	if !a.Secure {
		return nil
	}
	_, err := a.tls()
	return err
}

// tls reads the files and returns the configuration for one connection. It reads them each time, since a shell may run
// longer than a certificate is valid.
func (a *Access) tls() (*tls.Config, error) {
	certificates, err := a.certificates()
	if err != nil {
		return nil, err
	}
	config, _, err := keystore.Client(keystore.ClientOptions{
		Certificates: certificates, Trust: pemUnlessNamed(a.Trust), AnyHost: a.AnyHost,
		Protocol: a.protocol, EnabledProtocols: a.protocols, CipherSuites: a.suites, Revocation: a.revocation,
	})
	return config, err
}

func (a *Access) certificates() ([]tls.Certificate, error) {
	switch {
	case a.Keys.Location == "":
		return nil, nil
	case a.KeyFile == "":
		return pemUnlessNamed(a.Keys).Certificates()
	}
	certificate, err := tls.LoadX509KeyPair(a.Keys.Location, a.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s with the key %s: %w", a.Keys.Location, a.KeyFile, err)
	}
	return []tls.Certificate{certificate}, nil
}

// pemUnlessNamed sets the type of a store to PEM unless its type or its file's extension says otherwise. The extensions
// .crt, .cer and .key are common.
func pemUnlessNamed(s keystore.Store) keystore.Store {
	if s.Type == "" {
		switch strings.ToLower(filepath.Ext(s.Location)) {
		case ".jks", ".p12", ".pfx", ".bcfks":
		default:
			s.Type = "PEM"
		}
	}
	return s
}

// Dial connects to a server as a client does, without a session.
func (a *Access) Dial(ctx context.Context, server string) (net.Conn, error) {
	if !a.Secure {
		return new(net.Dialer).DialContext(ctx, "tcp", server)
	}
	config, err := a.tls()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", server)
}

// SecureDial returns Dial if servers are reached by TLS, else nil.
func (a *Access) SecureDial() func(ctx context.Context, server string) (net.Conn, error) {
	if !a.Secure {
		return nil
	}
	return a.Dial
}

// Or replaces the key and trust stores that aren't set with a server's own.
func (a *Access) Or(tls *config.TLS) {
	a.Secure = true
	if a.Keys.Location == "" && a.KeyFile == "" {
		a.Keys = StoreOf(tls.Keys)
	}
	if a.Trust.Location == "" {
		a.Trust = StoreOf(tls.Trust)
	}
}

// Identities returns the credentials that a connection sends first.
func (a *Access) Identities() []zk.Auth { return a.auth }

// AddAuth adds an identity given as scheme:credentials, or as ip, which has none.
func (a *Access) AddAuth(text string) error {
	scheme, credentials, ok := strings.Cut(text, ":")
	if text == "ip" {
		a.auth = append(a.auth, zk.Auth{Scheme: text})
		return nil
	}
	if !ok || scheme == "" || credentials == "" {
		return errors.New("want scheme:credentials, such as digest:user:password") // never shows the credentials
	}
	b, err := Credentials(scheme, credentials)
	if err != nil {
		return err
	}
	a.auth = append(a.auth, zk.Auth{Scheme: scheme, Auth: b})
	return nil
}

// Credentials returns the credentials of an identity: the text itself or, for a token
// (scheme bearer) given as @FILE, the contents of the file.
func Credentials(scheme, text string) ([]byte, error) {
	file, ok := strings.CutPrefix(text, "@")
	if scheme != "bearer" || !ok {
		return []byte(text), nil
	}
	b, err := ReadSmall(file)
	if b = bytes.TrimSpace(b); err == nil && len(b) == 0 {
		err = fmt.Errorf("read a token from %s: the file is empty", file)
	}
	return b, err
}

// ReadAuth adds the identities in a file.
func (a *Access) ReadAuth(file string) error {
	text, err := ReadSmall(file)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := a.AddAuth(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", file, i+1, err)
		}
	}
	return nil
}

// smallFileMax bounds files of settings and identities. It is far more than any of them needs, and detects a large file
// named by mistake.
const smallFileMax = 1 << 20

// ReadSmall reads a file of settings or identities.
func ReadSmall(file string) ([]byte, error) { return config.ReadFile(file, smallFileMax) }
