// Package switchover decides when a copy of a running Apache ensemble may take the ensemble's place: before its
// servers are stopped, and afterwards. It only decides; the caller stops and starts servers.
//
// # Why nothing is lost and nothing comes twice
//
// An Apache ensemble acknowledges a write once a majority of its voters has logged it. When a majority of the voters
// has stopped, nothing more can be acknowledged, and the logs of any majority hold everything that was ever
// acknowledged. The longest of these logs whose server followed the latest leader is the history with which the
// ensemble itself would continue: its election chooses the same one. The copy is a prefix of that history, because an
// observer gets only what is committed. So the copy and the rest of that log, its tail, are the ensemble's state.
//
// The servers that haven't stopped, at most a minority, can't acknowledge anything. They must never be started
// together with the others again.
package switchover

import (
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
)

// LagMax is how far the copy may be behind when the ensemble is stopped: the rest then comes from the servers' logs.
const LagMax = time.Second

// ErrUndigested says that no digest has been compared.
var ErrUndigested = errors.New("the copy's digest hasn't been compared with the leader's yet")

// ErrFinal marks errors that waiting doesn't resolve.
var ErrFinal = errors.New("the copy can't replace the ensemble")

// Ready returns why a copy can't take the ensemble's place now, nil if it can. undigested permits a copy that was
// never compared with Apache's digest, which versions before 3.6 don't have.
func Ready(s *follow.Status, undigested bool) error {
	switch {
	case s.Mismatch != nil:
		return fmt.Errorf("%w: its digest differs since zxid %#x", ErrFinal, uint64(s.Mismatch.Zxid))
	case s.Ended != nil:
		return fmt.Errorf("%w: %w", ErrFinal, s.Ended)
	case !s.Live && s.LastFailed != nil:
		return fmt.Errorf("no leader is followed: %w", s.LastFailed)
	case !s.Live:
		return errors.New("no leader is followed yet")
	case s.Lag > LagMax:
		return fmt.Errorf("the copy is %d zxids and %.1f s behind", s.Behind, s.Lag.Seconds())
	case s.Compared == 0 && !undigested:
		return ErrUndigested
	}
	return nil
}

// Proved returns the tail that ends the ensemble's history, given the tails of the stopped servers by id. The error
// says which other servers must stop. majority permits that only a majority of the voters has stopped.
func Proved(e *follow.Ensemble, tails map[int64]*files.Tail, majority bool) (*files.Tail, error) {
	voters := 0
	var stopped []*files.Tail
	var missing []int64
	for _, m := range e.Members {
		if m.Observer {
			continue
		}
		voters++
		if t := tails[m.ID]; t != nil {
			stopped = append(stopped, t)
		} else {
			missing = append(missing, m.ID)
		}
	}
	switch {
	case voters == 0:
		return nil, errors.New("the ensemble has no voters")
	case len(missing) == 0:
	case len(stopped) <= voters/2:
		return nil, fmt.Errorf("%d of %d voters have stopped for certain; the servers %v may still acknowledge writes",
			len(stopped), voters, missing)
	case e.Weighted:
		return nil, fmt.Errorf("the servers %v may still run; with weights or groups in the configuration, all must have stopped",
			missing)
	case !majority:
		return nil, fmt.Errorf("the servers %v may still run. They can't acknowledge writes alone; if they can't be reached, -majority continues without them",
			missing)
	}
	best := stopped[0]
	for _, t := range stopped[1:] {
		if t.Current > best.Current || t.Current == best.Current && t.Last > best.Last {
			best = t
		}
	}
	return best, nil
}
