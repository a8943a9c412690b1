package auth

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// The limits of failed logins, which bound how fast passwords can be guessed. Failures are counted
// for what is guessed at, a user of a scheme, and for who guesses: so nobody is locked out by
// failures elsewhere, nor by those at another user's password, though many share his address.
const (
	// FailedLoginsBurst is how many logins with one user's name from one address may fail at once:
	// enough for a room full of clients whose password has just been changed.
	FailedLoginsBurst = 60
	// failedLoginEvery is the time (ns) after which one more login may fail: a second.
	failedLoginEvery = 1e9
	// failedLoginsWide is how many times as many logins with all names of a provider's scheme may fail.
	// Otherwise trying one password with every name would have no limit. Digest users have no such
	// limit: a gateway may have thousands of them, whose right passwords are new ones after a start.
	failedLoginsWide = 4
	// throttledMax bounds the guessers and users remembered. When there are more, what failed first is
	// forgotten.
	throttledMax = 20_000
	// passwordsMax is how many passwords of one digest user are told from new ones.
	passwordsMax = 64
	// userBytesMax is how much of a user's name counts.
	userBytesMax = 64
)

// A Guess is a credential that may be a guess at a secret: who guesses, and at what. The zero value
// is none.
type Guess struct {
	who, scheme, user string
	// password is a part of a digest's hash, 0 for other schemes: any makes an identity, and only a
	// new one is a guess.
	password uint64
}

// A Throttle counts failed logins. It is safe for concurrent use. The zero value is ready to use.
type Throttle struct {
	mu     sync.Mutex
	failed map[string]*failures
	order  []string // the keys of failed, oldest first; a ring once it is full
	next   int      // index of the oldest key in the ring
}

// failures are the failed logins of one guesser at one user, or at all users of a scheme.
type failures struct {
	paid  int64    // when they expire, by the caller's clock, ns
	known []uint64 // the passwords of the digests that were proved last
}

// narrow and wide are the keys of a Guess: one user, and all users of its scheme.
func (g *Guess) narrow() string { return g.who + "\x00" + g.scheme + "\x00" + g.user }
func (g *Guess) wide() string   { return g.who + "\x00" + g.scheme }

// Allows reports whether a credential may be judged at the time now (ns).
func (t *Throttle) Allows(g *Guess, now int64) bool {
	if g.scheme == "" {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	within := func(key string) bool {
		f := t.failed[key]
		return f == nil || f.paid-now <= (FailedLoginsBurst-1)*failedLoginEvery
	}
	return within(g.narrow()) && (g.password != 0 || within(g.wide()))
}

// Judged counts a login that failed with err, or succeeded if err is nil, at the time now (ns).
func (t *Throttle) Judged(g *Guess, err error, now int64) {
	if err != nil {
		t.Failed(g, now)
	} else {
		t.Succeeded(g, now)
	}
}

// Failed counts a login that failed at the time now (ns).
func (t *Throttle) Failed(g *Guess, now int64) {
	if g.scheme == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail(g, now)
}

// Succeeded counts a login that succeeded at the time now (ns), if it may be a guess nevertheless:
// a digest identity with a password that wasn't among the last ones with that name. Whether it is the
// right one only an ACL knows. Clients that share an address and a user share the password as well.
func (t *Throttle) Succeeded(g *Guess, now int64) {
	if g.password == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.of(g.narrow())
	if at := slices.Index(f.known, g.password); at >= 0 {
		f.known = append(slices.Delete(f.known, at, at+1), g.password)
		return
	}
	if len(f.known) >= passwordsMax {
		f.known = slices.Delete(f.known, 0, 1)
	}
	f.known = append(f.known, g.password)
	t.fail(g, now)
}

// fail counts a failure; mu is held.
func (t *Throttle) fail(g *Guess, now int64) {
	f := t.of(g.narrow())
	f.paid = max(f.paid, now) + failedLoginEvery
	if g.user != "" && g.password == 0 {
		f = t.of(g.wide())
		f.paid = max(f.paid, now) + failedLoginEvery/failedLoginsWide
	}
}

// of returns the failures under a key; mu is held.
func (t *Throttle) of(key string) *failures {
	f := t.failed[key]
	switch {
	case f != nil:
		return f
	case t.failed == nil:
		t.failed = map[string]*failures{}
		fallthrough
	case len(t.order) < throttledMax:
		t.order = append(t.order, key)
	default:
		delete(t.failed, t.order[t.next])
		t.order[t.next] = key
		t.next = (t.next + 1) % throttledMax
	}
	f = &failures{}
	t.failed[key] = f
	return f
}

// guesser returns who makes a guess: whom a login, an issuer or a provider has named before, on the
// same connection, or else the address.
func guesser(ids []jute.ID, address jute.ID) string {
	for _, id := range ids {
		if Authenticated(id) && id.Scheme != digest {
			return id.Scheme + ":" + id.ID
		}
	}
	return Neighbourhood(address.ID)
}

// GuessOf returns what an auth packet of a connection with the identities ids may guess at: a
// provider's secret, or the password of a digest user, whose identity ACLs name.
func (r *Registry) GuessOf(ids []jute.ID, address jute.ID, p *jute.AuthPacket) Guess {
	if p.Scheme != digest && r.providers[p.Scheme] == nil {
		return Guess{}
	}
	g := Guess{who: guesser(ids, address), scheme: strings.Clone(p.Scheme)}
	name, _, found := strings.Cut(string(p.Auth[:min(len(p.Auth), userBytesMax+1)]), ":")
	if g.user = name[:min(len(name), userBytesMax)]; !found && p.Scheme != digest {
		g.user = "" // a token, of which nothing is a name
	}
	if p.Scheme == digest {
		id := digestID(r.hash, p.Auth)
		hash, _ := base64.StdEncoding.DecodeString(id[strings.LastIndexByte(id, ':')+1:]) // which digestID has encoded
		g.password = max(binary.BigEndian.Uint64(hash), 1)
	}
	return g
}

// SASLGuess is GuessOf for a login by SASL, which names its user late.
func SASLGuess(ids []jute.ID, address jute.ID) Guess {
	return Guess{who: guesser(ids, address), scheme: sasl}
}

// Neighbourhood returns the part of an address that is counted as one: a whole IPv4 address, or the
// 64 bits of an IPv6 address that identify its network, since a host may use all addresses of its
// network.
func Neighbourhood(address string) string {
	groups := 0
	for i := range len(address) {
		if address[i] == ':' {
			if groups++; groups == 4 {
				return strings.Clone(address[:i])
			}
		}
	}
	return address
}
