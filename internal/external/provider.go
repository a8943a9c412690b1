package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/authprovider"
)

// Options configure a scheme whose credentials a program or an endpoint checks.
type Options struct {
	Scheme      string        // the scheme's name
	Target      string        // exec:/path of a program with arguments, or an https:// URL
	Timeout     time.Duration // for the wait for a turn and the answer together
	Cache       time.Duration // how long an answer that admits a client is reused; 0 for never
	Concurrency int           // concurrent questions
	Matches     string        // the rule by which the scheme's ids match; "" for equality
	CAFile      string        // PEM certificates of the authorities trusted for the endpoint; "" for the system's
}

// A Provider implements a scheme by asking a program or an endpoint.
type Provider struct {
	o     Options
	asks  asker
	turns *turns
	known cache
	last  atomic.Uint64 // number of the last request
}

// An asker sends a question to a program or an endpoint.
type asker interface {
	ask(ctx context.Context, q *question) (*answer, error)
	close()
}

// CheckTarget returns an error if a value of authProvider.SCHEME is invalid.
func CheckTarget(target string) error {
	if command, ok := strings.CutPrefix(target, "exec:"); ok {
		if !strings.HasPrefix(command, "/") {
			return errors.New("write the program with its whole path, as exec:/usr/local/lib/judge")
		}
		return nil
	}
	u, err := url.Parse(target)
	switch {
	case err != nil || u.Host == "":
		return errors.New("it isn't a URL")
	case u.User != nil:
		return errors.New("an URL with a password would be shown in logs; leave it out")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("write exec:, https:// or http://")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("credentials would cross the network in clear; use https")
	}
	return nil
}

// New returns the provider after checking its target. It fails if a program can't be run, or if other users can replace
// it.
func New(o Options) (*Provider, error) {
	err := errors.Join(authprovider.CheckScheme(o.Scheme), CheckTarget(o.Target))
	if err != nil {
		return nil, fmt.Errorf("set up the scheme %s by %.200q: %w", o.Scheme, o.Target, err)
	}
	p := &Provider{o: o, turns: newTurns(o.Concurrency), known: cache{last: o.Cache}}
	if command, ok := strings.CutPrefix(o.Target, "exec:"); ok {
		p.asks, err = newProgram(strings.Fields(command), o.Concurrency)
	} else {
		p.asks, err = newEndpoint(o)
	}
	if err != nil {
		return nil, fmt.Errorf("set up the scheme %s: %w", o.Scheme, err)
	}
	return p, nil
}

// Close ends the idle programs.
func (p *Provider) Close() { p.asks.close() }

// Scheme returns the name of the scheme.
func (p *Provider) Scheme() string { return p.o.Scheme }

// IsValid reports whether an answer may contain id, or whether id is a valid pattern.
func (p *Provider) IsValid(id string) bool {
	return isID(id) && len(id) <= idsBytesMax &&
		(p.o.Matches != authprovider.Glob || strings.Count(id, "*") <= authprovider.GlobStarsMax)
}

// Rule returns the name of the rule by which ids match.
func (p *Provider) Rule() string { return p.o.Matches }

// IsAuthenticated returns true.
func (p *Provider) IsAuthenticated() bool { return true }

func hasStar(id string) bool { return strings.Contains(id, "*") }

// HandleAuthentication asks the program or the endpoint.
func (p *Provider) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	if len(r.Auth) > credentialBytesMax {
		return authprovider.Identities{}, fmt.Errorf("the credential has %d bytes, the most allowed is %d", len(r.Auth),
			credentialBytesMax)
	}
	key := p.known.key(&r)
	if ids, ok := p.known.get(key, time.Now()); ok {
		return ids, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.o.Timeout)
	defer cancel()
	if err := p.turns.take(ctx, r.Address); err != nil {
		return authprovider.Identities{}, fmt.Errorf("%w: %w", err, authprovider.ErrUndecided)
	}
	defer p.turns.give(r.Address)
	if ids, ok := p.known.get(key, time.Now()); ok { // another connection has asked meanwhile
		return ids, nil
	}
	a, err := p.asks.ask(ctx, &question{Request: p.last.Add(1), Scheme: r.Scheme, Credential: r.Auth, Address: r.Address})
	switch {
	case err != nil:
		return authprovider.Identities{}, fmt.Errorf("ask %.200q: %w: %w", p.o.Target, err, authprovider.ErrUndecided)
	case a.Refused != nil:
		return authprovider.Identities{}, a.refusal(&r)
	case p.o.Matches == authprovider.Glob && slices.ContainsFunc(a.IDs, hasStar):
		// In an ACL the id would be a pattern, and it would replace entries of the scheme "auth".
		return authprovider.Identities{}, fmt.Errorf("ask %.200q: an id in the answer has a *, which stands for any text in ACLs: %w",
			p.o.Target, authprovider.ErrUndecided)
	}
	now, ids := time.Now(), authprovider.Identities{IDs: a.IDs, Super: a.Super}
	if a.Seconds != nil {
		ids.Expires = now.Add(time.Duration(*a.Seconds) * time.Second)
	}
	p.known.put(key, ids, now)
	return ids, nil
}
