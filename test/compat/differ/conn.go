package differ

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// patience is how long to wait for an expected answer, on a loaded machine.
	patience = 30 * time.Second
	// silence is how long to wait after a risky step before no answer counts as the result. No server is known to fall
	// silent, so this time is only spent if one does.
	silence = patience
	// replyMax bounds a reply in bytes: nothing a script can store is larger.
	replyMax = 16 << 20
)

// line is one connection to a server.
type line struct {
	conn     net.Conn
	in       *bufio.Reader
	lastZxid int64 // the highest zxid in a reply
}

// dial opens a connection, without a session, from a local address that only this script uses: a server limits failed
// logins per address, and many scripts run at the same time.
func dial(addr, script string) (*line, error) {
	h := fnv.New32a()
	h.Write([]byte(script))
	sum := h.Sum32()
	from := net.TCPAddr{IP: net.IPv4(127, byte(sum>>16)|1, byte(sum>>8), byte(sum)|1)}
	conn, err := (&net.Dialer{Timeout: patience, LocalAddr: &from}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &line{conn: conn, in: bufio.NewReader(conn)}, nil
}

// write sends bytes. It ignores errors, since a server may close the connection before it has read everything; the
// reader will notice.
func (l *line) write(b []byte) {
	l.conn.SetWriteDeadline(time.Now().Add(patience))
	l.conn.Write(b)
}

// errSilent says that nothing arrived in time, but the connection is open.
var errSilent = errors.New("no answer")

// frame reads one frame, or returns errSilent, or another error if the connection has ended.
func (l *line) frame(wait time.Duration) ([]byte, error) {
	l.conn.SetReadDeadline(time.Now().Add(wait))
	b, err := jute.ReadFrame(l.in, nil, replyMax)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSilent
	}
	return b, err
}

// close closes the connection gracefully, so that data sent before isn't discarded.
func (l *line) close() { l.conn.Close() }

// pingFrame appends the frame of a ping.
func pingFrame(b []byte) []byte {
	return jute.AppendRequest(b, jute.XidPing, jute.OpPing, nil)
}

// reply is a reply, not a notification.
type reply struct {
	header jute.ReplyHeader
	body   *jute.Decoder
}

// next reads frames until the next reply, passing notifications to hear.
func (l *line) next(wait time.Duration, hear func([]field)) (reply, error) {
	for {
		frame, err := l.frame(wait)
		if err != nil {
			return reply{}, err
		}
		d := jute.NewDecoder(frame)
		var h jute.ReplyHeader
		h.Decode(d)
		if d.Err() != nil {
			return reply{}, fmt.Errorf("reply header: %w", d.Err())
		}
		if h.Xid != jute.XidNotification {
			return reply{h, d}, nil
		}
		hear(event(h, d))
	}
}

func event(h jute.ReplyHeader, d *jute.Decoder) []field {
	var e jute.WatcherEvent
	e.Decode(d)
	return []field{
		text("event", fmt.Sprintf("%d state=%d path=%q err=%d rest=%d", e.Type, e.State, e.Path, h.Err, d.Remaining())),
		zxidField("zxid", h.Zxid),
	}
}
