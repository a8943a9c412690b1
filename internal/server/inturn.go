package server

import (
	"time"

	"github.com/zooid-project/zooid/internal/turns"
)

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
