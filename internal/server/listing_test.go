package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/quorum"
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
	for i := range fourletter.AnswerBytesMax/len(long) + 10 {
		watched := jute.PathWatchRequest{Path: fmt.Sprintf("/%d-%s", i, long), Watch: true}
		if code, err := st.clients["A"].call(jute.OpExists, watched.Append(nil)); err != nil || code != jute.ErrNoNode {
			t.Fatal(code, err)
		}
	}
	for _, word := range []string{"wchc", "wchp"} {
		text := st.word(word)
		end := "\nThis answer is cut here: a four-letter word says no more than 8 MiB.\n"
		if !strings.HasSuffix(text, end) || len(text) > fourletter.AnswerBytesMax+len(end) ||
			len(text) < fourletter.AnswerBytesMax-2*len(long) {
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

// TestJavaSocket prints an IPv6 address as Java does.
func TestJavaSocket(t *testing.T) {
	t.Parallel()
	if got := javaSocket("[::1]:4711"); got != "[0:0:0:0:0:0:0:1]:4711" {
		t.Error(got)
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
		{1, three[:1], true, "leader", "leading - broadcast"},
		{1, three, true, "leader", "leading - broadcast"},
		{1, three, false, "follower", "following - broadcast"},
		{3, three, false, "observer", "observing - broadcast"},
	} {
		if mode, peerState := modeOf(c.id, c.members, nil, nil, c.leads); mode != c.mode || peerState != c.peerState {
			t.Errorf("server %d of %d, leads %v: %q, %q", c.id, len(c.members), c.leads, mode, peerState)
		}
	}
}
