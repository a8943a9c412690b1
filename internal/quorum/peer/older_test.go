package peer

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// An olderListener answers as a server of the older version: it closes a connection that doesn't begin with that one's
// opening, and answers one that does. It knows no secret.
type olderListener struct {
	addr    string
	newer   atomic.Int32 // openings of this version
	proofs  atomic.Int32 // proofs by a secret that it was given, in the older version's way
	pairs   atomic.Int32 // openings of the older version in handshake.ModePair
	nothing atomic.Int32 // hellos without a proof
}

func answerAsOlder(t *testing.T, secure Secure) *olderListener {
	t.Helper()
	l := listenLocal(t)
	t.Cleanup(func() { l.Close() })
	o := &olderListener{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(handshakeTimeout))
				over, _, err := secure.Accepted(t.Context(), c)
				if err == nil {
					o.answer(over)
				}
			}()
		}
	}()
	return o
}

func (o *olderListener) answer(c net.Conn) {
	switch version, err := handshake.ReadVersion(c); {
	case err != nil:
	case version == handshake.Version:
		o.newer.Add(1)
	case version == helloVersion:
		o.nothing.Add(1)
	case version == handshake.Version2:
		var opened [1 + 8 + 32 + 32]byte // mode, id, nonce, public key
		if _, err := io.ReadFull(c, opened[:]); err != nil {
			return
		}
		mode := handshake.Mode(opened[0])
		if mode == handshake.ModePair {
			o.pairs.Add(1)
		}
		if c.Write(bytes.Repeat([]byte{9}, challengeSize)); mode == handshake.ModePair {
			return
		}
		if _, err := io.ReadFull(c, make([]byte, proofSize)); err == nil {
			o.proofs.Add(1)
		}
	}
}

// TestOlderProofIsOffered: a server makes the older proof only to one that has made it itself. A listener that answers
// as an older version gets none by that, whatever this server knows of its ensemble: not at the level at which all make
// the newer one, not before, and not while it finds out how to begin. Where there is no secret, there is none to guess.
func TestOlderProofIsOffered(t *testing.T) {
	t.Parallel()
	secret := SecretOf("a secret")
	ca := newIssuer(t)
	for what, c := range map[string]struct {
		level    uint32
		over     bool
		allProve bool
		unknown  bool // this server knows no secret
		heard    bool // the peer has made the older proof to this server
		upgraded bool // and the newer one since
		proofs   bool // it is given an older proof
		pairs    bool // it is given an opening that asks for who answers, without a secret
		nothing  bool // it is given a hello without a proof
	}{
		"at the level":                  {level: levelProof},
		"at the level, heard before":    {level: levelProof, heard: true},
		"before the level":              {level: levelProof - 1},
		"before the level, heard":       {level: levelProof - 1, heard: true, proofs: true},
		"before the level, upgraded":    {level: levelProof - 1, heard: true, upgraded: true},
		"the first level":               {level: quorum.LevelFirst},
		"an older state, newer founded": {level: quorum.LevelFirst, allProve: true, heard: true},
		"it begins":                     {},
		"it begins, heard":              {heard: true, proofs: true},
		"it begins, without a secret":   {unknown: true, pairs: true},
		"over TLS, it begins":           {over: true},
		"over TLS, before the level":    {over: true, level: levelProof - 1, nothing: true},
		"over TLS, at the level":        {over: true, level: levelProof},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ours, theirs := Secure{}, Secure{}
			if c.over {
				ours, theirs = ca.mutual(ca.issue(t, "127.0.0.1")), ca.mutual(ca.issue(t, "127.0.0.1"))
			}
			fake := answerAsOlder(t, theirs)
			ours.Keys, theirs.Keys = sharing("a secret").Keys, sharing("a secret").Keys
			if c.unknown {
				ours.Keys = keyring(t, "")
			}
			tr := newTransport(1, 7, ours, slog.New(slog.DiscardHandler))
			defer tr.close()
			tr.snapshot = func(c net.Conn, _ uint64) { c.Close() }
			tr.inForce.Store(c.level)
			tr.configured = []quorum.Member{{ID: 2, Addrs: []string{fake.addr}}}
			l := listenLocal(t)
			tr.listen(l)
			older := newTransport(2, 7, theirs, slog.New(slog.DiscardHandler))
			defer older.close()
			if c.heard { // refused or not: the server isn't in tr's membership, and proves what it knows before that counts
				err := greetAs(t.Context(), older, l.Addr().String(), hello{connMessages, 7, 2, 1}, handshake.Version2,
					handshake.ModeSecret, secret[:])
				var refused *refusedError
				if said := err == nil || errors.As(err, &refused); said != (c.level < levelProof) {
					t.Fatalf("the peer's own proof: %v", err)
				}
			}
			if c.upgraded {
				greetAs(t.Context(), older, l.Addr().String(), hello{connMessages, 7, 2, 1}, handshake.Version,
					handshake.ModeSecret, secret[:])
			}
			tr.allProve = c.allProve
			for _, kind := range []byte{connMessages, connJoin, connClaim, connSnapshot, connMeet, connGuest} {
				g, err := tr.greet(t.Context(), fake.addr, hello{kind, 7, 1, 2}, true)
				if err == nil {
					g.Close()
					t.Errorf("a connection of kind %d is made", kind)
				}
			}
			if fake.newer.Load() == 0 {
				t.Error("it isn't tried by this version's proof")
			}
			if n := fake.proofs.Load(); (n > 0) != c.proofs {
				t.Errorf("%d older proofs are made", n)
			}
			if n := fake.pairs.Load(); (n > 0) != c.pairs {
				t.Errorf("%d times it is asked by the older version's opening, without a secret", n)
			}
			if n := fake.nothing.Load(); (n > 0) != c.nothing {
				t.Errorf("%d hellos come without a proof", n)
			}
		})
	}
}

// TestOlderPeersAreFew: whoever knows the secret may say that it is any server, and only those that are dialled are
// remembered.
func TestOlderPeersAreFew(t *testing.T) {
	t.Parallel()
	tr, _ := running(t, 1, 7)
	tr.configured = []quorum.Member{{ID: 2, Addrs: []string{"127.0.0.1:1"}}}
	tr.setPeer(3, []string{"127.0.0.1:1"})
	for id := range uint64(1000) {
		tr.heardVersion(id, handshake.Version2)
	}
	var known []any
	tr.older.Range(func(id, _ any) bool { known = append(known, id); return true })
	if len(known) != 2 {
		t.Errorf("it remembers %v", known)
	}
	tr.dropPeer(3)
	if !within(func() bool { return tr.remote(3) == nil }) {
		t.Error("it is dialled on")
	}
	if _, older := tr.older.Load(uint64(3)); older {
		t.Error("one that is no longer dialled is remembered")
	}
}
