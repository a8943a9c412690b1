package replica

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// overloaded makes the server of a stage count as overloaded, by a write that waits as long.
func (s *localStage) overloaded(c *Client) {
	s.t.Helper()
	s.write(c, "/late", jute.ModePersistent)
	s.now += overloadedAfter / 1e6
	if !s.r.overload.Overloaded() {
		s.t.Fatal("a write has waited, and the server isn't overloaded")
	}
}

// TestOverloaded: a server is overloaded while writes wait long, to be proposed or for their answer,
// and for a second after.
func TestOverloaded(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.now = 1_000
	c := s.session()
	if s.r.overload.Overloaded() {
		t.Error("a server without requests is overloaded")
	}
	s.overloaded(c)
	waited := s.forward()
	s.now += 1_001
	if s.r.overload.Overloaded() {
		t.Error("a server without a sign of it for a second is overloaded")
	}
	s.apply(waited...)
	if !s.r.overload.Overloaded() {
		t.Error("a write was answered late, and the server isn't overloaded")
	}
	s.now += 1_001
	s.write(c, "/soon", jute.ModePersistent)
	s.now += overloadedAfter/1e6 - 1
	s.apply(s.forward()...)
	if s.r.overload.Overloaded() {
		t.Error("a server that answers within the time is overloaded")
	}
}

// TestOverloadIsLogged: a server says that it is overloaded at once, and then once a minute.
func TestOverloadIsLogged(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := newStage(t, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	for _, at := range []struct {
		waited, now int64
		lines       int
	}{
		{overloadedAfter - 1, 10e9, 0}, {overloadedAfter, 10e9, 1}, {overloadedAfter, 70e9 - 1, 1},
		{overloadedAfter, 70e9, 2}, {overloadedAfter, 71e9, 2},
	} {
		s.r.overload.noteWait(at.waited, at.now)
		if got := strings.Count(said.String(), "overloaded"); got != at.lines {
			t.Errorf("a wait of %d ns at %d: %d lines, want %d", at.waited, at.now, got, at.lines)
		}
	}
}

// from connects a client from an address, with a new session.
func (s *localStage) from(address string) *Client {
	s.t.Helper()
	c := NewClient(s.ids(), address+":1", jute.ID{Scheme: "ip", ID: address}, Woken(func() {}))
	if err := s.r.Connect(c, &jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)},
		s.ids); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestNewSessionsWait: new sessions begin some at a time, fewer on a server that is overloaded, and
// addresses take turns; those that are gone leave no trace. Known sessions are resumed at once.
func TestNewSessionsWait(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.now = 1_000
	busy, known := s.session(), s.session()
	s.overloaded(busy)
	waited := s.forward() // and no leader takes them
	var flood []*Client
	for range 10 * beginningOverloadedMax {
		flood = append(flood, s.from("10.0.0.1"))
	}
	one := s.from("10.0.0.2")
	again := s.client(known)
	sent := append(s.forward(), s.forward()...)
	if n := len(sent); n != beginningOverloadedMax+1 {
		t.Fatalf("%d requests are sent, want %d for new sessions and one for the known one", n, beginningOverloadedMax)
	}
	s.apply(sent...)
	if !again.Established() {
		t.Error("the known session isn't resumed at once")
	}
	for _, c := range flood[:beginningOverloadedMax] {
		if !c.Established() {
			t.Fatal("a session that was sent has not begun")
		}
	}
	// The next ones have begun, of which one is the other address's.
	for n := 9*beginningOverloadedMax - 1; n >= beginningOverloadedMax; n-- {
		s.r.Disconnected(flood[n])
	}
	if n := s.r.meters.overload[sessionsDropped].Value(); n != 7*beginningOverloadedMax+1 {
		t.Errorf("%d new sessions count as dropped, want %d that waited", n, 7*beginningOverloadedMax+1)
	}
	s.apply(s.forward()...)
	if !one.Established() {
		t.Error("an address that asks once waits for one that floods")
	}
	for sent := s.forward(); len(sent) > 0; sent = s.forward() {
		s.apply(sent...)
	}
	for _, c := range flood[9*beginningOverloadedMax:] {
		if !c.Established() {
			t.Fatal("a new session has not begun in the end")
		}
	}
	if n := &s.r.newcomers; n.count() != 0 || len(n.turns) != 0 || len(n.queues) != 0 {
		t.Errorf("%d newcomers wait, %d begin, in %d queues, %d turns", n.waiting, n.beginning, len(n.queues), len(n.turns))
	}
	s.apply(waited...)
	s.now += 5_000
	for range beginningMax + 1 {
		s.from("10.0.0.3")
	}
	if n := len(s.forward()); n != beginningMax {
		t.Errorf("%d new sessions begin at once, want %d", n, beginningMax)
	}
}

// TestGoneNewcomersAreForgotten: clients that give up waiting for a new session aren't remembered.
func TestGoneNewcomersAreForgotten(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for range beginningMax {
		s.from("10.0.0.1")
	}
	for n := range 10 * beginningMax {
		s.r.Disconnected(s.from(fmt.Sprintf("10.0.1.%d", n%10)))
	}
	left := 0
	for _, q := range s.r.newcomers.queues {
		left += len(q)
	}
	if left > 2*beginningMax || len(s.r.newcomers.turns) != len(s.r.newcomers.queues) {
		t.Errorf("%d clients that are gone are remembered in %d queues, %d turns", left, len(s.r.newcomers.queues),
			len(s.r.newcomers.turns))
	}
}

// TestFirst: resumed sessions, ends of sessions and expiries go ahead of writes that wait for the
// log; the end of a session doesn't go ahead of its own writes.
func TestFirst(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	busy, known, quiet, writer := s.session(), s.session(), s.session(), s.session()
	s.r.Lead(quorum.Leadership{Leader: 1, Term: s.term, IsLeader: true})
	for len(s.r.Forward()) > 0 { // settings
	}
	raw := pipeline{}
	take := func(c *Client, b []byte) {
		t.Helper()
		if used, err := s.receive(c, b); err != nil || used != len(b) {
			t.Fatalf("%d of %d bytes, %v", used, len(b), err)
		}
	}
	var large []byte
	for range 5 { // several entries
		large = raw.request(large, jute.OpCreate,
			creating("/large-", make([]byte, 1<<19), jute.ModePersistentSequential))
	}
	take(busy, large)
	take(writer, raw.request(raw.request(nil, jute.OpCreate, creating("/w", nil, 0)), jute.OpCloseSession, nil))
	take(quiet, raw.request(nil, jute.OpCloseSession, nil))
	again := s.client(known)
	forwarded := tree.Request{
		Op: tree.OpAttach, Session: known.session, Cnx: s.ids(), Body: attachBody(tree.OpAttach, 10_000, s.r.secret()),
	}
	if err := s.r.Forwarded(tree.AppendRecord(nil, &forwarded)); err != nil {
		t.Fatal(err)
	}
	var got []string
	entries := 0
	for b, _ := s.r.proposals.Take(); b != nil; b, _ = s.r.proposals.Take() {
		entries++
		records := tree.RecordsOf(b[proposals.HeadSize:])
		for q := (tree.Request{}); records.Next(&q); {
			if q.Cnx != busy.id {
				got = append(got, fmt.Sprintf("%d: %v of %d", entries, q.Op, q.Cnx))
			}
		}
	}
	want := []string{
		fmt.Sprintf("1: closeSession of %d", quiet.id), fmt.Sprintf("1: %v of %d", tree.OpAttach, again.id),
		fmt.Sprintf("1: %v of %d", tree.OpAttach, forwarded.Cnx),
		// the second entry is the first of the large ones, which take turns
		fmt.Sprintf("3: create of %d", writer.id), fmt.Sprintf("3: closeSession of %d", writer.id),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || entries < 4 {
		t.Errorf("in %d entries:\n%s\nwant\n%s", entries, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// login has a client claim a digest identity.
func (s *localStage) login(c *Client, user string) *Client {
	s.t.Helper()
	if _, err := s.receive(c, (&pipeline{}).request(nil, jute.OpAuth, func(b []byte) []byte {
		return (&jute.AuthPacket{Scheme: "digest", Auth: []byte(user + ":x")}).Append(b)
	})); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestSurvey: which owners have more than their share of ten unanswered requests, if their connections have that many.
// Identities that any client can claim, of one host, share its part.
func TestSurvey(t *testing.T) {
	t.Parallel()
	type holder struct {
		address, user string
		has           int
		greedy        bool
	}
	for _, c := range []struct {
		what string
		most int64
		of   []holder
	}{
		{"one alone", 10, []holder{{"10.0.0.1", "", 90, false}}},
		{"one of two, the other of which has none", 10, []holder{{"10.0.0.1", "", 90, false}, {"10.0.0.2", "", 0, false}}},
		{"a half each", 10, []holder{{"10.0.0.1", "", 5, false}, {"10.0.0.2", "", 5, false}}},
		{"more than a half", 10, []holder{{"10.0.0.1", "", 6, true}, {"10.0.0.2", "", 1, false}}},
		{"two connections", 10, []holder{{"10.0.0.1", "", 3, true}, {"10.0.0.1", "", 3, true}, {"10.0.0.2", "", 5, false}}},
		{"less than one each", 1, []holder{
			{"10.0.0.1", "", 2, true}, {"10.0.0.2", "", 1, false}, {"10.0.0.3", "", 1, false},
		}},
		{"names of one host alone", 10, []holder{{"10.0.0.1", "eve", 6, true}, {"10.0.0.1", "eva", 5, false}}},
		{"names of one host, no more than the whole", 10, []holder{
			{"10.0.0.1", "eve", 9, false}, {"10.0.0.1", "eva", 1, false},
		}},
		{"names of a host, and another", 12, []holder{
			{"10.0.0.1", "eve", 4, true}, {"10.0.0.1", "eva", 3, false}, {"10.0.0.2", "", 6, false},
		}},
		{"one name of a host, and another", 12, []holder{
			{"10.0.0.1", "eve", 7, true}, {"10.0.0.1", "eva", 0, false}, {"10.0.0.2", "", 1, false},
		}},
		{"names with one each", 1, []holder{
			{"10.0.0.1", "eve", 1, false}, {"10.0.0.1", "eva", 1, false}, {"10.0.0.2", "", 2, true},
		}},
	} {
		s := newStage(t, Options{})
		s.r.unanswered.countMax = c.most
		all := make([]*Client, len(c.of))
		for i, of := range c.of {
			all[i] = s.from(of.address)
			s.apply(s.forward()...)
			if of.user != "" {
				s.login(all[i], of.user)
			}
			for n := range of.has {
				all[i].unanswered.push(request{op: &opCloseSession, seq: int64(n)})
			}
			all[i].limits.owner().greedy.Store(!of.greedy)
		}
		s.from("10.0.0.9").limits.address.Store(nil) // it has just been accepted
		s.r.overload.survey()
		for i, of := range c.of {
			if got := all[i].limits.owner().greedy.Load(); got != of.greedy {
				t.Errorf("%s: %s %s with %d requests has too many: %t", c.what, of.address, of.user, of.has, got)
			}
		}
	}
}

// TestShareOfMany: with more identities than requests that may be unanswered, one that has a single one
// unanswered isn't held back.
func TestShareOfMany(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{MaxOutstanding: 10}})
	s.now = 1_000
	of := make([]*Client, 30)
	for i := range of {
		of[i] = s.from(fmt.Sprintf("10.0.0.%d", i))
	}
	s.apply(s.forward()...)
	for _, c := range of {
		s.write(c, "/n-", jute.ModePersistentSequential)
	}
	s.write(of[0], "/n-", jute.ModePersistentSequential)
	s.now += overloadedAfter / 1e6
	if !s.r.overload.Overloaded() {
		t.Fatal("there is no overload")
	}
	for i, c := range of[:3] {
		if held := s.writeHeld(c); held != (i == 0) {
			t.Errorf("a write of client %d of %d waits: %t", i, len(of), held)
		}
	}
}

// TestShareOfAHost: identities that anybody can claim have one share together, that of their address. What a
// provider or a certificate vouches for has a share of its own.
func TestShareOfAHost(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{MaxOutstanding: 30}})
	s.now = 1_000
	var claimed []*Client
	for range 30 {
		claimed = append(claimed, s.from("10.0.0.1"))
	}
	vouched, modest := s.from("10.0.0.1"), s.from("10.0.0.2")
	s.apply(s.forward()...)
	s.apply(s.forward()...)
	for i, c := range claimed {
		s.login(c, fmt.Sprint("made-up-", i))
	}
	vouched.Prove(&auth.Proof{IDs: append(slices.Clone(vouched.identities()), jute.ID{Scheme: "sasl", ID: "app"})})
	if !s.r.limiter.belongs(vouched) {
		t.Fatal("there are too many of its identity")
	}
	for _, c := range claimed {
		s.write(c, "/n-", jute.ModePersistentSequential)
		s.write(c, "/n-", jute.ModePersistentSequential)
	}
	for range 5 {
		s.write(vouched, "/n-", jute.ModePersistentSequential)
		s.write(modest, "/n-", jute.ModePersistentSequential)
	}
	s.now += overloadedAfter / 1e6
	if !s.r.overload.Overloaded() {
		t.Fatal("there is no overload")
	}
	for i, c := range claimed {
		if !s.writeHeld(c) {
			t.Errorf("claimed identity %d of one host doesn't wait, though they have 60 of 10 unanswered together", i)
		}
	}
	if s.writeHeld(vouched) || s.writeHeld(modest) {
		t.Error("a vouched-for identity of that host, or another host, waits with less than its share unanswered")
	}
}

// writeHeld reports whether a write of c has to wait because of what its owner has unanswered.
func (s *localStage) writeHeld(c *Client) bool {
	s.t.Helper()
	_, err := s.receive(c, (&pipeline{}).request(nil, jute.OpCreate,
		creating("/n-", nil, jute.ModePersistentSequential)))
	if err != nil && err != ErrPaced {
		s.t.Fatal(err)
	}
	return err == ErrPaced
}

// TestFairShare: on a server that is overloaded and has as much unanswered as may be, an identity
// with more than its part waits with its next writes, not with reads, heartbeats or the end of its
// sessions. Others don't wait, and it doesn't wait for ever.
func TestFairShare(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{MaxOutstanding: 10}})
	s.now = 1_000
	login := func(user string) *Client { return s.login(s.session(), user) }
	var greedy []*Client
	for range 15 {
		greedy = append(greedy, login("greedy"))
	}
	modest, second := login("modest"), login("modest")
	try := func(c *Client, op jute.Op, record func([]byte) []byte) error {
		in := (&pipeline{}).request(nil, op, record)
		used, err := s.receive(c, in)
		if err == nil && used != len(in) {
			t.Fatalf("%d of %d bytes", used, len(in))
		}
		return err
	}
	write := creating("/n-", nil, jute.ModePersistentSequential)
	want := func(what string, got, want error) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, c := range greedy[:11] {
		want("a write before there is overload", try(c, jute.OpCreate, write), nil)
	}
	want("a write of the modest", try(modest, jute.OpCreate, write), nil)
	want("a write while many are unanswered but none is late", try(greedy[11], jute.OpCreate, write), nil)
	s.now += overloadedAfter / 1e6
	if !s.r.overload.Overloaded() {
		t.Fatal("there is no overload")
	}
	late := greedy[12]
	want("a write of the greedy", try(late, jute.OpCreate, write), ErrPaced)
	if late.reader.Pause().Nanoseconds() != heldPause {
		t.Errorf("it is to wait for %v", late.reader.Pause())
	}
	want("a read of the greedy", try(late, jute.OpGetData, reading("/", false)), nil)
	want("its heartbeat", try(late, jute.OpPing, func(b []byte) []byte { return b }), nil)
	want("another write of the modest", try(second, jute.OpCreate, write), nil)
	want("the end of a session of the greedy", try(greedy[13], jute.OpCloseSession, nil), nil)
	s.now += pacedMax/1e6 - 1
	s.r.overload.Overloaded()
	want("the write of the greedy, before the longest wait is over", try(late, jute.OpCreate, write), ErrPaced)
	s.now++
	want("the write of the greedy after the longest wait", try(late, jute.OpCreate, write), nil)
	if n := s.r.meters.overload[writesHeld].Value(); n != 1 {
		t.Errorf("%d writes count as held back, want 1", n)
	}
	s.now -= pacedMax / 1e6
	s.r.overload.Overloaded()
	hasty := greedy[14] // hears of a write's refusal in time for its short session
	hasty.timeout = 2000
	want("a write of a short session", try(hasty, jute.OpCreate, write), ErrPaced)
	s.now += 499
	s.r.overload.Overloaded()
	want("the write, a millisecond before a quarter of the timeout", try(hasty, jute.OpCreate, write), ErrPaced)
	s.now++
	want("the write, after a quarter of the timeout", try(hasty, jute.OpCreate, write), nil)
	hasty.timeout = 10_000
	s.now += pacedMax/1e6 - 500
	s.r.overload.Overloaded()
	want("one more of the greedy", try(greedy[14], jute.OpCreate, write), ErrPaced)
	for sent := s.forward(); len(sent) > 0; sent = s.forward() {
		s.apply(sent...)
	}
	want("once all are answered", try(greedy[14], jute.OpCreate, write), nil)
}

// TestReadsDontWaitForOthers: reads and heartbeats are answered at once, whatever waits for the log
// of other connections; a connection that has asked for its end may ask though it has as much
// unanswered as may be.
func TestReadsDontWaitForOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{MaxOutstanding: 1}})
	reader, full := s.session(), s.session()
	for range 100 {
		s.write(s.session(), "/w-", jute.ModePersistentSequential)
	}
	raw := pipeline{}
	if _, err := s.receive(reader,
		raw.request(raw.request(nil, jute.OpGetData, reading("/", false)), jute.OpPing, nil)); err != nil {
		t.Fatal(err)
	}
	s.want(reader, 2, true)
	s.write(full, "/f", jute.ModePersistent)
	if _, err := s.receive(full, raw.request(nil, jute.OpCloseSession, nil)); err != nil { // would wait for ever
		t.Fatal(err)
	}
	for sent := s.forward(); len(sent) > 0; sent = s.forward() {
		s.apply(sent...)
	}
	s.want(full, 2, false)
}

// TestFewGoneNewcomers: a few that give up aren't worth a look at all that wait.
func TestFewGoneNewcomers(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for range beginningMax + 1 {
		s.from("10.0.0.1")
	}
	for n := range beginningMax + 2 {
		if got := s.r.newcomers.gone; got != n {
			t.Fatalf("%d of those that wait are gone, %d are counted", n, got)
		}
		s.r.Disconnected(s.from("10.0.1.1"))
	}
	s.r.Disconnected(s.from("10.0.1.1"))
	if got := s.r.newcomers.gone; got > 1 || len(s.r.newcomers.queues) > 2 {
		t.Errorf("%d that are gone are kept in %d queues", got, len(s.r.newcomers.queues))
	}
	if s.r.newcomers.next() == nil {
		t.Error("the one that waits is forgotten, too")
	}
}
