package peer

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestStandIn: while the state machine is busy with an entry, the loop ticks on, and knows that it is stuck. The entry
// is applied as soon as the state machine is free.
func TestStandIn(t *testing.T) {
	t.Parallel()
	state := &list{}
	p, fatal := alone(t, disk(t, storage.NewMemFS()), state, 5*time.Millisecond)
	p.Start()
	defer p.Close()
	say := func(n uint64) {
		state.say(n)
		p.Kick()
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for begin := time.Now(); !done(); time.Sleep(time.Millisecond) {
			select {
			case err := <-fatal:
				t.Fatal(err)
			default:
			}
			if time.Since(begin) > patience {
				t.Fatal(what)
			}
		}
	}
	stuck := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.loop.Stuck()
	}
	say(1)
	await("nothing is applied", func() bool { return state.has(1) })
	for n := uint64(2); n < 5; n++ {
		busy := make(chan struct{})
		state.mu.Lock()
		state.busy = busy
		state.mu.Unlock()
		say(n)
		await("the loop doesn't tick beside a busy state machine", stuck)
		for range 5 {
			was := p.turned.Load()
			await("the loop doesn't tick beside a busy state machine", func() bool { return p.turned.Load() != was })
		}
		if state.has(n) {
			t.Fatal("the state machine was not busy")
		}
		state.mu.Lock()
		state.busy = nil
		state.mu.Unlock()
		close(busy)
		await("the entry is not applied", func() bool { return state.has(n) })
		await("the loop is stuck for ever", func() bool { return !stuck() })
	}
}
