package crash

import (
	"testing"
	"time"
)

// TestKillAlone kills a server alone, under load, again and again, while it
// writes snapshots and purges its log. After each restart everything
// acknowledged must be there.
func TestKillAlone(t *testing.T) {
	seed, rng := hurtful(t)
	kills := times(*killsFlag, 100, 1000)
	r := Begin(t, RunOptions{
		Options: Options{Servers: 1, Config: map[string]string{"snapCount": "15000"}},
		Seed:    seed, Pinned: 6, Outstanding: 16, Pause: 500 * time.Microsecond,
		AnsweredMin: int64(kills) * 200,
	})
	var restarts []time.Duration
	for range kills {
		r.WaitAnswered(100)
		moment(rng, 700*time.Millisecond)
		r.Servers[0].Kill()
		r.Collect(0)
		restarts = append(restarts, r.Restart(0))
	}
	t.Logf("%d kills; restart until serving: %s", kills, percentiles(restarts))
	r.Verdict()
}
