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

// Defaults for fields of Options that are zero.
const (
	// DefaultSessionTimeout is 10 s. A server with the usual tickTime of 2 s grants 4 s to 40 s.
	DefaultSessionTimeout = 10 * time.Second

	// DefaultMaxOutstanding is the number of unanswered requests at which Apache's server stops reading
	// (globalOutstandingLimit).
	DefaultMaxOutstanding = 1000

	// DefaultMaxRequestBytes is the server's default limit (jute.maxbuffer). A server closes the connection when a
	// request is larger, so the client refuses the request instead.
	DefaultMaxRequestBytes = jute.MaxBufferDefault

	// DefaultMaxResponseBytes is far above jute.maxbuffer, which doesn't limit servers' lists: one of a million children
	// takes some 20 MB. Memory is allocated as bytes arrive, so a high limit costs nothing unless it is used.
	DefaultMaxResponseBytes = 64 << 20

	// DefaultMaxUnreadEvents bounds the unread events of a persistent watch. At about 64 bytes each this is 256 KiB.
	DefaultMaxUnreadEvents = 4096
)

// Options configure a client. The zero value is a good choice for most programs. A value out of range is an error of
// New. While a client uses Options, what the fields refer to must not change, and several goroutines may call the
// functions and methods in them at once.
type Options struct {
	// SessionTimeout is how long the server keeps the session and its ephemeral znodes without hearing from this client.
	// The server limits it to its own bounds; Client.Session returns the granted one. A longer timeout survives longer
	// outages, but other clients wait longer for the locks and ephemeral znodes of a client that has crashed. It may be
	// from 1 ms to 2^31-1 ms, and is rounded down to whole milliseconds. 0 means DefaultSessionTimeout.
	SessionTimeout time.Duration

	// Resume continues an existing session, which Client.Session or Client.Detach returned, instead of opening one. If its
	// ID is 0, the client opens a session. Watches and credentials of the earlier client aren't continued: set Auth or
	// SASL again. If the server no longer knows the session, the client ends with ErrSessionExpired. The earlier client
	// must have ended, by Detach or with its process: two clients with one session keep taking it from each other.
	Resume Session

	// Auth are the credentials that the client sends on each connection before any request; see DigestAuth. If a server
	// refuses them, the client ends with ErrAuthFailed.
	Auth []Auth

	// SASL, if set, logs in on each connection before anything else is sent; see DigestMD5. The client ends with
	// ErrAuthFailed if a server refuses the login or doesn't support logins.
	SASL SASLMechanism

	// ReadOnly accepts a server that has lost its quorum and only answers reads (StateConnectedReadOnly). Meanwhile the
	// client looks for a server with quorum and moves to it. A session that a read-only server began doesn't exist
	// elsewhere: it gets another ID with the move.
	ReadOnly bool

	// SRV, if set, is the name of the DNS SRV records that list the servers and their ports, such as
	// "_zookeeper._tcp.example.com". The connect string must then be a chroot or empty. The client asks DNS before the
	// first connection, when a connection is lost, and each time it has tried all servers without success. It tries
	// servers by priority, and at random by weight within one priority. Until DNS answers, it uses the servers already
	// known. It uses at most 64 servers. With TLS, a server must be in the records' domain (here example.com or a
	// subdomain) unless the configuration sets ServerName: without this rule, forged DNS answers could name any host.
	SRV string

	// Resolver looks up SRV records, and also the addresses of hosts unless Dial is set. Nil means net.DefaultResolver.
	Resolver Resolver

	// Dial replaces the net.Dialer that opens connections. The client calls it for each attempt, with the network "tcp"
	// and the address in the connect string or the SRV record, so it resolves names each time. It must return when ctx
	// ends, which bounds the attempt. TLS, if configured, runs on top of the connection that it returns. Without Dial, an
	// attempt tries all addresses of a name in turn until one accepts the session.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLSConfig, if set, makes all connections use TLS. The client clones it for each connection and sets an empty
	// ServerName to the server's host name.
	TLSConfig *tls.Config

	// GetTLSConfig, if set, is used instead of TLSConfig: it returns the configuration of each connection, so that renewed
	// certificates and authorities are used. A nil result means a zero tls.Config. If it fails, so does the attempt.
	GetTLSConfig func() (*tls.Config, error)

	// Logger gets a line at level Info for each connection, its loss, and Close, at Warn if the session ends otherwise,
	// and at Debug for each failed attempt to connect. Nil discards them.
	Logger *slog.Logger

	// Notified, if set, is called for each notification from a server, after the watches concerned have received it and
	// before anything later is read. The path is absolute. It is meant for adapters to other interfaces. It must return
	// at once and must not call methods that wait.
	Notified func(Event)

	// Hooks are called for each request, connection, change of state and notification, in the order of the list.
	// Without hooks nothing is measured.
	Hooks []Hooks

	// MaxOutstanding bounds the requests that are queued or unanswered. Further calls wait for room until their context
	// ends. They also wait while 8 MiB of requests are unsent. 0 means DefaultMaxOutstanding.
	MaxOutstanding int

	// MaxRequestBytes bounds the size of a request in bytes: the data, path, ACL and a few more. A larger one fails with
	// ErrRequestTooLarge and isn't sent. Set it to the servers' jute.maxbuffer. 0 means DefaultMaxRequestBytes.
	MaxRequestBytes int

	// MaxResponseBytes bounds the size of a reply in bytes. A larger one fails its request with ErrReplyTooLarge and
	// closes the connection. 0 means DefaultMaxResponseBytes.
	MaxResponseBytes int

	// MaxUnreadEvents bounds the unread events of a persistent watch. When one more arrives, a single EventResync
	// replaces all of them. 0 means DefaultMaxUnreadEvents.
	MaxUnreadEvents int

	// Retry decides whether a failed call is sent again, and after which pause. It is called only if Retryable(err) holds,
	// so no policy can apply a write twice. attempt is the number of attempts so far, at least 1; a lost connection may
	// end an attempt before the request was sent. If the call's context ends during the pause, the call fails at once with
	// the context's error; the end of the client doesn't shorten the pause. Pipelines never retry. Nil means RetrySafe(3).
	Retry func(attempt int, err error) (pause time.Duration, again bool)

	// lookup resolves a host name; nil if Dial does.
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

// A Session identifies a session to servers. It is a secret: anyone who has it can take over the session. A program may
// store its fields and give them to another process, whose client continues the session by Options.Resume.
type Session struct {
	ID      int64
	Passwd  []byte
	Timeout time.Duration // granted by the server; ignored in Options.Resume

	// LastZxid is the last change seen. Servers behind it refuse the session. An older value lets reads go back in time.
	LastZxid int64
}

// String returns the session's id in the servers' format. It omits the password.
func (s Session) String() string { return fmt.Sprintf("0x%x", s.ID) }

// GoString hides the password from logs.
func (s Session) GoString() string { return fmt.Sprintf("zk.Session{ID: 0x%x, hidden}", s.ID) }

// LogValue hides the password from logs.
func (s Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

// RetryNever is an Options.Retry that never retries.
func RetryNever(int, error) (time.Duration, bool) { return 0, false }

// RetrySafe returns an Options.Retry that sends a call up to attempts times in total. After a lost connection it queues
// the call for the next connection at once. After ErrThrottledOp it pauses for a random 50 to 100 ms, then twice as
// long each time, up to 3.2 s. With attempts of 1 or less it never retries.
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

// timeoutMin and timeoutMax bound a session timeout, which is sent as an int32 of milliseconds.
const (
	timeoutMin = time.Millisecond
	timeoutMax = 1<<31*time.Millisecond - time.Millisecond
)

// complete returns o with defaults filled in. It fails if a value is invalid.
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
