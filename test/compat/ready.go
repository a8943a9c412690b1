package compat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// sessionTimeoutMs is requested when a server is checked for readiness; the session is closed at once.
const sessionTimeoutMs = 10_000

// maxConnectReply bounds the reply to a connect request: 37 bytes in every version so far.
const maxConnectReply = 1024

// answersSession opens and closes a session at addr. It encodes the bytes itself, so that the check doesn't depend on
// our own client. The error says how far it got.
func answersSession(addr string, patience time.Duration) error {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}

	// Length, protocol version 0, last zxid seen 0, timeout, session id 0, password of 16 zeros, not read-only.
	request := make([]byte, 4+4+8+4+8+4+16+1)
	binary.BigEndian.PutUint32(request[0:], uint32(len(request)-4))
	binary.BigEndian.PutUint32(request[16:], sessionTimeoutMs)
	binary.BigEndian.PutUint32(request[28:], 16)
	if _, err := conn.Write(request); err != nil {
		return fmt.Errorf("sending the connect request: %w", err)
	}
	reply, err := readFrame(conn)
	if err != nil {
		return fmt.Errorf("reading the connect reply: %w", err)
	}
	// Protocol version, granted timeout, session id, ...
	if len(reply) < 16 || binary.BigEndian.Uint64(reply[8:]) == 0 {
		return fmt.Errorf("connect reply without a session: % x", reply)
	}

	// Length, xid 1, closeSession (-11).
	closing := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}
	if _, err := conn.Write(closing); err != nil {
		return fmt.Errorf("closing the session: %w", err)
	}
	if _, err := readFrame(conn); err != nil {
		return fmt.Errorf("reading the reply to the session's close: %w", err)
	}
	return nil
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxConnectReply {
		return nil, errors.New("reply too long to be one")
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}
