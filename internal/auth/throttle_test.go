package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

func from(address string) *Guess {
	return &Guess{who: Neighbourhood(address), scheme: "club", user: "ann"}
}

// TestThrottle: an address may fail as often as the burst allows, then once a second;
// others aren't concerned.
func TestThrottle(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	now := int64(5 * time.Hour)
	guess := func(address string) bool {
		allowed := throttle.Allows(from(address), now)
		if allowed {
			throttle.Failed(from(address), now)
		}
		return allowed
	}
	for n := range FailedLoginsBurst {
		if !guess("10.0.0.1") {
			t.Fatalf("failure %d isn't allowed", n+1)
		}
	}
	if guess("10.0.0.1") {
		t.Error("one more than the burst is allowed")
	}
	if !guess("10.0.0.2") {
		t.Error("another address is locked out")
	}
	now += int64(failedLoginEvery)
	if !guess("10.0.0.1") || guess("10.0.0.1") {
		t.Error("after a second it isn't exactly one more that is allowed")
	}
	now += (FailedLoginsBurst + 1) * int64(failedLoginEvery)
	for n := range FailedLoginsBurst {
		if !guess("10.0.0.1") {
			t.Fatalf("after a rest, failure %d isn't allowed", n+1)
		}
	}
}

// TestThrottleByNetwork: the addresses of one IPv6 network count as one.
func TestThrottleByNetwork(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	for n := range FailedLoginsBurst {
		throttle.Failed(from(fmt.Sprintf("2001:db8:0:1:0:0:0:%x", n)), 1)
	}
	if throttle.Allows(from("2001:db8:0:1:ffff:0:0:1"), 1) {
		t.Error("another address of the network may go on")
	}
	if !throttle.Allows(from("2001:db8:0:2:0:0:0:1"), 1) {
		t.Error("another network is locked out")
	}
}

// TestThrottledMax: the memory is bounded, and the newest are remembered.
func TestThrottledMax(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	name := func(n int) *Guess { return sasled(fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)) }
	for n := range throttledMax + 100 {
		for range FailedLoginsBurst {
			throttle.Failed(name(n), 1)
		}
	}
	if len(throttle.failed) != throttledMax || len(throttle.order) != throttledMax {
		t.Errorf("%d addresses are remembered, in a ring of %d", len(throttle.failed), len(throttle.order))
	}
	if throttle.Allows(name(throttledMax+99), 1) || throttle.Allows(name(100), 1) ||
		!throttle.Allows(name(99), 1) {
		t.Error("it isn't the oldest that are forgotten")
	}
	for n := range 200 { // some whose passwords are remembered, and who are forgotten again
		for password := range uint64(passwordsMax + 5) {
			throttle.Succeeded(&Guess{who: "here", scheme: digest, user: fmt.Sprint(n), password: password + 1}, 1)
		}
	}
	var bytes int64
	for key, f := range throttle.failed {
		bytes += int64(len(key)) + failuresBytes + 8*int64(cap(f.known))
	}
	if n := throttle.Memory(); n != bytes || n < 200*passwordsMax*8 {
		t.Errorf("the memory of %d records is %d, want %d", len(throttle.failed), n, bytes)
	}
}

func sasled(address string) *Guess {
	g := SASLGuess(nil, jute.ID{Scheme: "ip", ID: address})
	return &g
}

// TestThrottleByUser: failures as one user don't affect other users, even at the same address. Logins with many users
// of a provider have a limit too.
func TestThrottleByUser(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{
		SuperDigest: "super:D/InIHSb7yEEbrWz8b9l71RjZJU=", X509: true, Providers: []authprovider.Provider{team{"team"}},
	})
	address := jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	guess := func(scheme, credential string, ids ...jute.ID) *Guess {
		g := r.GuessOf(ids, address, &jute.AuthPacket{Scheme: scheme, Auth: []byte(credential)})
		return &g
	}
	var throttle Throttle
	now := int64(time.Hour)
	for i := range FailedLoginsBurst + 10 { // at the superuser's password, which makes identities
		throttle.Succeeded(guess("digest", fmt.Sprintf("super:%d", i)), now)
	}
	member := jute.ID{Scheme: "x509", ID: "CN=ann"}
	for name, c := range map[string]struct {
		g  *Guess
		ok bool
	}{
		"another guess":               {guess("digest", "super:x"), false},
		"the right one":               {guess("digest", "super:test"), false},
		"a former guess":              {guess("digest", "super:1"), false}, // whether it is one isn't told
		"another user":                {guess("digest", "ann:x"), true},
		"a provider's user":           {guess("team", "super:x"), true},
		"SASL":                        {sasled("10.0.0.1"), true},
		"whoever has a certificate":   {guess("digest", "super:test", member), true},
		"whoever has another digest":  {guess("digest", "super:test", jute.ID{Scheme: "digest", ID: "a:b"}), false},
		"what isn't a guess at a key": {guess("ip", "super:x"), true},
	} {
		if throttle.Allows(c.g, now) != c.ok {
			t.Errorf("%s: judged is %v", name, !c.ok)
		}
	}
	if !throttle.Allows(guess("digest", "super:test"), now+11*failedLoginEvery) {
		t.Error("the right one isn't judged when the guesses have expired")
	}

	// Clients that share an address, a user and the password aren't guessing; nor are thousands of users.
	for range 10_000 {
		g := guess("digest", "app:secret")
		if !throttle.Allows(g, now) {
			t.Fatal("a password that is known by now isn't judged")
		}
		throttle.Succeeded(g, now)
	}
	for i := range 10_000 {
		g := guess("digest", fmt.Sprintf("user%d:secret", i))
		if !throttle.Allows(g, now) {
			t.Fatalf("user %d isn't judged", i)
		}
		throttle.Succeeded(g, now)
	}
	judged := 0
	for i := range 10_000 {
		g := guess("team", fmt.Sprintf("user%d:secret", i))
		if !throttle.Allows(g, now) {
			break
		}
		throttle.Failed(g, now)
		judged++
	}
	if judged < FailedLoginsBurst || judged > failedLoginsWide*FailedLoginsBurst {
		t.Errorf("one password is tried with %d names", judged)
	}
}

// TestGuessOf: what a credential names before its colon is a user. One without a colon is a secret as a whole, which
// must not be kept as somebody's name.
func TestGuessOf(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{Providers: []authprovider.Provider{team{"team"}}})
	address := jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	long := strings.Repeat("u", userBytesMax)
	for name, c := range map[string]struct{ scheme, credential, user string }{
		"a user":               {"team", "ann:secret", "ann"},
		"a token":              {"team", "secret", ""},
		"nothing":              {"team", "", ""},
		"the longest name":     {"team", long + ":secret", long},
		"a longer one":         {"team", long + "v:secret", ""},
		"a digest":             {"digest", "ann:secret", "ann"},
		"a digest of a name":   {"digest", "ann", "ann"},
		"a digest, long":       {"digest", long + "v:secret", long},
		"a digest of nobody's": {"digest", ":secret", ""},
	} {
		g := r.GuessOf(nil, address, &jute.AuthPacket{Scheme: c.scheme, Auth: []byte(c.credential)})
		if g.who != "10.0.0.1" || g.scheme != c.scheme || g.user != c.user {
			t.Errorf("%s: %q guesses at %s's %q, want %q", name, g.who, g.scheme, g.user, c.user)
		}
		if (g.password != 0) != (c.scheme == "digest") {
			t.Errorf("%s: the password is %d", name, g.password)
		}
	}
	if g := r.GuessOf(nil, address, &jute.AuthPacket{Scheme: "ip", Auth: []byte("a:b")}); g != (Guess{}) {
		t.Errorf("a login by address is the guess %v", g)
	}
}

// TestThrottleNothing: a credential that can't be a guess is always checked and never counted.
func TestThrottleNothing(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	for range 10 * FailedLoginsBurst {
		throttle.Failed(&Guess{}, 1)
		throttle.Succeeded(&Guess{}, 1)
		throttle.Succeeded(from("10.0.0.1"), 1)
	}
	if !throttle.Allows(&Guess{}, 1) || !throttle.Allows(from("10.0.0.1"), 1) || len(throttle.failed) != 0 {
		t.Errorf("%d guesses are remembered", len(throttle.failed))
	}
}

// TestThrottlePasswords: the last passwords of a digest user are known, the latest used the longest. One that isn't
// counts as a guess.
func TestThrottlePasswords(t *testing.T) {
	t.Parallel()
	guess := func(password int) *Guess {
		return &Guess{who: "10.0.0.1", scheme: "digest", user: "ann", password: uint64(password)}
	}
	var throttle Throttle
	now := int64(time.Hour)
	proves := func(password int) (counted bool) {
		before := throttle.of(guess(password).narrow()).paid
		throttle.Succeeded(guess(password), now)
		return throttle.of(guess(password).narrow()).paid != before
	}
	for n := 1; n <= passwordsMax; n++ {
		if !proves(n) {
			t.Fatalf("password %d is new and doesn't count", n)
		}
	}
	for n := 1; n <= passwordsMax; n++ {
		if proves(n) {
			t.Fatalf("password %d of %d is known and counts", n, passwordsMax)
		}
	}
	proves(1) // from now on the last one, and 2 the oldest
	if !proves(passwordsMax + 1) {
		t.Error("one more password doesn't count")
	}
	if known := len(throttle.of(guess(1).narrow()).known); known != passwordsMax {
		t.Errorf("%d passwords are known", known)
	}
	if proves(1) || proves(3) {
		t.Error("a password that was used lately counts")
	}
	if !proves(2) {
		t.Error("the password that was used the longest ago doesn't count")
	}
}

// TestThrottleToTheNanosecond: a login that fails costs a second, to all names of a scheme a quarter.
func TestThrottleToTheNanosecond(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	now := int64(time.Hour)
	for range FailedLoginsBurst {
		throttle.Failed(from("10.0.0.1"), now)
	}
	next := now + failedLoginEvery
	if throttle.Allows(from("10.0.0.1"), next-1) || !throttle.Allows(from("10.0.0.1"), next) {
		t.Error("it isn't a second until the next login may fail")
	}
	name := func(n int) *Guess { return &Guess{who: "10.0.0.2", scheme: "club", user: fmt.Sprint(n)} }
	names := 0
	for ; throttle.Allows(name(names), now); names++ {
		throttle.Failed(name(names), now)
	}
	if names != (FailedLoginsBurst-1)*failedLoginsWide+1 {
		t.Errorf("%d names are judged at once", names)
	}
	const until = failedLoginEvery / failedLoginsWide
	if throttle.Allows(name(-1), now+until-1) || !throttle.Allows(name(-1), now+until) {
		t.Errorf("it isn't %d ns until the next name is judged", int64(until))
	}
}

// TestThrottledRound: the ring of recorded pairs wraps around, and the oldest are always forgotten first.
func TestThrottledRound(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	for n := range 2*throttledMax + 10 {
		throttle.of(fmt.Sprint(n))
	}
	if len(throttle.failed) != throttledMax || len(throttle.order) != throttledMax {
		t.Fatalf("%d are remembered, in a ring of %d", len(throttle.failed), len(throttle.order))
	}
	for n := range 2*throttledMax + 10 {
		if _, kept := throttle.failed[fmt.Sprint(n)]; kept != (n >= throttledMax+10) {
			t.Fatalf("%d of %d is kept: %v", n, 2*throttledMax+10, kept)
		}
	}
}
