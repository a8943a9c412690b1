package auth

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// The limits of failed logins, which bound how fast passwords can be guessed. Failures are counted for each pair of a
// target, which is a user of a scheme, and a guesser. So failed logins from elsewhere, or as another user, don't lock a
// client out, even if many clients share an address.
const (
	// FailedLoginsBurst is how many logins as one user from one address may fail at once. It is enough for a group of
	// clients whose password has just been changed.
	FailedLoginsBurst = 60
	// failedLoginEvery is the time (ns) after which one more login may fail: a second.
	failedLoginEvery = 1e9
	// failedLoginsWide is the factor by which more logins may fail for all users of a provider's scheme together.
	// Without this limit, one password could be tried with every name. Digest users have no such limit: a gateway may
	// have thousands of them, whose correct passwords all count as new after a start.
	failedLoginsWide = 4
	// throttledMax bounds the recorded pairs of guesser and target. When there are more, the oldest one is forgotten.
	throttledMax = 20_000
	// passwordsMax is how many passwords of one digest user are recorded.
	passwordsMax = 64
	// userBytesMax is how many bytes of a user's name count.
	userBytesMax = 64
)

// A Guess is an attempt to authenticate that may be a guess at a secret: the guesser and the target. The zero value is
// no guess.
type Guess struct {
	who, scheme, user string
	// password is a part of a digest's hash, 0 for other schemes. Every password gives some digest identity, so only a new
	// password counts as a guess.
	password uint64
}

// A Throttle counts failed logins. It is safe for concurrent use. The zero value is ready to use.
type Throttle struct {
	mu     sync.Mutex
	failed map[string]*failures
	order  []string // the keys of failed, oldest first; a ring once it is full
	next   int      // index of the oldest key in the ring
	bytes  int64    // that all of it takes, roughly
}

// failuresBytes is roughly what failures take in addition to their key and passwords.
const failuresBytes = 128

// Memory returns roughly the bytes of memory that the Throttle uses.
func (t *Throttle) Memory() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// failures are the failed logins of one guesser as one user, or as all users of a scheme.
type failures struct {
	paid  int64    // when the last failure stops counting, by the caller's clock, ns
	known []uint64 // the passwords of the last accepted digests
}

// narrow and wide return the keys of a Guess: one user, and all users of its scheme.
func (g *Guess) narrow() string { return g.who + "\x00" + g.scheme + "\x00" + g.user }
func (g *Guess) wide() string   { return g.who + "\x00" + g.scheme }

// Allows reports whether a credential may be checked at the time now (ns).
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

// Succeeded counts a login that succeeded at the time now (ns) if it may still be a guess: a digest identity with a
// password that isn't among the last ones of that user. Only an ACL tells whether it is the correct one. Clients that
// share an address and a user share the password as well.
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
	t.bytes -= f.memory()
	f.known = append(f.known, g.password)
	t.bytes += f.memory()
	t.fail(g, now)
}

// fail counts a failure. The caller holds mu.
func (t *Throttle) fail(g *Guess, now int64) {
	f := t.of(g.narrow())
	f.paid = max(f.paid, now) + failedLoginEvery
	if g.user != "" && g.password == 0 {
		f = t.of(g.wide())
		f.paid = max(f.paid, now) + failedLoginEvery/failedLoginsWide
	}
}

// of returns the failures under a key. The caller holds mu.
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
		t.bytes -= int64(len(t.order[t.next])) + t.failed[t.order[t.next]].memory()
		delete(t.failed, t.order[t.next])
		t.order[t.next] = key
		t.next = (t.next + 1) % throttledMax
	}
	f = &failures{}
	t.failed[key] = f
	t.bytes += int64(len(key)) + f.memory()
	return f
}

// memory returns roughly the bytes that f takes without its key.
func (f *failures) memory() int64 { return failuresBytes + 8*int64(cap(f.known)) }

// guesser returns the name under which a client's guesses count: an identity that a login, an issuer or a provider has
// confirmed on the same connection, or else the address.
func guesser(ids []jute.ID, address jute.ID) string {
	for _, id := range ids {
		if Authenticated(id) && id.Scheme != digest {
			return id.Scheme + ":" + id.ID
		}
	}
	return Neighbourhood(address.ID)
}

// GuessOf returns the guess in an auth packet of a connection with the identities ids: at a provider's secret, or at
// the password of a digest user in an ACL.
func (r *Registry) GuessOf(ids []jute.ID, address jute.ID, p *jute.AuthPacket) Guess {
	if p.Scheme != digest && r.providers[p.Scheme] == nil {
		return Guess{}
	}
	g := Guess{who: guesser(ids, address), scheme: strings.Clone(p.Scheme)}
	name, _, found := strings.Cut(string(p.Auth[:min(len(p.Auth), userBytesMax+1)]), ":")
	if g.user = name[:min(len(name), userBytesMax)]; !found && p.Scheme != digest {
		g.user = "" // a token, which has no name in it
	}
	if p.Scheme == digest {
		id := digestID(r.hash, p.Auth)
		hash, _ := base64.StdEncoding.DecodeString(id[strings.LastIndexByte(id, ':')+1:]) // encoded by digestID
		g.password = max(binary.BigEndian.Uint64(hash), 1)
	}
	return g
}

// SASLGuess is GuessOf for a login by SASL, in which the user's name comes late.
func SASLGuess(ids []jute.ID, address jute.ID) Guess {
	return Guess{who: guesser(ids, address), scheme: sasl}
}

// Neighbourhood returns the part of an address whose failures are counted together: a whole IPv4 address, or the 64
// bits that identify the network of an IPv6 address, since a host may use all addresses of its network.
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
