package memory

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// A Room is what many holders may take of the server's memory for one kind of buffer, all together. A buffer is counted
// before its memory is taken: who finds no room waits, and the owner who has least gets its turn first. So nobody can
// keep others out by having many holders.
//
// A buffer counts as half of the room at most when it is asked for: a larger one would wait for ever. So all holders
// together have no more than the room, or half of it and the largest buffer there can be.
type Room struct {
	short atomic.Bool

	mu      sync.Mutex
	most    int64 // bytes; 0 for no bound
	used    int64
	now     int64            // the latest time (ns) that a caller has given
	made    int64            // holders so far
	owners  map[string]int64 // what each has; who has nothing isn't in it
	waiting []*Holder        // in the order of their arrival
	asks    *Holder          // is in Take, which says itself what it got
	holding map[*Holder]bool
}

// A Holder is one connection's part of a Room. Its fields beside held belong to the Room.
type Holder struct {
	room    *Room
	id      int64
	owner   string
	granted func()

	held   atomic.Int64
	since  int64 // now (ns) when it got what it has
	wants  int64 // bytes that it waits for; 0 if it doesn't wait
	waits  int64 // now (ns) since when it waits
	moved  uint64
	looked int64 // now (ns) of the look at which moved was noted; 0 for none
	late   bool  // it was so at the last look
}

// How fast the bytes of a buffer have to move while others wait for its room, once it has been held for slowAfter
// (ns): else its holder is closed.
const (
	slowAfter     = int64(1e9)
	slowRateAfter = int64(2e9)
	slowRate      = 1 << 20
)

// Holder returns a new holder for an owner. granted is called on a goroutine of its own when the holder has got what it
// waited for.
func (r *Room) Holder(owner string, granted func()) *Holder {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	return &Holder{room: r, id: r.made, owner: owner, granted: granted}
}

// Bound sets how many bytes all holders together may have; 0 stands for no bound.
func (r *Room) Bound(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = max(most, 0)
	r.grant()
}

// Short reports whether more than half of the room is taken, or somebody waits: then buffers that needn't be large are
// to stay small.
func (r *Room) Short() bool { return r.short.Load() }

// Used returns how many bytes are taken.
func (r *Room) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Short is Room.Short of the holder's room.
func (h *Holder) Short() bool { return h.room.Short() }

// Held returns how many bytes the holder has.
func (h *Holder) Held() int64 { return h.held.Load() }

// Take makes the holder have n bytes in place of what it had, and reports whether it has them. If there is no room for
// them, the holder keeps what it has, and waits: once it has them, granted is called.
func (h *Holder) Take(n int64) bool {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.wants == 0 && (len(r.waiting) == 0 || n <= h.held.Load()) && r.fits(h, n) {
		r.set(h, n)
		return true
	}
	if h.wants == 0 {
		h.waits = r.now
		r.waiting = append(r.waiting, h)
	}
	h.wants = n
	r.asks = h
	r.grant()
	r.asks = nil
	r.note()
	return h.wants == 0
}

// Grow is Take for a holder that can do without: if there is no room, it keeps what it has, and doesn't wait.
func (h *Holder) Grow(n int64) bool {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > h.held.Load() && !r.fits(h, n) {
		return false
	}
	r.set(h, n)
	return true
}

// Note makes the holder have n bytes, whether there is room for them or not.
func (h *Holder) Note(n int64) {
	if h.held.Load() == n {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(h, n)
}

// Leave gives back what the holder has, and ends its waiting.
func (h *Holder) Leave() {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.wants != 0 {
		h.wants = 0
		r.waiting = slices.DeleteFunc(r.waiting, func(o *Holder) bool { return o == h })
	}
	r.set(h, 0)
	r.grant() // others may have waited behind it
	r.note()
}

// Slow returns holders that keep others waiting, and whose bytes don't move: somebody has waited for slowAfter, and the
// holder has moved nothing since the last look, or fewer than slowRate bytes a second. moved says how many bytes each
// has moved in all; those that aren't in it are not to blame. A holder is named only once two looks have found it so:
// if the server itself stood still, the first tells nothing. Slow names no more than whoever waits longest needs, those
// with most first. It is to be called a few times a second, with the time (ns): all times of a Room are those of its
// looks.
func (r *Room) Slow(now int64, moved map[*Holder]uint64) (slow []*Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
	if len(r.waiting) == 0 {
		return nil
	}
	for h := range r.holding {
		if now-h.looked < slowAfter {
			continue
		}
		all, blamed := moved[h]
		late := false
		if blamed && h.wants == 0 && h.looked != 0 {
			since, enough := int64(all-h.moved), slowRate/1000*((now-h.looked)/1e6)
			late = since == 0 || now-h.since > slowRateAfter && since < enough
		}
		if late && h.late {
			slow = append(slow, h)
		}
		h.moved, h.looked, h.late = all, now, late
	}
	if now-r.waiting[0].waits < slowAfter {
		return nil
	}
	slices.SortFunc(slow, func(a, b *Holder) int {
		return cmp.Or(cmp.Compare(b.held.Load(), a.held.Load()), cmp.Compare(a.id, b.id))
	})
	needs := min(r.waiting[0].wants, r.most/2) - (r.most - r.used)
	for i, h := range slow {
		if needs -= h.held.Load(); needs <= 0 {
			return slow[:i+1]
		}
	}
	return slow
}

// Waiting returns how many holders wait.
func (r *Room) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// fits reports whether h may have n bytes now. r.mu is held, as in all that follows.
func (r *Room) fits(h *Holder, n int64) bool {
	return r.most == 0 || r.used-h.held.Load()+min(n, r.most/2) <= r.most
}

// set makes h have n bytes, and gives their turn to those who wait for what it gives back.
func (r *Room) set(h *Holder, n int64) {
	had := h.held.Swap(n)
	if had == n {
		return
	}
	if r.owners == nil {
		r.owners, r.holding = map[string]int64{}, map[*Holder]bool{}
	}
	if had == 0 {
		h.since, h.looked, h.late = r.now, 0, false
		r.holding[h] = true
	} else if n == 0 {
		delete(r.holding, h)
	}
	r.used += n - had
	if r.owners[h.owner] += n - had; r.owners[h.owner] == 0 {
		delete(r.owners, h.owner)
	}
	if n < had {
		r.grant()
	}
	r.note()
}

// grant gives those who wait what they wait for, as long as there is room: first those whose owner has least.
func (r *Room) grant() {
	for len(r.waiting) > 0 {
		first := 0
		for i, h := range r.waiting {
			if r.owners[h.owner] < r.owners[r.waiting[first].owner] {
				first = i
			}
		}
		h := r.waiting[first]
		if !r.fits(h, h.wants) {
			return
		}
		n := h.wants
		h.wants = 0
		r.waiting = slices.Delete(r.waiting, first, first+1)
		r.set(h, n)
		if h != r.asks {
			go h.granted()
		}
	}
}

// note notes whether room is short.
func (r *Room) note() {
	if short := r.most > 0 && (r.used > r.most/2 || len(r.waiting) > 0); short != r.short.Load() {
		r.short.Store(short)
	}
}
