package zk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// A SASLMechanism authenticates the client to a server (Options.SASL). [DigestMD5] returns one; packages zk/scram and
// zk/kerberos have others. Its methods may be called from any goroutine.
type SASLMechanism interface {
	// Name returns the mechanism's name in errors, such as "DIGEST-MD5".
	Name() string

	// Begin starts a login on a new connection to server, which is a host:port as in the connect string or the SRV record.
	// It should return soon: the client, including its Close, waits for it. An error ends only this attempt, and the
	// client tries the next server, unless the error wraps ErrAuthFailed, which ends the client.
	Begin(server string) (SASLLogin, error)
}

// A SASLLogin is the client's half of one login.
type SASLLogin interface {
	// Step takes the server's token challenge, nil at first, and returns the next token to send. While done is false, a
	// nil token is sent as an empty one. done says that the client has finished: with a nil token the login has succeeded;
	// otherwise it succeeds once the server accepts the token. An error means that the server's token is invalid; it is
	// handled like an error of Begin. challenge is valid only during Step, which should return soon. At most 16 steps.
	Step(challenge []byte) (token []byte, done bool, err error)
}

// DigestMD5 returns the mechanism DIGEST-MD5 (RFC 2831). It never sends the password, and the server must prove that it
// knows the password too. Servers offer it if their login file has the user; Apache's servers since 3.9 also need
// zookeeper.fips-mode=false. MD5 is weak, so use TLS on networks where others can listen.
func DigestMD5(user, password string) SASLMechanism { return digestMD5{user, password} }

type digestMD5 struct{ user, password string }

// Name returns "DIGEST-MD5".
func (m digestMD5) Name() string { return "DIGEST-MD5" }

// Begin never fails.
func (m digestMD5) Begin(string) (SASLLogin, error) {
	return sasl.NewClient(m.user, m.password, rand.Reader), nil
}

// String hides the password from logs.
func (m digestMD5) String() string { return m.Name() + " as " + m.user }

// GoString hides the password from logs.
func (m digestMD5) GoString() string { return m.String() }

// LogValue hides the password from logs.
func (m digestMD5) LogValue() slog.Value { return slog.StringValue(m.String()) }

// saslStepsMax bounds the steps of a login, which a server could otherwise prolong without end. GSSAPI takes four.
const saslStepsMax = 16

// login logs in on a connection on which only the handshake was sent. The error ErrAuthFailed is final.
func (s *session) login(ctx context.Context, conn net.Conn, server string) error {
	m := s.opt.SASL
	if m == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })()
	login, err := m.Begin(server)
	if err != nil {
		return fmt.Errorf("begin the login (%s): %w", m.Name(), err)
	}
	var challenge []byte
	for range saslStepsMax {
		token, done, err := login.Step(challenge)
		if err != nil {
			return fmt.Errorf("log in (%s): %w", m.Name(), err)
		}
		if token == nil && done {
			return nil
		}
		if challenge, err = s.saslRequest(conn, token); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return fmt.Errorf("log in (%s): %w", m.Name(), err)
		}
		if done {
			return nil
		}
		if challenge == nil {
			return fmt.Errorf("log in (%s): the server doesn't support or refuses this login, and continues without: %w", m.Name(),
				ErrAuthFailed)
		}
	}
	return fmt.Errorf("log in (%s): no end after %d steps", m.Name(), saslStepsMax)
}

// saslRequest sends one token and returns the server's token, nil if there is none. No other frame can arrive, since no
// other request was sent and no watch is set.
func (s *session) saslRequest(conn net.Conn, token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{}
	}
	s.mu.Lock()
	xid := s.nextXid()
	s.mu.Unlock()
	req := jute.SASLPacket{Token: token}
	if _, err := conn.Write(jute.AppendRequest(nil, xid, jute.OpSASL, req.Append)); err != nil {
		return nil, err
	}
	frame, err := jute.ReadFrame(conn, nil, jute.MaxBufferDefault)
	if err != nil {
		return nil, fmt.Errorf("await the server's token: %w", err)
	}
	var d jute.Decoder
	d.Reset(frame)
	var h jute.ReplyHeader
	h.Decode(&d)
	switch {
	case d.Err() != nil || h.Xid != xid:
		return nil, errors.New("the server's answer makes no sense")
	case h.Err == jute.ErrAuthFailed || h.Err == jute.ErrSessionClosedRequireSASLAuth:
		return nil, fmt.Errorf("the server refuses: %w", ErrAuthFailed)
	case h.Err != jute.OK:
		return nil, h.Err
	}
	var res jute.SASLPacket
	res.Decode(&d)
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("the server's token makes no sense: %w", err)
	}
	return res.Token, nil
}
