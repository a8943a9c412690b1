package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/jute"
)

// TestPressing: heartbeats and ends of sessions never wait.
func TestPressing(t *testing.T) {
	t.Parallel()
	for op, want := range map[jute.Op]bool{
		jute.OpPing: true, jute.OpCloseSession: true, jute.OpGetData: false, jute.OpAuth: false,
	} {
		in := jute.AppendRequest(nil, 1, op, nil)
		if got := Pressing(in); got != want {
			t.Errorf("%v is pressing: %t", op, got)
		}
		if Pressing(in[:len(in)-1]) || Pressing(nil) {
			t.Errorf("a part of %v is pressing", op)
		}
	}
}

// TestRoomForOwners: owners that rest are forgotten once there are many, and a quarter more may come until the next
// attempt. If too many don't rest, there is none for a second.
func TestRoomForOwners(t *testing.T) {
	t.Parallel()
	var w owners
	now, set := int64(100e9), limit.Set{}
	set[limit.Requests] = 1
	for i := range ownersSweepMin {
		w.of(fmt.Sprint(i), now, nil)
	}
	if len(w.byName) != ownersSweepMin || w.memory() != w.bytes || w.bytes <= 0 {
		t.Fatalf("%d owners, %d bytes", len(w.byName), w.bytes)
	}
	one := w.bytes / ownersSweepMin
	w.byName["5"].clients = map[*Client]struct{}{{}: {}}
	w.byName["6"].sessions.Add(1)
	w.byName["7"].used.Use(now, 100, 0, &set)
	w.byName["8"].connects.Use(now, 100, 1)
	kept := w.of("another", now, nil)
	if len(w.byName) != 5 || kept == &w.rest || w.sweep != ownersSweepMin || w.swept != 0 {
		t.Errorf("%d owners of which four are in use, and one is new; the next attempt is at %d", len(w.byName), w.sweep)
	}
	if w.bytes < 4*one || w.bytes > 6*one {
		t.Errorf("five owners use %d bytes, one about %d", w.bytes, one)
	}
	for i := range 2 * ownersRestingMax {
		w.of(fmt.Sprint("busy", i), now, func(o *owner) { o.connects.Use(now, 100, 1) })
	}
	if w.of("last", now, nil) != &w.rest || w.swept != now || len(w.byName) != w.sweep {
		t.Errorf("of %d owners none rests, and there is room for one more", len(w.byName))
	}
	for _, o := range w.byName { // any order: each is independent
		o.connects = limit.Rate{}
	}
	if w.of("last", now+ownersSweepPause-1, nil) != &w.rest {
		t.Error("it tries again too early")
	}
	if w.of("last", now+ownersSweepPause, nil) == &w.rest {
		t.Error("it doesn't try again")
	}
}

// TestOwnersInUse: the more owners are in use, the rarer are attempts to make room.
func TestOwnersInUse(t *testing.T) {
	t.Parallel()
	var w owners
	for i := range 2000 {
		w.hold(fmt.Sprint(i), 1)
	}
	if len(w.byName) != 2000 || w.sweep != 2440 { // 1000, 1250, 1562, 1952
		t.Errorf("%d owners in use; the next attempt is at %d", len(w.byName), w.sweep)
	}
}

// TestPacesByTimeout: how long a connection waits that owes time: as long as it owes, but a second or a quarter of its
// session's timeout at most, and then one request is taken.
func TestPacesByTimeout(t *testing.T) {
	t.Parallel()
	get := jute.AppendRequest(nil, 1, jute.OpGetData, nil)
	for _, of := range []struct {
		timeout int32
		longest time.Duration
	}{{400, 100 * time.Millisecond}, {4000, time.Second}, {40_000, time.Second}} {
		s := newStage(t, Options{})
		s.now = 100_000
		c := s.session()
		c.timeout = of.timeout
		var set limit.Set
		set[limit.Requests] = 10
		batch := readBatch{r: s.r, c: c, now: s.r.now()}
		c.limits.used.Use(batch.now, 100, 0, &set)
		owes, _ := c.limits.used.Owes(batch.now)
		longest := min(owes, of.longest.Nanoseconds())
		for _, after := range []int64{0, 1, longest - 1, longest, longest + 1, 2 * longest, 3 * longest} {
			batch.now = s.r.now() + after
			wait, one := batch.paced(get)
			// The wait begins anew with each request that is taken.
			if want := after%longest != 0 || after == 0; after < longest && (wait != want || one) {
				t.Errorf("timeout %d, after %d ns: wait %t, one %t", of.timeout, after, wait, one)
			}
			if after == longest && (wait || !one) {
				t.Errorf("timeout %d, after the longest pause: wait %t, one %t", of.timeout, wait, one)
			}
			if wait && c.Pause() > of.longest {
				t.Errorf("timeout %d: it pauses for %v", of.timeout, c.Pause())
			}
		}
		if wait, one := batch.paced(ping()); wait || !one {
			t.Errorf("timeout %d: a heartbeat: wait %t, one %t", of.timeout, wait, one)
		}
		c.mayRestore = true
		if wait, one := batch.paced(get); wait || one || c.reader.pacedSince != 0 {
			t.Errorf("the server's own client: wait %t, one %t", wait, one)
		}
	}
}
