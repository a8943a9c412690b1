package crash

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// A Line is the effect of one direction of a Proxy on bytes. The zero value forwards them
// unchanged.
type Line struct {
	// Block holds bytes back, like a network that drops packets: a connection that
	// outlives the block loses nothing and continues where it stopped.
	Block bool
	Delay time.Duration
	// BytesPerSecond limits the rate; 0 means no limit.
	BytesPerSecond int
}

// Faults are a Proxy's effects on connections.
type Faults struct {
	Up   Line // from the dialler to the target
	Down Line // back
	// Refuse resets new connections.
	Refuse bool
}

const (
	// proxyChunk is small, so that a cut falls inside a frame.
	proxyChunk = 4 << 10
	// proxyQueue bounds the chunks under way in one direction.
	proxyQueue = 256
	// recordedMax bounds the recorded bytes of each direction of a connection.
	recordedMax = 64 << 10
)

// A Proxy forwards TCP connections to a target, and misbehaves as told. Its
// methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	target  string
	changed sync.Cond
	faults  Faults
	pairs   map[*pair]bool
	cutAt   int64 // bytes after which every connection is reset; 0 for never
	closed  bool
	records bool // connections made from now on are recorded
	heard   []*recording

	// Counts, for tests that must know that something happened.
	accepted, resets, held int
}

// pair is one forwarded connection.
type pair struct {
	dialler, target net.Conn
	half            bool       // the target's side is gone, the dialler isn't told
	recording       *recording // nil if the connection isn't recorded; under the proxy's mu
	once            sync.Once
}

// NewProxy listens on a port chosen by the kernel and forwards to target.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy to %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, pairs: map[*pair]bool{}}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Set replaces the faults, for existing connections too. It cancels a CutAfter
// that has not happened yet.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	p.cutAt = 0
	p.changed.Broadcast()
}

// Reset resets every connection, and returns how many there were.
func (p *Proxy) Reset() int {
	p.mu.Lock()
	pairs := p.pairs
	p.pairs = map[*pair]bool{}
	p.resets += len(pairs)
	p.mu.Unlock()
	for c := range pairs {
		c.reset()
	}
	return len(pairs)
}

// CutAfter resets every connection, once, as soon as n more bytes have passed
// in either direction, most likely inside a frame.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt = n
}

// Retarget forwards to another target from now on, as an address does that has moved to another machine, and resets
// every connection.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Reset()
}

// A recording has the bytes that the two sides of a connection have sent, up to recordedMax of each.
type recording struct{ dialler, target []byte }

// Record records connections made from now on.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = true
}

// Recordings returns the recordings so far of connections on which both sides have sent bytes.
func (p *Proxy) Recordings() (list []recording) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.heard {
		if len(r.dialler) > 0 && len(r.target) > 0 {
			list = append(list, recording{slices.Clone(r.dialler), slices.Clone(r.target)})
		}
	}
	return list
}

// record records bytes that a side has sent.
func (p *Proxy) record(c *pair, from net.Conn, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.recording == nil {
		return
	}
	to := &c.recording.target
	if from == c.dialler {
		to = &c.recording.dialler
	}
	*to = append(*to, b[:min(len(b), recordedMax-len(*to))]...)
}

// HalfOpen closes every connection to the target without telling the dialler, as
// when a machine loses its power. It returns how many connections there were.
func (p *Proxy) HalfOpen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.half = true
		c.target.Close()
	}
	p.resets += len(p.pairs)
	return len(p.pairs)
}

// Counts returns how many connections were accepted, how many were broken on
// purpose, and how many chunks of bytes were held back by a Block.
func (p *Proxy) Counts() (accepted, broken, held int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted, p.resets, p.held
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.faults = Faults{}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		dialler, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		p.wg.Go(func() { p.forward(dialler) })
	}
}

func (p *Proxy) forward(dialler net.Conn) {
	p.mu.Lock()
	p.accepted++
	refuse, to := p.faults.Refuse || p.closed, p.target
	p.mu.Unlock()
	if refuse {
		linger(dialler)
		dialler.Close()
		return
	}
	target, err := net.DialTimeout("tcp", to, time.Second)
	if err != nil {
		linger(dialler)
		dialler.Close()
		return
	}
	c := &pair{dialler: dialler, target: target}
	p.mu.Lock()
	p.pairs[c] = true
	if p.records {
		c.recording = &recording{}
		p.heard = append(p.heard, c.recording)
	}
	if p.closed {
		c.reset()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, dialler, target, func(f *Faults) *Line { return &f.Up }) })
	both.Go(func() { p.pump(c, target, dialler, func(f *Faults) *Line { return &f.Down }) })
	both.Wait()
	c.close()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// parcel is a chunk that may be forwarded at a certain time.
type parcel struct {
	due  time.Time
	data []byte
}

// pump forwards one direction until it ends.
func (p *Proxy) pump(c *pair, from, to net.Conn, line func(*Faults) *Line) {
	queue := make(chan parcel, proxyQueue)
	var end error
	go func() {
		defer close(queue)
		for {
			b := make([]byte, proxyChunk)
			n, err := from.Read(b)
			if n > 0 {
				p.record(c, from, b[:n])
				p.mu.Lock()
				due := time.Now().Add(line(&p.faults).Delay)
				p.mu.Unlock()
				queue <- parcel{due, b[:n]}
			}
			if err != nil {
				end = err
				return
			}
		}
	}()
	failed := false
	for x := range queue {
		if failed || p.hold(x, line) {
			continue
		}
		if _, err := to.Write(x.data); err != nil {
			if failed = true; !p.halved(c) {
				from.Close()
			}
		}
	}
	switch {
	case p.halved(c) && to == c.dialler:
		// The dialler must believe that all is well until it gives up by itself.
	case errors.Is(end, io.EOF):
		to.(*net.TCPConn).CloseWrite()
	default:
		c.reset()
	}
}

func (p *Proxy) halved(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.half
}

// hold delays a parcel, and reports whether the connection was cut before the parcel.
func (p *Proxy) hold(x parcel, line func(*Faults) *Line) bool {
	time.Sleep(time.Until(x.due))
	p.mu.Lock()
	if line(&p.faults).Block {
		p.held++
	}
	for line(&p.faults).Block && !p.closed {
		p.changed.Wait()
	}
	rate := line(&p.faults).BytesPerSecond
	cut := false
	if p.cutAt > 0 {
		if p.cutAt -= int64(len(x.data)); p.cutAt <= 0 {
			p.cutAt, cut = 0, true
		}
	}
	p.mu.Unlock()
	if cut {
		p.Reset()
		return true
	}
	if rate > 0 {
		time.Sleep(time.Duration(len(x.data)) * time.Second / time.Duration(rate))
	}
	return false
}

func (c *pair) close() {
	c.once.Do(func() {
		c.dialler.Close()
		c.target.Close()
	})
}

// reset closes both sides as a crash does, without waiting for unsent data.
func (c *pair) reset() {
	linger(c.dialler)
	linger(c.target)
	c.close()
}

func linger(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
}
