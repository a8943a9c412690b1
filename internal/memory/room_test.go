package memory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// turns collects in which order holders get what they waited for.
type turns chan string

func (t turns) holder(r *Room, owner, name string) *Holder {
	return r.Holder(owner, func() { t <- name })
}

func newTurns() turns { return make(turns, 100) }

// TestRoomOrder: who finds no room waits, and the owner who has least comes first, however many others wait before it.
func TestRoomOrder(t *testing.T) {
	t.Parallel()
	var r Room
	r.Bound(100)
	got := newTurns()
	little := got.holder(&r, "many", "little")
	little.Note(5)
	first := got.holder(&r, "many", "first")
	if !first.Take(90) {
		t.Fatal("there is no room in an empty one")
	}
	var many []*Holder
	for i := range 3 {
		h := got.holder(&r, "many", fmt.Sprint("many", i))
		if h.Take(60) {
			t.Fatal("there is room for more than all")
		}
		many = append(many, h)
	}
	small := got.holder(&r, "many", "small")
	if small.Take(1) {
		t.Error("a small one overtakes those who wait")
	}
	few := got.holder(&r, "few", "few")
	if few.Take(60) {
		t.Fatal("there is room for more than all")
	}
	if !r.Short() || r.Waiting() != 5 {
		t.Errorf("room is short: %t; %d wait", r.Short(), r.Waiting())
	}
	first.Leave()
	if name := <-got; name != "few" {
		t.Errorf("%s comes first", name)
	}
	few.Leave()
	if name := <-got; name != "many0" {
		t.Errorf("%s comes second", name)
	}
	many[1].Leave() // those that a small one waits behind go
	many[2].Leave()
	if name := <-got; name != "small" {
		t.Errorf("%s comes at last", name)
	}
	for _, h := range []*Holder{many[0], small, little} {
		h.Leave()
	}
	if r.Used() != 0 || r.Short() || r.Waiting() != 0 || len(r.owners) != 0 || len(r.holding) != 0 {
		t.Errorf("%d bytes are taken when all have left; %+v", r.Used(), &r)
	}
}

// TestRoomAtOnce: who gets room while others wait, because its owner has least, is told by Take, and not again.
func TestRoomAtOnce(t *testing.T) {
	t.Parallel()
	for range 100 { // a second word would come from another goroutine
		var r Room
		r.Bound(100)
		got := newTurns()
		first, second := got.holder(&r, "many", "first"), got.holder(&r, "many", "second")
		if !first.Take(60) || second.Take(60) {
			t.Fatal("the room has other than 100 bytes")
		}
		if few := got.holder(&r, "few", "few"); !few.Take(30) {
			t.Fatal("who has least waits behind one who has more")
		}
		runtime.Gosched()
		first.Leave()
		if name := <-got; name != "second" {
			t.Fatalf("%s is told, which did not wait", name)
		}
	}
}

// TestRoomIsBounded: whatever holders do, all together have no more than the room, or half of it and the largest
// buffer; nobody waits if there is room; and when all have left, nothing is taken.
func TestRoomIsBounded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r Room
		const most, largest = 1000, 1500
		r.Bound(most)
		var all []*Holder
		for i := range 10 {
			all = append(all, r.Holder(fmt.Sprint(i%4), func() {}))
		}
		waits := func(h *Holder) bool { return slices.Contains(r.waiting, h) }
		for range 300 {
			h, n := all[rng.IntN(len(all))], 1+rng.Int64N(400)
			if rng.IntN(20) == 0 {
				n = largest
			}
			switch rng.IntN(5) {
			case 0, 1:
				if !waits(h) {
					had := h.Held()
					if ok := h.Take(n); ok != !waits(h) || ok != (h.Held() == n) && n != had {
						t.Fatalf("seed %d: Take says %t, and has %d of %d", seed, ok, h.Held(), n)
					}
				}
			case 2:
				if had := h.Held(); !waits(h) && h.Grow(n) != (h.Held() == n) && n != had {
					t.Fatalf("seed %d: Grow has %d of %d", seed, h.Held(), n)
				}
			default:
				h.Leave()
			}
			if r.used > max(most, most/2+largest) {
				t.Fatalf("seed %d: %d of %d are taken", seed, r.used, most)
			}
			sum := int64(0)
			for _, h := range all {
				sum += h.Held()
			}
			if sum != r.used {
				t.Fatalf("seed %d: %d are taken, the holders have %d", seed, r.used, sum)
			}
			if len(r.waiting) > 0 && r.used == 0 {
				t.Fatalf("seed %d: %d wait for an empty room", seed, len(r.waiting))
			}
		}
		for _, h := range all {
			h.Leave()
		}
		if r.used != 0 || len(r.waiting) != 0 || len(r.owners) != 0 || len(r.holding) != 0 {
			t.Fatalf("seed %d: all have left: %+v", seed, &r)
		}
	}
}

// TestRoomSlow: of those who keep others waiting, those are named whose bytes don't move, at the second look, and no
// more than is needed.
func TestRoomSlow(t *testing.T) {
	t.Parallel()
	var r Room
	r.Bound(100 << 20)
	hold := func(n int64) *Holder {
		h := r.Holder("a", func() {})
		h.Note(n)
		return h
	}
	stuck, large, drips, moves, idle := hold(10<<20), hold(30<<20), hold(20<<20), hold(20<<20), hold(15<<20)
	moved := map[*Holder]uint64{stuck: 5, large: 7, drips: 0, moves: 0} // idle is not to blame
	look := func(at int64) []*Holder {
		now := at * 500e6
		moved[drips] = uint64(at) * 1000
		moved[moves] = uint64(at) * 2 << 20
		return r.Slow(now, moved)
	}
	for at := range int64(20) {
		if slow := look(at); len(slow) > 0 {
			t.Fatalf("%d are slow while nobody waits", len(slow))
		}
	}
	waiter := r.Holder("b", func() {})
	waiter.Take(40 << 20)
	var slow []*Holder
	at := int64(20)
	for ; len(slow) == 0 && at < 40; at++ {
		slow = look(at)
	}
	if !slices.Equal(slow, []*Holder{large, drips}) && !slices.Equal(slow, []*Holder{large}) {
		t.Errorf("%d are slow", len(slow))
	}
	if at < 23 {
		t.Errorf("they are named after %d looks", at-20)
	}
	large.Leave()
	drips.Leave()
	for ; at < 60; at++ {
		if slow := look(at); len(slow) > 0 {
			t.Errorf("%d are slow while nobody waits any more", len(slow))
		}
	}
	if waiter.Held() == 0 || idle.Held() == 0 || moves.Held() == 0 {
		t.Error("the waiting one has got nothing")
	}
}
