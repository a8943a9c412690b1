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

// If servers authenticate each other by SASL, a quorum port begins with this protocol, and an election port continues
// with it after the first message. Both sides send
//
//	long authMagic | int status | int length | token
const (
	authMagic    = 0x5F2435013501EDCC
	authFailure  = -1
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
		if err = writeAuth(conn, authProgress, answer); err != nil {
			break
		}
		status, token, failed := readAuth(conn)
		switch {
		case errors.Is(failed, ErrNoLogin):
			err = fmt.Errorf("the server doesn't support SASL on this port: %w", failed)
		case errors.Is(failed, errSilent):
			err = fmt.Errorf("%w: the server doesn't know the user, has another password, or lacks quorum.auth.enableSasl",
				failed)
		case failed != nil:
			err = failed
		case status == authSuccess && !done:
			_, done, err = step(token)
			if err == nil && !done {
				err = errors.New("the server accepted the login without proving its identity")
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

// Admit has another server log in, on one of the ports at which Login does. step is the server's half of a SASL
// mechanism: it takes the client's token and returns the reply; done says that the client has proved its identity.
// After an error the client is told that it failed. The caller sets the connection's deadline again.
func Admit(conn net.Conn, step func(token []byte) (reply []byte, done bool, err error)) error {
	err := conn.SetDeadline(time.Now().Add(authTime))
	if err == nil {
		err = admit(conn, step)
	}
	if err != nil {
		return fmt.Errorf("a login by SASL: %w", err)
	}
	return nil
}

func admit(conn io.ReadWriter, step func(token []byte) ([]byte, bool, error)) error {
	for range authStepsMax {
		_, token, err := readAuth(conn)
		if err != nil {
			return err
		}
		reply, done, err := step(token)
		if err != nil {
			return errors.Join(err, writeAuth(conn, authFailure, nil))
		}
		if done {
			return writeAuth(conn, authSuccess, reply)
		}
		if err := writeAuth(conn, authProgress, reply); err != nil {
			return err
		}
	}
	return fmt.Errorf("no end after %d steps", authStepsMax)
}

// BeginsLogin reports whether these are the first four bytes of a login.
func BeginsLogin(b [4]byte) bool { return binary.BigEndian.Uint32(b[:]) == authMagic>>32 }

func writeAuth(w io.Writer, status int32, token []byte) error {
	_, err := w.Write(jute.AppendBuffer(jute.AppendInt(jute.AppendLong(nil, authMagic), status), token))
	return err
}

// ErrNoLogin says that a message isn't part of a login.
var ErrNoLogin = errors.New("the message isn't part of a login")

// errSilent says that the other side has ended the connection, or sends nothing.
var errSilent = errors.New("no answer")

// readAuth reads a packet.
func readAuth(r io.Reader) (status int32, token []byte, err error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errSilent, err)
	}
	if magic := binary.BigEndian.Uint64(head[:]); magic != authMagic {
		return 0, nil, fmt.Errorf("%w: it begins with %#x", ErrNoLogin, magic)
	}
	status = int32(binary.BigEndian.Uint32(head[8:]))
	size := int32(binary.BigEndian.Uint32(head[12:]))
	if size > authTokenBytesMax {
		return 0, nil, fmt.Errorf("a token of %d bytes, more than %d", size, authTokenBytesMax)
	}
	token = make([]byte, max(size, 0)) // -1 stands for none
	_, err = io.ReadFull(r, token)
	return status, token, err
}
