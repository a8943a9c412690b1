package server

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

const (
	// wordTimeout ends a connection whose client doesn't read the answer to its four-letter word.
	wordTimeout = 10 * time.Second
	// wordMaskTimeout ends a connection whose client doesn't send the mask that belongs to stmk. Apache closes it at
	// once, even if the mask is only in the next packet.
	wordMaskTimeout = time.Second
	// lingerPatience is how long a connection stays open for its client to read the last reply and close it first.
	lingerPatience = time.Second
	// wordLinger is the same for a four-letter word, behind which the client may have sent more, such as a newline, and
	// for a TLS alert. It is short because after a word, only the limit of open files counts the connection.
	wordLinger = 200 * time.Millisecond
)

// fourLetterWord answers a four-letter word; rest is the input already read after it. The caller closes the connection.
func (a *acceptor) fourLetterWord(conn net.Conn, name string, rest []byte) {
	conn.SetDeadline(time.Now().Add(wordTimeout))
	conn.SetReadDeadline(time.Now().Add(wordMaskTimeout))
	a.replica.CountReceived()
	a.meters.BytesReceived.Add(int64(len(name)))
	ask := fourletter.Ask{
		Word: name, Remote: javaSocket(conn.RemoteAddr().String()), Done: a.closing, Serving: a.serving(), Started: true,
		From: socket.NetworkOf(conn.RemoteAddr()), To: socket.Output{Conn: conn}, Rest: socket.Replay(conn, rest),
	}
	if name == "srvr" || name == "stat" { // these ask whether the server is well; mntr says what is wrong
		ask.Serving = ask.Serving && a.stalls.stands() == ""
	}
	err := a.words.Answer(a.reports, ask, func(text []byte) error {
		if len(text) == 0 {
			return nil
		}
		conn.SetWriteDeadline(time.Now().Add(wordTimeout))
		_, err := conn.Write(text)
		if err == nil {
			a.replica.CountSent()
		}
		return err
	})
	if err != nil {
		a.clientLog.Info("a four-letter word's client did not take the answer", "word", fourletter.Printable(name),
			"client", conn.RemoteAddr().String(), "err", err)
		return
	}
	a.connections.answered(conn)
	socket.Linger(conn, wordLinger)
}

// Environment returns what the envi four-letter word prints.
func (s *Server) Environment() []fourletter.Variable { return fourletter.Environment(s.opt.Version) }

// openFiles returns how many files the process has open, or -1 if that isn't known.
func openFiles() int64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return -1
	}
	return int64(len(names)) - 1 // dir itself
}

// openFilesMax returns how many files the process may have open, or -1 if that isn't known.
func openFilesMax() int64 {
	b, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			var soft int64
			if _, err := fmt.Sscan(rest, &soft); err == nil {
				return soft
			}
		}
	}
	return -1
}
