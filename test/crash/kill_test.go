package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// killsPerRun bounds the kills of one recorded run: a long test is several runs,
// each with servers, a history and a verdict of its own, so that no history
// outgrows the memory and what is found is found early.
const killsPerRun = 100

// killed counts over all runs of a test.
type killed struct {
	kills, rounds, all        int // all: rounds that killed every server at once
	requests, acknowledged    int
	violations, lost, inexact int
	restarts                  []time.Duration
}

// verdict ends a run and counts what it was.
func (k *killed) verdict(r *Run) {
	r.t.Helper()
	count, report := r.Verdict()
	k.requests += report.Requests
	k.acknowledged += report.Acknowledged
	k.lost += int(count.Lost)
	k.violations += len(report.Violations) + report.Dropped
	if !report.Exact {
		k.inexact++
	}
}

func (k *killed) String() string {
	return fmt.Sprintf("%d kills in %d rounds, %d of them of all servers at once; %d requests, %d writes acknowledged, %d requests lost with a connection, "+
		"%d violations; %d runs judged without the servers' logs; restart until serving: %s",
		k.kills, k.rounds, k.all, k.requests, k.acknowledged, k.lost, k.violations, k.inexact, percentiles(k.restarts))
}

// TestKillAlone kills a server alone, under load, again and again, while it
// writes snapshots and purges its log. After each restart everything
// acknowledged must be there.
func TestKillAlone(t *testing.T) {
	killRuns(t, times(*killsFlag, 40, 1000), func(t *testing.T, seed uint64, rng *rand.Rand, kills int, sum *killed) {
		r := Begin(t, RunOptions{
			Options: Options{Servers: 1, Config: map[string]string{"snapCount": "15000"}},
			Seed:    seed, Pinned: 6, Outstanding: 16, Pause: 500 * time.Microsecond,
			AnsweredMin: int64(kills) * 200,
		})
		for range kills {
			r.WaitAnswered(100)
			moment(rng, 700*time.Millisecond)
			r.Servers[0].Kill()
			r.Collect(0)
			sum.kills, sum.rounds = sum.kills+1, sum.rounds+1
			sum.restarts = append(sum.restarts, r.Restart(0))
		}
		sum.verdict(r)
	})
}

// TestKillRandom kills one, two or all three servers at once, while they write
// snapshots: what counts is that nothing is lost.
func TestKillRandom(t *testing.T) {
	killRuns(t, times(*killsFlag, 30, 1000), func(t *testing.T, seed uint64, rng *rand.Rand, kills int, sum *killed) {
		o := trio(seed, int64(kills)*50)
		o.Config = map[string]string{"snapCount": "2000"}
		r := Begin(t, o)
		for until := sum.kills + kills; sum.kills < until; {
			r.WaitAnswered(100)
			moment(rng, 300*time.Millisecond)
			r.killSome(rng, sum)
		}
		sum.verdict(r)
	})
}

// killRuns splits kills into runs and tells the sum of them. A run that failed
// ends the test, and is done again by its own seed and number of kills.
func killRuns(t *testing.T, kills int, run func(t *testing.T, seed uint64, rng *rand.Rand, kills int, sum *killed)) {
	seed, _ := hurtful(t)
	var sum killed
	for n := uint64(0); sum.kills < kills && !t.Failed(); n++ {
		share := min(killsPerRun, kills-sum.kills)
		t.Run(fmt.Sprintf("seed=%d,kills=%d", seed+n, share), func(t *testing.T) {
			run(t, seed+n, rand.New(rand.NewPCG(seed+n, 1)), share, &sum)
		})
		t.Logf("so far: %s", &sum)
	}
}

// killSome kills one, two or all servers at once and starts them again, in
// another order and not at once.
func (r *Run) killSome(rng *rand.Rand, sum *killed) {
	r.t.Helper()
	dead := rng.Perm(len(r.Servers))[:1+rng.IntN(len(r.Servers))]
	for _, i := range dead {
		r.Servers[i].Kill()
	}
	sum.kills, sum.rounds = sum.kills+len(dead), sum.rounds+1
	if len(dead) == len(r.Servers) {
		sum.all++
	}
	for _, i := range dead {
		r.Collect(i)
	}
	rng.Shuffle(len(dead), func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
	var last time.Time
	for _, i := range dead {
		moment(rng, 100*time.Millisecond)
		last = time.Now()
		if err := r.Servers[i].Start(); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, i := range dead {
		if _, err := r.Servers[i].Ready(); err != nil {
			r.t.Fatal(err)
		}
	}
	sum.restarts = append(sum.restarts, time.Since(last))
}
