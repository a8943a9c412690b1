package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// drainLook is the interval at which Drain checks whether another server leads.
	drainLook = 100 * time.Millisecond
	// drainSteps is the number of steps in which a draining server closes its clients' connections,
	// with drainPause between two steps, so that they don't all reach the other servers at once.
	drainSteps = 10
	drainPause = 100 * time.Millisecond
	// drainTransferPause is the time between two attempts to transfer leadership. asidePause is the
	// interval at which a drained server checks whether it leads again: if two servers drain, each may
	// transfer leadership to the other.
	drainTransferPause = time.Second
	asidePause         = 10 * time.Second
)

// ErrAlone is returned by Drain on a standalone server, because nobody would take over.
var ErrAlone = errors.New("drain this server: it is alone, and no other could take over; stop it, its sessions wait for it until their timeouts")

// Draining reports whether Drain has been called. Only a restart undoes it.
func (s *Server) Draining() bool { return s.draining.Load() }

// Drain prepares the server to be stopped: it turns new clients away, transfers leadership whenever
// this server leads, and closes its clients' connections in steps once another server leads; their
// sessions go on at other servers. Drain returns when that is done, or when ctx ends. The server
// stays a member of its ensemble until it is closed.
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
			return fmt.Errorf("drain this server: no other server leads (%w); its clients stay. Are a majority of the others running?",
				ctx.Err())
		}
	}
	closed := 0
	for step := range drainSteps {
		closed += s.closePart(drainSteps - step)
		if step < drainSteps-1 && !s.pause(drainPause) {
			return errStopping
		}
	}
	s.log.Info("drained: another server leads, and the clients were sent away", "leader", s.peer.Status().Leader,
		"connections", closed)
	return nil
}

// stayAside transfers leadership whenever this server leads again, until the server is closed.
func (s *Server) stayAside() {
	for s.pause(asidePause) {
		if s.peer.Status().IsLeader {
			s.peer.TransferLeadership()
		}
	}
}

// closePart closes one nth of the connections, all of them if n is 1, and returns how many it
// closed.
func (s *Server) closePart(n int) (closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := (len(s.conns) + n - 1) / n
	for nc := range s.conns { // in any order: it doesn't matter which
		if closed == most {
			break
		}
		nc.Close()
		closed++
	}
	return closed
}

// turnedAway reports whether a new client is turned away because this server drains. If so, it logs
// that.
func (s *Server) turnedAway(nc net.Conn) bool {
	if s.draining.Load() {
		s.clientLog.Info("a client was turned away: this server drains", "client", nc.RemoteAddr().String())
		s.meters.ConnectionRejected.Inc()
		return true
	}
	return false
}
