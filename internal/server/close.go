package server

import "time"

// Close stops accepting, closes the connections and the log, and waits until everything
// has stopped. Sessions go on at other servers or after a restart. It is idempotent.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.mu.Lock()
		for _, l := range s.ports {
			l.Close()
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
		if broken { // only now, with the connections closed, may the replica be unlocked
			s.replica.Abandon()
		}
		<-stopped
		s.wg.Wait()
		s.closed = s.dir.Close()
	})
	return s.closed
}

// stopsBroken waits until nothing is applied any more and reports whether applying an
// entry has panicked: the peer has stopped, or that is why it can't. An entry may panic
// after the server began to close.
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

// brokenPause is the time between two looks whether a panic keeps the peer from stopping.
const brokenPause = 10 * time.Millisecond
