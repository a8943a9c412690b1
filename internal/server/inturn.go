package server

import (
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/turns"
	"github.com/zooid-project/zooid/jute"
)

// turnPatience is how long the input of a connection waits at most for the turn of its identity. It
// is no more than a quarter of the session's timeout, either.
const turnPatience = time.Second

// An inTurn has the turns that a connection takes: one of its identity, and one of the address that answers for that
// identity if anybody could claim it, so that a host with many made-up identities takes no more turns than others.
type inTurn struct{ own, payers turns.Turn }

// endSoon says that the connection is about to wait for others.
func (t *inTurn) endSoon() {
	t.own.EndSoon()
	t.payers.EndSoon()
}

// end ends the turns, if there are any.
func (t *inTurn) end() {
	t.payers.End()
	t.own.End()
}

// rest returns how long to rest before the end, after turns that took so long (ns).
func (t *inTurn) rest(took int64) (rest time.Duration) {
	for _, turn := range [...]*turns.Turn{&t.own, &t.payers} {
		if turn.Held() {
			rest = max(rest, turn.Rest(took))
		}
	}
	return rest
}

// receiveInTurn passes input to the replica when it is the turn of the client's identity.
func (s *Server) receiveInTurn(c *replica.Client, turn *inTurn, in []byte, now int64) (used int, err error) {
	began := now
	if own, payers := c.Turns(); own != nil {
		paying := own
		if payers != nil {
			paying = payers
		}
		if len(in) > frameHead+jute.RequestHeaderSize || !replica.Pressing(in) { // not a heartbeat
			s.turns.Note(own, now)
			s.payerTurns.Note(paying, now)
		}
		patience := min(turnPatience, time.Duration(c.Timeout())*time.Millisecond/4)
		if c.Crowded = turn.own.Begin(s.turns, own, now, patience); c.Crowded {
			s.meters.TurnsAwaited.Inc()
			began = s.now()
		}
		if payers != nil { // after its own turn: those who wait for the address take turns themselves
			patience -= time.Duration(began - now)
			if turn.payers.Begin(s.payerTurns, payers, began, patience) {
				c.Crowded = true
				s.meters.TurnsAwaited.Inc()
				began = s.now()
			}
		}
		defer turn.end()
	}
	used, err = s.replica.Receive(c, in, now)
	if turn.own.Held() || turn.payers.Held() {
		if rest := turn.rest(s.now() - began); rest > 0 {
			s.pause(rest)
		}
	}
	return used, err
}
