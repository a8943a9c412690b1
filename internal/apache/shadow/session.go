package shadow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A session is a session of the primary and its counterpart at the shadow.
type session struct {
	id      int64 // the primary's id
	timeout time.Duration

	// Proxy.mu guards the following fields.
	c        *conn // its current or last connection
	heard    time.Time
	gone     bool // the primary has closed its connection
	attached bool
	emitted  int64 // highest zxid emitted on a connection that has ended
	ended    bool  // it is no longer shadowed
	ready    chan struct{}
	// ephemerals are the paths of the session's ephemeral znodes, as in Proxy.ephemerals.
	ephemerals map[string]bool

	// The following fields are written before ready is closed, and read after.
	shadowID int64
	passwd   []byte
	link     *link
	err      error

	watched watched // used by the player only
}

// sessionsMax bounds the shadowed sessions, including those without a connection.
const sessionsMax = 20_000

// greet starts or resumes a session, as the primary has answered. The caller holds p.mu.
func (c *conn) greet(a *jute.ConnectResponse) {
	p := c.p
	if c.hello == nil || c.off != "" {
		return
	}
	known := p.sessions[c.hello.SessionID]
	switch {
	case a.Timeout <= 0:
		if known != nil {
			p.enqueue(&exchange{kind: expired, s: known, at: time.Now()})
		}
		c.off = "its session has expired"
	case c.hello.SessionID != 0 && known == nil:
		c.leaveOut("it resumes a session that isn't shadowed")
	case known != nil:
		if old := known.c; !old.closed {
			c.after = old
			time.AfterFunc(lingerMax, func() { old.over(false) })
		}
		known.c, known.attached, known.gone, known.heard = c, true, false, time.Now()
		c.s, c.emitted = known, known.emitted
		p.counts.Resumed++
	case len(p.sessions) >= sessionsMax:
		c.leaveOut(fmt.Sprintf("%d sessions are shadowed", sessionsMax))
	default:
		s := &session{id: a.SessionID, timeout: time.Duration(a.Timeout) * time.Millisecond, c: c, heard: time.Now(),
			attached: true,
			ready:    make(chan struct{}), ephemerals: map[string]bool{}, watched: watched{}}
		p.sessions[s.id] = s
		c.s = s
		p.counts.Sessions++
		go p.connect(s,
			jute.ConnectRequest{Timeout: c.hello.Timeout, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}, s.ready)
	}
}

// connect opens or resumes the session at the shadow.
func (p *Proxy) connect(s *session, q jute.ConnectRequest, ready chan struct{}) {
	defer close(ready)
	dial := func(ctx context.Context) (net.Conn, error) { return p.dialShadow(ctx) }
	l, a, err := openLink(context.Background(), dial, q)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.link, s.err = l, err
	if err != nil {
		p.end(s, fmt.Sprintf("no session at the shadow: %v", err))
		return
	}
	if s.shadowID, s.passwd = a.SessionID, a.Passwd; s.ended {
		go l.finish()
		return
	}
	if granted := time.Duration(a.Timeout) * time.Millisecond; q.SessionID == 0 && granted != s.timeout {
		go p.told(&Difference{
			Op: "connect", Session: s.id, Fields: []Field{{"timeout", s.timeout.String(), granted.String()}},
		})
	}
}

// detach notes that a connection of the session has ended. The caller holds p.mu.
func (p *Proxy) detach(s *session, c *conn) {
	s.emitted = max(s.emitted, c.emitted)
	p.enqueue(&exchange{kind: detached, s: s, zxid: s.emitted, at: time.Now()})
}

// end ends the shadowing of a session and of its connections. Its unplayed writes and its ephemeral znodes are in
// doubt from then on. The caller holds p.mu.
func (p *Proxy) end(s *session, why string) {
	if s.ended {
		return
	}
	s.ended = true
	delete(p.sessions, s.id)
	left := p.queue[:0]
	for _, x := range p.queue {
		if x.s != s {
			left = append(left, x)
			continue
		}
		if x.kind == requested {
			p.skipped(x.op, x.request)
			x.c.release(x)
		}
	}
	clear(p.queue[len(left):])
	p.queue = left
	p.queue.restore()
	for path := range s.ephemerals {
		p.doubts.add(path, doubtNode, "an ephemeral znode of a session that isn't shadowed")
		delete(p.ephemerals, path)
	}
	s.c.leaveOut(why)
	for c := range p.conns {
		if c.s == s {
			c.leaveOut(why)
		}
	}
	go func() {
		<-s.ready
		if s.link != nil {
			s.link.finish()
		}
	}()
}

// overdueAfter is how many timeouts a session without a connection is kept at the shadow: by then the primary has long
// expired it.
const overdueAfter = 2

// overdue closes at the shadow the sessions that the primary must have expired.
func (p *Proxy) overdue(ctx context.Context) {
	p.mu.Lock()
	var over []*session
	for _, s := range p.sessions {
		if !s.attached && time.Since(s.heard) > overdueAfter*s.timeout+time.Second {
			over = append(over, s)
		}
	}
	p.mu.Unlock()
	for _, s := range over {
		p.expire(ctx, s)
	}
}

// mayHaveExpired reports whether the primary may have expired the session unseen, at one of its zxids up to zxid. A
// session that has received a reply with a later zxid hadn't expired. The caller holds p.mu.
func (s *session) mayHaveExpired(zxid int64) bool {
	if s.emitted > zxid || s.c.s == s && s.c.last > zxid {
		return false
	}
	return s.gone || time.Since(s.heard) >= s.timeout
}

// expire closes at the shadow a session that the primary has expired.
func (p *Proxy) expire(ctx context.Context, s *session) {
	l, err := p.linkOf(ctx, s)
	if err == nil {
		x := l.send(jute.OpCloseSession, nil, false)
		if err = l.wait(ctx, x); err == nil && x.header.Err != jute.OK {
			err = x.header.Err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed(ctx, s, err)
		return
	}
	p.counts.Expired++
	p.forget(s)
}

// forget removes a session that has ended on both sides. The caller holds p.mu.
func (p *Proxy) forget(s *session) {
	s.ended = true
	delete(p.sessions, s.id)
	for path := range s.ephemerals {
		delete(p.ephemerals, path)
	}
	if s.c.off == "" {
		s.c.off = sessionEnded
	}
	for c := range p.waiting {
		if c.s != s {
			continue
		}
		for _, x := range c.open {
			c.release(x)
		}
		c.off, c.open = sessionEnded, nil
		delete(p.waiting, c)
	}
	if s.link != nil {
		go s.link.drop() // it may block, on TLS
	}
}

const sessionEnded = "its session has ended"

// linkOf waits for the shadow's session and returns its link.
func (p *Proxy) linkOf(ctx context.Context, s *session) (*link, error) {
	p.mu.Lock()
	ready := s.ready
	p.mu.Unlock()
	select {
	case <-ready:
		return s.link, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed ends the shadowing of a session that can't be played, or of all sessions if the shadow is silent. The caller
// holds p.mu.
func (p *Proxy) failed(ctx context.Context, s *session, err error) {
	if ctx.Err() != nil {
		return
	}
	p.end(s, err.Error())
	if !errors.Is(err, errShadowSilent) {
		return
	}
	for _, other := range p.sessions {
		p.end(other, err.Error())
	}
}
