package server

import (
	"time"

	"github.com/zooid-project/zooid/internal/socket"
)

// Close stops accepting connections, closes those that exist and the log, and waits until
// everything has stopped. Sessions go on at other servers or after a restart. Close is idempotent.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.mu.Lock()
		for _, l := range s.ports {
			socket.CloseListener(l.Listener)
		}
		s.mu.Unlock()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.peer.Close()
		}()
		broken := s.stopsBroken(stopped)
		s.mu.Lock()
		for nc := range s.conns {
			nc.Close()
		}
		s.mu.Unlock()
		if broken { // the replica may be unlocked only now that the connections are closed
			s.replica.Abandon()
		}
		<-stopped
		s.wg.Wait()
		s.closed = s.dir.Close()
	})
	return s.closed
}

// stopsBroken waits until either the peer has stopped, or applying an entry has panicked, which
// keeps the peer from stopping. It reports whether there was a panic. An entry may panic even after
// the server began to close.
func (s *Server) stopsBroken(stopped <-chan struct{}) bool {
	look := time.NewTicker(brokenPause)
	defer look.Stop()
	for !s.replica.Broken() {
		select {
		case <-stopped:
			return s.replica.Broken()
		case <-look.C:
		}
	}
	return true
}

// brokenPause is the interval at which stopsBroken checks for a panic.
const brokenPause = 10 * time.Millisecond
