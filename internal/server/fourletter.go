package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"github.com/zooid-project/zooid/internal/replica"
	"io"
	"net"
	"strings"
	"time"
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
	// wordBytesMax bounds an answer. dump, wchc and wchp can be as large as the
	// tree, and are made in memory: a slow reader must hold no lock.
	wordBytesMax = 8 << 20
)

// traceMaskDefault is Apache's: requests, server packets, sessions, warnings.
// The mask is kept for tools that ask, and traces nothing.
const traceMaskDefault = 306

// A word is one four-letter word: the first four bytes of a connection that is
// no session. conn is the connection that asks.
type word struct {
	name string
	// idle is the answer while the server isn't serving; with "" the word runs.
	idle string
	run  func(s *Server, a *answer, conn net.Conn)
}

const notServing = "This ZooKeeper instance is not currently serving requests"

// fourLetterWords returns all that Apache has.
func fourLetterWords() []word {
	const idle = notServing + "\n"
	return []word{
		{"conf", idle, func(s *Server, a *answer, _ net.Conn) { a.configuration(s.Configuration()) }},
		{"cons", idle, func(s *Server, a *answer, conn net.Conn) { a.connections(s.connectionsAskedBy(conn), false) }},
		{"crst", idle, func(s *Server, a *answer, _ net.Conn) {
			s.replica.ResetConnections()
			a.print("Connection stats reset.\n")
		}},
		{"dirs", idle, func(s *Server, a *answer, _ net.Conn) { a.sizes(s.DataSizes()) }},
		{"dump", idle, func(s *Server, a *answer, _ net.Conn) { s.dump(a) }},
		{"envi", "", func(s *Server, a *answer, _ net.Conn) { a.environment(s.Environment()) }},
		{"gtmk", "", func(s *Server, a *answer, _ net.Conn) { a.print("%d", s.trace.Load()) }},
		{"hash", notServing, func(s *Server, a *answer, _ net.Conn) { a.digests(s.replica.Digests()) }},
		{"isro", "null", func(s *Server, a *answer, _ net.Conn) { a.readOnly(s.Status()) }},
		{"mntr", idle, func(s *Server, a *answer, _ net.Conn) { a.monitor(s.Status(), s.Metrics()) }},
		{"ruok", "", func(_ *Server, a *answer, _ net.Conn) { a.print("imok") }},
		{"srst", idle, func(s *Server, a *answer, _ net.Conn) { s.replica.ResetStats(); a.print("Server stats reset.\n") }},
		{"srvr", idle, func(s *Server, a *answer, _ net.Conn) { a.server(s.Status(), nil) }},
		{"stat", idle, func(s *Server, a *answer, conn net.Conn) { a.server(s.Status(), s.connectionsAskedBy(conn)) }},
		{"stmk", "", func(s *Server, a *answer, conn net.Conn) { s.setTraceMask(a, conn) }},
		{"wchc", idle, func(s *Server, a *answer, _ net.Conn) { a.watchesBySession(s.replica.WatchesBySession(wordBytesMax)) }},
		{"wchp", idle, func(s *Server, a *answer, _ net.Conn) { a.watchesByPath(s.replica.WatchesByPath(wordBytesMax)) }},
		{"wchs", idle, func(s *Server, a *answer, _ net.Conn) { a.watchSummary(s.replica.WatchSummary()) }},
		{telnetInterrupt, "", func(*Server, *answer, net.Conn) {}},
	}
}

// telnetInterrupt is what telnet sends on ^C: close, after the usual message.
const telnetInterrupt = "\xff\xf4\xff\xfd"

func isFourLetterWord(name string) bool {
	for _, w := range fourLetterWords() {
		if w.name == name {
			return true
		}
	}
	return false
}

// whitelist returns the set of words that may be answered; srvr always may, and
// "*" stands for all.
func whitelist(names []string) map[string]bool {
	set := map[string]bool{"srvr": true}
	for _, n := range names {
		n = strings.TrimSpace(n)
		if n == "*" {
			for _, w := range fourLetterWords() {
				set[w.name] = true
			}
			return set
		}
		set[n] = true
	}
	return set
}

// fourLetterWord answers one, behind which rest was read already, and leaves the
// connection to be closed.
func (s *Server) fourLetterWord(conn net.Conn, name string, rest []byte) {
	conn.SetDeadline(time.Now().Add(wordTimeout))
	s.replica.CountReceived()
	s.meters.BytesReceived.Add(int64(len(name)))
	var a answer
	s.answerWord(&a, &replayed{Conn: conn, head: rest}, name, s.Status().Serving)
	if text := a.text(); len(text) > 0 {
		if _, err := conn.Write(text); err != nil {
			s.clientLog.Info("a four-letter word's client did not take the answer", "word", printable(name), "client", conn.RemoteAddr().String(), "err", err)
			return
		}
		s.replica.CountSent()
	}
	// The next word of the same client must not see this one's connection.
	s.forget(conn)
	linger(conn)
}

func (s *Server) answerWord(a *answer, conn net.Conn, name string, serving bool) {
	if !s.words[name] {
		a.print("%s is not executed because it is not in the whitelist.\n", printable(name))
		return
	}
	for _, w := range fourLetterWords() {
		switch {
		case w.name != name:
		case w.idle != "" && !serving:
			a.print("%s", w.idle)
		default:
			w.run(s, a, conn)
		}
	}
}

// printable names a word in messages, as Apache does.
func printable(name string) string {
	if name == telnetInterrupt {
		return "telnet close"
	}
	return name
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

// setTraceMask is stmk, whose name is followed by the new mask. Without it there
// is no answer.
func (s *Server) setTraceMask(a *answer, conn net.Conn) {
	var mask [8]byte
	if _, err := io.ReadFull(conn, mask[:]); err != nil {
		return
	}
	s.trace.Store(int64(binary.BigEndian.Uint64(mask[:])))
	a.print("%d", s.trace.Load())
}

// connectionsAskedBy returns the connections, that of the word itself as Apache
// shows it.
func (s *Server) connectionsAskedBy(conn net.Conn) []replica.Connection {
	list, self := s.Connections(), javaSocket(conn.RemoteAddr().String())
	for i := range list {
		if c := &list[i]; c.Session == 0 && c.Remote == self {
			c.Interest, c.Received = 0, 1
		}
	}
	return list
}

// An answer is the text of a word being made.
type answer struct {
	buf bytes.Buffer
	cut bool // something is left out at the end
}

func (a *answer) print(format string, args ...any) { fmt.Fprintf(&a.buf, format, args...) }

// text returns the answer, cut at the end of a line if it is too long.
func (a *answer) text() []byte {
	text := a.buf.Bytes()
	if len(text) > wordBytesMax {
		text = text[:bytes.LastIndexByte(text[:wordBytesMax], '\n')+1]
		a.cut = true
	}
	if a.cut {
		text = fmt.Appendf(text, "This answer is cut here: a four-letter word says no more than %d MiB.\n", wordBytesMax>>20)
	}
	return text
}
