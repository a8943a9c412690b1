package peer

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
	// names one of hosts, those of the address that the membership gives the server that the peer
	// says it is. It may be nil.
	Verify func(ctx context.Context, state tls.ConnectionState, hosts []string) error
	Named  bool
	// Check checks again the certificates that a peer has presented (Peer.Recheck). dialled says
	// that this server made the connection. Check may be nil.
	Check func(shown []*x509.Certificate, dialled bool) error
}

// tlsHandshakeRecord is the first byte of a TLS connection. A plain connection begins
// with the first byte of helloMagic.
const tlsHandshakeRecord = 0x16

// refusalLinger is how long a refused connection stays open, so that the peer can read
// the reason. Closing it while received bytes are unread would discard the reason.
const refusalLinger = 200 * time.Millisecond

// secured is a TLS connection that is closed without a close_notify alert. Sending the
// alert could block for seconds on a peer that has stopped reading. Truncation is
// detected without the alert, since frames and snapshots carry their length.
type secured struct{ *tls.Conn }

// Close closes the underlying connection.
func (c secured) Close() error { return c.NetConn().Close() }

// dialled does the TLS handshake on c, a connection to addr, if peers are dialled over TLS. It
// closes c on an error.
func (s *Secure) dialled(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	if s.Client == nil {
		return c, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Now().Add(dialTimeout))
	conn := secured{tls.Client(c, s.Client(host))}
	if err := conn.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, explained(err)
	}
	return conn, nil
}

// explained returns an error that tells an administrator what a TLS failure means. It leaves
// out ports, which differ at each attempt.
func explained(err error) error {
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
			bare(err))
	}
	return bare(err)
}

// bare returns err without the addresses of the connection. The message around it has
// them already, and they would make the text different at each attempt.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op != "remote error" {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// accepted does the TLS handshake of an accepted connection, if there is TLS. plain says
// that the peer came in plain text where only TLS is accepted, and is to be told so.
func (s *Secure) accepted(ctx context.Context, c net.Conn) (conn net.Conn, plain bool, err error) {
	if s.Server == nil {
		return c, false, nil
	}
	c.SetDeadline(time.Now().Add(max(s.Detection, dialTimeout)))
	begun := &begun{Conn: c}
	if _, err := io.ReadFull(c, begun.first[:]); err != nil {
		return nil, false, bare(err)
	}
	c.SetDeadline(time.Now().Add(dialTimeout))
	if begun.first[0] != tlsHandshakeRecord {
		return begun, !s.Plain, nil
	}
	over := secured{tls.Server(begun, s.Server)}
	if err := over.HandshakeContext(ctx); err != nil {
		linger(c)
		return nil, false, explainedRefusal(err)
	}
	return over, false, nil
}

// plainRefusal is how a server that accepts only TLS refuses a peer in plain text.
const plainRefusal = "this server accepts TLS only: set sslQuorum=true with the ssl.quorum keys on yours, or portUnification=true here until all servers have it"

// explainedRefusal is explained for the accepting side.
func explainedRefusal(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return fmt.Errorf("the peer doesn't accept this server's certificate (%w): see ssl.quorum.keyStore here and ssl.quorum.trustStore there",
			op.Err)
	}
	return bare(err)
}

// verify returns why the certificate of a peer that sent h isn't the certificate of that
// server, or "" if it is. The certificate of a server whose address isn't known need only be a
// server's; for any kind of connection but a question such a server has to prove the secret.
func (t *transport) verify(c net.Conn, h hello) string {
	over, ok := overTLS(c)
	if !ok || t.secure.Verify == nil {
		return ""
	}
	r := t.remote(h.from)
	if r == nil {
		return t.verifyAt(over, h, nil)
	}
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	return t.verifyAt(over, h, addrs)
}

// verifyAt is verify for a server whose addresses are addrs, nil if they aren't known.
func (t *transport) verifyAt(over secured, h hello, addrs []string) string {
	var hosts []string
	for _, addr := range addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	if err := t.secure.Verify(ctx, over.ConnectionState(), hosts); err != nil {
		return fmt.Sprintf("you call yourself server %d, and your certificate doesn't say so: %v", h.from, err)
	}
	return ""
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

// linger waits until the peer has read its refusal, for at most refusalLinger.
func linger(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(refusalLinger))
	io.CopyN(io.Discard, c, lingerBytesMax)
}

// lingerBytesMax bounds how much is still read from a refused peer.
const lingerBytesMax = 64 << 10
