package server

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

// A server with an empty data directory waits until it has met its peers, which may take long. It
// has nothing to serve, but its ports are open: an administrator can see by a four-letter word that
// it runs and doesn't serve, and a client is turned away at once and tries the next server.

// prejoin holds the client ports of a server that has not joined its ensemble yet.
type prejoin struct {
	listeners map[string]net.Listener // by configured address
	stopped   chan struct{}
	wg        sync.WaitGroup
}

// openPrejoin opens the client ports; connections are turned away until endPrejoin.
func (s *Server) openPrejoin() error {
	w := &prejoin{listeners: map[string]net.Listener{}, stopped: make(chan struct{})}
	s.prejoin = w
	for _, addr := range slices.Concat(s.opt.Listen, s.opt.Secure.Listen) {
		l, err := s.listenForClients(addr, s.opt.BindRetries)
		if err != nil {
			s.endPrejoin()
			s.closePrejoin()
			return err
		}
		w.listeners[addr] = l
		words := slices.Contains(s.opt.Listen, addr)
		w.wg.Go(func() { s.turnAwayAll(l, words) })
	}
	return nil
}

// endPrejoin stops turning connections away; the ports stay open.
func (s *Server) endPrejoin() {
	close(s.prejoin.stopped)
	for _, l := range s.prejoin.listeners { // in any order
		if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
			d.SetDeadline(time.Now())
		}
	}
	s.prejoin.wg.Wait()
	for _, l := range s.prejoin.listeners { // in any order
		if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
			d.SetDeadline(time.Time{})
		}
	}
}

// prejoinListener returns the listener on addr that openPrejoin opened, or nil. The caller then
// owns it.
func (s *Server) prejoinListener(addr string) net.Listener {
	if s.prejoin == nil {
		return nil
	}
	l := s.prejoin.listeners[addr]
	delete(s.prejoin.listeners, addr)
	return l
}

// closePrejoin closes the listeners that nobody took.
func (s *Server) closePrejoin() {
	if s.prejoin == nil {
		return
	}
	for _, l := range s.prejoin.listeners { // in any order
		socket.CloseListener(l)
	}
	clear(s.prejoin.listeners)
}

func (s *Server) turnAwayAll(l net.Listener, words bool) {
	var open sync.WaitGroup
	defer open.Wait()
	for nc := range socket.Accepted(l, s.prejoin.stopped, nil) {
		select {
		case <-s.prejoin.stopped:
			nc.Close()
			return
		default:
		}
		if why := s.admit(nc); why != "" {
			nc.Close()
			continue
		}
		open.Go(func() {
			defer s.forget(nc)
			defer nc.Close()
			if words {
				s.turnAway(nc)
			}
		})
	}
}

// turnAwayPatience is how long a connection may take to send a four-letter word; endPrejoin waits
// for it.
const turnAwayPatience = time.Second

// turnAway answers a four-letter word, and nothing else.
func (s *Server) turnAway(nc net.Conn) {
	nc.SetDeadline(time.Now().Add(turnAwayPatience))
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil || !fourletter.Is(string(head[:])) {
		return
	}
	ask := fourletter.Ask{Word: string(head[:]), Remote: javaSocket(nc.RemoteAddr().String()), Rest: nc}
	if _, err := nc.Write(s.words.Answer(s, ask)); err == nil {
		linger(nc)
	}
}
