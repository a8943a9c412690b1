package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
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
		{quorum.Leadership{Term: 7}, `msg="this server leads no longer; there is no leader"`},
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
