package crash

import (
	"syscall"
	"testing"
	"time"
)

// healPatience is how long writes may stop after a fault that leaves a
// majority: far more than it takes, since a loaded machine is not at fault.
const healPatience = 20 * time.Second

// trio is the load of the tests on three servers.
func trio(seed uint64, answered int64) RunOptions {
	return RunOptions{
		Options: Options{Servers: 3}, Seed: seed, Pinned: 2, Roaming: 2, Outstanding: 8, Pause: 2 * time.Millisecond,
		Pulses: true, AnsweredMin: answered,
	}
}

// survivors waits until writes are answered again over all servers but one, and
// returns the longest any of them took since the fault.
func (r *Run) survivors(but int, fault time.Time) time.Duration {
	r.t.Helper()
	var longest time.Duration
	for _, p := range r.Pulses {
		if p.Server == but {
			continue
		}
		if _, err := p.FirstBeat(fault, healPatience); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, p := range r.Pulses {
		if p.Server != but {
			longest = max(longest, p.Longest(fault, time.Now()))
		}
	}
	return longest
}

// undisturbed fails the test if clients were disturbed that nothing was done to.
func (r *Run) undisturbed() {
	r.t.Helper()
	if n, example := r.Disturbed(); n > 0 {
		r.t.Errorf("%d connections to servers that nothing happened to ended, such as %s; none was to", n, example)
	}
}

func (r *Run) leader() int {
	r.t.Helper()
	i, err := r.Leader()
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// TestKillLeader kills the leader of three, again and again. Clients of the
// others must notice nothing but a short pause.
func TestKillLeader(t *testing.T) {
	seed, rng := hurtful(t)
	kills := times(*leaderFlag, 30, 200)
	r := Begin(t, trio(seed, int64(kills)*200))
	var gaps, restarts []time.Duration
	for range kills {
		r.WaitAnswered(100)
		moment(rng, 300*time.Millisecond)
		leader := r.leader()
		r.Down(leader)
		fault := time.Now()
		r.Servers[leader].Kill()
		gaps = append(gaps, r.survivors(leader, fault))
		restarts = append(restarts, r.Restart(leader))
		r.Up(leader)
	}
	t.Logf("%d leaders killed; longest write over the survivors: %s; restart until serving: %s", kills, percentiles(gaps), percentiles(restarts))
	r.undisturbed()
	r.Verdict()
}

// TestFreezeLeader stops the leader's process for three seconds and lets it go
// on. Nobody's connection may end, the leader's clients' included.
func TestFreezeLeader(t *testing.T) {
	seed, rng := hurtful(t)
	freezes := times(0, 5, 100)
	r := Begin(t, trio(seed, int64(freezes)*200))
	var gaps []time.Duration
	for range freezes {
		r.WaitAnswered(100)
		moment(rng, 300*time.Millisecond)
		leader := r.leader()
		fault := time.Now()
		if err := r.Servers[leader].Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		gaps = append(gaps, r.survivors(leader, fault))
		time.Sleep(time.Until(fault.Add(3 * time.Second)))
		thawed := time.Now()
		if err := r.Servers[leader].Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Pulses[leader].FirstBeat(thawed, healPatience); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d leaders frozen for 3 s; longest write over the others: %s", freezes, percentiles(gaps))
	r.undisturbed()
	r.Verdict()
}

// TestFreezeAny stops any server for a moment or longer: syncs and reads over it
// must not be stale afterwards, and no session may expire for it.
func TestFreezeAny(t *testing.T) {
	seed, rng := hurtful(t)
	freezes := times(0, 15, 500)
	r := Begin(t, trio(seed, int64(freezes)*100))
	for range freezes {
		r.WaitAnswered(100)
		victim := r.Servers[rng.IntN(len(r.Servers))]
		if err := victim.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		moment(rng, 1500*time.Millisecond)
		if err := victim.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d servers frozen for up to 1.5 s", freezes)
	r.undisturbed()
	r.Verdict()
}

// TestRollingRestart restarts each server in turn as an operator does.
func TestRollingRestart(t *testing.T) {
	seed, rng := hurtful(t)
	rounds := times(0, 3, 100)
	r := Begin(t, trio(seed, int64(rounds)*300))
	var gaps []time.Duration
	for range rounds {
		for i := range r.Servers {
			r.WaitAnswered(100)
			moment(rng, 300*time.Millisecond)
			r.Down(i)
			fault := time.Now()
			if code := r.Servers[i].Stop(); code != 0 {
				t.Errorf("server %d ended with code %d on SIGTERM", i+1, code)
			}
			gaps = append(gaps, r.survivors(i, fault))
			r.Restart(i)
			r.Up(i)
		}
	}
	t.Logf("%d rounds of planned restarts; longest write over the others: %s", rounds, percentiles(gaps))
	r.undisturbed()
	r.Verdict()
}

// TestKillRandom kills one, two or all three servers at once, while they write
// snapshots: what counts is that nothing is lost.
func TestKillRandom(t *testing.T) {
	seed, rng := hurtful(t)
	rounds := times(0, 15, 300)
	o := trio(seed, int64(rounds)*100)
	o.Config = map[string]string{"snapCount": "2000"}
	r := Begin(t, o)
	kills := 0
	for range rounds {
		r.WaitAnswered(100)
		moment(rng, 300*time.Millisecond)
		dead := rng.Perm(len(r.Servers))[:1+rng.IntN(len(r.Servers))]
		for _, i := range dead {
			r.Servers[i].Kill()
			kills++
		}
		for _, i := range dead {
			r.Collect(i)
			moment(rng, 200*time.Millisecond)
			if err := r.Servers[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range dead {
			if _, err := r.Servers[i].Ready(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills in %d rounds", kills, rounds)
	r.Verdict()
}
