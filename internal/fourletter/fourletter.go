// Package fourletter answers the four-letter words: short commands, sent in place of a connect request, with which
// scripts and monitoring systems query a server. The answers are Apache's, byte for byte. The package reads only what
// follows a word from the network, and accesses the server by its Status, its replica by one View, and the process by
// Environment.
package fourletter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// AnswerBytesMax bounds an answer. The answers to dump, wchc and wchp can be as large as the tree. They are built in
// memory, so that a slow client doesn't hold a lock.
const AnswerBytesMax = 8 << 20

// traceMaskDefault is Apache's default: requests, server packets, sessions, warnings. The mask is stored for tools
// that query it, but has no effect.
const traceMaskDefault = 306

// A word is a four-letter word: the first four bytes of a connection that doesn't start a session.
type word struct {
	name string
	// idle is the answer while the server isn't serving; if it is "", the word runs anyway.
	idle string
	run  func(a *wordReply)
}

// waitsKey is the key of the line that mntr adds to its answer while the server belongs to no ensemble yet.
const waitsKey = "zk_zooid_waits_for"

const notServing = "This ZooKeeper instance is not currently serving requests"

// table returns all words of Apache.
func table() []word {
	const idle = notServing + "\n"
	return []word{
		{"conf", idle, func(a *wordReply) { a.configuration(a.of.Configuration()) }},
		{"cons", idle, func(a *wordReply) { a.connections(a.connectionsSeen(), false) }},
		{"crst", idle, func(a *wordReply) { a.of.Replica().ResetConnections(); a.print("Connection stats reset.\n") }},
		{"dirs", idle, func(a *wordReply) { a.sizes(a.of.DataSizes()) }},
		{"dump", idle, (*wordReply).dump},
		{"envi", "", func(a *wordReply) { a.environment(a.of.Environment()) }},
		{"gtmk", "", func(a *wordReply) { a.print("%d", a.words.trace.Load()) }},
		{"hash", notServing, func(a *wordReply) { a.digests(a.of.Replica().Digests()) }},
		{"isro", "null", func(a *wordReply) { a.readOnly(a.of.Status()) }},
		{"mntr", idle, func(a *wordReply) { a.monitor(a.of.Status(), a.of.Standing(), a.of.Metrics()) }},
		{"ruok", "", func(a *wordReply) { a.print("imok") }},
		{"srst", idle, func(a *wordReply) { a.of.Replica().ResetStats(); a.print("Server stats reset.\n") }},
		{"srvr", idle, func(a *wordReply) { a.server(a.of.Status(), nil) }},
		{"stat", idle, func(a *wordReply) { a.server(a.of.Status(), a.connectionsSeen()) }},
		{"stmk", "", (*wordReply).setTraceMask},
		{"wchc", idle, func(a *wordReply) { a.watchesBySession(a.of.Replica().WatchesBySession(AnswerBytesMax)) }},
		{"wchp", idle, func(a *wordReply) { a.watchesByPath(a.of.Replica().WatchesByPath(AnswerBytesMax)) }},
		{"wchs", idle, func(a *wordReply) { a.watchSummary(a.of.Replica().WatchSummary()) }},
		{telnetInterrupt, "", func(*wordReply) {}},
	}
}

// telnetInterrupt is what telnet sends on ^C; it closes the connection after the usual message.
const telnetInterrupt = "\xff\xf4\xff\xfd"

// Is reports whether name is a four-letter word.
func Is(name string) bool {
	return slices.ContainsFunc(table(), func(w word) bool { return w.name == name })
}

// allowed returns the set of words that may be answered. srvr is always allowed, and "*" stands for all.
func allowed(names []string) map[string]bool {
	set := map[string]bool{"srvr": true}
	for _, n := range names {
		n = strings.TrimSpace(n)
		if n == "*" {
			for _, w := range table() {
				set[w.name] = true
			}
			return set
		}
		set[n] = true
	}
	return set
}

// A Server is the server that the words query.
type Server interface {
	Status() Status
	Standing() Standing
	Configuration() Configuration
	Environment() []Variable
	DataSizes() (data, log int64)
	// Connections returns all connections, with addresses as Java prints them. ConnectionExpiries returns when they are
	// closed if nothing is received from them.
	Connections() []replica.Connection
	ConnectionExpiries() []ConnectionExpiry
	Metrics() *metrics.Registry
	// Replica is only called once the server has started to serve.
	Replica() *replica.Replica
}

// Words are the words that a server answers.
type Words struct {
	allowed        atomic.Pointer[map[string]bool] // the map is replaced, never modified
	trace          atomic.Int64                    // mask of gtmk and stmk
	long, monitors LongAnswers
}

// New returns the words of a whitelist, "*" for all; srvr is always answered.
func New(whitelist []string) *Words {
	w := &Words{monitors: LongAnswers{Most: MonitorsMax}}
	w.Allow(whitelist)
	w.trace.Store(traceMaskDefault)
	return w
}

// Allow puts another whitelist in force.
func (w *Words) Allow(whitelist []string) {
	set := allowed(whitelist)
	w.allowed.Store(&set)
}

// TraceMask returns the mask of gtmk and stmk.
func (w *Words) TraceMask() int64 { return w.trace.Load() }

// SetTraceMask sets the mask of gtmk and stmk.
func (w *Words) SetTraceMask(mask int64) { w.trace.Store(mask) }

// An Ask is a word sent on a connection.
type Ask struct {
	Word    string
	Remote  string          // the client's address, as Java prints it
	From    netip.Prefix    // the address or network of the client, which has one long answer at a time
	To      Output          // the connection
	Rest    io.Reader       // what follows the word
	Done    <-chan struct{} // closed once the answer is not wanted any more
	Serving bool
	Started bool   // the server belongs to an ensemble or is standalone, and has recovered its data
	Waits   string // what a server that belongs to no ensemble yet waits for, "" if it doesn't or nothing is known
}

// Answer calls send with the answer to a word, which may be empty. It waits for a long one's turn. What send returns is
// returned.
func (w *Words) Answer(of Server, ask Ask, send func(text []byte) error) error {
	a := wordReply{of: of, words: w, ask: ask}
	if !(*w.allowed.Load())[ask.Word] {
		a.print("%s is not executed because it is not in the whitelist.\n", Printable(ask.Word))
		return send(a.text())
	}
	var place *LongAnswers
	switch {
	case ask.Word == "mntr":
		place = &w.monitors
	case slices.Contains(longWords, ask.Word):
		place = &w.long
	}
	if !ask.Serving || place == nil {
		return send(a.answer())
	}
	if !place.Begin(ask.From, ask.Done) {
		a.print("%s", wordclient.Busy)
		return send(a.text())
	}
	end := sync.OnceFunc(func() { place.End(ask.From) })
	defer end()
	text := a.answer()
	if len(text) <= LongAnswerMin {
		end()
		return send(text)
	}
	return place.Send(ask.To, func() error { return send(text) })
}

// answer returns the answer to an allowed word.
func (a *wordReply) answer() []byte {
	for _, word := range table() {
		switch {
		case word.name != a.ask.Word:
		case word.idle != "" && !a.ask.Serving:
			a.print("%s", word.idle)
			if a.ask.Word == "mntr" {
				a.whyIdle()
			}
		default:
			word.run(a)
		}
	}
	return a.text()
}

// whyIdle adds to mntr's answer why the server isn't serving. Apache's servers don't say.
func (a *wordReply) whyIdle() {
	if a.ask.Waits != "" {
		a.print("%s\t%s\n", waitsKey, strings.Join(strings.Fields(a.ask.Waits), " "))
	}
	if !a.ask.Started {
		return
	}
	leads := 0
	if a.of.Status().Leader != 0 {
		leads = 1
	}
	a.print("zk_zooid_raft_has_leader\t%d\n", leads)
	a.of.Metrics().Each(func(name string, v metrics.Value) {
		switch name {
		case "fsync_in_flight_ms", "last_turn_ms", "log_awaits_room":
			a.print("zk_%s\t%s\n", name, v)
		}
	})
}

// Printable returns the name of a word for messages, as Apache prints it.
func Printable(name string) string {
	if name == telnetInterrupt {
		return "telnet close"
	}
	return name
}

// setTraceMask handles stmk, whose name is followed by the new mask. If the mask is missing there is no answer.
func (a *wordReply) setTraceMask() {
	var mask [8]byte
	if _, err := io.ReadFull(a.ask.Rest, mask[:]); err != nil {
		return
	}
	a.words.trace.Store(int64(binary.BigEndian.Uint64(mask[:])))
	a.print("%d", a.words.trace.Load())
}

// connectionsSeen returns the connections, with the one that the word came on shown as Apache does.
func (a *wordReply) connectionsSeen() []replica.Connection {
	list := a.of.Connections()
	for i := range list {
		if c := &list[i]; c.Session == 0 && c.Remote == a.ask.Remote {
			c.Interest, c.Received = 0, 1
		}
	}
	return list
}

// A wordReply is the answer to a word while it is being built.
type wordReply struct {
	of    Server
	words *Words
	ask   Ask
	buf   bytes.Buffer
	cut   bool // the end is left out
}

func (a *wordReply) print(format string, args ...any) { fmt.Fprintf(&a.buf, format, args...) }

// text returns the answer, cut at the end of a line if it is too long.
func (a *wordReply) text() []byte {
	text := a.buf.Bytes()
	if len(text) > AnswerBytesMax {
		text = text[:bytes.LastIndexByte(text[:AnswerBytesMax], '\n')+1]
		a.cut = true
	}
	if a.cut {
		text = fmt.Appendf(text, "This answer is cut here: a four-letter word says no more than %d MiB.\n", AnswerBytesMax>>20)
	}
	return text
}
