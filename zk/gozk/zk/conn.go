package zk

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	zooid "github.com/zooid-project/zooid/zk"
)

// A Dialer opens a connection to a server within timeout, which is one second.
type Dialer func(network, address string, timeout time.Duration) (net.Conn, error)

// A Logger prints lines of a log. Several goroutines may call it at once.
type Logger interface {
	Printf(string, ...interface{})
}

// DefaultLogger writes to the standard library's log.
var DefaultLogger Logger = standardLog{}

type standardLog struct{}

func (standardLog) Printf(format string, values ...any) { log.Printf(format, values...) }

const (
	// dialTimeout is the timeout passed to the Dialer.
	dialTimeout = time.Second

	// closeWait bounds how long Close waits for the server.
	closeWait = 3 * time.Second

	// eventsMax is the size of the channel that Connect returns. It has room for the events of a connection's loss and
	// of the next connection.
	eventsMax = 6

	// requestBytesUsual bounds requests unless WithMaxConnBufferSize sets another bound.
	requestBytesUsual = 1536 << 10

	// serversMax bounds the attempts that count as one round.
	serversMax = 1 << 10
)

// A Conn is a session with an ensemble, and after its expiry the next session. Its methods may be called from any
// goroutine.
//
// Calls that are unanswered when the connection is lost fail with ErrConnectionClosed. Calls that wait for a connection
// when the session expires fail with ErrSessionExpired. Only CreateProtectedEphemeralSequential then tries again in the
// next session. Calls made after the expiry wait for the next session.
type Conn struct {
	dialer   Dialer
	hosts    HostProvider
	callback EventCallback
	timeout  time.Duration
	readMax  int
	writeMax int
	events   chan Event
	done     chan struct{} // closed when all goroutines have ended

	// telling is held while events are delivered, to keep their order. It is taken before mu, and guards over.
	telling sync.Mutex
	over    bool // events is closed

	mu      sync.Mutex
	logger  Logger
	chatty  bool
	client  *zooid.Client
	states  *zooid.States // of client
	state   State
	server  string
	tried   int // attempts since the last session
	creds   []zooid.Auth
	round   context.Context // ends when all servers were tried without success
	flush   context.CancelFunc
	watches map[string][]*watch
	ended   error         // why client has ended, so that no watch can be set on it
	renewed chan struct{} // closed when closed is set, closed and replaced when client changes
	closed  bool
}

type connOption func(c *Conn)

// WithDialer replaces net.DialTimeout.
func WithDialer(dialer Dialer) connOption { return func(c *Conn) { c.dialer = dialer } }

// WithHostProvider replaces the DNSHostProvider.
func WithHostProvider(hostProvider HostProvider) connOption {
	return func(c *Conn) { c.hosts = hostProvider }
}

// WithLogger replaces the DefaultLogger.
func WithLogger(logger Logger) connOption { return func(c *Conn) { c.logger = logger } }

// WithLogInfo sets whether informational lines are logged. The default is true.
func WithLogInfo(logInfo bool) connOption { return func(c *Conn) { c.chatty = logInfo } }

// WithEventCallback makes the Conn call cb with each Event. cb must not block, so it must not call methods that send a
// request; a Close in cb takes three seconds.
func WithEventCallback(cb EventCallback) connOption { return func(c *Conn) { c.callback = cb } }

// WithMaxBufferSize bounds servers' replies, in bytes; a larger one closes the connection. 0 or less means no bound,
// which is the default.
func WithMaxBufferSize(maxBufferSize int) connOption {
	return func(c *Conn) { c.readMax = maxBufferSize }
}

// WithMaxConnBufferSize bounds requests, in bytes; larger ones fail with ErrShortBuffer. The default is 1.5 MiB; 0 or
// less lets no request through.
func WithMaxConnBufferSize(maxBufferSize int) connOption {
	return func(c *Conn) { c.writeMax = maxBufferSize }
}

// ConnectWithDialer is Connect with the option WithDialer.
func ConnectWithDialer(servers []string, sessionTimeout time.Duration, dialer Dialer) (*Conn, <-chan Event, error) {
	return Connect(servers, sessionTimeout, WithDialer(dialer))
}

// Connect starts a Conn and returns without waiting for a connection. The Conn connects in the background, and calls
// wait until it has. Connect resolves the servers' names, for at most three seconds by default, and fails if one can't
// be resolved or there are none. A server without a port gets DefaultPort. The channel holds six Events; it gets each
// one unless it is full, and is closed when the Conn has ended. sessionTimeout is sent in whole milliseconds, at least
// 1; Connect fails with more than 2^31-1. The server limits it to its own bounds. The caller must Close the Conn.
func Connect(servers []string, sessionTimeout time.Duration, options ...connOption) (*Conn, <-chan Event, error) {
	if len(servers) == 0 {
		return nil, nil, errors.New("zk: server list must not be empty")
	}
	c := &Conn{
		dialer: net.DialTimeout, hosts: NewDNSHostProvider(), timeout: max(sessionTimeout.Truncate(time.Millisecond),
			time.Millisecond), writeMax: requestBytesUsual,
		events: make(chan Event, eventsMax), done: make(chan struct{}),
		logger: DefaultLogger, chatty: true, watches: map[string][]*watch{}, renewed: make(chan struct{}),
	}
	for _, o := range options {
		o(c)
	}
	if c.readMax <= 0 {
		c.readMax = math.MaxInt32
	}
	c.round, c.flush = context.WithCancel(context.Background())
	if err := c.hosts.Init(FormatServers(servers)); err != nil {
		return nil, nil, err
	}
	if err := c.open(); err != nil {
		return nil, nil, err
	}
	go c.run()
	return c, c.events, nil
}

// open starts a session. The HostProvider chooses its server: the client gets as many names as there are servers, and
// dial ignores them.
func (c *Conn) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, min(max(c.hosts.Len(), 1), serversMax))
	for i := range names {
		names[i] = fmt.Sprintf("server-%d", i+1)
	}
	client, err := zooid.New(strings.Join(names, ","), zooid.Options{
		SessionTimeout: c.timeout, Auth: c.creds, Dial: c.dial, Retry: zooid.RetryNever, Notified: c.notified,
		MaxRequestBytes: max(c.writeMax-4, 1), MaxResponseBytes: c.readMax,
	})
	if err != nil {
		return err
	}
	c.client, c.states, c.ended = client, client.States(), nil
	return nil
}

// current returns the session's client and the context for a call on it. If the session has expired, it waits for the
// next one.
func (c *Conn) current() (*zooid.Client, context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.client.State().State == zooid.StateExpired {
		renewed := c.renewed
		c.mu.Unlock()
		<-renewed
		c.mu.Lock()
	}
	if c.closed {
		return nil, nil, ErrConnectionClosed
	}
	return c.client, c.round, nil
}

// Close ends the session and the Conn. It waits for the server, but at most three seconds. Calls that still wait for a
// reply get it or fail with ErrConnectionClosed; later calls fail with ErrConnectionClosed. It is idempotent.
func (c *Conn) Close() {
	c.mu.Lock()
	client := c.client
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	close(c.renewed)
	c.mu.Unlock()
	go client.Close()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C: // done stays open if an EventCallback has called Close, since it would wait for itself
	}
}

// State returns the state of the Conn, StateDisconnected at first.
func (c *Conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == StateConnected && c.client.State().State == zooid.StateConnected {
		return StateHasSession // a reply may have arrived before the event was sent
	}
	return c.state
}

// SessionID returns the session's id, 0 before the first connection.
func (c *Conn) SessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client.Session().ID
}

// Server returns the server of the last attempt to connect, as host:port, or "" before the first.
func (c *Conn) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// SetLogger replaces the logger.
func (c *Conn) SetLogger(l Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logger = l
}

// logf logs a line. If info is set, it does so only if WithLogInfo is on.
func (c *Conn) logf(info bool, format string, values ...any) {
	c.mu.Lock()
	l, chatty := c.logger, c.chatty
	c.mu.Unlock()
	if chatty || !info {
		l.Printf(format, values...)
	}
}
