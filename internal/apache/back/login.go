package back

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/kerberos"
	"github.com/zooid-project/zooid/internal/sasl"
)

// passwordBytesMax bounds a password file's size.
const passwordBytesMax = 4 << 10

// PeerSASL says how observers log in, as their quorum.auth.learnerRequireSasl=true asks for: by DIGEST-MD5 with a user
// and a password, or by Kerberos.
type PeerSASL struct {
	User         string // as in the observers' section QuorumLearner
	PasswordFile string
	Keytab       string // the keys of Principal
	Principal    string // the principal for which the observers get tickets: their quorum.auth.kerberos.servicePrincipal
	Observers    string // their own principals, separated by commas
}

// Register adds the flags that set p.
func (p *PeerSASL) Register(flags *flag.FlagSet) {
	flags.StringVar(&p.User, "peer-sasl-user", "", "")
	flags.StringVar(&p.PasswordFile, "peer-sasl-password-file", "", "")
	flags.StringVar(&p.Keytab, "peer-sasl-keytab", "", "")
	flags.StringVar(&p.Principal, "peer-sasl-principal", "", "")
	flags.StringVar(&p.Observers, "peer-sasl-observers", "", "")
}

// Logins returns how observers log in; nil if they don't.
func (p *PeerSASL) Logins() (*Logins, error) {
	digest, tickets := p.User != "" || p.PasswordFile != "", p.Keytab != "" || p.Principal != "" || p.Observers != ""
	switch {
	case digest && tickets:
		return nil, errors.New("give either -peer-sasl-user or -peer-sasl-keytab, not both")
	case tickets:
		return p.tickets()
	case !digest:
		return nil, nil
	case p.User == "" || p.PasswordFile == "":
		return nil, errors.New("give -peer-sasl-user and -peer-sasl-password-file together")
	}
	text, err := config.ReadFile(p.PasswordFile, passwordBytesMax)
	if err != nil {
		return nil, fmt.Errorf("read the observers' password: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return nil, fmt.Errorf("the observers' password in %s is empty", p.PasswordFile)
	}
	return &Logins{
		mechanism: sasl.NewPeerDigestMD5(map[string]string{p.User: password}, rand.Reader), users: []string{p.User},
	}, nil
}

// tickets is Logins by Kerberos. Everybody in the realm can get a ticket, so the settings name the observers.
func (p *PeerSASL) tickets() (*Logins, error) {
	if p.Keytab == "" || p.Principal == "" || p.Observers == "" {
		return nil, errors.New("give -peer-sasl-keytab, -peer-sasl-principal and -peer-sasl-observers together")
	}
	acceptor, err := kerberos.New(kerberos.Options{Keytab: p.Keytab, Principal: p.Principal})
	if err != nil {
		return nil, err
	}
	l := &Logins{mechanism: acceptor}
	for part := range strings.SplitSeq(p.Observers, ",") {
		name, err := kerberos.ParsePrincipal(strings.TrimSpace(part))
		if err != nil || name.Realm == "" {
			return nil, fmt.Errorf("-peer-sasl-observers %q: want principals with their realm, as zkquorum/apache1@REALM",
				p.Observers)
		}
		l.users = append(l.users, name.String())
	}
	return l, nil
}

// Logins are how observers log in on both ports.
type Logins struct {
	mechanism sasl.Mechanism
	users     []string // users that may log in
}

// admit has an observer log in. Without logins it does nothing.
func (l *Logins) admit(conn net.Conn) error {
	if l == nil {
		return nil
	}
	login := l.mechanism.Begin()
	return learner.Admit(conn, func(token []byte) (reply []byte, done bool, err error) {
		reply, done, user, err := login.Step(token)
		if err == nil && done && !slices.Contains(l.users, user) {
			return nil, false, fmt.Errorf("%.200q isn't one of the observers", user)
		}
		return reply, done, err
	})
}
