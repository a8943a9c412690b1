package learner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The protocol that comes first on a quorum port if servers authenticate each other by SASL.
const (
	authMagic    = 0x5F2435013501EDCC
	authProgress = 0
	authSuccess  = 1

	authStepsMax      = 5 // as at Apache
	authTokenBytesMax = 16 << 10
	authTime          = 10 * time.Second
)

// Login logs in at a quorum port. step is the client's half of a SASL mechanism: it takes the server's token, nil at
// first, and returns the answer; done says that the server has authenticated itself too.
func Login(conn net.Conn, step func(token []byte) (answer []byte, done bool, err error)) error {
	if err := conn.SetDeadline(time.Now().Add(authTime)); err != nil {
		return err
	}
	answer, done, err := step(nil)
	for range authStepsMax {
		if err != nil {
			break
		}
		packet := jute.AppendBuffer(jute.AppendInt(jute.AppendLong(nil, authMagic), authProgress), answer)
		if _, err = conn.Write(packet); err != nil {
			break
		}
		status, token, failed := readAuth(conn)
		switch {
		case failed != nil:
			err = failed
		case status == authSuccess && !done:
			_, done, err = step(token)
			if err == nil && !done {
				err = errors.New("the server takes the login and hasn't proved who it is")
			}
		case status == authProgress && !done:
			answer, done, err = step(token)
			continue
		case status != authSuccess:
			err = fmt.Errorf("the server refuses (status %d)", status)
		}
		if err != nil {
			break
		}
		return conn.SetDeadline(time.Time{})
	}
	if err == nil {
		err = fmt.Errorf("no end after %d steps", authStepsMax)
	}
	return fmt.Errorf("log in at a quorum port by SASL: %w", err)
}

// readAuth reads a server's packet.
func readAuth(r io.Reader) (status int32, token []byte, err error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: the server doesn't know the user, has another password, or no quorum.auth.enableSasl",
			err)
	}
	if magic := binary.BigEndian.Uint64(head[:]); magic != authMagic {
		return 0, nil, fmt.Errorf("the server answers %#x: it doesn't speak SASL here", magic)
	}
	status = int32(binary.BigEndian.Uint32(head[8:]))
	size := int32(binary.BigEndian.Uint32(head[12:]))
	if size > authTokenBytesMax {
		return 0, nil, fmt.Errorf("the server's token has %d bytes, more than %d", size, authTokenBytesMax)
	}
	token = make([]byte, max(size, 0)) // -1 stands for none
	_, err = io.ReadFull(r, token)
	return status, token, err
}
