package server

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

const (
	// drainLook is the interval at which Drain checks whether another server leads.
	drainLook = 100 * time.Millisecond
	// drainSteps is the number of steps in which a draining server closes its clients' connections,
	// with drainPause between two steps, so that they don't all reach the other servers at once.
	drainSteps = 10
	drainPause = 100 * time.Millisecond
	// drainTransferPause is the time between two attempts to transfer leadership. asidePause is the interval at which a
	// drained server checks whether it leads again: if two servers drain, each may transfer leadership to the other.
	drainTransferPause = time.Second
	asidePause         = 10 * time.Second
)

const (
	// drainPatience is how long Drain keeps asking the leader while it is refused because of servers whose state is
	// unknown. It is longer than an election, and longer than a started server takes to report.
	drainPatience = 5 * time.Second
	// drainFinalPatience is how long Drain keeps asking while other servers drain. The leader's knowledge of them is up to
	// a second old: a drain may just have been undone.
	drainFinalPatience = 1500 * time.Millisecond
)

// A drain prepares this server to be stopped, until it is undone.
type drain struct {
	*engine
	connections *connections

	drains   sync.Mutex // held by Drain and Undrain
	draining atomic.Bool
}

// Draining reports whether the server is drained, or about to be: it turns new clients away. Undrain or a
// restart ends that.
func (d *drain) Draining() bool { return d.draining.Load() }

// Drain prepares the server to be stopped. It first asks the leader, which refuses unless a majority of the voters
// still serves. If force, a reason, isn't empty, the server drains without asking. Then the server turns new clients
// away, transfers leadership whenever it leads, and closes its clients' connections in steps once another server leads;
// their sessions continue at other servers. Drain returns when that is done, or when ctx ends. The server stays a
// member of its ensemble until it is closed.
func (d *drain) Drain(ctx context.Context, force string) error {
	d.drains.Lock()
	defer d.drains.Unlock()
	if q := d.peer.Status(); len(q.Voters)+len(q.Observers) <= 1 {
		return quorum.ErrAlone
	}
	if force != "" {
		d.log.Info("draining without asking the leader, by force", "why", force)
		d.peer.Drain(quorum.DrainForce)
	} else if err := d.askToDrain(ctx); err != nil {
		d.peer.Drain(quorum.DrainNot)
		return err
	}
	if !d.draining.Swap(true) {
		d.log.Info("draining: new clients are turned away, and another server takes over")
		d.begin(d.stayAside)
	}
	if err := d.awaitSuccessor(ctx); err != nil {
		return err
	}
	closed := 0
	for step := range drainSteps {
		closed += d.connections.closePart(drainSteps - step)
		if step < drainSteps-1 && !d.pause(drainPause) {
			return errStopping
		}
	}
	d.log.Info("drained: another server leads, and the clients were sent away", "leader", d.peer.Status().Leader,
		"connections", closed)
	return nil
}

// askToDrain returns once the leader has granted a drain, or an error if it doesn't.
func (d *drain) askToDrain(ctx context.Context) error {
	if d.draining.Load() {
		return nil
	}
	wish := d.peer.Drain(quorum.DrainAsk)
	look, asked := time.NewTicker(drainLook), time.Now()
	defer look.Stop()
	why := "the leader has not answered"
	for patience := time.After(drainPatience); ; {
		if d := d.peer.Status().Draining; d.Wish == wish {
			if d.Drained {
				return nil
			}
			why = cmp.Or(d.Refusal, why)
			if d.Final && time.Since(asked) > drainFinalPatience {
				return &quorum.DrainRefusedError{Why: why}
			}
		}
		select {
		case <-look.C:
		case <-d.closing:
			return errStopping
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", &quorum.DrainRefusedError{Why: why}, ctx.Err())
		case <-patience:
			return &quorum.DrainRefusedError{Why: why}
		}
	}
}

// awaitSuccessor transfers leadership if this server leads, and waits until another server does.
func (d *drain) awaitSuccessor(ctx context.Context) error {
	look := time.NewTicker(drainLook)
	defer look.Stop()
	var transferred time.Time
	for {
		q := d.peer.Status()
		if !q.IsLeader && q.Leader != 0 {
			return nil
		}
		if q.IsLeader && time.Since(transferred) >= drainTransferPause {
			transferred = time.Now()
			d.peer.TransferLeadership()
		}
		select {
		case <-look.C:
		case <-d.closing:
			return errStopping
		case <-ctx.Done():
			return fmt.Errorf("drain this server: no other server leads (%w); its clients stay. Are a majority of the others running?",
				ctx.Err())
		}
	}
}

// Undrain ends the drain: the server accepts new clients again. It waits for a drain that is under way.
func (d *drain) Undrain() {
	d.drains.Lock()
	defer d.drains.Unlock()
	d.peer.Drain(quorum.DrainNot)
	if d.draining.Swap(false) {
		d.log.Info("the drain was undone: new clients are accepted again")
	}
}

// stayAside transfers leadership whenever this server leads again while it is drained.
func (d *drain) stayAside() {
	for d.pause(asidePause) && d.draining.Load() {
		if d.peer.Status().IsLeader {
			d.peer.TransferLeadership()
		}
	}
}
