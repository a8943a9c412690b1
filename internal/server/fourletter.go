package server

import (
	"io"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

const (
	// wordTimeout ends a connection whose client doesn't read the answer to its four-letter word.
	wordTimeout = 10 * time.Second
	// wordLinger is how long a connection stays open for its client to close it first. Closing it
	// while bytes sent after the word, such as a newline, are unread would make some systems discard
	// the answer. The time is short because such a connection no longer counts toward any limit.
	wordLinger = 200 * time.Millisecond
	// wordLeftoverMax bounds the bytes that are read after the word.
	wordLeftoverMax = 4 << 10
)

// fourLetterWord answers a four-letter word; rest is what was already read after it. The caller
// closes the connection.
func (a *acceptor) fourLetterWord(conn net.Conn, name string, rest []byte) {
	conn.SetDeadline(time.Now().Add(wordTimeout))
	a.replica.CountReceived()
	a.meters.BytesReceived.Add(int64(len(name)))
	ask := fourletter.Ask{
		Word: name, Remote: javaSocket(conn.RemoteAddr().String()), Rest: socket.Replay(conn, rest),
		Serving: a.serving(),
	}
	if name == "srvr" || name == "stat" { // what asks whether the server is well; mntr tells what is wrong
		ask.Serving = ask.Serving && a.stalls.stands() == ""
	}
	if text := a.words.Answer(a.reports, ask); len(text) > 0 {
		if _, err := conn.Write(text); err != nil {
			a.clientLog.Info("a four-letter word's client did not take the answer", "word", fourletter.Printable(name),
				"client", conn.RemoteAddr().String(), "err", err)
			return
		}
		a.replica.CountSent()
	}
	// This connection must not show in the answer to the client's next word.
	a.connections.forget(conn)
	linger(conn)
}

// linger waits, for a short time, until the client closes its side.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(wordLinger))
	io.CopyN(io.Discard, conn, wordLeftoverMax)
}
