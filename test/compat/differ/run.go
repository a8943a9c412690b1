package differ

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// seen is everything that a step showed.
type seen struct {
	err    string // the reply's error code, or the event in its place
	fields []field
	events []heard
	lost   []int // other connections that were closed
}

// heard is a watch event received on a connection.
type heard struct {
	conn   int
	fields []field
}

// What may come instead of a reply's error code.
const (
	notConnected = "not connected"
	ended        = "connection ended"
	noReply      = "no reply"
	done         = "done" // a step that isn't a request
)

// player plays one script on one server.
type player struct {
	words *vocabulary
	addr  string
	root  string
	exact bool // nothing else uses the server, so that the zxid in each reply's header can be compared
	slots []*seat
	times map[int64]int64
	gone  seat // the session that was closed last
	now   *seen
}

// seat is one of a script's connections. Its session may outlive the connection.
type seat struct {
	line    *line // nil while not connected
	session int64
	passwd  []byte
	xid     int32
	last    int64 // the last zxid seen on any of its connections
	mark    int64
	heard   int64 // number of events
}

// awaitPause is the pause between two checks in await.
const awaitPause = 5 * time.Millisecond

// maxConns bounds a script's connections.
const maxConns = 8

// play runs steps against the server at addr, below root, and returns each step's result. An error means that the
// server can't be reached.
func (w *vocabulary) play(addr, root string, steps []step) ([]seen, error) {
	p := w.player(addr, root)
	defer p.leave()
	return p.run(steps)
}

func (w *vocabulary) player(addr, root string) *player {
	p := &player{words: w, addr: addr, root: root, times: map[int64]int64{}}
	for range maxConns {
		p.slots = append(p.slots, &seat{})
	}
	return p
}

// run performs steps, which may be a part of a script, and returns each step's result.
func (p *player) run(steps []step) ([]seen, error) {
	var all []seen
	for i := range steps {
		p.now = &seen{}
		if err := p.perform(&steps[i]); err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, p.words.formatStep(&steps[i]), err)
		}
		all = append(all, *p.now)
	}
	return all, nil
}

// rootOf returns the root of a server's script n. All roots have the same length.
func rootOf(n int64) string { return fmt.Sprintf("/s%06d", n) }

// leave closes open sessions, so that servers stay small in a long run.
func (p *player) leave() {
	for _, s := range p.slots {
		if s.line != nil {
			s.line.write(jute.AppendRequest(nil, s.xid+1, jute.OpCloseSession, nil))
		}
	}
	for _, s := range p.slots {
		if s.line != nil {
			s.line.next(patience, func([]field) {})
			s.line.close()
		}
	}
}

func (p *player) perform(s *step) error {
	seat := p.slots[s.conn%maxConns]
	if s.word == "connect" {
		return p.connect(s, seat)
	}
	if seat.line == nil {
		p.now.err = notConnected
		return nil
	}
	switch s.word {
	case "drop":
		seat.line.close()
		seat.line = nil
		p.now.err = done
	case "mark":
		seat.mark = seat.last
		p.now.err = done
	case "await":
		p.await(s, seat)
	default:
		p.request(s, seat)
	}
	if !s.kind.read {
		p.barrier(s.conn)
	}
	return nil
}

// hear returns a function that records a connection's events.
func (p *player) hear(conn int) func([]field) {
	now := p.now
	return func(fields []field) {
		now.events = append(now.events, heard{conn, fields})
		p.slots[conn].heard++
	}
}

// request sends a request and reads its reply. A ping sent after it shows whether the connection is alive, and flushes
// events that precede its answer. For a risky step the ping is sent only after the reply: a server that closes the
// connection before it has read a request may lose its last reply.
func (p *player) request(s *step, seat *seat) {
	hear := p.hear(s.conn)
	frame, xid := p.frame(s, seat)
	patiently := patience
	risky := s.kind.risky || s.cut > 0
	if risky {
		patiently = silence
	} else {
		frame = pingFrame(frame)
	}
	seat.line.write(frame)
	r, err := seat.line.next(patiently, hear)
	silent := errors.Is(err, errSilent) || (err == nil && r.header.Xid == jute.XidPing && xid != jute.XidPing)
	switch {
	case silent:
		p.now.err = noReply
	case err != nil:
		p.now.err = ended
	default:
		p.keep(s, seat, r, xid)
	}
	if err != nil && !silent {
		p.lose(seat)
		return
	}
	if silent && !risky {
		return // the answer was the ping's
	}
	if risky && p.now.err != "0" {
		// A server about to close the connection may still answer one request.
		seat.line.write(pingFrame(nil))
		if _, err := seat.line.next(patience, hear); err == nil {
			seat.line.write(pingFrame(nil))
		}
	} else if risky && s.word != "closeSession" {
		seat.line.write(pingFrame(nil)) // behind a closeSession, Apache answers it or not
	}
	p.probe(seat, hear)
}

// probe reads the answer to a ping, or the end of the connection.
func (p *player) probe(seat *seat, hear func([]field)) {
	r, err := seat.line.next(patience, hear)
	switch {
	case errors.Is(err, errSilent):
		p.now.fields = append(p.now.fields, text("ping", noReply))
		p.lose(seat)
	case err != nil:
		p.now.fields = append(p.now.fields, text("then", ended))
		p.lose(seat)
	default:
		if r.header.Xid != jute.XidPing || r.header.Err != 0 || r.body.Remaining() != 0 {
			p.now.fields = append(p.now.fields, text("ping", fmt.Sprintf("%+v and %d bytes", r.header, r.body.Remaining())))
		}
		p.heed(seat, r.header.Zxid)
	}
}

func (p *player) lose(seat *seat) {
	seat.line.close()
	seat.line = nil
}

// frame encodes a step's request and returns the expected xid of the reply.
func (p *player) frame(s *step, seat *seat) ([]byte, int32) {
	if s.word == "frame" {
		return []byte(s.args[0].text), jute.XidPing
	}
	xid := s.xid
	if xid == 0 {
		seat.xid++
		switch s.word {
		case "ping":
			xid = jute.XidPing
		case "auth":
			xid = jute.XidAuth
		default:
			xid = seat.xid
		}
	}
	frame := jute.AppendRequest(nil, xid, s.code(), func(b []byte) []byte {
		return p.words.body(b, s, p.root, func(name string) int64 { return seat.zxid(name) })
	})
	if s.word == "ping" {
		xid = jute.XidPing // of the answer to any ping
	}
	return frame, xid
}

// zxid returns the current value of a symbolic zxid.
func (s *seat) zxid(name string) int64 {
	switch name {
	case "last":
		return s.last
	case "mark":
		return s.mark
	case "max":
		return math.MaxInt64
	}
	return 0
}

// keep records a reply.
func (p *player) keep(s *step, seat *seat, r reply, xid int32) {
	p.now.err = fmt.Sprint(int32(r.header.Err))
	if r.header.Xid != xid {
		p.now.fields = append(p.now.fields, text("xid", fmt.Sprint(r.header.Xid)))
	}
	// If other scripts use the server, they change its zxid too; only its kind and order are compared.
	switch {
	case r.header.Zxid <= 0:
		p.now.fields = append(p.now.fields, text("header zxid", fmt.Sprint(r.header.Zxid)))
	case p.exact:
		p.now.fields = append(p.now.fields, zxidField("header zxid", r.header.Zxid))
	default:
		p.now.fields = append(p.now.fields, text("header zxid", "zxid"))
	}
	p.heed(seat, r.header.Zxid)
	d := decoder{d: r.body, times: p.times}
	var fields []field
	if r.header.Err == 0 {
		fields = d.body(s.kind.out)
	} else {
		fields = d.body("")
	}
	if r.header.Err == 0 && shared(s) {
		fields = nil
	}
	for _, f := range fields {
		if f.kind == zxid && f.n > r.header.Zxid {
			p.now.fields = append(p.now.fields, text("header zxid", "below "+f.name))
		}
	}
	p.now.fields = append(p.now.fields, fields...)
	if s.word == "closeSession" && r.header.Err == 0 {
		p.gone = *seat
	}
}

// shared reports whether a step's reply depends on other scripts.
func shared(s *step) bool {
	if len(s.kind.in) < 4 || s.kind.in[:4] != "path" || s.word == "sync" || s.word == "getEphemerals" {
		return false
	}
	path := s.args[0].text
	if s.word == "getAllChildrenNumber" && path == "/zookeeper" {
		return true
	}
	return path == "/" || path == "" || path == "/zookeeper/quota"
}

// heed checks that a connection's zxids never decrease.
func (p *player) heed(seat *seat, n int64) {
	if n <= 0 {
		return
	}
	if n < seat.line.lastZxid {
		p.now.fields = append(p.now.fields, text("header zxid", "went back"))
	}
	seat.line.lastZxid = n
	seat.last = max(seat.last, n)
}

// barrier reads the events that a step caused on the other connections, which arrive before the answer to a ping.
func (p *player) barrier(except int) {
	for i, seat := range p.slots {
		if seat.line != nil && i != except {
			seat.line.write(pingFrame(nil))
		}
	}
	for i, seat := range p.slots {
		if seat.line == nil || i == except {
			continue
		}
		r, err := seat.line.next(patience, p.hear(i))
		if err != nil {
			p.now.lost = append(p.now.lost, i)
			p.lose(seat)
			continue
		}
		p.heed(seat, r.header.Zxid)
	}
}

// await reads until the connection has received as many events, since the start of the script, as the step asks for.
func (p *player) await(s *step, seat *seat) {
	p.now.err = done
	deadline := time.Now().Add(patience)
	for seat.heard < s.args[0].n {
		seat.line.write(pingFrame(nil))
		p.probe(seat, p.hear(s.conn))
		if seat.line == nil || time.Now().After(deadline) {
			p.now.err = fmt.Sprintf("%d events came", seat.heard)
			return
		}
		time.Sleep(awaitPause)
	}
}

// format formats a step's result.
func (s *seen) format() string {
	var b strings.Builder
	b.WriteString(s.err)
	for _, f := range s.fields {
		b.WriteString(" " + f.String())
	}
	for _, e := range s.events {
		fmt.Fprintf(&b, "\n      to %d: %s %s", e.conn, e.fields[0], e.fields[1])
	}
	for _, i := range s.lost {
		fmt.Fprintf(&b, "\n      %d ended", i)
	}
	return b.String()
}
