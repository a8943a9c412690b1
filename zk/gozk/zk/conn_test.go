package zk_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	zooid "github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/gozk/zk"
	"github.com/zooid-project/zooid/zktest"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// patience bounds the waits of a test.
const patience = 3 * time.Minute

// connected returns a Conn that is closed at the end of the test.
func connected(t *testing.T, e *zktest.Ensemble) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func event(t *testing.T, ch <-chan zk.Event) zk.Event {
	t.Helper()
	select {
	case e := <-ch:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
		return zk.Event{}
	}
}

// After a session has expired, the Conn opens another one with the same credentials, and watches of the old one end.
func TestExpired(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	var mu sync.Mutex
	var passwd []byte
	var states []zk.State
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		return &eavesdropper{Conn: conn, passwd: func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			passwd = p
		}}, err
	}
	c, events, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}), zk.WithDialer(dialer),
		zk.WithEventCallback(func(e zk.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type == zk.EventSession {
				states = append(states, e.State)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.AddAuth("digest", []byte("a:b")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create("/mine", []byte("x"), zk.FlagEphemeral, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, changed, err := c.GetW("/mine")
	if err != nil {
		t.Fatal(err)
	}
	_, _, created, err := c.ExistsW("/other")
	if err != nil {
		t.Fatal(err)
	}
	old := c.SessionID()
	mu.Lock()
	secret := passwd
	mu.Unlock()
	e.Refuse(0, true) // so that the deletion isn't seen before the end
	for c.State() == zk.StateHasSession {
		time.Sleep(time.Millisecond)
	}
	go func() {
		defer e.Refuse(0, false)
		direct := zooid.Session{ID: old, Passwd: secret}
		thief, err := zooid.Open(t.Context(), e.Direct(0), zooid.Options{Resume: direct})
		if err != nil {
			t.Error(err)
			return
		}
		thief.Close()
	}()
	for _, ch := range []<-chan zk.Event{changed, created} {
		if ev := event(t, ch); ev.Type != zk.EventNotWatching || ev.Err != zk.ErrSessionExpired ||
			ev.State != zk.StateDisconnected {
			t.Errorf("a watch ends with %+v", ev)
		}
	}
	// A call may have begun before the end was known.
	var path string
	for {
		if path, err = c.Create("/mine", nil, zk.FlagEphemeral, zk.AuthACL(zk.PermAll)); err != zk.ErrSessionExpired &&
			err != zk.ErrNoServer {
			break
		}
	}
	if err != nil || path != "/mine" || c.SessionID() == old || c.State() != zk.StateHasSession {
		t.Errorf("in the next session: %q, %v, session 0x%x after 0x%x, %v", path, err, c.SessionID(), old, c.State())
	}
	c.Close()
	for range events {
	}
	mu.Lock()
	defer mu.Unlock()
	want := []zk.State{zk.StateExpired, zk.StateDisconnected, zk.StateConnecting}
	found := false
	for i := range states {
		if len(states)-i >= len(want) && [3]zk.State(states[i:i+3]) == [3]zk.State(want) {
			found = true
		}
	}
	if !found || states[len(states)-1] != zk.StateDisconnected {
		t.Errorf("states: %v", states)
	}
}

// An eavesdropper reads the session's password from the handshake.
type eavesdropper struct {
	net.Conn
	seen   []byte
	passwd func([]byte)
}

func (e *eavesdropper) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	const at, size = 4 + 4 + 4 + 8 + 4, 16 // length, version, timeout, session, length of the password
	if len(e.seen) < at+size {
		if e.seen = append(e.seen, p[:n]...); len(e.seen) >= at+size {
			e.passwd(append([]byte(nil), e.seen[at:at+size]...))
		}
	}
	return n, err
}

// Without a server, calls fail after all servers were tried, and work again when there is one.
func TestNoServer(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	e.Refuse(0, true)
	c := connected(t, e)
	if _, _, err := c.Get("/"); err != zk.ErrNoServer {
		t.Errorf("without a server: %v", err)
	}
	e.Refuse(0, false)
	for {
		_, _, err := c.Get("/")
		if err == nil {
			break
		}
		if err != zk.ErrNoServer && err != zk.ErrConnectionClosed {
			t.Fatalf("with a server: %v", err)
		}
	}
	// One that knows nobody by its name isn't even a Conn.
	if _, _, err := zk.Connect([]string{"no-such-host.invalid"}, time.Second); err == nil {
		t.Error("an unknown host")
	}
	if _, _, err := zk.Connect(nil, time.Second); err == nil {
		t.Error("no hosts")
	}
}

// An event is in its channel before the reply that shows the change.
func TestEventBeforeAnswer(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c := connected(t, e)
	if _, err := c.Create("/n", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		_, _, changed, err := c.GetW("/n")
		if err == nil {
			_, err = c.Set("/n", nil, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-changed:
			if e.Type != zk.EventNodeDataChanged || e.Path != "/n" {
				t.Fatalf("%+v", e)
			}
		default:
			t.Fatal("the answer came before the event")
		}
	}
}

// Requests and answers have limits.
func TestLimits(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c, _, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}), zk.WithMaxBufferSize(1000),
		zk.WithMaxConnBufferSize(2000))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	world := zk.WorldACL(zk.PermAll)
	if _, err := c.Create("/large", make([]byte, 2000), 0, world); err != zk.ErrShortBuffer {
		t.Errorf("a large request: %v", err)
	}
	if _, err := c.Create("/large", make([]byte, 1500), 0, world); err != nil {
		t.Errorf("a request: %v", err)
	}
	if _, _, err := c.Get("/large"); err != zk.ErrConnectionClosed {
		t.Errorf("a large answer: %v", err)
	}
	if _, _, err := c.Get("/"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A callback may close the Conn, and calls afterwards don't block.
func TestCloseInCallback(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	var conn atomic.Pointer[zk.Conn]
	ready := make(chan struct{})
	c, events, err := zk.Connect([]string{e.Connect()}, 30*time.Second, zk.WithLogger(silent{}),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				<-ready
				conn.Load().Close()
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	conn.Store(c)
	close(ready)
	for range events {
	}
	if _, _, err := c.Get("/"); err != zk.ErrConnectionClosed {
		t.Errorf("%v", err)
	}
}

func TestFourLetterWords(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c := connected(t, e)
	if _, _, err := c.Get("/"); err != nil {
		t.Fatal(err)
	}
	servers := []string{e.Connect(), "127.0.0.1:1"}
	stats, ok := zk.FLWSrvr(servers, patience)
	s := stats[0]
	if ok || stats[1].Error == nil || s.Error != nil || s.Server != servers[0] || s.Mode != zk.ModeStandalone ||
		s.Version == "" || s.BuildTime.Year() < 2000 ||
		s.NodeCount < 1 || s.Connections < 1 || s.Received < 1 || s.Epoch < 1 {
		t.Errorf("srvr: %v %+v %+v", ok, s, stats[1])
	}
	clients, ok := zk.FLWCons(servers, patience)
	if ok || clients[0].Error != nil || clients[1].Error == nil {
		t.Fatalf("cons: %v %+v", ok, clients)
	}
	found := false
	for _, k := range clients[0].Clients {
		found = found ||
			k.SessionID == c.SessionID() && k.Timeout == 30000 && time.Since(k.Established).Abs() < time.Hour && k.Received > 0
	}
	if !found {
		t.Errorf("session 0x%x is not in cons", c.SessionID())
	}
	if well := zk.FLWRuok(servers, patience); !well[0] || well[1] {
		t.Errorf("ruok: %v", well)
	}
}

// TestEmptyAnswers: an empty list of connections is no error, and no answer to ruok or srvr is no good one.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	servers := []string{freeport.Serve(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 4)) })}
	if clients, ok := zk.FLWCons(servers, patience); !ok || clients[0].Error != nil || len(clients[0].Clients) > 0 {
		t.Errorf("cons: %v %+v", ok, clients[0])
	}
	if well := zk.FLWRuok(servers, patience); well[0] {
		t.Error("ruok: it is well")
	}
	if stats, ok := zk.FLWSrvr(servers, patience); ok || stats[0].Error == nil {
		t.Errorf("srvr: %v %+v", ok, stats[0])
	}
}

// A provider of the program's own is asked for each attempt.
type provider struct {
	mu        sync.Mutex
	servers   []string
	server    string
	asked     int
	connected int
}

func (p *provider) Init(servers []string) error {
	p.servers = servers
	if len(servers) != 1 || servers[0] != "anything:2181" {
		return errors.New("other servers")
	}
	return nil
}
func (p *provider) Len() int { return 1 }
func (p *provider) Next() (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.server, p.asked > 1
}
func (p *provider) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connected++
}

func TestHostProvider(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	p := &provider{server: e.Connect()}
	c, _, err := zk.Connect([]string{"anything"}, 30*time.Second, zk.WithLogger(silent{}), zk.WithHostProvider(p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, cut := range []bool{true, false} {
		for {
			if _, _, err := c.Get("/"); err == nil {
				break
			}
		}
		if cut {
			e.Cut()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Server() != p.server || p.asked < 2 || p.connected < 1 {
		t.Errorf("at %s, asked %d times, connected %d times", c.Server(), p.asked, p.connected)
	}
}

func TestDNSHostProvider(t *testing.T) {
	t.Parallel()
	p := zk.NewDNSHostProvider(zk.WithLookupTimeout(patience))
	if err := p.Init([]string{"127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:3"}); err != nil || p.Len() != 3 {
		t.Fatalf("%d servers, %v", p.Len(), err)
	}
	round := func(connect bool) (first string) {
		seen := map[string]bool{}
		for i := range 3 {
			server, again := p.Next()
			if i == 0 {
				first = server
			}
			seen[server] = true
			if again != (!connect && i == 0) {
				t.Errorf("attempt %d: a new round: %v", i, again)
			}
		}
		if len(seen) != 3 {
			t.Errorf("a round of %v", seen)
		}
		return first
	}
	first := round(true)
	if again := round(false); again != first {
		t.Errorf("the second round begins at %s, the first at %s", again, first)
	}
	p.Next()
	p.Connected()
	p.Next()
	p.Next()
	if _, again := p.Next(); !again {
		t.Error("back at the server it was connected to, no new round")
	}
	if err := p.Init([]string{"127.0.0.1"}); err == nil {
		t.Error("a server without a port")
	}
}
