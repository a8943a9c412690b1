package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/socket"
)

// Secure says how servers authenticate to each other: by the keys of their ensemble, and
// over TLS also by certificates. An ensemble changes to TLS one server at a time,
// in three steps: Server and Plain but no Client, so that servers still dial in plain
// text; Client with Plain; Client without Plain.
type Secure struct {
	// Keys authenticate the server, over TLS too. If Keys is nil, the server creates keys that
	// no other server knows and that aren't saved.
	Keys *Keyring
	// Client returns the TLS configuration for dialling a peer at host (sslQuorum). It is
	// called at each dial. If Client is nil, peers are dialled in plain text.
	Client func(host string) *tls.Config
	// Server is the TLS configuration for accepting peers. If it is nil, only plain text is
	// accepted.
	Server *tls.Config
	// Plain accepts plain text in addition to TLS (portUnification).
	Plain bool
	// Detection is how long a peer may take after connecting to show whether it speaks
	// TLS (handshakeDetectionTimeoutMillis). Less than 1 s counts as 1 s.
	Detection time.Duration
	// Verify checks that the certificate of a connecting peer is a server's, and, if Named, that it
	// names one of hosts: the hosts of the address that the membership gives the server that the
	// peer claims to be. Verify may be nil.
	Verify func(ctx context.Context, state tls.ConnectionState, hosts []string) error
	Named  bool
	// Check checks again the certificates that a peer has presented (peer.Peer.Recheck). dialled says
	// that this server made the connection. Check may be nil.
	Check func(shown []*x509.Certificate, dialled bool) error
}

// tlsHandshakeRecord is the first byte of a TLS connection. A plain connection begins
// with the first byte of Magic.
const tlsHandshakeRecord = 0x16

// refusalLinger is how long a refused connection stays open, so that the peer can read
// the reason. Closing it while received bytes are unread would discard the reason.
const refusalLinger = 200 * time.Millisecond

// overTLS is a TLS connection that is closed without a close_notify alert. Sending the
// alert could block for seconds on a peer that has stopped reading. Truncation is
// detected without the alert, since frames and snapshots carry their length.
type overTLS struct{ *tls.Conn }

// tlsTimeout bounds the TLS handshake of a connection between peers, at either end.
const tlsTimeout = time.Second

// TLS returns the state of the TLS connection that c is, or that is underneath it.
func TLS(c net.Conn) (state tls.ConnectionState, ok bool) {
	if s, sealed := c.(*Sealed); sealed {
		c = s.Conn
	}
	over, ok := c.(overTLS)
	if ok {
		state = over.ConnectionState()
	}
	return state, ok
}

// Close closes the underlying connection.
func (c overTLS) Close() error { return c.NetConn().Close() }

// Dialled does the TLS handshake on c, a connection to addr, if peers are dialled over TLS. It
// closes c on an error.
func (s *Secure) Dialled(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	if s.Client == nil {
		return c, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Now().Add(tlsTimeout))
	conn := overTLS{tls.Client(c, s.Client(host))}
	if err := conn.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, Explained(err)
	}
	return conn, nil
}

// Explained returns an error that explains a TLS failure to administrators. It leaves out
// ports, which differ at each attempt.
func Explained(err error) error {
	var op *net.OpError
	plain := tls.RecordHeaderError{}
	switch {
	case errors.As(err, &plain):
		return errors.New("the peer answers in plain text: set sslQuorum=true there, or portUnification=true until all servers have it")
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("the peer doesn't accept this server's certificate (%w): see ssl.quorum.keyStore here and ssl.quorum.trustStore there",
			op.Err)
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the peer ended the TLS handshake (%w): does it accept TLS (sslQuorum or portUnification)? Its log says why",
			Bare(err))
	}
	return Bare(err)
}

// Bare returns err without the addresses of the connection. The message around it has them already. Besides, they would
// make the text different at each attempt.
func Bare(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "remote error" {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// Accepted does the TLS handshake of an accepted connection, if there is TLS. plain says
// that the peer came in plain text where only TLS is accepted, and should be told so.
func (s *Secure) Accepted(ctx context.Context, c net.Conn) (conn net.Conn, plain bool, err error) {
	if s.Server == nil {
		return c, false, nil
	}
	c.SetDeadline(time.Now().Add(max(s.Detection, tlsTimeout)))
	begun := &begun{Conn: c}
	if _, err := io.ReadFull(c, begun.first[:]); err != nil {
		return nil, false, Bare(err)
	}
	c.SetDeadline(time.Now().Add(tlsTimeout))
	if begun.first[0] != tlsHandshakeRecord {
		return begun, !s.Plain, nil
	}
	over := overTLS{tls.Server(begun, s.Server)}
	if err := over.HandshakeContext(ctx); err != nil {
		Linger(c)
		return nil, false, explainedRefusal(err)
	}
	return over, false, nil
}

// explainedRefusal is Explained for the accepting side.
func explainedRefusal(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return fmt.Errorf("the peer doesn't accept this server's certificate (%w): see ssl.quorum.keyStore here and ssl.quorum.trustStore there",
			op.Err)
	}
	return Bare(err)
}

// begun is a connection whose first byte has been read already.
type begun struct {
	net.Conn
	first [1]byte
	read  bool
}

// Read returns the first byte, and then reads from the connection.
func (b *begun) Read(p []byte) (int, error) {
	if b.read || len(p) == 0 {
		return b.Conn.Read(p)
	}
	b.read = true
	return copy(p, b.first[:]), nil
}

// Linger waits until the peer has read its refusal, for at most refusalLinger.
func Linger(c net.Conn) { socket.Linger(c, refusalLinger) }
