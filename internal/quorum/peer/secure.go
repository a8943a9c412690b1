package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Secure says how servers prove who they are to each other: by TLS, or by the keys
// of their ensemble. The zero value has neither. With Server and Plain but no Client a
// server still dials in plain text: that is the first step of an ensemble that changes
// to TLS one server at a time, Client with Plain the second, Client without it the last.
type Secure struct {
	// Keys are what a server proves itself with where there is no TLS; nil stands for
	// keys of its own that nobody knows and nothing keeps.
	Keys *Keyring
	// Client returns how a peer at host is dialled; nil dials in plain text
	// (sslQuorum). It is called at each dial.
	Client func(host string) *tls.Config
	// Server says how peers are accepted over TLS; nil accepts plain text alone.
	Server *tls.Config
	// Plain accepts plain text beside TLS (portUnification).
	Plain bool
	// Detection is the time a peer has after connecting to show whether it speaks TLS
	// (handshakeDetectionTimeoutMillis); less than 1 s counts as 1 s.
	Detection time.Duration
	// Verify checks the certificate of a peer that connected from an address and
	// whose configured hosts are known. It may be nil.
	Verify func(ctx context.Context, state tls.ConnectionState, from net.Addr, hosts []string) error
}

// tlsHandshakeRecord is the first byte of a TLS connection; a plain one begins
// with that of helloMagic.
const tlsHandshakeRecord = 0x16

// refusalLinger is how long a refused connection stays open for its peer to read
// why: closing it on unread bytes would throw the reason away.
const refusalLinger = 200 * time.Millisecond

// secured is a TLS connection that closes without a farewell, which could block
// for seconds on a peer that has stopped reading. Nothing is cut short unnoticed:
// frames and snapshots tell their length.
type secured struct{ *tls.Conn }

// Close closes the connection below.
func (c secured) Close() error { return c.NetConn().Close() }

// dialled makes a connection to addr what it should be. It closes c on an error.
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

// explained says what a TLS failure means for the administrator, and leaves out ports,
// which differ at each attempt.
func explained(err error) error {
	var op *net.OpError
	plain := tls.RecordHeaderError{}
	switch {
	case errors.As(err, &plain):
		return errors.New("the peer answers in plain text: set sslQuorum=true there, or portUnification=true until all servers have it")
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("the peer doesn't accept this server's certificate (%w): see ssl.quorum.keyStore here and ssl.quorum.trustStore there", op.Err)
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the peer ended the TLS handshake (%w): does it accept TLS (sslQuorum or portUnification)? Its log says why", bare(err))
	}
	return bare(err)
}

// bare returns err without the addresses of the connection, which the message
// around it has, and which make each try's text another one.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op != "remote error" {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// accepted shakes hands with who connected. plain says that it came in plain text
// where only TLS is accepted, and is to be told so.
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

// plainRefusal is what a peer in plain text is told by a server that wants TLS.
const plainRefusal = "this server accepts TLS only: set sslQuorum=true with the ssl.quorum keys on yours, or portUnification=true here until all servers have it"

// explainedRefusal says why a peer's handshake failed, from the accepting side.
func explainedRefusal(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return fmt.Errorf("the peer doesn't accept this server's certificate (%w): see ssl.quorum.keyStore here and ssl.quorum.trustStore there", op.Err)
	}
	return bare(err)
}

// verify reports why the certificate of a peer that said h isn't its own, "" if it
// is. A server that isn't in the configuration can learn nothing but whether to
// wait, so any certificate of the trust store will do.
func (t *transport) verify(c net.Conn, h hello) string {
	over, ok := c.(secured)
	r := t.remote(h.from)
	if !ok || t.secure.Verify == nil || r == nil {
		return ""
	}
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	return t.verifyAt(over, h, addrs)
}

// verifyAt is verify for a server that is said to be at addresses.
func (t *transport) verifyAt(over secured, h hello, addrs []string) string {
	var hosts []string
	for _, addr := range addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	if err := t.secure.Verify(ctx, over.ConnectionState(), over.RemoteAddr(), hosts); err != nil {
		return fmt.Sprintf("you call yourself server %d, and your certificate doesn't say so: %v", h.from, err)
	}
	return ""
}

// begun is a connection whose first byte was read already.
type begun struct {
	net.Conn
	first [1]byte
	read  bool
}

// Read returns the first byte, then what comes.
func (b *begun) Read(p []byte) (int, error) {
	if b.read || len(p) == 0 {
		return b.Conn.Read(p)
	}
	b.read = true
	return copy(p, b.first[:]), nil
}

// linger waits, not for long, until the peer has read what it was told.
func linger(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(refusalLinger))
	io.CopyN(io.Discard, c, lingerBytesMax)
}

// lingerBytesMax bounds what a refused peer may still say.
const lingerBytesMax = 64 << 10
