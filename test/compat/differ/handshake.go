package differ

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// The ways to connect. Those from connectWrong on are tried on a separate connection that is closed afterwards.
const (
	connectNew      = "new"
	connectOld      = "old"      // without the read-only byte, as clients before 3.4
	connectReadOnly = "readonly" // would accept a read-only server
	connectNull     = "null"     // null password
	connectResume   = "resume"   // the seat's session, taken from its connection if that is open

	connectWrong = "wrong" // the seat's session, with a wrong password
	connectGone  = "gone"  // the session closed last, or one that never existed
	connectAhead = "ahead" // has seen a zxid from the future
	connectShort = "short" // the seat's session, with a password of four bytes
)

func strange(how string) bool {
	return slices.Contains([]string{connectWrong, connectGone, connectAhead, connectShort}, how)
}

// hello returns the connect request for a way to connect.
func (p *player) hello(how string, timeout int64, seat *seat) jute.ConnectRequest {
	r := jute.ConnectRequest{Timeout: int32(timeout), Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	switch how {
	case connectOld:
		r.HasReadOnly = false
	case connectReadOnly:
		r.ReadOnly = true
	case connectNull:
		r.Passwd = nil
	case connectAhead:
		r.LastZxidSeen = math.MaxInt64
	case connectGone:
		r.SessionID, r.LastZxidSeen = p.gone.session, p.gone.last
		if r.SessionID == 0 {
			hash := fnv.New32a()
			hash.Write([]byte(p.root))
			r.SessionID = int64(hash.Sum32()) + 1 // of this script only: naming a session closes its connection
		}
		if p.gone.passwd != nil {
			r.Passwd = p.gone.passwd
		}
	case connectResume, connectWrong, connectShort:
		r.SessionID, r.LastZxidSeen = seat.session, seat.last
		r.Passwd = slices.Clone(seat.passwd)
		if how == connectWrong && len(r.Passwd) > 0 {
			r.Passwd[0] ^= 1
		}
		if how == connectShort {
			r.Passwd = r.Passwd[:min(4, len(r.Passwd))]
		}
	}
	return r
}

// connect opens a connection and its session.
func (p *player) connect(s *step, seat *seat) error {
	how := s.args[0].text
	l, err := dial(p.addr, p.root)
	if err != nil {
		return err
	}
	before := seat.line
	if before != nil && !strange(how) && how != connectResume {
		p.lose(seat)
	}
	request := p.hello(how, s.args[1].n, seat)
	l.write(jute.AppendFrame(nil, request.Append))
	answer, err := l.frame(patience)
	p.now.err = done
	if err != nil {
		p.now.err = ended
		if errors.Is(err, errSilent) {
			p.now.err = noReply
		}
		l.close()
		p.barrier(-1)
		return nil
	}
	var r jute.ConnectResponse
	d := jute.NewDecoder(answer)
	r.Decode(d)
	p.keepHello(r, d)
	switch {
	case strange(how) || r.SessionID == 0:
		l.close()
	default:
		if before != nil && how == connectResume {
			p.drain(s.conn, before)
		}
		seat.line = l
		if how != connectResume {
			session := newSeat(l, r)
			session.heard = seat.heard
			*seat = *session
		}
	}
	p.barrier(-1)
	return nil
}

func newSeat(l *line, r jute.ConnectResponse) *seat {
	return &seat{line: l, session: r.SessionID, passwd: slices.Clone(r.Passwd)}
}

// keepHello records a connect response. Of the password, only its length and whether it is zero count.
func (p *player) keepHello(r jute.ConnectResponse, d *jute.Decoder) {
	zero := slices.Equal(r.Passwd, make([]byte, len(r.Passwd)))
	p.now.fields = append(p.now.fields,
		number("version", int64(r.ProtocolVersion)), number("timeout", int64(r.Timeout)),
		sessionField("session", r.SessionID),
		text("passwd", fmt.Sprintf("%d bytes, zero=%v", len(r.Passwd), zero)),
		text("readOnly", fmt.Sprintf("%v, there=%v", r.ReadOnly, r.HasReadOnly)), number("rest", int64(d.Remaining())))
}

// drain reads the rest of a connection whose session has moved to another one.
func (p *player) drain(conn int, l *line) {
	defer l.close()
	if _, err := l.next(silence, p.hear(conn)); err == nil || errors.Is(err, errSilent) {
		p.now.fields = append(p.now.fields, text("former connection", "still open"))
	}
}
