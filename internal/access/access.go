// Package access holds the settings by which tools reach servers and prove who they are: TLS
// with its files, identities and logins, from flags or from the settings of Java's client.
package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/zk"
)

// Access says how to reach servers, and with which identities. The zero value has no
// TLS and no identity.
type Access struct {
	Server      string // the ensemble, as a connect string; "" if nothing says it
	Profile     string // of the settings that aren't given; "" for none
	Secure      bool   // by TLS
	Keys, Trust keystore.Store
	KeyFile     string // of the key, if Keys is a PEM file with only the certificate
	AnyHost     bool   // the certificate may name another host
	RequestMax  int    // bytes; 0 for the usual limit

	plain      bool // without TLS, whatever a profile or the environment says
	settled    bool // the profile and the environment are in
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

// Use takes a server's own key and trust stores.
func (a *Access) Use(tls *config.TLS) {
	a.Secure, a.Keys, a.Trust = true, StoreOf(tls.Keys), StoreOf(tls.Trust)
}

// StoreOf returns the store that a configuration names.
func StoreOf(s config.Store) keystore.Store {
	return keystore.Store{Location: s.Location, Password: s.Password.Reveal(), PasswordPath: s.PasswordPath, Type: s.Type}
}

// SetServer sets the ensemble.
func (a *Access) SetServer(text string) error {
	_, err := zk.ParseConnectString(text)
	a.Server = text
	return err
}

// Check takes what isn't set from the profile and the environment, and reads all files once, so that
// a problem with them is reported at the start rather than at a connection.
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

// tls reads the files and returns the configuration for one connection. It reads them
// each time, as a shell may outlive a certificate.
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

// pemUnlessNamed takes a file as PEM unless its type or its name says otherwise: .crt,
// .cer and .key are common.
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

// Dial connects to a server as clients do, without a session.
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

// Or takes what isn't said of keys and trust from a server's own stores.
func (a *Access) Or(tls *config.TLS) {
	a.Secure = true
	if a.Keys.Location == "" && a.KeyFile == "" {
		a.Keys = StoreOf(tls.Keys)
	}
	if a.Trust.Location == "" {
		a.Trust = StoreOf(tls.Trust)
	}
}

// Identities returns the identities that a connection proves first.
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

// smallFileMax bounds files of settings and identities: far more than any of them
// holds, and far less than a file named by mistake may have.
const smallFileMax = 1 << 20

// ReadSmall reads a file of settings or identities.
func ReadSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSmall(f)
}

func readSmall(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, smallFileMax+1))
	if err == nil && len(text) > smallFileMax {
		err = fmt.Errorf("%s has more than %d bytes; is it the right file?", f.Name(), smallFileMax)
	}
	return text, err
}
