package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// drainLook is the time between two looks whether another server leads.
	drainLook = 100 * time.Millisecond
	// drainSteps are those in which a draining server closes its clients' connections,
	// with a drainPause between two: the other servers get them one part after the other.
	drainSteps = 10
	drainPause = 100 * time.Millisecond
	// drainTransferPause is the time between two attempts to hand leadership over, and asidePause
	// that between two looks after the drain whether this server leads again: of two
	// servers that drain, each may hand it to the other.
	drainTransferPause = time.Second
	asidePause         = 10 * time.Second
)

// ErrAlone is why a server alone can't be drained: nobody would take over.
var ErrAlone = errors.New("drain this server: it is alone, and no other could take over; stop it, its sessions wait for it until their timeouts")

// Draining reports whether Drain has begun. It isn't undone but by a restart.
func (s *Server) Draining() bool { return s.draining.Load() }

// Drain makes the server superfluous: it turns new clients away, hands leadership over
// whenever it has it, and closes its clients' connections in steps once another server
// leads; their sessions go on there. It returns when that is done, or ctx is over. The
// server goes on as a member of its ensemble until it is closed.
func (s *Server) Drain(ctx context.Context) error {
	q := s.peer.Status()
	if len(q.Voters)+len(q.Observers) <= 1 {
		return ErrAlone
	}
	if !s.draining.Swap(true) {
		s.log.Info("draining: new clients are turned away, and another server takes over")
		s.mu.Lock()
		select {
		case <-s.closing:
		default:
			s.wg.Go(s.stayAside)
		}
		s.mu.Unlock()
	}
	look := time.NewTicker(drainLook)
	defer look.Stop()
	var transferred time.Time
	for {
		q := s.peer.Status()
		if !q.IsLeader && q.Leader != 0 {
			break
		}
		if q.IsLeader && time.Since(transferred) >= drainTransferPause {
			transferred = time.Now()
			s.peer.TransferLeadership()
		}
		select {
		case <-look.C:
		case <-s.closing:
			return errStopping
		case <-ctx.Done():
			return fmt.Errorf("drain this server: no other server leads (%w); its clients stay. Are a majority of the others running?", ctx.Err())
		}
	}
	closed := 0
	for step := range drainSteps {
		closed += s.closePart(drainSteps - step)
		if step < drainSteps-1 && !s.pause(drainPause) {
			return errStopping
		}
	}
	s.log.Info("drained: another server leads, and the clients were sent away", "leader", s.peer.Status().Leader, "connections", closed)
	return nil
}

// stayAside hands leadership over when this server gets it again, until it is closed.
func (s *Server) stayAside() {
	for s.pause(asidePause) {
		if s.peer.Status().IsLeader {
			s.peer.TransferLeadership()
		}
	}
}

// closePart closes one part of n of the connections, all for 1, and returns how many.
func (s *Server) closePart(n int) (closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := (len(s.conns) + n - 1) / n
	for nc := range s.conns { // in any order: one is as good as another
		if closed == most {
			break
		}
		nc.Close()
		closed++
	}
	return closed
}

// turnedAway reports whether a client that comes now is one for another server, and says so
// in the log.
func (s *Server) turnedAway(nc net.Conn) bool {
	if s.draining.Load() {
		s.clientLog.Info("a client was turned away: this server drains", "client", nc.RemoteAddr().String())
		s.meters.ConnectionRejected.Inc()
		return true
	}
	return false
}
