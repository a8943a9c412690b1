// Package wordclient implements a client of the four-letter words.
package wordclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Dial connects to a server.
type Dial func(ctx context.Context, server string) (net.Conn, error)

// ErrNoAnswer says that a server has closed the connection without a reply.
var ErrNoAnswer = errors.New("it closed the connection without an answer")

// Busy is the answer to a word whose answer may be long, while a server is sending others. Word returns ErrBusy for it.
const Busy = "This server is sending other long answers. Ask again later.\n"

// ErrBusy says that a server answers a word later.
var ErrBusy = errors.New("it is sending other long answers; ask again later")

// ClientsFile is the name of a file in the data directory of a server of an ensemble. It has what the other servers
// have told this server since it started: the addresses at which they accept clients, and that they belong to another
// history. It also has what this server knows of two with the same id. zooid status and doctor read it, since server
// lines in Apache's usual form don't have these addresses, and mntr, which reports it all, isn't permitted everywhere.
// The file exists only while the server runs, so that reports from an earlier run aren't mistaken for present ones. A
// process that is killed leaves the file behind, so a reader must first check that the server answers.
const ClientsFile = "clients.told"

// SameIDAdvice is the advice of zooid status and doctor to an operator of two servers with the same id.
const SameIDAdvice = "find out which of the two is the right one, usually the one that is admitted, and stop the other one; if its number was typed twice, give it an id of its own and an empty data directory; if its disk is a copy of the first one's, remove the copy, or stop the first one before it is started again"

// Word sends a four-letter word to a server and returns the reply. A reply that is empty or longer than bytesMax is an
// error, which Word returns together with the bytes received. ctx bounds the whole call, including connecting. A nil
// dial connects without TLS.
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
			err = op.Err // omits the address
		}
		err = fmt.Errorf("it accepts connections but doesn't answer: %w", err)
	case err == nil && len(answer) == 0:
		err = ErrNoAnswer
	case string(answer) == Busy:
		err = ErrBusy
	case len(answer) > bytesMax:
		answer, err = answer[:bytesMax], fmt.Errorf("its answer has more than %d bytes", bytesMax)
	}
	return string(answer), err
}

func plain(ctx context.Context, server string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", server)
}

// IDs reads a list of server ids, "none" or "1,2,3".
func IDs(text string) (list []int64) {
	for field := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if id, err := strconv.ParseInt(field, 10, 64); err == nil {
			list = append(list, id)
		}
	}
	return list
}
