package back

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/kerberos"
	"github.com/zooid-project/zooid/internal/sasl"
)

// PeerSASL says how observers log in, as their quorum.auth.learnerRequireSasl=true asks for: by DIGEST-MD5 with a user
// and a password, or by Kerberos.
type PeerSASL struct {
	User         string // as in the observers' section QuorumLearner
	PasswordFile string
	Keytab       string // the keys of Principal
	Principal    string // the one whose tickets the observers get: their quorum.auth.kerberos.servicePrincipal
	Observers    string // their own principals, separated by commas
}

// Set sets the value of a flag. ok is false if it isn't one of SASL.
func (p *PeerSASL) Set(name, value string) (ok bool) {
	to := p.flags()[name]
	if to != nil {
		*to = value
	}
	return to != nil
}

func (p *PeerSASL) flags() map[string]*string {
	return map[string]*string{
		"peer-sasl-user": &p.User, "peer-sasl-password-file": &p.PasswordFile, "peer-sasl-keytab": &p.Keytab,
		"peer-sasl-principal": &p.Principal, "peer-sasl-observers": &p.Observers,
	}
}

func (p *PeerSASL) register(flags *flag.FlagSet) {
	for name, to := range p.flags() { // in any order
		flags.StringVar(to, name, "", "")
	}
}

// Logins returns how observers log in; nil if they don't.
func (p *PeerSASL) Logins() (*Logins, error) {
	digest, tickets := p.User != "" || p.PasswordFile != "", p.Keytab != "" || p.Principal != "" || p.Observers != ""
	switch {
	case digest && tickets:
		return nil, errors.New("observers log in by -peer-sasl-user or by -peer-sasl-keytab")
	case tickets:
		return p.tickets()
	case !digest:
		return nil, nil
	case p.User == "" || p.PasswordFile == "":
		return nil, errors.New("-peer-sasl-user and -peer-sasl-password-file belong together")
	}
	text, err := os.ReadFile(p.PasswordFile)
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

// tickets is Logins by Kerberos. Everybody in the realm can get a ticket, so the observers are named.
func (p *PeerSASL) tickets() (*Logins, error) {
	if p.Keytab == "" || p.Principal == "" || p.Observers == "" {
		return nil, errors.New("-peer-sasl-keytab, -peer-sasl-principal and -peer-sasl-observers belong together")
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
	users     []string // who may
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
			return nil, false, fmt.Errorf("%.200q is none of the observers", user)
		}
		return reply, done, err
	})
}
