package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// wordTimeout ends a four-letter word whose client doesn't read the answer.
const wordTimeout = 10 * time.Second

// A word is one four-letter word: the first four bytes of a connection that is
// no session.
type word struct {
	name string
	run  func(s *Server, w io.Writer)
}

// words lists the four-letter words, as Apache has them.
func fourLetterWords() []word {
	return []word{
		{"ruok", func(_ *Server, w io.Writer) { io.WriteString(w, "imok") }},
		{"srvr", (*Server).writeSrvr},
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
	return name == telnetInterrupt
}

// whitelist returns the set of words that may be answered; srvr always may.
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

// fourLetterWord answers one and leaves the connection to be closed.
func (s *Server) fourLetterWord(nc net.Conn, name string) {
	nc.SetDeadline(time.Now().Add(wordTimeout))
	if !s.words[name] {
		fmt.Fprintf(nc, "%s is not executed because it is not in the whitelist.\n", name)
		return
	}
	for _, w := range fourLetterWords() {
		if w.name == name {
			var b strings.Builder
			w.run(s, &b)
			io.WriteString(nc, b.String())
		}
	}
}

func (s *Server) writeSrvr(w io.Writer) {
	r := s.replica
	r.mu.RLock()
	zxid, nodes := r.tree.LastZxid(), r.tree.NodeCount()
	r.mu.RUnlock()
	fmt.Fprintf(w, "Zookeeper version: %s\n", s.opt.Version)
	fmt.Fprintf(w, "Latency min/avg/max: %d/%g/%d\n", r.stats.latency.least(), r.stats.latency.mean(), r.stats.latency.max.Load())
	fmt.Fprintf(w, "Received: %d\nSent: %d\n", r.stats.received.Load(), r.stats.sent.Load())
	fmt.Fprintf(w, "Connections: %d\nOutstanding: %d\nZxid: 0x%x\nMode: standalone\nNode count: %d\n", s.connCount(), r.outstanding.Load(), zxid, nodes+1)
}

func (s *Server) connCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
