package back

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/jute"
)

// An observer asks for the leader on the election port. It first sends
//
//	long protocol version -65536 or -65535 | long id | int length | its addresses
//
// logs in if required (see Logins), and then both sides send notifications:
//
//	int length | int state | long leader | long zxid | long election epoch | long epoch | int version | config
//
// The answers have version 1, which carries no configuration: observers use their own. Of two servers the one with the
// higher id connects. This one never connects to observers, so their ids must be higher than its id.
const (
	electionV1 = -65536
	electionV2 = -65535

	stateLooking = 0
	stateLeading = 2

	addressBytesMax      = 2048
	notificationBytesMax = 512 << 10 // Apache's own limit; most of it is configuration, which is discarded
	notificationBytes    = 28        // the shortest, of 3.3
)

// elect answers notifications on one connection until it ends.
func (l *Leader) elect(conn net.Conn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(helloTime)); err != nil {
		return err
	}
	id, err := readHello(conn)
	if err != nil {
		return fmt.Errorf("on the election port: %w", err)
	}
	if id == 0 {
		return errors.New("on the election port: observer 0 can't follow, since Zooid's id must be lower than every observer's: go back with zooid export, or without observer 0")
	}
	if id <= l.id {
		return fmt.Errorf("on the election port: observer %d must have an id above %d, Zooid's id in its configuration: choose a lower -id",
			id, l.id)
	}
	switch err := l.logins.admit(conn); {
	case errors.Is(err, learner.ErrNoLogin):
		return fmt.Errorf("observer %d doesn't log in. Its zoo.cfg needs quorum.auth.enableSasl=true and quorum.auth.learnerRequireSasl=true",
			id)
	case err != nil:
		return fmt.Errorf("observer %d, on the election port: %w", id, err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		state, err := readNotification(conn)
		if errors.Is(err, errLogin) {
			return fmt.Errorf("observer %d %w", id, err)
		}
		if err != nil {
			return nil // it has found its leader, or stopped
		}
		if state != stateLooking {
			continue
		}
		if err := conn.SetWriteDeadline(time.Now().Add(helloTime)); err != nil {
			return err
		}
		if _, err := conn.Write(l.vote()); err != nil {
			return nil
		}
	}
}

// vote returns the notification that names this server as the leader.
func (l *Leader) vote() []byte {
	zxid, epoch := l.at()
	b := jute.AppendLong(jute.AppendLong(jute.AppendInt(nil, stateLeading), l.id), zxid)
	b = jute.AppendLong(jute.AppendLong(b, epoch), epoch)
	return jute.AppendBuffer(nil, jute.AppendInt(b, 1))
}

var errLogin = errors.New("logs in by SASL, for which the -peer-sasl-… flags are missing")

var errHello = errors.New("the first message isn't from Apache 3.5 or later")

// readHello reads an observer's first message, and returns its id.
func readHello(r io.Reader) (id int64, err error) {
	var head [8 + 8 + 4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	be := binary.BigEndian
	version, n := int64(be.Uint64(head[:])), int32(be.Uint32(head[16:]))
	if version != electionV1 && version != electionV2 || n < 1 || n > addressBytesMax {
		return 0, errHello
	}
	_, err = io.CopyN(io.Discard, r, int64(n))
	return int64(be.Uint64(head[8:])), err
}

// readNotification reads a notification, and returns the sender's state.
func readNotification(r io.Reader) (state int32, err error) {
	var head [4 + 4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if learner.BeginsLogin([4]byte(head[:4])) {
		return 0, errLogin
	}
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < notificationBytes || n > notificationBytesMax {
		return 0, fmt.Errorf("a notification of %d bytes", n)
	}
	_, err = io.CopyN(io.Discard, r, int64(n)-4)
	return int32(binary.BigEndian.Uint32(head[4:])), err
}
