package turns

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forEver is a patience that no test reaches.
const forEver = time.Hour

// sharedAt returns the turns of a server with that many processors, which two identities share at
// the time (ns) returned.
func sharedAt(t *testing.T, processors int) (all *Turns, now int64) {
	t.Helper()
	all = New(processors)
	var others Queue
	all.Note(&others, 1)
	now = 1 + lookPause
	if all.Note(&Queue{}, now); !all.isShared(now) {
		t.Fatal("two identities have sent requests, and the server is not shared")
	}
	return all, now
}

// isShared reports whether turns are taken.
func (t *Turns) isShared(now int64) bool {
	var turn Turn
	turn.Begin(t, &Queue{}, now, 0)
	defer turn.End()
	return turn.Held()
}

// TestShared: a server is shared while another identity has been heard of lately.
func TestShared(t *testing.T) {
	t.Parallel()
	all := New(2)
	var a, b Queue
	for now := range int64(10) {
		if all.Note(&a, now*lookPause); all.isShared(now * lookPause) {
			t.Fatal("an identity that is alone shares the server")
		}
	}
	now := 10 * lookPause
	if all.Note(&b, now); !all.isShared(now) || !all.isShared(now+sharedFor-1) || all.isShared(now+sharedFor) {
		t.Error("a server is not shared for sharedFor after one identity has followed another, or longer")
	}
	all.Note(&a, now+lookPause-1) // too early for another look
	if all.Note(&a, now+lookPause); !all.isShared(now+lookPause+sharedFor-1) || all.isShared(now+lookPause+sharedFor) {
		t.Error("a server is not shared for sharedFor after one identity has followed another again, or longer")
	}
}

// TestAlone: an identity that shares the server with none has no turns to wait for.
func TestAlone(t *testing.T) {
	t.Parallel()
	all := New(2)
	var q Queue
	for range 100 {
		var turn Turn
		all.Note(&q, 1)
		if turn.Begin(all, &q, 1, 0) || turn.Held() {
			t.Fatal("an identity that is alone takes turns")
		}
	}
}

// TestTurns: so many turns of an identity are taken at a time, whatever others do, and the rest in
// the order in which they came.
func TestTurns(t *testing.T) {
	t.Parallel()
	for processors, most := range map[int]int{1: 1, 2: 1, 4: 3} {
		synctest.Test(t, func(t *testing.T) {
			all, now := sharedAt(t, processors)
			var a, b Queue
			held := make([]Turn, most)
			for i := range held {
				if held[i].Begin(all, &a, now, forEver) {
					t.Fatalf("%d processors: turn %d of an identity had to wait", processors, i)
				}
			}
			var order []int
			var mu sync.Mutex
			for i := range 10 {
				go func() {
					var turn Turn
					if !turn.Begin(all, &a, now, forEver) {
						t.Errorf("%d processors: a turn beyond %d didn't wait", processors, most)
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					turn.End()
				}()
				synctest.Wait()
			}
			var other Turn
			if other.Begin(all, &b, now, forEver) {
				t.Errorf("%d processors: an identity waited for another", processors)
			}
			other.End()
			if len(order) != 0 {
				t.Errorf("%d processors: %v didn't wait for their turn", processors, order)
			}
			held[0].End()
			synctest.Wait()
			for i := range 10 {
				if len(order) != 10 || order[i] != i {
					t.Fatalf("%d processors: the turns came in the order %v", processors, order)
				}
			}
			for i := range held {
				held[i].End()
			}
			if a.busy != 0 || len(a.waiting) != 0 || b.busy != 0 {
				t.Errorf("%d processors: %d turns are under way after the last one, %d wait", processors, a.busy, len(a.waiting))
			}
		})
	}
}

// TestPatience: who has waited long enough goes on without a turn, and later turns are not lost.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, now := sharedAt(t, 2)
		var q Queue
		var stuck, late, next Turn
		stuck.Begin(all, &q, now, forEver)
		began := time.Now()
		if late.Begin(all, &q, now, time.Second); time.Since(began) != time.Second || late.Held() {
			t.Errorf("a connection with a second of patience waited %v, and has the turn: %v", time.Since(began), late.Held())
		}
		late.End()
		stuck.End()
		if next.Begin(all, &q, now, forEver) {
			t.Error("a turn had to wait when none was under way")
		}
		next.End()
		if q.busy != 0 || len(q.waiting) != 0 {
			t.Errorf("%d turns are under way after the last one, %d wait", q.busy, len(q.waiting))
		}
	})
}

// TestTurnThatWaits: a turn whose connection waits goes on for a short time, and ends once.
func TestTurnThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, now := sharedAt(t, 2)
		var q Queue
		var blocked, next Turn
		blocked.Begin(all, &q, now, forEver)
		blocked.EndSoon()
		began := time.Now()
		if next.Begin(all, &q, now, forEver); time.Since(began) != waitMax {
			t.Errorf("the next turn came after %v, not %v", time.Since(began), waitMax)
		}
		blocked.EndSoon()
		if blocked.End(); q.busy != 1 {
			t.Errorf("%d turns are under way, not the second one alone", q.busy)
		}
		next.EndSoon()
		next.End()
		time.Sleep(2 * waitMax)
		if q.busy != 0 {
			t.Errorf("%d turns are under way after the last one", q.busy)
		}
	})
}

// TestRest: a turn for which others wait is followed by a rest as long, within bounds.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, now := sharedAt(t, 2)
		var q Queue
		var turn Turn
		turn.Begin(all, &q, now, forEver)
		if rest := turn.Rest(restMax); rest != 0 {
			t.Errorf("nobody waits for the turn's end, and there is a rest of %v", rest)
		}
		go func() {
			var waits Turn
			waits.Begin(all, &q, now, forEver)
			waits.End()
		}()
		synctest.Wait()
		for _, x := range []struct{ took, rest int64 }{
			{restMin, restMin}, {restMin - 1, 0}, {1, restMin}, {1, 0}, {10 * restMax, restMax},
		} {
			if rest := turn.Rest(x.took); int64(rest) != x.rest {
				t.Errorf("after %v there is a rest of %v, want %v", time.Duration(x.took), rest, time.Duration(x.rest))
			}
		}
		turn.End()
	})
}

// TestManyTurns: connections that begin, wait and give up at random never have more turns than they
// may, and lose none.
func TestManyTurns(t *testing.T) {
	t.Parallel()
	const processors = 4
	all, now := sharedAt(t, processors)
	var q Queue
	var busy atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for n := range 200 {
				patience := forEver
				if n%3 == 0 {
					patience = 10 * time.Microsecond
				}
				var turn Turn
				turn.Begin(all, &q, now, patience)
				has := turn.Held()
				if has && int(busy.Add(1)) > processors-1 {
					t.Error("there are more turns under way than there may be")
				}
				if (i+n)%7 == 0 {
					time.Sleep(20 * time.Microsecond)
				}
				if has {
					busy.Add(-1)
				}
				turn.End()
			}
		})
	}
	wg.Wait()
	if q.busy != 0 || len(q.waiting) != 0 {
		t.Errorf("%d turns are under way after the last one, %d wait", q.busy, len(q.waiting))
	}
}
