package kerberos

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/sasl"
)

// Options give the server's identity and the form of its clients' names. The comments name the keys of zoo.cfg, or the
// options of Java's Krb5LoginModule.
type Options struct {
	Keytab      string // keyTab: a file with the keys of Principal
	Principal   string // principal: service/host@REALM
	Rules       string // security.auth_to_local; "" is DEFAULT
	RemoveHost  bool   // kerberos.removeHostFromPrincipal
	RemoveRealm bool   // kerberos.removeRealmFromPrincipal
}

// Name is the name of the mechanism.
const Name = "GSSAPI"

// An Acceptor implements GSSAPI with a server's key. It is immutable, except that it follows changes of the keytab.
type Acceptor struct {
	keys      *keyFile
	principal Principal
	rules     *Rules
	opt       Options
}

// New reads the keytab. Later logins notice if it has changed.
func New(o Options) (*Acceptor, error) {
	a := &Acceptor{opt: o}
	var err error
	if a.principal, err = ParsePrincipal(o.Principal); err != nil || len(a.principal.Names) != 2 ||
		a.principal.Realm == "" {
		return nil, fmt.Errorf("set up Kerberos: the server's principal is %.200q; it must have the form service/host@REALM",
			o.Principal)
	}
	if a.rules, err = ParseRules(o.Rules, a.principal.Realm); err != nil {
		return nil, err
	}
	a.keys = &keyFile{path: o.Keytab, owner: a.principal}
	if _, err := a.keys.current(); err != nil {
		return nil, fmt.Errorf("set up Kerberos: %w", err)
	}
	return a, nil
}

// Name returns "GSSAPI".
func (a *Acceptor) Name() string { return Name }

// Begins reports whether token is the first GSSAPI token of a client.
func (a *Acceptor) Begins(token []byte) bool { return len(token) > 0 && token[0] == applicationTag }

// Begin returns the state of one connection's login.
func (a *Acceptor) Begin() sasl.Login { return &login{acceptor: a} }

// identity returns the name of a client: the short name, with host and realm unless the options remove them.
func (a *Acceptor) identity(p Principal) (string, error) {
	name, err := a.rules.Short(p)
	if err != nil {
		return "", err
	}
	if len(p.Names) > 1 && !a.opt.RemoveHost {
		name += "/" + p.Names[1]
	}
	if p.Realm != "" && !a.opt.RemoveRealm {
		name += "@" + p.Realm
	}
	return name, nil
}

// tokenBytesMax bounds a token; tickets with Active Directory group memberships have up to 48 KiB.
const tokenBytesMax = 64 << 10

// login is the server's half of one login.
type login struct {
	acceptor *Acceptor
	stage    stage
	context  *context // set by the first token
}

type stage int

const (
	wantTicket  stage = iota // the client's first token
	wantNothing              // the empty token after the proof, if the client asked for one
	wantLayer                // the client's choice of a security layer
	over
)

// Step is sasl.Login.Step.
func (l *login) Step(token []byte) (reply []byte, done bool, authorizationID string, err error) {
	// The library parses untrusted input, and doesn't promise that it never panics.
	defer func() {
		if p := recover(); p != nil {
			l.stage, reply, done, authorizationID = over, nil, false, ""
			err = fmt.Errorf("log in by GSSAPI: the token can't be read: %v", p)
		}
	}()
	reply, authorizationID, err = l.step(token)
	if err != nil {
		l.stage = over
		return nil, false, "", fmt.Errorf("log in by GSSAPI: %w", err)
	}
	return reply, l.stage == over, authorizationID, nil
}

// UserBy is sasl.Ticketed.UserBy.
func (l *login) UserBy(m sasl.Mechanism) string {
	several, ok := m.(sasl.Several)
	if !ok {
		several = sasl.Several{m}
	}
	for _, one := range several {
		if a, ok := one.(*Acceptor); ok && l.context != nil {
			user, _ := a.identity(l.context.client)
			return user
		}
	}
	return ""
}

func (l *login) step(token []byte) (reply []byte, authorizationID string, err error) {
	if len(token) > tokenBytesMax {
		return nil, "", fmt.Errorf("the token has %d bytes, more than the %d allowed", len(token), tokenBytesMax)
	}
	switch l.stage {
	case wantTicket:
		settings, stale := l.acceptor.keys.current()
		if l.context, err = accept(token, settings); err != nil {
			if stale != nil {
				err = fmt.Errorf("%w (by keys from before the keytab changed: %w)", err, stale)
			}
			return nil, "", err
		}
		if l.context.mutual {
			l.stage = wantNothing
			reply, err = l.context.proof()
			return reply, "", err
		}
		fallthrough
	case wantNothing:
		if l.stage == wantNothing && len(token) > 0 {
			return nil, "", errors.New("the token after the server's proof isn't empty")
		}
		l.stage = wantLayer
		reply, err = l.context.offer()
		return reply, "", err
	case wantLayer:
		authzid, err := l.context.layer(token)
		if err != nil {
			return nil, "", err
		}
		client := l.context.client
		if authzid != "" && authzid != client.String() && authzid != strings.Join(client.Names, "/") {
			return nil, "", fmt.Errorf("%.200q asks to be %.200q: nobody may be another", client, authzid)
		}
		l.stage = over
		authorizationID, err = l.acceptor.identity(client)
		return nil, authorizationID, err
	}
	return nil, "", errors.New("the login is over; a new one needs a new connection")
}
