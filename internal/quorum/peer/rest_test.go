package peer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestRestingServerIsAwakeAtOnce leaves a server alone for a minute, in which it
// ticks seldom; then it does what it is asked without waiting for a tick, and ticks
// as ever while there is more.
func TestRestingServerIsAwakeAtOnce(t *testing.T) {
	const tick = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		state := &list{}
		p, _ := alone(t, disk(t, storage.NewMemFS()), state, tick)
		p.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if most := (uint64(time.Minute/tick/restTicks) + 4) * 5 / 4; state.ticks.Load() > most {
			t.Errorf("%d ticks in a minute of rest, want %d at most", state.ticks.Load(), most)
		}
		before := state.ticks.Load()
		const n = 20
		for i := range uint64(n) {
			state.say(i + 1)
			p.Kick()
			synctest.Wait()
			if !state.has(i + 1) {
				t.Fatalf("%d waits for a tick", i+1)
			}
			time.Sleep(tick)
			synctest.Wait()
		}
		if got := state.ticks.Load() - before; got < n-1 {
			t.Errorf("%d ticks while %d passed that each had something new", got, n)
		}
		p.Close()
	})
}
