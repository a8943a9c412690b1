package shadow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// The limits. docs/limits.md says what happens at them.
const (
	connectionsMax = 10_000    // clients' connections
	requestMax     = 2 << 20   // bytes of a request, with its overhead; a server refuses larger ones
	replyMax       = 64 << 20  // bytes of a reply
	queuedMax      = 10_000    // requests of a connection that the shadow hasn't played
	queuedBytesMax = 16 << 20  // bytes of these requests and their replies
	queuedBytesAll = 256 << 20 // the same for all connections together
	eventsMax      = 10_000    // notifications of a connection between two replies, or not matched
	firstFrameMax  = 10 * time.Second
	lingerMax      = 2 * time.Second // how long to wait for replies to a client that has left
)

// Dial connects to a server.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Options configure a Proxy.
type Options struct {
	Primary, Shadow         []string // addresses
	DialPrimary, DialShadow Dial     // nil for TCP
	Ignored                 map[string]bool
	Tell                    func(*Difference) // called for each difference and doubt, from one goroutine at a time
	Say                     func(string)      // called with messages for the operator
}

// A Proxy stands between clients and the primary.
type Proxy struct {
	o    Options
	wake chan struct{} // signals the player that there is something new

	mu         sync.Mutex // guards the following fields; held only for work in memory
	accepted   int        // open connections, including those that aren't followed
	conns      map[*conn]bool
	waiting    map[*conn]bool     // connections with requests that the player hasn't got yet
	sessions   map[int64]*session // by the primary's id
	ephemerals map[string]*session
	doubts     doubts
	acls       map[string]uint64 // paths of setACLs, with the stamp of their reply
	queue      queue
	flying     int  // number of exchanges being played
	finishing  bool // no more exchanges are added
	stamp, seq uint64
	bytes      int   // memory that exchanges take
	played     int64 // the highest played zxid of the primary
	zxids      zxidMap
	primary    int // index of the server in use
	generation int // counts changes of primary
	shadow     int // index of the shadow's server in use
	counts     Counts

	notices chan string // messages for Say, which may block, while p.mu is held
	telling sync.Mutex  // held while Tell is called; p.mu isn't
}

// New returns a Proxy.
func New(o Options) *Proxy {
	tcp := func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if o.DialPrimary == nil {
		o.DialPrimary = tcp
	}
	if o.DialShadow == nil {
		o.DialShadow = tcp
	}
	return &Proxy{o: o, wake: make(chan struct{}, 1), notices: make(chan string, noticesMax), conns: map[*conn]bool{},
		waiting: map[*conn]bool{}, sessions: map[int64]*session{},
		ephemerals: map[string]*session{}, doubts: doubts{paths: map[string]doubt{}}, acls: map[string]uint64{},
		counts: newCounts()}
}

// Run serves clients until ctx ends. Then it closes the listener and all connections, and plays the remaining requests
// until playing ends.
func (p *Proxy) Run(ctx, playing context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	playing, stop := context.WithCancel(playing)
	var clients, player, notices sync.WaitGroup
	defer func() {
		cancel()
		clients.Wait()
		p.finish()
		player.Wait()
		stop()
		notices.Wait()
		p.leave()
	}()
	context.AfterFunc(ctx, func() { socket.CloseListener(l) })
	player.Go(func() { p.play(playing) })
	notices.Go(func() {
		for {
			select {
			case text := <-p.notices:
				p.o.Say(text)
			case <-playing.Done():
				return
			}
		}
	})
	for {
		client, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ECONNABORTED) {
				return fmt.Errorf("accept connections: %w", err)
			}
			time.Sleep(acceptPause)
			continue
		}
		if !p.admit() {
			client.Close()
			continue
		}
		clients.Go(func() {
			p.serve(ctx, client)
			p.mu.Lock()
			p.accepted--
			p.mu.Unlock()
		})
	}
}

// finish tells the player that no more exchanges will come.
func (p *Proxy) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finishing = true; len(p.queue) > 0 {
		p.say(fmt.Sprintf("%d earlier requests are still being replayed; a second interrupt skips them",
			len(p.queue)))
	}
	p.poke()
}

// finished reports whether everything has been played and nothing more can come.
func (p *Proxy) finished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finishing && len(p.queue) == 0
}

// poke makes the player check the queue.
func (p *Proxy) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// noticesMax is how many notices may wait for Say; more are dropped.
const noticesMax = 1000

// say queues a notice for Say without blocking.
func (p *Proxy) say(text string) {
	select {
	case p.notices <- text:
	default:
	}
}

// acceptPause is the wait when there are no more file descriptors.
const acceptPause = 50 * time.Millisecond

// admit counts a new connection, and returns false if there are too many.
func (p *Proxy) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accepted >= connectionsMax {
		if p.counts.Refused++; p.counts.Refused == 1 {
			p.say(fmt.Sprintf("there are %d connections; further ones are closed", connectionsMax))
		}
		return false
	}
	p.accepted++
	return true
}

// serve passes bytes between a client and the primary.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	var first [4]byte
	client.SetReadDeadline(time.Now().Add(firstFrameMax))
	stopEarly := context.AfterFunc(ctx, func() { client.Close() })
	defer stopEarly()
	if _, err := io.ReadFull(client, first[:]); err != nil {
		return
	}
	client.SetReadDeadline(time.Time{})
	primary, generation, err := p.dialPrimary(ctx)
	if err != nil {
		return
	}
	defer primary.Close()
	stop := context.AfterFunc(ctx, func() { primary.Close() })
	defer stop()
	size := int32(binary.BigEndian.Uint32(first[:]))
	if size < 0 || size > jute.ConnectRequestSizeMax { // a four-letter word, TLS, or nonsense
		p.passOn(client, primary, first[:])
		return
	}
	c := &conn{
		p: p, generation: generation, fromClient: assembler{limit: requestMax}, fromPrimary: assembler{limit: replyMax},
	}
	p.mu.Lock()
	p.counts.Connections++
	p.conns[c] = true
	p.mu.Unlock()
	var down sync.WaitGroup
	down.Go(func() {
		pump(primary, client, c.replied)
		c.over(true)
		client.Close()
	})
	if c.requested(first[:]); writeAll(primary, first[:]) == nil {
		pump(client, primary, c.requested)
	}
	c.linger(ctx)
	c.over(false)
	primary.Close()
	down.Wait()
}

// passOn passes bytes on without inspecting them.
func (p *Proxy) passOn(client, primary net.Conn, first []byte) {
	p.mu.Lock()
	p.counts.PassedOn++
	p.mu.Unlock()
	var down sync.WaitGroup
	down.Go(func() {
		pump(primary, client, nil)
		client.Close()
	})
	if writeAll(primary, first) == nil {
		pump(client, primary, nil)
	}
	if half, ok := primary.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		primary.Close()
	}
	down.Wait()
}

// pump passes the look function the bytes of one direction and then forwards them, until one side ends. If the
// receiver has ended, look still gets the rest.
func pump(from, to net.Conn, look func([]byte)) {
	buf := make([]byte, 32<<10)
	lost := false
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if look != nil {
				look(buf[:n])
			}
			if !lost && writeAll(to, buf[:n]) != nil {
				if lost = true; look == nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func writeAll(to net.Conn, b []byte) error {
	_, err := to.Write(b)
	return err
}

// dialPrimary connects to the primary's server in use, or else to the next reachable one, which all connections use
// from then on: only the replies of a single server are ordered by their zxids.
func (p *Proxy) dialPrimary(ctx context.Context) (net.Conn, int, error) {
	p.mu.Lock()
	from := p.primary
	p.mu.Unlock()
	var failed error
	for i := range p.o.Primary {
		at := (from + i) % len(p.o.Primary)
		one, cancel := context.WithTimeout(ctx, patience)
		nc, err := p.o.DialPrimary(one, p.o.Primary[at])
		cancel()
		if err != nil {
			failed = err
			continue
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.primary != at && p.primary == from {
			p.primary = at
			p.generation++
			p.say(fmt.Sprintf("clients are connected to %s now", p.o.Primary[at]))
		} else if p.primary != at { // another connection has switched servers meanwhile
			nc.Close()
			return nil, 0, errors.New("the primary's server has changed")
		}
		return nc, p.generation, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts.Unreachable++; p.counts.Unreachable == 1 {
		p.say(fmt.Sprintf("the primary can't be reached: %v", failed))
	}
	return nil, 0, failed
}

// turnedAway switches to the next server of the primary if the current one closes connections without an answer, as a
// server without a quorum does, and no other connection to it is open. The caller holds p.mu.
func (p *Proxy) turnedAway(c *conn) {
	if len(p.o.Primary) == 1 || c.generation != p.generation {
		return
	}
	for other := range p.conns {
		if other.generation == p.generation && other.greeted {
			return
		}
	}
	p.primary = (p.primary + 1) % len(p.o.Primary)
	p.generation++
	p.say(fmt.Sprintf("clients are connected to %s next: the previous server turns them away", p.o.Primary[p.primary]))
}

// dialShadow connects to the shadow's server in use, or else to the next reachable one, which is used from then on.
// That server may be behind, so sessions on the old one are no longer shadowed. The caller must not hold p.mu.
func (p *Proxy) dialShadow(ctx context.Context) (nc net.Conn, err error) {
	p.mu.Lock()
	from := p.shadow
	p.mu.Unlock()
	for i := range p.o.Shadow {
		at := (from + i) % len(p.o.Shadow)
		if nc, err = p.o.DialShadow(ctx, p.o.Shadow[at]); err != nil {
			continue
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.shadow == at:
		case p.shadow == from:
			p.shadow = at
			p.say(fmt.Sprintf("requests are replayed to %s now", p.o.Shadow[at]))
			for _, s := range p.sessions {
				if s.link != nil {
					p.end(s, "the shadow's server can't be reached any more, and another one is used")
				}
			}
		default: // another session has switched servers meanwhile
			nc.Close()
			return nil, errors.New("the shadow's server has changed")
		}
		return nc, nil
	}
	return nil, err
}

// leave cleans up once nothing is served.
func (p *Proxy) leave() {
	p.mu.Lock()
	p.counts.Queued = p.queued()
	var links []*link
	for _, s := range p.sessions {
		s.ended = true
		if s.link != nil {
			links = append(links, s.link)
		}
	}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(l.finish)
	}
	all.Wait()
}
