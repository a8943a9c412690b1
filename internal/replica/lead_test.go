package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestLogNamesTheLeader: each change of leader leaves one line, and a term without one leaves none.
func TestLogNamesTheLeader(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newStage(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, step := range []struct {
		lead quorum.Leadership
		want string
	}{
		{quorum.Leadership{Leader: 3, Term: 5}, `msg="this server follows the leader" leader=3 term=5`},
		{quorum.Leadership{Term: 5}, `msg="this server has lost its leader" leader=3`},
		{quorum.Leadership{Term: 6}, ""},
		{quorum.Leadership{Leader: 1, IsLeader: true, Term: 7}, `msg="this server leads" term=7`},
		{quorum.Leadership{Term: 7}, `msg="this server no longer leads, and there is no leader"`},
		{quorum.Leadership{Leader: 2, Term: 8}, `msg="this server follows the leader" leader=2 term=8`},
		{quorum.Leadership{Leader: 3, Term: 9}, `msg="this server follows the leader" leader=3 term=9`},
	} {
		log.Reset()
		s.r.Lead(step.lead)
		if got := log.String(); strings.Count(got, "\n") != min(len(step.want), 1) || !strings.Contains(got, step.want) {
			t.Errorf("%+v leaves %q, want %q", step.lead, got, step.want)
		}
	}
}

// TestClientsLeaveWithoutALeader: clients stay for the patience, which is syncLimit, and go then.
func TestClientsLeaveWithoutALeader(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	if !c.Established() || c.Ending() != "" {
		t.Fatalf("established: %t; ending: %q", c.Established(), c.Ending())
	}
	s.r.Lead(quorum.Leadership{Term: s.term})
	lost := s.r.leaderlessSince
	const patience = 4000
	if s.r.CheckQuorum(lost+patience-1, patience); c.Ending() != "" {
		t.Errorf("it goes before the patience is over: %q", c.Ending())
	}
	if s.r.CheckQuorum(lost+patience, patience); c.Ending() == "" {
		t.Error("it stays when the patience is over")
	}
}

// TestLeaderOfASnapshot: a leader whose sessions came with a snapshot gives each its full timeout.
func TestLeaderOfASnapshot(t *testing.T) {
	t.Parallel()
	before := newStage(t, Options{})
	ids := []int64{before.begin(), before.begin(), before.begin()}
	s := newStage(t, Options{})
	s.now = 100_000
	s.r.tree, s.index = before.r.tree, before.index
	s.term = before.term + 1
	s.r.Lead(quorum.Leadership{Leader: 1, IsLeader: true, Term: s.term})
	for _, id := range ids {
		if !s.r.expiry.Tracks(id) {
			t.Errorf("session %#x never expires", id)
		}
	}
	list, _ := s.r.SessionExpiries(time.UnixMilli(s.now), 1000)
	for _, e := range list {
		if left := e.Expires.Sub(time.UnixMilli(s.now)); left < 10*time.Second || left > 11*time.Second {
			t.Errorf("a session of 10 s expires in %v", left)
		}
	}
}

// TestServesOnceCaughtUp: a server serves clients once it knows a leader and its state has reached the leader's term,
// whatever comes last: the leader, an entry of its term, or a snapshot. Then it goes on, though its leader is lost.
func TestServesOnceCaughtUp(t *testing.T) {
	t.Parallel()
	leader := func(s *localStage) { s.r.Lead(quorum.Leadership{Leader: 2, Term: 5}) }
	none := func(s *localStage) { s.r.Lead(quorum.Leadership{Term: 5}) }
	entry := func(term, index uint64) func(*localStage) {
		return func(s *localStage) {
			if err := s.r.Apply([]quorum.Entry{{Term: term, Index: index}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	snapshot := func(term uint64) func(*localStage) {
		return func(s *localStage) {
			of := tree.New(tree.Options{LevelMax: tree.FeatureLevelMax})
			if err := of.NewTerm(term, 9); err != nil {
				t.Fatal(err)
			}
			s.r.become(of)
		}
	}
	for _, c := range []struct {
		what  string
		steps []func(*localStage)
		want  bool
	}{
		{"a leader", []func(*localStage){leader}, false},
		{"an entry", []func(*localStage){entry(5, 1)}, false},
		{"a leader, and an entry of an earlier term", []func(*localStage){leader, entry(4, 1)}, false},
		{"a leader, and its entry", []func(*localStage){leader, entry(4, 1), entry(5, 2)}, true},
		{"a leader after its entry", []func(*localStage){entry(5, 1), leader}, true},
		{"no leader after an entry", []func(*localStage){entry(5, 1), none}, false},
		{"a leader, and an earlier snapshot", []func(*localStage){leader, snapshot(4)}, false},
		{"a leader, and a snapshot", []func(*localStage){leader, snapshot(5)}, true},
		{"a leader after its snapshot", []func(*localStage){snapshot(5), leader}, true},
		{"a leader that is lost", []func(*localStage){leader, entry(5, 1), none}, true},
	} {
		s := newStageAlone(t, Options{})
		for _, do := range c.steps {
			do(s)
		}
		if got := s.r.View().Serving; got != c.want {
			t.Errorf("%s: it serves: %t", c.what, got)
		}
		hello := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)}
		client := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
		if err := s.r.Connect(client, &hello, s.ids); err == nil != c.want {
			t.Errorf("%s: a client connects: %v", c.what, err)
		}
	}
}
