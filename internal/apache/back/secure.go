package back

import (
	"crypto/tls"
	"errors"
	"flag"

	"github.com/zooid-project/zooid/internal/keystore"
)

// PeerTLS names the files for TLS with the observers, which have sslQuorum=true.
type PeerTLS struct {
	Cert         string // certificate and key that are shown to the observers
	CA           string // the authority that signs the observers' certificates
	PasswordFile string // for both
}

// Register adds the flags that set p.
func (p *PeerTLS) Register(flags *flag.FlagSet) {
	flags.StringVar(&p.Cert, "peer-tls-cert", "", "")
	flags.StringVar(&p.CA, "peer-tls-ca", "", "")
	flags.StringVar(&p.PasswordFile, "peer-tls-password-file", "", "")
}

// Config returns the configuration of both ports; nil without TLS. Observers must show a certificate of the authority,
// because they get all data.
func (p *PeerTLS) Config() (*tls.Config, error) {
	switch {
	case *p == PeerTLS{}:
		return nil, nil
	case p.Cert == "" || p.CA == "":
		return nil, errors.New("TLS to the observers needs both -peer-tls-cert and -peer-tls-ca")
	}
	shown, err := keystore.Store{Location: p.Cert, PasswordPath: p.PasswordFile}.ByName().Certificates()
	if err != nil {
		return nil, err
	}
	trusted, err := keystore.Store{Location: p.CA, PasswordPath: p.PasswordFile}.ByName().Pool()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: shown, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	}, nil
}
