// Package wordclient is the client of the four-letter words.
package wordclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Dial connects to a server.
type Dial func(ctx context.Context, server string) (net.Conn, error)

// ErrNoAnswer says that a server has closed the connection without an answer.
var ErrNoAnswer = errors.New("it closed the connection without an answer")

// ClientsFile is the name of a file in the data directory of a server of an ensemble. It says where the servers take
// clients, as they have told this one since it started, and which belong to another history. zooid status and doctor
// read it: server lines of Apache's usual form don't say the first, and mntr, which says both, has to be permitted. It
// is there only while the server runs, so that what an earlier process has heard isn't taken for what is so. Whoever
// reads it asks first whether the server answers, as a process that was killed leaves it behind.
const ClientsFile = "clients.told"

// Word sends a four-letter word to a server and returns the answer. An answer that is empty, or longer than bytesMax,
// is an error; with an error, Word returns what was received before it. ctx bounds everything, including connecting. A
// nil dial connects without TLS.
func Word(ctx context.Context, dial Dial, server, word string, bytesMax int) (string, error) {
	if dial == nil {
		dial = plain
	}
	conn, err := dial(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, int64(bytesMax)+1))
	switch {
	case err != nil && len(answer) == 0:
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // leaves out the address
		}
		err = fmt.Errorf("it takes connections but doesn't answer: %w", err)
	case err == nil && len(answer) == 0:
		err = ErrNoAnswer
	case len(answer) > bytesMax:
		answer, err = answer[:bytesMax], fmt.Errorf("its answer has more than %d bytes", bytesMax)
	}
	return string(answer), err
}

func plain(ctx context.Context, server string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", server)
}
