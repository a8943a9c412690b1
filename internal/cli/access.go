package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/zk"
)

// access is how servers are reached, and who this client is to them. It holds for
// every server that the shell connects to, those named in cp, mirror and diff too.
type access struct {
	secure      bool // by TLS
	keys, trust keystore.Store
	keyFile     string // of the key, if keys is a PEM file with the certificate alone
	anyHost     bool
	protocol    string
	protocols   []string
	suites      []string
	revocation  bool

	auth       []zk.Auth
	login      login
	requestMax int // bytes; 0 for the usual limit
}

// put sets the options of one client.
func (a *access) put(o *zk.Options) {
	o.Auth = a.auth
	if a.secure {
		o.GetTLSConfig = a.tls
	}
	if a.requestMax > 0 {
		o.MaxRequestBytes, o.MaxResponseBytes = a.requestMax, max(a.requestMax, zk.DefaultMaxResponseBytes)
	}
	a.login.put(o)
}

// check reads all files once, so that what is wrong with them is told at the
// start rather than at a connection.
func (a *access) check() error {
	if a.keyFile != "" && a.keys.Location == "" {
		return errors.New("-tls-key needs the key's certificate: -tls-cert names its file")
	}
	if err := a.login.read(); err != nil {
		return err
	}
	if !a.secure {
		return nil
	}
	_, err := a.tls()
	return err
}

// tls reads the files and returns the configuration for one connection: a shell
// may live longer than a certificate.
func (a *access) tls() (*tls.Config, error) {
	certificates, err := a.certificates()
	if err != nil {
		return nil, err
	}
	config, _, err := keystore.Client(keystore.ClientOptions{
		Certificates: certificates, Trust: pemUnlessNamed(a.trust), AnyHost: a.anyHost,
		Protocol: a.protocol, EnabledProtocols: a.protocols, CipherSuites: a.suites, Revocation: a.revocation,
	})
	return config, err
}

func (a *access) certificates() ([]tls.Certificate, error) {
	switch {
	case a.keys.Location == "":
		return nil, nil
	case a.keyFile == "":
		return pemUnlessNamed(a.keys).Certificates()
	}
	certificate, err := tls.LoadX509KeyPair(a.keys.Location, a.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s with the key %s: %w", a.keys.Location, a.keyFile, err)
	}
	return []tls.Certificate{certificate}, nil
}

// pemUnlessNamed takes a file as PEM if neither a type nor its name says else:
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

// dial connects to a server as clients do, without a session.
func (a *access) dial(ctx context.Context, server string) (net.Conn, error) {
	if !a.secure {
		return new(net.Dialer).DialContext(ctx, "tcp", server)
	}
	config, err := a.tls()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", server)
}

// addAuth takes an identity as scheme:credentials.
func (a *access) addAuth(text string) error {
	scheme, credentials, ok := strings.Cut(text, ":")
	if !ok || scheme == "" || credentials == "" {
		return errors.New("want scheme:credentials, such as digest:user:password") // never what was given
	}
	a.auth = append(a.auth, zk.Auth{Scheme: scheme, Auth: []byte(credentials)})
	return nil
}

// readAuth takes the identities in a file.
func (a *access) readAuth(file string) error {
	text, err := readSmall(file)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := a.addAuth(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", file, i+1, err)
		}
	}
	return nil
}

// smallFileMax bounds files of settings and identities: far more than any holds,
// far less than what a wrong name could lead to.
const smallFileMax = 1 << 20

// readSmall reads a file of settings or identities.
func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, smallFileMax+1))
	if err == nil && len(text) > smallFileMax {
		err = fmt.Errorf("%s has more than %d bytes; is it the right file?", file, smallFileMax)
	}
	return text, err
}
