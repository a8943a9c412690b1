package server

import (
	"io"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

const (
	// wordTimeout ends a four-letter word whose client doesn't read the answer.
	wordTimeout = 10 * time.Second
	// wordLinger is how long a connection stays open for its client to close it
	// first: closing it on bytes that were sent after the word, such as a newline,
	// would make some systems throw the answer away. Such a connection counts for
	// no limit any more, so it isn't long.
	wordLinger = 200 * time.Millisecond
	// wordLeftoverMax bounds those bytes.
	wordLeftoverMax = 4 << 10
)

// fourLetterWord answers one, behind which rest was read already, and leaves the
// connection to be closed.
func (s *Server) fourLetterWord(conn net.Conn, name string, rest []byte) {
	conn.SetDeadline(time.Now().Add(wordTimeout))
	s.replica.CountReceived()
	s.meters.BytesReceived.Add(int64(len(name)))
	ask := fourletter.Ask{Word: name, Remote: javaSocket(conn.RemoteAddr().String()), Rest: socket.Replay(conn, rest), Serving: s.Status().Serving}
	if text := s.words.Answer(s, ask); len(text) > 0 {
		if _, err := conn.Write(text); err != nil {
			s.clientLog.Info("a four-letter word's client did not take the answer", "word", fourletter.Printable(name), "client", conn.RemoteAddr().String(), "err", err)
			return
		}
		s.replica.CountSent()
	}
	// The next word of the same client must not see this one's connection.
	s.forget(conn)
	linger(conn)
}

// linger waits, not for long, until the client closes its side.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(wordLinger))
	io.CopyN(io.Discard, conn, wordLeftoverMax)
}
