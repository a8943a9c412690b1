package crash

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"
)

var (
	freezesFlag = flag.Int("leader-freezes", 0, "freeze a leader so often; 0 means 1, 40 with -long")
	roundsFlag  = flag.Int("restart-rounds", 0, "restart each server in turn so often; 0 means 3, 100 with -long")
)

// healPatience is how long writes may stop after a fault that leaves a
// majority: far more than it takes, since a loaded machine is not at fault.
const healPatience = time.Minute

// trio is the load of the tests on three servers.
func trio(seed uint64, answered int64) RunOptions {
	return RunOptions{
		Options: Options{Servers: 3}, Seed: seed, Pinned: 2, Roaming: 2, Outstanding: 8, Pause: 2 * time.Millisecond,
		Pulses: true, AnsweredMin: answered,
	}
}

// pauses are what clients of servers that nothing was done to felt of each fault.
type pauses struct {
	resumed []time.Duration // from the fault to the answer to a write sent after it, on the last of them
	longest []time.Duration // write, among those under way at the fault or sent later
}

func (p *pauses) String() string {
	return fmt.Sprintf("writes resumed after %s; longest write %s", percentiles(p.resumed), percentiles(p.longest))
}

// survivors waits until writes are answered again over all servers but one, and
// returns the longest any of them took since the fault.
func (r *Run) survivors(but int, fault time.Time) time.Duration {
	r.t.Helper()
	var sum pauses
	r.measure(but, fault, &sum)
	return sum.longest[0]
}

// measure waits until writes are answered again over all servers but one, and
// notes how long that took.
func (r *Run) measure(but int, fault time.Time, sum *pauses) {
	r.t.Helper()
	var resumed, longest time.Duration
	for _, p := range r.Pulses {
		if p.Server == but {
			continue
		}
		at, err := p.FirstBeat(fault, healPatience)
		if err != nil {
			r.t.Fatal(err)
		}
		resumed = max(resumed, at.Sub(fault))
	}
	for _, p := range r.Pulses {
		if p.Server != but {
			longest = max(longest, p.Longest(fault, time.Now()))
		}
	}
	sum.resumed = append(sum.resumed, resumed)
	sum.longest = append(sum.longest, longest)
}

// undisturbedVerdict ends the run, and fails the test if clients were disturbed
// that nothing was done to. It tells what they met.
func (r *Run) undisturbedVerdict() {
	r.t.Helper()
	disconnects, _ := r.Disturbed()
	r.undisturbed()
	count, report := r.Verdict()
	wrong := len(count.Refused)
	for _, p := range r.Pulses {
		_, errors := p.broken()
		wrong += len(errors)
	}
	r.t.Logf("clients of servers that nothing was done to: %d disconnects, %d errors; %d sessions lost; %d of %d writes lost, duplicated or out of order",
		disconnects, wrong, count.Expired, len(report.Violations)+report.Dropped, report.Writes)
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
	kills := times(*leaderFlag, 15, 200)
	r := Begin(t, trio(seed, int64(kills)*200))
	var sum pauses
	var restarts []time.Duration
	for range kills {
		r.WaitAnswered(100)
		moment(rng, 300*time.Millisecond)
		leader := r.leader()
		r.Down(leader)
		fault := time.Now()
		r.Servers[leader].Kill()
		r.measure(leader, fault, &sum)
		restarts = append(restarts, r.Restart(leader))
		r.Up(leader)
	}
	t.Logf("%d leaders killed: over the survivors %s; restart until serving: %s", kills, &sum, percentiles(restarts))
	r.undisturbedVerdict()
}

// frozen is how long TestFreezeLeader stops a leader: for the larger part of Patience.
const frozen = Patience * 3 / 5

// TestFreezeLeader stops the leader's process for nine seconds and lets it go
// on. Nobody's connection may end, the leader's clients' included.
func TestFreezeLeader(t *testing.T) {
	seed, rng := hurtful(t)
	freezes := times(*freezesFlag, 1, 40)
	r := Begin(t, trio(seed, int64(freezes)*200))
	var sum pauses
	for range freezes {
		r.WaitAnswered(100)
		moment(rng, 300*time.Millisecond)
		leader := r.leader()
		fault := time.Now()
		if err := r.Servers[leader].Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		r.measure(leader, fault, &sum)
		time.Sleep(time.Until(fault.Add(frozen)))
		thawed := time.Now()
		if err := r.Servers[leader].Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Pulses[leader].FirstBeat(thawed, healPatience); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d leaders frozen for %v: over the others %s", freezes, frozen, &sum)
	r.undisturbedVerdict()
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
	r.undisturbedVerdict()
}

// TestRollingRestart restarts each server in turn as an operator does.
func TestRollingRestart(t *testing.T) {
	seed, rng := hurtful(t)
	rounds := times(*roundsFlag, 3, 100)
	r := Begin(t, trio(seed, int64(rounds)*300))
	var sum pauses
	for range rounds {
		for i := range r.Servers {
			r.WaitAnswered(100)
			moment(rng, 300*time.Millisecond)
			r.Down(i)
			fault := time.Now()
			if code := r.Servers[i].Stop(); code != 0 {
				t.Errorf("server %d ended with code %d on SIGTERM", i+1, code)
			}
			r.measure(i, fault, &sum)
			r.Restart(i)
			r.Up(i)
		}
	}
	t.Logf("%d rounds of planned restarts: over the others %s", rounds, &sum)
	r.undisturbedVerdict()
}
