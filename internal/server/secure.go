package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// SecureOptions are the settings of TLS on client ports; the zero value means no TLS. The comments
// name the key of zoo.cfg or the system property.
type SecureOptions struct {
	Listen []string // secureClientPort: addresses where every connection is TLS
	Unify  bool     // client.portUnification: TLS on the plain ports too, in addition to plain connections
	// TLS configures TLS connections; Listen and Unify need it. A client that presents a certificate,
	// if this asks for one, gets an identity of the scheme x509.
	TLS *tls.Config
	// Check, if not nil, checks again the certificates that a client has presented (Options.RecheckInterval).
	Check func(shown []*x509.Certificate) error
	// HandshakesMax bounds the handshakes under way at the same time (netty.server.outstandingHandshake.limit); 0 or less
	// for no limit. One address may have a tenth of them, but at least handshakesOfAddressMin.
	HandshakesMax int
	// DropEarly refuses handshakes while the server isn't serving (netty.server.earlyDropSecureConnectionHandshakes).
	DropEarly bool
}

// tlsHandshakeRecord is the first byte of a TLS connection. No connect request is long enough for
// its length to begin with this byte, and no four-letter word begins with it.
const tlsHandshakeRecord = 0x16

// handshakes are the TLS handshakes that clients have under way.
type handshakes struct {
	*engine
	connections *connections
	auth        *auth.Registry

	underWay                atomic.Int64
	byAddress               addressCounts
	plainLocal, plainRemote atomic.Int64 // connections without TLS since the start, if TLS is configured
}

const handshakesOfAddressMin = 16 // handshakes that one address may always have under way

// addressCounts holds the number of handshakes under way, by the client's address.
type addressCounts struct {
	mu sync.Mutex
	n  map[string]int
}

// add adds n to the count of an address and returns the new count.
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

// crowded returns an error if too many handshakes are under way, in total or from address. The caller's own is counted.
func (hs *handshakes) crowded(address string) error {
	limit := hs.opt.Secure.HandshakesMax
	if limit <= 0 {
		return nil
	}
	if n := hs.underWay.Load(); n > int64(limit) {
		return fmt.Errorf("there are %d handshakes under way, the most allowed (netty.server.outstandingHandshake.limit)",
			limit)
	}
	if most := max(limit/10, handshakesOfAddressMin); hs.byAddress.add(address, 0) > most {
		return fmt.Errorf("there are %d handshakes of its address under way, the most allowed (a tenth of netty.server.outstandingHandshake.limit)",
			most)
	}
	return nil
}

// countPlain counts a connection that could have used TLS but didn't.
func (hs *handshakes) countPlain(nc net.Conn) {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		hs.plainLocal.Add(1)
		return
	}
	hs.plainRemote.Add(1)
}

// A tlsHandshake is a TLS handshake under way.
type tlsHandshake struct {
	address string // that it counts toward
	err     error  // why there is none
}

// begin counts a handshake and sets its deadline, or finds that the handshake isn't allowed.
func (hs *handshakes) begin(nc net.Conn) (h tlsHandshake) {
	h.address = auth.Neighbourhood(addressID(nc.RemoteAddr().String()).ID)
	hs.underWay.Add(1)
	hs.byAddress.add(h.address, 1)
	if h.err = hs.crowded(h.address); h.err != nil {
		hs.meters.HandshakesExceeded.Inc()
	} else if hs.opt.Secure.DropEarly && !hs.serving() {
		h.err = errors.New("the server is not serving yet (netty.server.earlyDropSecureConnectionHandshakes)")
	}
	nc.SetDeadline(time.Now().Add(hs.opt.SessionlessTimeout))
	return h
}

// end undoes begin.
func (hs *handshakes) end(h tlsHandshake) {
	hs.underWay.Add(-1)
	hs.byAddress.add(h.address, -1)
}

// failed counts a handshake that failed because of the client.
func (hs *handshakes) failed() {
	hs.meters.HandshakesFailed.Inc()
	hs.replica.CountAuthFailed()
}

const (
	// recordHead is the size of a TLS record's head, whose last two bytes are the number of bytes
	// that follow (RFC 8446, 5.1).
	recordHead = 5
	// recordMax is the most bytes that may follow in a record that isn't encrypted.
	recordMax = 1 << 14
)

// readRecord reads a connection's first TLS record, of which in was read already, and maybe more. If the record isn't a
// handshake's, readRecord reads at most its head: crypto/tls reports what is wrong.
func readRecord(nc net.Conn, in []byte) ([]byte, error) {
	in, err := readTo(nc, in, recordHead)
	if err != nil || in[0] != tlsHandshakeRecord {
		return in, err
	}
	size := int(binary.BigEndian.Uint16(in[recordHead-2:]))
	if size > recordMax {
		return in, nil
	}
	return readTo(nc, in, recordHead+size)
}

// secureConn continues with a TLS connection; in was already read from it. It waits for the first record before it
// leaves the connection to crypto/tls, which would wait with a large stack.
func (a *acceptor) secureConn(nc net.Conn, in []byte) {
	if h := a.handshakes.begin(nc); h.err != nil {
		a.openSecure(nc, in, h)
	} else {
		go a.awaitRecord(nc, in, h)
	}
}

// awaitRecord reads the first record of a TLS connection.
func (a *acceptor) awaitRecord(nc net.Conn, in []byte, h tlsHandshake) {
	if in, h.err = readRecord(nc, in); h.err != nil {
		a.handshakes.failed()
	}
	a.openSecure(nc, in, h)
}

// openSecure is open for a TLS connection.
//
//go:noinline
func (a *acceptor) openSecure(nc net.Conn, in []byte, h tlsHandshake) {
	conn, proof, err := a.handshakes.startTLS(socket.Replay(nc, in), h)
	a.handshakes.end(h)
	if err != nil {
		a.clientLog.Warn("a client connection was closed in its TLS handshake", "client", nc.RemoteAddr().String(),
			"err", err, "code", "ZD-4005")
		if left := net.Error(nil); !errors.Is(err, io.EOF) && !errors.As(err, &left) { // otherwise the client went away
			a.auditor.turnedAway(nc.RemoteAddr().String(), err.Error())
		}
		socket.Linger(nc, wordLinger) // so that the alert with the reason reaches the client
		a.done(nc)
		return
	}
	if in := a.readHead(conn); in != nil {
		if c := a.greet(conn, in, proof); c != nil {
			c.Socket.(*clientSocket).shown = conn.ConnectionState().PeerCertificates
			a.awaitHello(nc, conn, c, in)
			return
		}
	}
	conn.Close()
	a.done(nc)
}

// startTLS performs a TLS handshake and returns the client's proof by its address and certificate.
func (hs *handshakes) startTLS(nc net.Conn, h tlsHandshake) (*tls.Conn, *auth.Proof, error) {
	if h.err != nil {
		return nil, nil, h.err
	}
	steady := &socket.Steady{Conn: nc, TCP: socket.Below(nc), Timeout: hs.opt.WriteTimeout}
	conn := tls.Server(steady, hs.opt.Secure.TLS)
	var proof auth.Proof
	err := conn.Handshake()
	if err == nil {
		proof, err = hs.certified(conn.ConnectionState(), []jute.ID{addressID(nc.RemoteAddr().String())})
	}
	if err != nil {
		hs.failed()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
			err = fmt.Errorf("%w (a client without TLS on the TLS port?)", err)
		}
		return nil, nil, err
	}
	nc.SetWriteDeadline(time.Time{})
	steady.Begin()
	hs.connections.noteTLS(socket.Below(nc))
	return conn, &proof, nil
}

// certified adds to ids the identity that the client's certificate proves.
func (hs *handshakes) certified(state tls.ConnectionState, ids []jute.ID) (auth.Proof, error) {
	if len(state.PeerCertificates) == 0 {
		return auth.Proof{IDs: ids}, nil
	}
	subject, err := auth.Subject(state.PeerCertificates[0])
	if err != nil {
		return auth.Proof{}, err
	}
	return hs.auth.AddX509(ids, subject)
}
