package replica

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into the transcripts")

// TestTranscripts runs testdata/transcripts/*.txt: blocks of commands, a line of dashes, and what happened, ended by an
// empty line. Each file is about one server of an ensemble of three, its clients, and the log that the test writes. Run
// with -rewrite, read the diff.
//
//	server local upgrading readonly alone slow=MS limits.address=watches=2,…    begins with a new server
//	server members=1:a,2:b sasl saslfails saslrequired enforce=SCHEME ensemble=NAME             the same, for logins (fakes_test.go)
//	server answers vet                                                          and tells who asks what
//	connect a session=b timeout=MS passwd=wrong seen=ZXID readonly from=IP id=digest:bob,…
//	a create /x data=… flags=N ; get /x watch ; sync /        client a sends requests (transcriptrequest_test.go) at once
//	drop a, quiet a, pause a, unpause a                       a's connection ends, rests, isn't written for a while
//	stick a, unstick a, got a N                               writes to a block, though it received N bytes; no more
//	commit, forward, apply, lose                              what was sent goes into the log; its halves; gets lost
//	others create /x, others session s                        something that comes from another server
//	lead 1, lead none connection, synced, resend              of the quorum: 1 is this server
//	time +MS, run +MS, stall +MS, overdue, reach MS, patience MS   what time brings; run and stall end silent sessions
//	space refuse waits needed, account LIMIT, uptodate MS     how the server is
//	view, cons, metrics, holds, dump, leftovers               what it tells: what has changed since it told that last
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playTranscript(t, string(text))
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(text), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: got %q (run with -rewrite and read the diff)", file, i+1, line)
				}
			}
			t.Fatalf("%s is longer than what happened", file)
		})
	}
}

// A theatre plays one transcript.
type theatre struct {
	*localStage
	out        strings.Builder
	cast       map[string]*actor
	names      []string // of the cast, in the order of their entrance
	sessions   map[string]int64
	sent       [][]byte // entries for the log
	announced  []quorum.Announcement
	saved      []byte            // znodes
	kicked     bool              // the quorum was told that something waits for the log
	kickedSync bool              // and that may be a sync
	told       map[string]string // what reports have told, by report and line
}

// An actor is a client and the Socket below it, which writes what it is given as soon as it is woken.
type actor struct {
	*Client
	Woken
	s       *theatre
	name    string
	raw     pipeline
	rest    []byte // input that wasn't taken yet
	asked   map[int32]jute.Op
	greeted bool   // the answer to its connect request was written
	over    bool   // the connection has ended
	paused  bool   // nobody comes to write its output
	stuck   bool   // writes block
	left    []byte // a write that blocks
	written int    // bytes
	got     uint64 // bytes that its client has received while writes block
	woken   bool
}

func (a *actor) Wake()                     { a.woken = true }
func (a *actor) Push()                     { a.woken = true }
func (a *actor) Tries() bool               { return !a.paused }
func (a *actor) Acked() bool               { return !a.paused && !a.stuck }
func (a *actor) Abort()                    { a.s.printf("%s: aborted\n", a.name) }
func (a *actor) Rest(d time.Duration)      { a.s.printf("%s: rests for %v\n", a.name, d) }
func (a *actor) Delivered() (uint64, bool) { return a.got, a.stuck }

// A printed is a slog.Handler that prints into a transcript.
type printed struct{ s *theatre }

func (h printed) Enabled(context.Context, slog.Level) bool { return true }
func (h printed) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h printed) WithGroup(string) slog.Handler            { return h }

// Handle prints a line.
func (h printed) Handle(_ context.Context, r slog.Record) error {
	h.s.printf("%s %s", strings.ToLower(r.Level.String()), r.Message)
	r.Attrs(func(a slog.Attr) bool {
		h.s.printf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.s.printf("\n")
	return nil
}

func (s *theatre) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// playTranscript copies comments and commands, and writes what happened under each block.
func playTranscript(t *testing.T, text string) string {
	s := &theatre{}
	s.server(t, line{})
	s.out.Reset()
	var commands []string
	skipping := false
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && l != "":
			continue
		case l == "----":
			s.printf("----\n")
			for _, c := range commands {
				s.command(t, c)
				s.flushAll()
			}
			commands, skipping = nil, true
			continue
		case l != "" && l[0] != '#':
			commands = append(commands, l)
		}
		skipping = false
		s.printf("%s\n", l)
	}
	if len(commands) > 0 {
		t.Fatalf("commands without a line of dashes after them: %q", commands)
	}
	return s.out.String()
}

// A line is the words of a command: plain ones and key=value.
type line struct {
	words []string
	named map[string]string
}

func lineOf(words []string) line {
	l := line{named: map[string]string{}}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok && w[0] != '/' {
			l.named[key] = value
		} else {
			l.words = append(l.words, w)
		}
	}
	return l
}

// words returns the words that stand for a text with spaces: commas and pluses are spaces.
func words(text string) string { return strings.NewReplacer(",", " ", "+", " ").Replace(text) }

// word returns the nth word, "" if there are fewer.
func (l line) word(n int) string {
	if n >= len(l.words) {
		return ""
	}
	return l.words[n]
}

func (l line) has(word string) bool { return slices.Contains(l.words, word) }

func (s *theatre) int(text string) int64 {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	return n
}

// number returns the value of a key, otherwise if it isn't there.
func (s *theatre) number(l line, key string, otherwise int64) int64 {
	if text, ok := l.named[key]; ok {
		return s.int(text)
	}
	return otherwise
}

// server begins with a new server.
func (s *theatre) server(t *testing.T, l line) {
	s.cast, s.names, s.sent, s.told = map[string]*actor{}, nil, nil, map[string]string{}
	s.sessions = map[string]int64{}
	log := slog.New(printed{s})
	o := Options{
		Log: log, ClientLog: log, Kick: func() { s.kicked, s.kickedSync = true, true }, Serving: Serving{
			LocalSessions: l.has("local"), LocalSessionsUpgrading: l.has("upgrading"), ReadOnlyMode: l.has("readonly"),
			SlowRequest: time.Duration(s.number(l, "slow", 0)) * time.Millisecond,
		},
	}
	var err error
	if o.Auth, err = auth.New(authOptions(l)); err != nil {
		t.Fatal(err)
	}
	if l.has("sasl") || l.has("saslrequired") {
		o.SASL = SASLOptions{Mechanism: countdown{}, AllowFailed: l.has("saslfails"), Required: l.has("saslrequired")}
	}
	o.SnapCount = int(s.number(l, "snapcount", 0))
	if text := words(l.named["rules"]); text != "" {
		o.Settings = tree.DefaultSettings()
		o.Settings.FeatureLevel = tree.FeatureLevelMax
		o.Settings.Rules, o.Settings.Schemes = rulesOf(text), auth.NewSchemes("digest", "team")
	}
	if l.has("vet") {
		o.Vet = func(body []byte) jute.Code {
			s.printf("vets %d bytes\n", len(body))
			return jute.ErrNewConfigNoQuorum
		}
	}
	if l.has("answers") {
		o.Answered = func(c *Client, op jute.Op, body []byte, code jute.Code, how Became) {
			s.printf("answered %s: %v of %d bytes: %v, %d\n", c.Remote(), op, len(body), code, how)
		}
	}
	if text := words(l.named["members"]); text != "" {
		o.Tree, o.Membership = reconfigured(), Membership{Text: text, Parse: parseMembers}
		o.MembershipChanged = func() { s.printf("the membership was read\n") }
	}
	for scope := range limit.Scopes {
		text := words(l.named["limits."+scope.String()])
		if o.Limits[scope], err = limit.Parse(scope, text, limit.Set{}); err != nil {
			t.Fatal(err)
		}
	}
	s.announced, s.localStage = nil, newStage(t, o)
	s.r.alone, s.now = l.has("alone"), 1000
}

// command does one.
func (s *theatre) command(t *testing.T, text string) {
	words := strings.Fields(text)
	if a := s.cast[words[0]]; a != nil {
		s.requests(a, words[1:])
		return
	}
	l := lineOf(words[1:])
	for _, commands := range []map[string]func(*theatre, line){clientCommands, quorumCommands, reportCommands} {
		if do := commands[words[0]]; do != nil {
			do(s, l)
			return
		}
	}
	if words[0] != "server" {
		t.Fatalf("%q is no command", text)
	}
	s.server(t, l)
}
