package memory

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// A Room is the part of the server's memory that many holders share for one kind of buffer. A buffer is counted before
// its memory is taken: a holder that finds no room waits, and the owner that has least gets its turn first. So having
// many holders doesn't keep others out.
//
// A requested buffer counts as at most half of the room: a larger one would wait forever. So all holders together have
// no more than the room, or half of it and the largest possible buffer.
type Room struct {
	short atomic.Bool

	mu      sync.Mutex
	most    int64 // bytes; 0 for no bound
	used    int64
	now     int64            // the latest time (ns) that a caller has given
	made    int64            // holders so far
	owners  map[string]int64 // bytes of each owner that has any
	waiting []*Holder        // in the order of their arrival
	asks    *Holder          // is in Take, which itself returns the result
	holding map[*Holder]bool
}

// A Holder is one connection's part of a Room. Its fields other than held belong to the Room.
type Holder struct {
	room    *Room
	id      int64
	owner   string
	granted func()

	held   atomic.Int64
	since  int64 // now (ns) when it got its bytes
	wants  int64 // bytes that it waits for; 0 if it doesn't wait
	waits  int64 // now (ns) since when it waits
	moved  uint64
	looked int64 // now (ns) of the check that recorded moved; 0 for none
	late   bool  // it was slow at the last check
}

// How fast the bytes of a buffer have to move while others wait for its room, once it has been held for slowAfter
// (ns): else its holder is closed.
const (
	slowAfter     = int64(1e9)
	slowRateAfter = int64(2e9)
	slowRate      = 1 << 20
)

// Holder returns a new holder for an owner. granted is called on a goroutine of its own when the holder has got the
// bytes that it waited for.
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

// Short reports whether more than half of the room is taken, or a holder waits: then buffers that needn't be large
// should stay small.
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

// Take sets the holder's bytes to n, and reports whether it has them. If there is no room for them, the holder keeps
// its bytes, and waits: once it has n bytes, granted is called.
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

// Grow is Take for a holder that doesn't need the room: if there is none, it keeps its bytes, and doesn't wait.
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

// Leave releases the holder's bytes, and ends its waiting.
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

// Slow returns holders that keep others waiting, and whose bytes don't move: a holder has waited for slowAfter, and the
// slow one has moved nothing since the last check, or fewer than slowRate bytes a second. moved says how many bytes
// each has moved in total; holders missing from it are never slow. Slow returns a holder only after two checks have
// found it slow: if the server itself stood still, the first proves nothing. It returns only as many as the longest
// waiting holder needs, those with most bytes first. It must be called a few times a second, with the time (ns): all
// times of a Room are those of its checks.
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

// set sets h's bytes to n, and grants released bytes to waiting holders.
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

// grant gives waiting holders their bytes while there is room, first those whose owner has least.
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

// note records whether room is short.
func (r *Room) note() {
	if short := r.most > 0 && (r.used > r.most/2 || len(r.waiting) > 0); short != r.short.Load() {
		r.short.Store(short)
	}
}
