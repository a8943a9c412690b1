//go:build (invariants || race) && (amd64 || arm64)

package invariant

import (
	"fmt"
	"slices"
	"sync"
)

// shards is the number of tables in which the locks of goroutines are kept, so that goroutines rarely wait for each
// other where they otherwise wouldn't.
const shards = 64

// held are the ranks of the locks that goroutines hold, by goroutine.
var held [shards]heldShard

type heldShard struct {
	sync.Mutex
	ranks map[uintptr][]int
}

func shard(g uintptr) *heldShard { return &held[g>>9%shards] } // descriptors are some hundred bytes apart

// taking records that the goroutine takes a lock, and panics if it holds one of the same or of a higher rank.
func taking(r Rank) {
	rank := r.Rank()
	g := goroutine()
	h := shard(g)
	h.Lock()
	defer h.Unlock()
	ranks := h.ranks[g]
	if len(ranks) > 0 && rank <= slices.Max(ranks) {
		panic(fmt.Sprintf("invariant broken: a goroutine that holds locks of the ranks %v takes one of rank %d", ranks, rank))
	}
	if h.ranks == nil {
		h.ranks = map[uintptr][]int{}
	}
	h.ranks[g] = append(ranks, rank)
}

// released records that the goroutine no longer holds a lock.
func released(r Rank) {
	rank := r.Rank()
	g := goroutine()
	h := shard(g)
	h.Lock()
	defer h.Unlock()
	ranks := h.ranks[g]
	i := slices.Index(ranks, rank)
	if i < 0 {
		panic(fmt.Sprintf("invariant broken: a goroutine releases a lock of rank %d that it doesn't hold", rank))
	}
	if ranks = slices.Delete(ranks, i, i+1); len(ranks) == 0 {
		delete(h.ranks, g)
		return
	}
	h.ranks[g] = ranks
}

// goroutine returns the address of the calling goroutine's descriptor. Another goroutine gets it only once the caller
// has ended, and by then the caller has no locks any more.
func goroutine() uintptr
