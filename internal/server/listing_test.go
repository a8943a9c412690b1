package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/jute"
)

// TestListsEndAtTheirLimit has more to list than is asked for.
func TestListsEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	for i := range 5 {
		name := fmt.Sprintf("C%d", i)
		st.connect(name, 30000)
		for j := range 3 {
			st.must(fmt.Sprintf("%s ephemeral /n%d-%d", name, i, j), fmt.Sprintf("%s get /n%d-%d watch", name, i, j))
		}
	}
	for _, limit := range []int{1, 30, 100, 10_000} {
		all := limit == 10_000
		bySession, more := st.s.replica.WatchesBySession(limit)
		var n int
		for _, e := range bySession {
			n += len(e.Paths)
		}
		if more == all || (n == 15) != all {
			t.Errorf("limit %d: %d watches by session, more %v", limit, n, more)
		}
		byPath, more := st.s.replica.WatchesByPath(limit)
		if more == all || (len(byPath) == 15) != all {
			t.Errorf("limit %d: %d paths, more %v", limit, len(byPath), more)
		}
		ephemerals, more := st.s.replica.Ephemerals(limit)
		if more == all || (len(ephemerals) == 5) != all {
			t.Errorf("limit %d: %d sessions with ephemerals, more %v", limit, len(ephemerals), more)
		}
		sessions, more := st.s.replica.SessionExpiries(time.Now(), limit)
		if more != (limit < 100) || (len(sessions) == 5) != (limit >= 100) {
			t.Errorf("limit %d: %d sessions, more %v", limit, len(sessions), more)
		}
	}
}

// TestALongAnswerIsCutAtALine makes one of many watches.
func TestALongAnswerIsCutAtALine(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	long := strings.Repeat("x", 10_000)
	for i := range wordBytesMax/len(long) + 10 {
		watched := jute.PathWatchRequest{Path: fmt.Sprintf("/%d-%s", i, long), Watch: true}
		if code, err := st.clients["A"].call(jute.OpExists, watched.Append(nil)); err != nil || code != jute.ErrNoNode {
			t.Fatal(code, err)
		}
	}
	for _, word := range []string{"wchc", "wchp"} {
		text := st.word(word)
		end := "\nThis answer is cut here: a four-letter word says no more than 8 MiB.\n"
		if !strings.HasSuffix(text, end) || len(text) > wordBytesMax+len(end) || len(text) < wordBytesMax-2*len(long) {
			t.Errorf("%s: %d bytes that end in %q", word, len(text), text[max(0, len(text)-100):])
		}
	}
}

func TestHashListsDigestsByZxid(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	st.must("A create /a")
	for range 300 {
		st.must("A set /a x")
	}
	text := st.word("hash")
	if !regexp.MustCompile(`^200000080: -?\d+\n200000100: -?\d+\n$`).MatchString(text) {
		t.Errorf("hash says %q", text)
	}
	d := st.s.replica.Digests()
	if len(d) != 2 || d[0].Value == d[1].Value {
		t.Errorf("digests: %v", d)
	}
}

// TestLayoutsOfEnsembles prints what a server alone never has.
func TestLayoutsOfEnsembles(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 2, 0, time.UTC)
	st := Status{Version: "V", View: replica.View{Latency: replica.Latency{Max: 5, Avg: 0.7143}, Zxid: 0x100000003, Nodes: 5, Proposals: replica.Sizes{Last: 48, Min: 40, Max: 50}}}
	for _, c := range []struct {
		print func(a *answer)
		want  string
	}{
		{func(a *answer) { st.Mode = ModeLeader; a.server(st, nil) }, "Zookeeper version: V\nLatency min/avg/max: 0/0.7143/5\nReceived: 0\nSent: 0\nConnections: 0\nOutstanding: 0\nZxid: 0x100000003\nMode: leader\nNode count: 5\nProposal sizes last/min/max: 48/40/50\n"},
		{func(a *answer) { st.Mode = ModeReadOnly; a.server(st, []replica.Connection{}) }, "Zookeeper version: V\nREAD-ONLY mode; serving only read-only clients\nClients:\n\nLatency min/avg/max: 0/0.7143/5\nReceived: 0\nSent: 0\nConnections: 0\nOutstanding: 0\nZxid: 0x100000003\nMode: read-only\nNode count: 5\n"},
		{func(a *answer) { a.readOnly(Status{Mode: ModeReadOnly}) }, "ro"},
		{func(a *answer) { a.readOnly(Status{Mode: ModeObserver}) }, "rw"},
		{func(a *answer) {
			a.learnerSessions([]replica.SessionExpiry{{Session: 0x1000abc12340000, Timeout: 30000, Expires: at}})
		}, "Global Sessions(1):\n0x1000abc12340000\t30000ms\n"},
		{func(a *answer) {
			times := []time.Time{at, at, at.Add(2 * time.Second)}
			a.expirySets("Session", times, func(i int) string { return fmt.Sprint(i) })
		}, "Session Sets (2)/(3):\n2 expire at Wed Jul 01 12:00:02 UTC 2026:\n\t0\n\t1\n1 expire at Wed Jul 01 12:00:04 UTC 2026:\n\t2\n"},
		{func(a *answer) {
			a.connections([]replica.Connection{{Remote: javaSocket("[::1]:4711"), Interest: 5, Outstanding: 3}}, false)
		}, " /[0:0:0:0:0:0:0:1]:4711[5](queued=3,recved=0,sent=0)\n\n"},
	} {
		var a answer
		c.print(&a)
		if got := string(a.text()); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	three := []quorum.Member{{ID: 1}, {ID: 2}, {ID: 3, Observer: true}}
	for _, c := range []struct {
		id              uint64
		members         []quorum.Member
		leads           bool
		mode, peerState string
	}{
		{1, nil, true, "standalone", ""},
		{1, three[:1], true, "standalone", ""},
		{1, three, true, "leader", "leading - broadcast"},
		{1, three, false, "follower", "following - broadcast"},
		{3, three, false, "observer", "observing - broadcast"},
	} {
		s := &Server{opt: Options{ID: c.id, Members: c.members}}
		if mode, peerState := s.mode(c.leads); mode != c.mode || peerState != c.peerState {
			t.Errorf("server %d of %d, leads %v: %q, %q", c.id, len(c.members), c.leads, mode, peerState)
		}
	}
}
