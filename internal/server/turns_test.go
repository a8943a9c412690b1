package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/turns"
	"github.com/zooid-project/zooid/jute"
)

func ownTurns(c *replica.Client) *turns.Queue {
	own, _ := c.Turns()
	return own
}

// TestClaimedIdentitiesTakeOneTurn: an identity that anybody can claim waits for the turn of its address, too, however
// many of them that address has claimed.
func TestClaimedIdentitiesTakeOneTurn(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	s.requests.payerTurns = turns.New(2)
	one, other := connect(t, s.Addrs()[0].String(), 0, nil), connect(t, s.Addrs()[0].String(), 0, nil)
	for user, c := range map[string]*rawClient{"one:x": one, "other:x": other} {
		if h, _ := c.call(jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: []byte(user)}).Append); h.Err != jute.OK {
			t.Fatalf("a login was answered with %v", h.Err)
		}
	}
	var own, payers [2]*turns.Queue
	for i, c := range s.replica.Clients() {
		own[i], payers[i] = c.Turns()
	}
	if own[0] == own[1] || payers[0] == nil || payers[0] != payers[1] {
		t.Fatalf("two digest identities of one address have the turns %p and %p, and together %p and %p",
			own[0], own[1], payers[0], payers[1])
	}
	later := s.now() + int64(time.Hour)
	for range 2 { // two addresses that have sent requests an hour from now: until then the server is shared
		s.requests.payerTurns.Note(&turns.Queue{}, later)
		later += int64(time.Second)
	}
	var turn turns.Turn
	turn.Begin(s.requests.payerTurns, payers[0], s.now(), 0)
	if h, _ := other.call(jute.OpExists, (&jute.PathWatchRequest{Path: "/"}).Append); h.Err != jute.OK {
		t.Errorf("a read that waited for its turn was answered with %v", h.Err)
	}
	awaitCount(t, "its input has waited, as long as it may", s.meters.TurnsAwaited.Value, 1)
	turn.End()
	for range 3 { // each ends its turn
		if h, _ := one.call(jute.OpExists, (&jute.PathWatchRequest{Path: "/"}).Append); h.Err != jute.OK {
			t.Errorf("a read was answered with %v", h.Err)
		}
	}
	if n := s.meters.TurnsAwaited.Value(); n != 1 {
		t.Errorf("%d inputs have waited for their turn, not the first one alone", n)
	}
}

// TestInputTakesTurns: requests wait for the turn of their identity, but not for ever.
func TestInputTakesTurns(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	s.requests.turns = turns.New(2)
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	var client *replica.Client
	eventually(t, "its client is known", func() bool {
		all := s.replica.Clients()
		if len(all) == 1 {
			client = all[0]
		}
		return client != nil && ownTurns(client) != nil
	})
	// Two identities that have sent requests an hour from now: until then the server is shared.
	var turn turns.Turn
	later := s.now() + int64(time.Hour)
	for range 2 {
		s.requests.turns.Note(&turns.Queue{}, later)
		later += int64(time.Second)
	}
	turn.Begin(s.requests.turns, ownTurns(client), s.now(), 0)
	if _, err := c.conn.Write(c.request(nil, jute.OpExists, (&jute.PathWatchRequest{Path: "/"}).Append)); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, "its input has waited, as long as it may", s.meters.TurnsAwaited.Value, 1)
	turn.End()
	if h, _ := c.reply(); h.Err != jute.OK {
		t.Errorf("a read that waited for its turn was answered with %v", h.Err)
	}
	if !client.Crowded {
		t.Error("the input of a connection waited for its turn, and its identity is not crowded")
	}
	for range 3 { // each ends its turn
		if h, _ := c.call(jute.OpExists, (&jute.PathWatchRequest{Path: "/"}).Append); h.Err != jute.OK {
			t.Errorf("a read was answered with %v", h.Err)
		}
	}
	if client.Crowded {
		t.Error("the input of a connection didn't wait for its turn, and its identity is crowded")
	}
	if n := s.meters.TurnsAwaited.Value(); n != 1 {
		t.Errorf("%d inputs have waited for their turn, not the first one alone", n)
	}
}

// TestHeartbeatsShareNothing: a server whose other clients send heartbeats alone has its processors for the one that
// sends requests.
func TestHeartbeatsShareNothing(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	s.requests.turns = turns.New(2)
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	s.requests.turns.Note(&turns.Queue{}, 0)
	now := s.now()
	shared := func() bool { // whether turns are taken, since now
		var q turns.Queue
		var first, second turns.Turn
		first.Begin(s.requests.turns, &q, now, 0)
		defer first.End()
		defer second.End()
		return second.Begin(s.requests.turns, &q, now, 0)
	}
	if h, _ := c.call(jute.OpPing, nil); h.Err != jute.OK || shared() {
		t.Errorf("after a heartbeat that was answered with %v, the server is shared: %t", h.Err, shared())
	}
	exists := (&jute.PathWatchRequest{Path: "/"}).Append
	if h, _ := c.call(jute.OpExists, exists); h.Err != jute.OK || !shared() {
		t.Errorf("after a read that was answered with %v, the server is shared: %t", h.Err, shared())
	}
}
