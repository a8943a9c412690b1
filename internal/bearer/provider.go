package bearer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/zooid-project/zooid/authprovider"
)

// Scheme is the name of the scheme.
const Scheme = "bearer"

// Algorithms are the permitted signature algorithms. None uses a shared secret.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// groupPrefix is the prefix of ids that stand for groups.
const groupPrefix = "group/"

// The limits of tokens and of the identities they prove.
const (
	tokenBytesMax = 16 << 10
	groupsMax     = 48
	idsBytesMax   = 3 << 10 // a connection may have 4 KiB
)

// Options configure a Provider; the comments name the keys of zoo.cfg.
type Options struct {
	Issuer      string   // auth.bearer.issuer
	Audience    []string // auth.bearer.audience: a token must be for one of these
	Keys        string   // auth.bearer.jwks: a file or a URL; "" for the location that the issuer names
	CAFile      string   // auth.caFile
	Algorithms  []string // auth.bearer.algorithms
	IDClaim     string   // auth.bearer.idClaim
	GroupsClaim string   // auth.bearer.groupsClaim; "" for none
	SuperUsers  []string // auth.bearer.superUsers: ids
	Skew        time.Duration
}

// A Provider verifies tokens.
type Provider struct {
	o          Options
	algorithms []jose.SignatureAlgorithm
	keys       *source
	now        func() time.Time
}

// New returns the provider. A file with keys must exist; a URL is fetched at the first token.
func New(o Options) (*Provider, error) {
	if o.Issuer == "" || len(o.Audience) == 0 || o.IDClaim == "" || len(o.Algorithms) == 0 {
		return nil, errors.New("set up the scheme bearer: an issuer, an audience, a claim and an algorithm are needed")
	}
	p := &Provider{o: o, now: time.Now}
	for _, a := range o.Algorithms {
		if !slices.Contains(Algorithms, a) {
			return nil, fmt.Errorf("set up the scheme bearer: the algorithm %.20q is not one of %s", a, strings.Join(Algorithms, ", "))
		}
		p.algorithms = append(p.algorithms, jose.SignatureAlgorithm(a))
	}
	var err error
	if p.keys, err = newSource(o.Issuer, o.Keys, o.CAFile); err != nil {
		return nil, fmt.Errorf("set up the scheme bearer: keys from %.200q: %w", cmp.Or(o.Keys, o.Issuer), err)
	}
	return p, nil
}

// Scheme returns "bearer".
func (*Provider) Scheme() string { return Scheme }

// IsValid reports whether a token may prove id.
func (*Provider) IsValid(id string) bool { return isID(id) }

// IsAuthenticated returns true.
func (*Provider) IsAuthenticated() bool { return true }

func isID(id string) bool {
	return id != "" && len(id) <= idsBytesMax && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// HandleAuthentication verifies a token.
func (p *Provider) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	if len(r.Auth) > tokenBytesMax {
		return authprovider.Identities{}, fmt.Errorf("the token has %d bytes, the most allowed is %d", len(r.Auth),
			tokenBytesMax)
	}
	token, err := p.parse(string(r.Auth))
	if err != nil {
		return authprovider.Identities{}, err
	}
	keys, err := p.keys.named(token.Headers[0].KeyID)
	if err != nil {
		return authprovider.Identities{}, fmt.Errorf("%w: %w", err, authprovider.ErrUndecided)
	}
	var claims jwt.Claims
	var all map[string]any
	if !verify(token, keys, &claims, &all) {
		return authprovider.Identities{}, errors.New("the token's signature is by none of the issuer's keys")
	}
	return p.judge(&claims, all)
}

// parse parses a token without verifying its signature. Errors don't show the token.
func (p *Provider) parse(text string) (*jwt.JSONWebToken, error) {
	token, err := jwt.ParseSigned(strings.TrimSpace(text), p.algorithms)
	if err != nil || len(token.Headers) != 1 {
		return nil, fmt.Errorf("it isn't a JSON Web Token signed by %s", strings.Join(p.o.Algorithms, ", "))
	}
	kind, _ := token.Headers[0].ExtraHeaders[jose.HeaderType].(string)
	switch strings.TrimPrefix(strings.ToLower(kind), "application/") {
	case "", "jwt", "at+jwt":
		return token, nil
	}
	return nil, errors.New("it is a token of another type than JWT or at+jwt")
}

// verify fills in the claims if one of the keys has signed them. A key that names an algorithm counts only if the
// token uses the same.
func verify(token *jwt.JSONWebToken, keys []jose.JSONWebKey, to ...any) bool {
	for _, k := range keys {
		if k.Algorithm != "" && k.Algorithm != token.Headers[0].Algorithm {
			continue
		}
		if token.Claims(k.Key, to...) == nil {
			return true
		}
	}
	return false
}

// judge returns the identities of claims whose signature was verified.
func (p *Provider) judge(claims *jwt.Claims, all map[string]any) (authprovider.Identities, error) {
	now := p.now()
	if claims.Expiry == nil {
		return authprovider.Identities{}, errors.New("the token has no exp; one that never ends isn't taken")
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: p.o.Issuer, AnyAudience: p.o.Audience, Time: now}, p.o.Skew)
	if err != nil {
		return authprovider.Identities{}, err
	}
	name, _ := lookup(all, p.o.IDClaim).(string)
	if !isID(name) || strings.HasPrefix(name, groupPrefix) {
		return authprovider.Identities{}, fmt.Errorf("the token's claim %s isn't an id: text that can be printed and doesn't begin with %s",
			p.o.IDClaim, groupPrefix)
	}
	ids := authprovider.Identities{IDs: []string{name}, Expires: claims.Expiry.Time().Add(p.o.Skew)}
	for _, group := range texts(lookup(all, p.o.GroupsClaim)) {
		ids.IDs = append(ids.IDs, groupPrefix+group)
	}
	size := 0
	for _, id := range ids.IDs {
		if size += len(id); !isID(id) || size > idsBytesMax || len(ids.IDs) > groupsMax+1 {
			return authprovider.Identities{}, fmt.Errorf("the token's claim %s has more than %d groups, or more than %d bytes, or what can't be printed",
				p.o.GroupsClaim, groupsMax, idsBytesMax)
		}
		ids.Super = ids.Super || slices.Contains(p.o.SuperUsers, id)
	}
	return ids, nil
}

// lookup returns a claim by its name, or by a dotted path into nested objects.
func lookup(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok || name == "" {
		return v
	}
	first, rest, _ := strings.Cut(name, ".")
	inner, _ := claims[first].(map[string]any)
	if inner == nil || rest == "" {
		return nil
	}
	return lookup(inner, rest)
}

// texts returns the strings in a claim, which is a string or a list.
func texts(claim any) (all []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok && s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}
