package expiry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// plainExpiry is the same in the plainest form: every stall is added to every session, and
// every session is looked at in every tick.
type plainExpiry struct {
	tick     int64
	sessions map[int64]*plainLifetime
}

type plainLifetime struct{ timeout, heard, bucket int64 }

func (p *plainExpiry) bucketOf(l *plainLifetime, next int64) int64 {
	return max((l.heard+l.timeout+ReportLagMs)/p.tick+1, next)
}

func (p *plainExpiry) due(now, stalled int64, heardAt func(int64) int64) (dead []int64) {
	next := now/p.tick + 1
	for id, l := range p.sessions {
		if stalled > 0 {
			l.heard = max(l.heard, heardAt(id))
		}
		switch {
		case stalled > StallMs:
			l.heard = max(l.heard, now)
		case stalled > 0:
			l.heard += stalled
		}
		if l.bucket >= next {
			continue
		}
		l.heard = max(l.heard, heardAt(id))
		if l.heard+l.timeout+ReportLagMs <= now {
			dead = append(dead, id)
		}
		l.bucket = p.bucketOf(l, next)
	}
	slices.Sort(dead)
	return dead
}

// TestExpiryWithStalls: sessions end when they would if each stall were added to each.
func TestExpiryWithStalls(t *testing.T) {
	t.Parallel()
	ended := 0
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const tick = 200
		now := int64(100_000 + rnd.IntN(1000))
		e, p := New(tick, now), &plainExpiry{tick: tick, sessions: map[int64]*plainLifetime{}}
		connected := map[int64]int64{}
		heardAt := func(id int64) int64 { return connected[id] }
		for range 600 {
			id := int64(rnd.IntN(12))
			switch rnd.IntN(8) {
			case 0:
				timeout := int32(400 + rnd.IntN(4000))
				e.Heard(id, timeout, now)
				l := p.sessions[id]
				if l == nil {
					l = &plainLifetime{bucket: -1}
					p.sessions[id] = l
				}
				l.timeout, l.heard = int64(timeout), max(l.heard, now)
				if b := p.bucketOf(l, e.next); l.bucket < 0 || b < l.bucket {
					l.bucket = b
				}
			case 1:
				e.Touch(id, now)
				if l := p.sessions[id]; l != nil {
					l.heard = max(l.heard, now)
				}
			case 2, 3:
				if p.sessions[id] != nil {
					connected[id] = now
				}
			default:
				took := int64(tick)
				switch rnd.IntN(6) {
				case 0:
					took += int64(1 + rnd.IntN(900))
				case 1:
					took += 3
				case 2:
					if rnd.IntN(10) == 0 {
						took += StallMs + 500
					}
				}
				now += took
				e.Excuse(now, took-tick)
				got, want := e.Due(now, heardAt), p.due(now, took-tick, heardAt)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, at %d: %v end, want %v", seed, now, got, want)
				}
				for _, id := range got {
					e.Forget(id)
					delete(p.sessions, id)
					delete(connected, id)
				}
				ended += len(got)
			}
			now += int64(1 + rnd.IntN(30))
		}
		if most := 4 * (e.longest + StallMs) / tick; int64(len(e.stalls)) > most {
			t.Errorf("seed %d: %d stalls are remembered, more than %d", seed, len(e.stalls), most)
		}
	}
	if ended < 1000 {
		t.Errorf("only %d sessions ended", ended)
	}
}

// TestSessionsEndApart: sessions that were last heard at different times of a tick don't end in one
// moment, and none ends early or late.
func TestSessionsEndApart(t *testing.T) {
	t.Parallel()
	const sessions, timeout, tick = 400, 20_000, 2000
	const interval = tick / BucketsPerTick
	e := New(interval, 0)
	heard := map[int64]int64{}
	for id := range int64(sessions) {
		heard[id] = id * tick / sessions
		e.Heard(id, timeout, heard[id])
	}
	for now := int64(interval); now <= 2*timeout; now += interval {
		dead := e.Due(now, func(id int64) int64 { return heard[id] })
		if len(dead) > 2*sessions/BucketsPerTick {
			t.Errorf("at %d ms %d of %d sessions end", now, len(dead), sessions)
		}
		for _, id := range dead {
			if silent := now - heard[id]; silent < timeout || silent > timeout+ReportLagMs+interval {
				t.Errorf("a session ends after %d ms of silence", silent)
			}
			e.Forget(id)
			delete(heard, id)
		}
	}
	if len(heard) > 0 {
		t.Errorf("%d sessions never end", len(heard))
	}
}

// TestExcuseOfOneHeardLately: a stall excuses a session that was heard on its connection shortly before, even if expiry
// itself last heard of the session too long ago.
func TestExcuseOfOneHeardLately(t *testing.T) {
	t.Parallel()
	const timeout, stalled, heard, now = 10_000, 199_000, 198_500, 200_000
	e := New(250, 0)
	e.Heard(1, timeout, 0)
	e.Refresh(stalled, now)
	at := func(int64) int64 { return heard }
	if dead := e.Due(now+timeout, at); len(dead) > 0 {
		t.Errorf("it ends %d ms after it was heard, and %d ms after the stall", now+timeout-heard, timeout)
	}
	if dead := e.Due(now+timeout+ReportLagMs+250, at); len(dead) != 1 {
		t.Error("it doesn't end after the stall and its timeout")
	}
}

// TestStallOfThatMoment: a session that was heard in the millisecond in which a stall ended may have been heard before
// the stall, and gets its share of it.
func TestStallOfThatMoment(t *testing.T) {
	t.Parallel()
	e := New(250, 0)
	e.Heard(1, 10_000, 0)
	e.forgive(1000, 400)
	for heard, want := range map[int64]int64{999: 1399, 1000: 1400, 1001: 1001} {
		if got := e.at(e.momentOf(heard)); got != want {
			t.Errorf("heard at %d it counts as heard at %d, want %d", heard, got, want)
		}
	}
}

// TestExcusesEnd: stalls of a leader, one after the other, prolong a silent session for a while only, and one that is
// heard between them for as long as they last.
func TestExcusesEnd(t *testing.T) {
	t.Parallel()
	const timeout, tick = 6000, 100
	now := int64(1_000_000)
	e := New(tick, now)
	e.Heard(1, timeout, now)
	e.Heard(2, timeout, now)
	began := now
	ended := map[int64]int64{}
	for now < began+600_000 {
		now += 3000
		e.Touch(2, now)
		now += tick
		e.Excuse(now, 3000)
		for _, id := range e.Due(now, func(int64) int64 { return 0 }) {
			ended[id] = now - began
			e.Forget(id)
		}
	}
	if at := ended[1]; at < excusableMs || at > excusableMs+2*timeout+ReportLagMs {
		t.Errorf("a silent session ends after %d ms", at)
	}
	if at, over := ended[2]; over {
		t.Errorf("a session that is heard every three seconds ends after %d ms", at)
	}
	e.Heard(3, timeout, now)
	now += 3_600_000 // the machine slept
	e.Excuse(now, 3_600_000-tick)
	if dead := e.Due(now, func(int64) int64 { return 0 }); len(dead) > 0 {
		t.Errorf("after a stall of an hour %v end at once", dead)
	}
	now += timeout + ReportLagMs + 2*tick
	if dead := e.Due(now, func(int64) int64 { return 0 }); len(dead) != 2 { // 2 was last heard when 3 began
		t.Errorf("after the timeout %v end", dead)
	}
}

// TestLateTicksAreCheap: a tick that comes late looks at the sessions whose time has come, and
// at no other.
func TestLateTicksAreCheap(t *testing.T) {
	t.Parallel()
	now := int64(1_000_000)
	e := New(375, now)
	for id := range int64(10_000) {
		e.Heard(id, 40_000, now)
	}
	before := fmt.Sprint(*e.sessions[77])
	for range 5 {
		now += e.tick + 20
		e.Excuse(now, 20)
		if dead := e.Due(now, func(int64) int64 { return now }); len(dead) > 0 {
			t.Errorf("%v end", dead)
		}
	}
	if after := fmt.Sprint(*e.sessions[77]); after != before {
		t.Errorf("a late tick looks at a session whose time hasn't come: %s became %s", before, after)
	}
	if got, want := e.heardOf(e.sessions[77], 0), e.sessions[77].heard+5*20; got != want {
		t.Errorf("a session counts as heard at %d, want %d: with the time of the stalls", got, want)
	}
}

// TestListedAmongReports: when sessions end is listed while other servers' reports of them arrive.
func TestListedAmongReports(t *testing.T) {
	t.Parallel()
	e := New(375, 0)
	e.Heard(1, 40_000, 0)
	done := make(chan bool)
	go func() {
		for now := range int64(1000) {
			e.Touch(1, now)
		}
		close(done)
	}()
	for last := int64(0); ; {
		ends := e.Ends(1, 40_000, 0)
		if last = max(last, ends); ends < last {
			t.Errorf("it ends at %d, after %d", ends, last)
		}
		select {
		case <-done:
			if ends, want := e.Ends(1, 40_000, 0), int64((999+40_000)/375+1)*375; ends != want {
				t.Errorf("it ends at %d, want %d", ends, want)
			}
			return
		default:
		}
	}
}
