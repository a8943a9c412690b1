package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The values used where Options leaves a field zero.
const (
	// DefaultSessionTimeout is 10 s: within what a server with the usual
	// tickTime of 2 s grants (4 s to 40 s).
	DefaultSessionTimeout = 10 * time.Second

	// DefaultMaxOutstanding is the number of unanswered requests from which
	// Apache's server stops reading a connection (globalOutstandingLimit).
	DefaultMaxOutstanding = 1000

	// DefaultMaxRequestBytes is the server's own limit (jute.maxbuffer); it
	// closes the connection on anything larger, so refusing here is kinder.
	DefaultMaxRequestBytes = jute.MaxBufferDefault

	// DefaultMaxResponseBytes is far above jute.maxbuffer, as servers don't
	// limit their replies and a list of a million children takes some 20 MB.
	// Memory is taken as bytes arrive, so the limit costs nothing unless used.
	DefaultMaxResponseBytes = 64 << 20

	// DefaultMaxUnreadEvents bounds the events a persistent watch holds for a user
	// who doesn't read; at about 64 bytes each this is 256 KiB.
	DefaultMaxUnreadEvents = 4096
)

// Options adjust a client. The zero value is a good choice.
type Options struct {
	// SessionTimeout is how long the server keeps the session, and its
	// ephemeral znodes, without hearing from this client. The server clamps it
	// to its own bounds; Client.Session tells the outcome. It is sent in whole
	// milliseconds. 0 means DefaultSessionTimeout.
	SessionTimeout time.Duration

	// Resume continues an existing session rather than opening one: what
	// Client.Session or Client.Detach returned. If the server no longer knows
	// it, the client ends with ErrSessionExpired.
	Resume Session

	// Auth are identities added to each connection before any request; see
	// DigestAuth.
	Auth []Auth

	// SASL, if set, logs in on each connection before anything else is sent. A
	// server that refuses the login ends the client with ErrAuthFailed, and so
	// does one that knows no logins. See DigestMD5.
	SASL SASLMechanism

	// ReadOnly accepts a server that has lost its quorum and answers reads
	// only (StateConnectedReadOnly). The client looks for a full server
	// meanwhile and moves to it.
	ReadOnly bool

	// SRV, if set, is the name of the DNS SRV records that name the servers and their ports, such as
	// "_zookeeper._tcp.example.com"; the connect string then has a chroot or nothing. DNS is asked
	// before the first connection, when a connection is lost, and whenever all servers have been
	// tried in vain, so that a changed record is followed. Servers are tried by priority, and at
	// random by weight within one. Until DNS answers, the servers known so far are used; up to 64
	// are. With TLS a server must be in the records' domain (example.com here, or below), unless
	// the configuration names the ServerName of certificates: whoever forges DNS's answers could
	// name any host.
	SRV string

	// Resolver asks for SRV records, and for the addresses of hosts unless Dial is set. Nil means
	// net.DefaultResolver.
	Resolver Resolver

	// Dial replaces the net.Dialer that opens connections. It is called for each
	// attempt with the address as the connect string has it, so it resolves names
	// each time, and must return when ctx ends. TLS, if configured, is put on top of
	// what it returns. Without Dial, an attempt tries all addresses of a name in turn
	// until one serves the session.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLSConfig, if set, makes each connection one by TLS. It is cloned; a
	// ServerName that is empty becomes the host's name.
	TLSConfig *tls.Config

	// GetTLSConfig, if set, is asked for each connection's TLSConfig, so that
	// renewed certificates and authorities are picked up. Its error fails the
	// attempt.
	GetTLSConfig func() (*tls.Config, error)

	// Logger gets connects, losses and whatever an operator should know. Nil
	// discards.
	Logger *slog.Logger

	// Notified, if set, is called for each notification that a server sends, once
	// the watches it is for have it and before anything later is read; the path
	// is absolute. It is meant for bridges to other interfaces, must return at
	// once, and may call no method that waits.
	Notified func(Event)

	// Hooks are told of each request, connection, change of state and notification, one after
	// the other. Without them nothing is measured.
	Hooks []Hooks

	// MaxOutstanding bounds the requests queued or unanswered; one more waits
	// for room. 0 means DefaultMaxOutstanding.
	MaxOutstanding int

	// MaxRequestBytes bounds a request; set it to the servers' jute.maxbuffer.
	// 0 means DefaultMaxRequestBytes.
	MaxRequestBytes int

	// MaxResponseBytes bounds a reply; a larger one fails its request and the
	// connection. 0 means DefaultMaxResponseBytes.
	MaxResponseBytes int

	// MaxUnreadEvents bounds the unread events of a persistent watch; one more
	// replaces all of them by an EventResync. 0 means DefaultMaxUnreadEvents.
	MaxUnreadEvents int

	// Retry decides whether a failed call is sent again, and after which pause.
	// It is asked only when Retryable(err) holds, so no policy can apply a write
	// twice; attempt counts from 1. Pipelines never retry. Nil means
	// RetrySafe(3).
	Retry func(attempt int, err error) (pause time.Duration, again bool)

	// lookup resolves a host name; nil where Dial does.
	lookup func(ctx context.Context, host string) ([]string, error)
}

// An Auth is a scheme and its credentials, such as {"digest", "user:password"}.
type Auth struct {
	Scheme string
	Auth   []byte
}

// String hides the credentials from logs.
func (a Auth) String() string { return a.Scheme + " (credentials hidden)" }

// GoString hides the credentials from logs.
func (a Auth) GoString() string { return fmt.Sprintf("zk.Auth{%q, hidden}", a.Scheme) }

// LogValue hides the credentials from logs.
func (a Auth) LogValue() slog.Value { return slog.StringValue(a.String()) }

// A Session identifies a session to the server. It is a secret: it allows its owner to
// take the session over.
type Session struct {
	ID      int64
	Passwd  []byte
	Timeout time.Duration // as granted; ignored in Options.Resume

	// LastZxid is the latest change the session may have seen; no server that
	// doesn't know it will serve the session.
	LastZxid int64
}

// String returns the session's id, as servers write it. It leaves the password out.
func (s Session) String() string { return fmt.Sprintf("0x%x", s.ID) }

// GoString hides the password from logs.
func (s Session) GoString() string { return fmt.Sprintf("zk.Session{ID: 0x%x, hidden}", s.ID) }

// LogValue hides the password from logs.
func (s Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

// RetryNever is the Options.Retry that leaves retrying to the caller.
func RetryNever(int, error) (time.Duration, bool) { return 0, false }

// RetrySafe returns an Options.Retry that sends a call up to attempts times in
// all. A request that met a lost connection is queued for the next one at once;
// one that a server refused to shed load pauses, doubling from 50 ms, with
// jitter.
func RetrySafe(attempts int) func(int, error) (time.Duration, bool) {
	return func(attempt int, err error) (time.Duration, bool) {
		if attempt >= attempts {
			return 0, false
		}
		if errors.Is(err, ErrThrottledOp) {
			return jitter(50 * time.Millisecond << min(attempt, 6)), true
		}
		return 0, true
	}
}

// jitter returns a random duration from d/2 to d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// timeoutMin and timeoutMax bound a session timeout: it travels as an int32 of
// milliseconds.
const (
	timeoutMin = time.Millisecond
	timeoutMax = 1<<31*time.Millisecond - time.Millisecond
)

// complete fills in defaults and refuses what can't work.
func (o Options) complete() (Options, error) {
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"MaxOutstanding", &o.MaxOutstanding, DefaultMaxOutstanding},
		{"MaxRequestBytes", &o.MaxRequestBytes, DefaultMaxRequestBytes},
		{"MaxResponseBytes", &o.MaxResponseBytes, DefaultMaxResponseBytes},
		{"MaxUnreadEvents", &o.MaxUnreadEvents, DefaultMaxUnreadEvents},
	} {
		if *n.value < 0 {
			return o, fmt.Errorf("zk: Options.%s is %d; it must not be negative", n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.usual
		}
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = DefaultSessionTimeout
	}
	if o.SessionTimeout < timeoutMin || o.SessionTimeout > timeoutMax {
		return o, fmt.Errorf("zk: Options.SessionTimeout is %v; it must be from %v to %v", o.SessionTimeout, timeoutMin,
			timeoutMax)
	}
	if o.Resume.ID != 0 && len(o.Resume.Passwd) != jute.PasswdSize {
		return o, fmt.Errorf("zk: Options.Resume has a password of %d bytes; it must have %d", len(o.Resume.Passwd),
			jute.PasswdSize)
	}
	for i, a := range o.Auth {
		if a.Scheme == "" {
			return o, fmt.Errorf("zk: Options.Auth[%d] has no scheme", i)
		}
	}
	if o.SRV != "" {
		if reason := badSRVName(o.SRV); reason != "" {
			return o, fmt.Errorf("zk: Options.SRV: %s", reason)
		}
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
		o.lookup = o.Resolver.LookupHost
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Retry == nil {
		o.Retry = RetrySafe(3)
	}
	return o, nil
}
