package peer

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// TestWarnsOfWhoLacksTheSecret: the secured server 1 warns of a process that comes without the secret once that process
// has turned down a proof made with it. Before, it may be a member that holds the secret as a candidate. Nothing else
// tells whether it does: not how long ago the secret was agreed on, and not that both have been restarted since.
func TestWarnsOfWhoLacksTheSecret(t *testing.T) {
	t.Parallel()
	secret := Secret{1}
	agreed, holds := keyring(t, t.TempDir()), keyring(t, t.TempDir())
	if err := agreed.Adopt(secret); err != nil {
		t.Fatal(err)
	}
	if _, err := holds.Merge(secret); err != nil {
		t.Fatal(err)
	}
	one, addr, log := runningSecure(t, 1, Secure{Keys: agreed})
	toOne, fromOne := hello{connMessages, 7, 2, 1}, hello{connMessages, 7, 1, 2}
	come := func(two *transport) (warned bool) {
		t.Helper()
		before := log.count("asks to join")
		if g, err := two.attempt(t.Context(), addr, toOne, handshake.ModePair, nil, true); err == nil {
			g.Close()
			t.Error("a server without the secret is accepted")
		}
		return log.count("asks to join") > before
	}

	holder, at, _ := runningSecure(t, 2, Secure{Keys: holds})
	one.keys.Pin(2, holder.keys.Public())
	if come(holder) {
		t.Error("server 1 warns of a process that it hasn't asked yet")
	}
	if !within(func() bool {
		if g, err := one.greet(t.Context(), at, fromOne, true); err == nil {
			g.Close()
		}
		return holder.keys.Secured()
	}) {
		t.Fatal("server 2 never adopts the secret that it holds")
	}
	if come(holder) || lacks(one, holder.keys) {
		t.Error("server 1 warns of a process that knows the secret")
	}

	empty, at, _ := runningSecure(t, 2, Secure{Keys: keyring(t, t.TempDir())})
	if !within(func() bool {
		if g, err := one.greet(t.Context(), at, fromOne, true); err == nil {
			g.Close()
			t.Fatal("a process accepts a secret that it doesn't hold")
		}
		return lacks(one, empty.keys)
	}) {
		t.Fatal("a process without the secret never turns its proof down")
	}
	if !come(empty) {
		t.Error("server 1 doesn't warn of it")
	}

	if lacks(one, keyring(t, "")) {
		t.Error("what a process lacks is held against the next one at its address")
	}
}

// TestSlowRefusal: a handshake that ends after its time says nothing about what the peer knows: it ends all that are
// too slow.
func TestSlowRefusal(t *testing.T) {
	t.Parallel()
	one := newTransport(1, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
	t.Cleanup(one.close)
	empty, at, _ := runningSecure(t, 2, Secure{Keys: keyring(t, "")})
	dial := one.dial
	one.dial = func(ctx ctx, addr string) (net.Conn, error) {
		time.Sleep(handshakeTimeout)
		return dial(ctx, addr)
	}
	if _, err := one.greet(t.Context(), at, hello{connMessages, 7, 1, 2}, true); err == nil {
		t.Fatal("a process accepts a secret that it doesn't hold")
	}
	if !one.keys.Pinned(2, empty.keys.Public()) || lacks(one, empty.keys) {
		t.Error("a slow refusal is held against the process")
	}
}

// lacks reports whether a transport knows that the process of server 2 that has these keys lacks the secret.
func lacks(t *transport, keys *Keyring) bool {
	return t.lacks(arrival{hello: hello{from: 2}, public: keys.Public()})
}
