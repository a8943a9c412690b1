package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// plainExpiry is the same in the plainest form: every stall is added to every session, and
// every session is looked at in every tick.
type plainExpiry struct {
	tick     int64
	sessions map[int64]*plainLifetime
}

type plainLifetime struct{ timeout, heard, bucket int64 }

func (p *plainExpiry) bucketOf(l *plainLifetime, next int64) int64 {
	return max((l.heard+l.timeout+reportLagMs)/p.tick+1, next)
}

func (p *plainExpiry) due(now, stalled int64, heardAt func(int64) int64) (dead []int64) {
	next := now/p.tick + 1
	for id, l := range p.sessions {
		if stalled > 0 {
			l.heard = max(l.heard, heardAt(id))
		}
		switch {
		case stalled > stallMs:
			l.heard = max(l.heard, now)
		case stalled > 0:
			l.heard += stalled
		}
		if l.bucket >= next {
			continue
		}
		l.heard = max(l.heard, heardAt(id))
		if l.heard+l.timeout+reportLagMs <= now {
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
		e, p := newExpiry(tick, now), &plainExpiry{tick: tick, sessions: map[int64]*plainLifetime{}}
		connected := map[int64]int64{}
		heardAt := func(id int64) int64 { return connected[id] }
		for range 600 {
			id := int64(rnd.IntN(12))
			switch rnd.IntN(8) {
			case 0:
				timeout := int32(400 + rnd.IntN(4000))
				e.heard(id, timeout, now)
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
				e.touch(id, now)
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
						took += stallMs + 500
					}
				}
				now += took
				e.excuse(now, took-tick)
				got, want := e.due(now, heardAt), p.due(now, took-tick, heardAt)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, at %d: %v end, want %v", seed, now, got, want)
				}
				for _, id := range got {
					e.forget(id)
					delete(p.sessions, id)
					delete(connected, id)
				}
				ended += len(got)
			}
			now += int64(1 + rnd.IntN(30))
		}
		if most := 4 * (e.longest + stallMs) / tick; int64(len(e.stalls)) > most {
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
	interval := Serving{Tick: tick * time.Millisecond}.ExpireInterval().Milliseconds()
	e := newExpiry(interval, 0)
	heard := map[int64]int64{}
	for id := range int64(sessions) {
		heard[id] = id * tick / sessions
		e.heard(id, timeout, heard[id])
	}
	for now := interval; now <= 2*timeout; now += interval {
		dead := e.due(now, func(id int64) int64 { return heard[id] })
		if len(dead) > 2*sessions/bucketsPerTick {
			t.Errorf("at %d ms %d of %d sessions end", now, len(dead), sessions)
		}
		for _, id := range dead {
			if silent := now - heard[id]; silent < timeout || silent > timeout+reportLagMs+interval {
				t.Errorf("a session ends after %d ms of silence", silent)
			}
			e.forget(id)
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
	e := newExpiry(250, 0)
	e.heard(1, timeout, 0)
	e.refresh(stalled, now)
	at := func(int64) int64 { return heard }
	if dead := e.due(now+timeout, at); len(dead) > 0 {
		t.Errorf("it ends %d ms after it was heard, and %d ms after the stall", now+timeout-heard, timeout)
	}
	if dead := e.due(now+timeout+reportLagMs+250, at); len(dead) != 1 {
		t.Error("it doesn't end after the stall and its timeout")
	}
}

// TestStallOfThatMoment: a session that was heard in the millisecond in which a stall ended may have been heard before
// the stall, and gets its share of it.
func TestStallOfThatMoment(t *testing.T) {
	t.Parallel()
	e := newExpiry(250, 0)
	e.heard(1, 10_000, 0)
	e.forgive(1000, 400)
	for heard, want := range map[int64]int64{999: 1399, 1000: 1400, 1001: 1001} {
		if got := e.at(e.momentOf(heard)); got != want {
			t.Errorf("heard at %d it counts as heard at %d, want %d", heard, got, want)
		}
	}
}

// TestLateTicksAreCheap: a tick that comes late looks at the sessions whose time has come, and
// at no other.
func TestLateTicksAreCheap(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.r.leader.IsLeader = true
	e := s.r.expiry
	for id := range int64(10_000) {
		e.heard(id, 40_000, s.now)
	}
	before := fmt.Sprint(*e.sessions[77])
	for range 5 {
		last := s.now
		s.now += e.tick + 20
		s.r.Expire(s.now, last)
	}
	if after := fmt.Sprint(*e.sessions[77]); after != before {
		t.Errorf("a late tick looks at a session whose time hasn't come: %s became %s", before, after)
	}
	if got, want := e.heardOf(e.sessions[77], 0), e.sessions[77].heard+5*20; got != want {
		t.Errorf("a session counts as heard at %d, want %d: with the time of the stalls", got, want)
	}
}
