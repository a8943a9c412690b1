package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// SecureOptions are the settings of TLS on client ports; the zero value has none.
// The comments name the key of zoo.cfg or the system property.
type SecureOptions struct {
	Listen []string // secureClientPort: addresses where every connection is TLS
	Unify  bool     // client.portUnification: TLS on the plain ports too, beside plain connections
	// TLS says how connections are accepted; Listen and Unify need it. A client that
	// presents a certificate at its request has an identity of the scheme x509.
	TLS *tls.Config
	// Check, if not nil, judges again the certificates that a client has shown (Options.RecheckInterval).
	Check func(shown []*x509.Certificate) error
	// HandshakesMax bounds the handshakes at a time
	// (netty.server.outstandingHandshake.limit); 0 or less for no limit. One address
	// has a tenth of them, and handshakesOfAddressMin at least.
	HandshakesMax int
	// DropEarly refuses handshakes while the server isn't serving
	// (netty.server.earlyDropSecureConnectionHandshakes).
	DropEarly bool
}

// tlsHandshakeRecord is the first byte of a TLS connection. No connect request is
// so long that its length begins with it, and no four-letter word does.
const tlsHandshakeRecord = 0x16

// secureCounts are the numbers of TLS that gauges show.
type secureCounts struct {
	handshakes              atomic.Int64 // under way
	byAddress               addressCounts
	plainLocal, plainRemote atomic.Int64 // connections without TLS since the start, if there could be TLS
}

// handshakesOfAddressMin is how many handshakes an address may have under way in any case.
const handshakesOfAddressMin = 16

// addressCounts are numbers of handshakes under way, by the client's address.
type addressCounts struct {
	mu sync.Mutex
	n  map[string]int
}

// add counts one more, or one less, and returns how many there are.
func (a *addressCounts) add(address string, n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = map[string]int{}
	}
	a.n[address] += n
	now := a.n[address]
	if now == 0 {
		delete(a.n, address)
	}
	return now
}

// crowded returns an error if the handshakes under way, this one of an address among them, are too many.
func (s *Server) crowded(address string) error {
	limit := s.opt.Secure.HandshakesMax
	if limit <= 0 {
		return nil
	}
	if n := s.secure.handshakes.Load(); n > int64(limit) {
		return fmt.Errorf("there are %d handshakes under way, the most allowed (netty.server.outstandingHandshake.limit)", limit)
	}
	if most := max(limit/10, handshakesOfAddressMin); s.secure.byAddress.add(address, 0) > most {
		return fmt.Errorf("there are %d handshakes of its address under way, the most allowed (a tenth of netty.server.outstandingHandshake.limit)", most)
	}
	return nil
}

// countPlain counts a connection that could have come over TLS and didn't.
func (n *secureCounts) countPlain(nc net.Conn) {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		n.plainLocal.Add(1)
		return
	}
	n.plainRemote.Add(1)
}

// openSecure is open for a connection that is TLS, whose head was read already.
func (s *Server) openSecure(nc net.Conn, head []byte) (net.Conn, *replica.Client, []byte) {
	conn, ids, err := s.startTLS(socket.Replay(nc, head))
	if err != nil {
		s.clientLog.Warn("a client connection was closed in its TLS handshake", "client", nc.RemoteAddr().String(), "err", err, "code", "ZD-4005")
		linger(nc) // the alert that tells the client why must reach it
		return nil, nil, nil
	}
	if in := s.readHead(conn); in != nil {
		if c := s.greet(conn, in, ids); c != nil {
			shown := conn.ConnectionState().PeerCertificates
			c.Withdrawn = func() string { return s.withdrawn(c, shown) }
			return conn, c, in
		}
	}
	conn.Close()
	return nil, nil, nil
}

// startTLS shakes hands, within the time that a connection has until its session,
// and returns the identities the client has by its address and certificate.
func (s *Server) startTLS(nc net.Conn) (*tls.Conn, []jute.ID, error) {
	address := auth.Neighbourhood(addressID(nc.RemoteAddr().String()).ID)
	s.secure.handshakes.Add(1)
	s.secure.byAddress.add(address, 1)
	defer func() {
		s.secure.handshakes.Add(-1)
		s.secure.byAddress.add(address, -1)
	}()
	if err := s.crowded(address); err != nil {
		s.meters.HandshakesExceeded.Inc()
		return nil, nil, err
	}
	if s.opt.Secure.DropEarly && !s.Status().Serving {
		return nil, nil, errors.New("the server is not serving yet (netty.server.earlyDropSecureConnectionHandshakes)")
	}
	nc.SetDeadline(time.Now().Add(s.opt.SessionlessTimeout))
	conn := tls.Server(nc, s.opt.Secure.TLS)
	ids := []jute.ID{addressID(nc.RemoteAddr().String())}
	err := conn.Handshake()
	if err == nil {
		ids, err = s.certified(conn.ConnectionState(), ids)
	}
	if err != nil {
		s.meters.HandshakesFailed.Inc()
		s.replica.CountAuthFailed()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
			err = fmt.Errorf("%w (a client without TLS on the TLS port?)", err)
		}
		return nil, nil, err
	}
	nc.SetWriteDeadline(time.Time{})
	s.noteTLS(below(nc))
	return conn, ids, nil
}

// noteTLS notes that a connection is one over TLS.
func (s *Server) noteTLS(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[nc]; ok {
		s.overTLS[nc] = true
	}
}

// certified adds the identity that the client's certificate proves.
func (s *Server) certified(state tls.ConnectionState, ids []jute.ID) ([]jute.ID, error) {
	if len(state.PeerCertificates) == 0 {
		return ids, nil
	}
	subject, err := auth.Subject(state.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	return s.auth.AddX509(ids, subject)
}

// below returns the accepted connection below nc.
func below(nc net.Conn) net.Conn {
	for {
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = above.NetConn()
	}
}
