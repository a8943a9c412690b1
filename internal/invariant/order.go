//go:build race

package invariant

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// The order of locks is checked with the race detector alone. To tell goroutines apart takes microseconds, which would
// make the simulator some ten times slower; and it runs a server's code on one goroutine.

// shards is the number of tables in which the locks of goroutines are kept, so that goroutines rarely wait for each
// other where they otherwise wouldn't.
const shards = 64

// held are the ranks of the locks that goroutines hold, by goroutine.
var held [shards]struct {
	sync.Mutex
	ranks map[uint64][]int
}

// taking records that the goroutine takes a lock, and panics if it holds one of the same or of a higher rank.
func taking(r Rank) {
	rank := r.Rank()
	g := goroutine()
	h := &held[g%shards]
	h.Lock()
	defer h.Unlock()
	ranks := h.ranks[g]
	if len(ranks) > 0 && rank <= slices.Max(ranks) {
		panic(fmt.Sprintf("invariant broken: a goroutine that holds locks of the ranks %v takes one of rank %d", ranks, rank))
	}
	if h.ranks == nil {
		h.ranks = map[uint64][]int{}
	}
	h.ranks[g] = append(ranks, rank)
}

// released records that the goroutine no longer holds a lock.
func released(r Rank) {
	rank := r.Rank()
	g := goroutine()
	h := &held[g%shards]
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

// goroutine returns the number of the calling goroutine, which only its stack trace tells.
func goroutine() uint64 {
	var buf [32]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	n, err := strconv.ParseUint(string(text[:bytes.IndexByte(text, ' ')]), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("invariant: a stack trace begins with %q", buf))
	}
	return n
}
