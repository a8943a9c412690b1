package quorum

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRests: only a server alone rests, and not while something is new to it.
func TestRests(t *testing.T) {
	t.Parallel()
	c := newColony(t, 1)
	b := c.bodies[1]
	b.loop.Turn()
	if b.loop.Resting() {
		t.Fatal("it rests before its first tick")
	}
	c.step(1)
	if !b.loop.Resting() {
		t.Fatal("alone with nothing to do, it doesn't rest")
	}
	b.say(1)
	b.loop.Turn()
	if b.loop.Resting() {
		t.Error("it rests though Status doesn't show yet what it applied")
	}
	c.step(1)
	if !b.loop.Resting() || b.loop.Status().Applied != b.loop.applied {
		t.Error("a tick after the change it doesn't rest")
	}
	b.wanted, b.version = []Member{{ID: 1}, {ID: 2}}, 1
	c.step(1)
	if b.loop.Resting() {
		t.Error("it rests while another server is to join")
	}

	c = newColony(t, 1, 2, 3)
	c.leader()
	c.step(5)
	for _, id := range c.ids {
		if c.bodies[id].loop.Resting() {
			t.Errorf("server %d of three rests", id)
		}
	}
}

// TestRestingServerIsAwakeAtOnce leaves a server alone for a minute, in which it
// ticks seldom; then it does what it is asked without waiting for a tick, and ticks
// as ever while there is more.
func TestRestingServerIsAwakeAtOnce(t *testing.T) {
	const tick = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		b := newColony(t, 1).bodies[1]
		p, err := Open(Options{
			ID: 1, Dir: b.dir, Cluster: 7, State: b, Members: []Member{{ID: 1}},
			Tick: tick, ElectionTicks: 10, Log: slog.New(slog.DiscardHandler), Fatal: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if most := uint64(time.Minute/tick/restTicks) + 2; p.loop.ticks > most {
			t.Errorf("%d ticks in a minute of rest, want %d at most", p.loop.ticks, most)
		}
		before := p.loop.ticks
		const n = 20
		for i := range uint64(n) {
			b.say(i + 1)
			p.Kick()
			synctest.Wait()
			if !slices.Contains(b.applied, i+1) {
				t.Fatalf("%d waits for a tick", i+1)
			}
			time.Sleep(tick)
			synctest.Wait()
		}
		if got := p.loop.ticks - before; got < n-1 {
			t.Errorf("%d ticks while %d passed that each had something new", got, n)
		}
		p.Close()
	})
}
