package tree

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// releasing returns options that count what is given back, and spoil it.
func releasing(released *int) Options {
	return Options{Release: func(b []byte) {
		*released += len(b)
		for i := range b {
			b[i] = 0xdb
		}
	}}
}

func createOf(path string, size int) []byte {
	q := jute.CreateRequest{
		Path: path, Data: bytes.Repeat([]byte{path[len(path)-1]}, size), ACL: jute.WorldACL(jute.PermAll),
	}
	return q.Append(nil)
}

func deleteOf(path string) []byte {
	q := jute.PathVersionRequest{Path: path, Version: -1}
	return q.Append(nil)
}

// begun returns a tree with the session that run's requests come from.
func begun(t *testing.T, o Options) *Tree {
	t.Helper()
	tree := New(o)
	body := jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, jute.PasswdSize))
	begin := AppendRecord(AppendBatchHeader(nil, 5), &Request{Op: jute.OpCreateSession, Session: 1, Cnx: 1, Body: body})
	run(t, tree, [][]byte{begin})
	return tree
}

// TestSparsePagesGoBack deletes most znodes, so that few pages have no live block at all. What the rest takes is in
// proportion to it, the deletes themselves see to most of that, no step is long, and no reply and no snapshot differs.
func TestSparsePagesGoBack(t *testing.T) {
	t.Parallel()
	n, kept := 60_000, 71 // of as many znodes one is kept: less than one for each page
	if testing.Short() {
		n = 24_000
	}
	released := 0
	tree := begun(t, releasing(&released))
	path := func(i int) string { return fmt.Sprintf("/sparse-%06d", i) }
	run(t, tree,
		batches(n/100, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpCreate, createOf(path(i), 900) }))
	full := tree.payloads.size()
	if full < int64(n)*900 {
		t.Fatalf("%d znodes take %d bytes", n, full)
	}
	var doomed []int
	for i := range n {
		if i%kept != 0 {
			doomed = append(doomed, i)
		}
	}
	doomed = doomed[:len(doomed)/100*100]
	run(t, tree, batches(len(doomed)/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
		return jute.OpDelete, deleteOf(path(doomed[i]))
	}))
	live := tree.payloads.liveBytes
	bound := int64(2*live + compactSlack)
	if size := tree.payloads.size(); size > 2*bound {
		t.Errorf("after the deletes %d live bytes take %d of %d", live, size, full)
	}
	before := drain(tree, chunkSize)
	digest := tree.Digest()
	for steps := 0; tree.Compact(); steps++ {
		if steps > 2*n/compactSlots+len(tree.nodes.state)+len(tree.extras.state) {
			t.Fatalf("after %d steps there is more to do", steps)
		}
	}
	if size := tree.payloads.size(); size > bound {
		t.Errorf("%d live bytes take %d, the bound is %d", live, size, bound)
	}
	if tree.Digest() != digest || !bytes.Equal(pack(drain(tree, chunkSize)), pack(before)) {
		t.Error("compaction changed the tree")
	}
	if bad := invariants(tree); bad != "" {
		t.Fatal(bad)
	}
	if released < int(full)/2 {
		t.Errorf("of %d bytes %d were given back", full, released)
	}
	for i := 0; i < n; i += kept {
		reply, code := tree.AppendGetData(nil, path(i), nil)
		if data := jute.NewDecoder(reply).Buffer(); code != jute.OK || len(data) != 900 ||
			data[899] != path(i)[len(path(i))-1] {
			t.Fatalf("%s: %v, %d bytes", path(i), code, len(data))
		}
	}
}

// TestSlabsGoBack deletes all znodes but the first and the last: the chunks of their slots go back, also those that
// were emptied while a snapshot was being written, which has them all.
func TestSlabsGoBack(t *testing.T) {
	t.Parallel()
	n := 100 * slabSlots
	if testing.Short() {
		n = 25 * slabSlots
	}
	released, taken := 0, 0
	o := releasing(&released)
	o.Alloc = func(n int) []byte { taken += n; return make([]byte, n) }
	tree := begun(t, o)
	path := func(i int) string { return fmt.Sprintf("/slot-%06d", i) }
	run(t, tree,
		batches(n/100, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpCreate, createOf(path(i), 0) }))
	whole := drain(tree, chunkSize)
	img := tree.BeginSnapshot()
	run(t, tree,
		batches((n-200)/100, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpDelete, deleteOf(path(100 + i)) }))
	for tree.Compact() {
	}
	var during [][]byte
	for more := true; more; {
		var chunk []byte
		chunk, more = img.Next(nil)
		during = append(during, chunk)
	}
	img.Close()
	if !bytes.Equal(content(during), content(whole)) {
		t.Fatal("the snapshot isn't that of the instant it began")
	}
	for tree.Compact() {
	}
	if bad := invariants(tree); bad != "" {
		t.Fatal(bad)
	}
	chunks := 0
	for _, c := range tree.nodes.chunks {
		if c != nil {
			chunks++
		}
	}
	if chunks > slabIdleKeep+4 {
		t.Errorf("%d znodes have %d chunks of %d slots", tree.NodeCount(), chunks, slabSlots)
	}
	used, before := tree.nodes.used, taken
	run(t, tree,
		batches((n-200)/100, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpCreate, createOf(path(100+i), 0) }))
	if bad := invariants(tree); bad != "" || tree.nodes.used != used || taken != before {
		t.Fatalf("taken again: %s, %d slots instead of %d, and %d bytes anew", bad, tree.nodes.used, used, taken-before)
	}
}

// TestCompactionChangesNothing applies a random log to a tree that compacts all the time and to one that never does,
// while snapshots are written: digests and snapshots are those of the log.
func TestCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 1))
		released := 0
		busy, idle := begun(t, releasing(&released)), begun(t, Options{})
		busy.compaction.slack, idle.compaction.slack = 0, math.MaxInt/2
		var paths []string
		moves, made := 0, 0
		sizes := []int{0, 10, 3000, 3000, 3000, 9000, 20_000}
		for round := range 150 {
			growing := round%50 < 15
			list := batches(1, nextSeq(busy), func(int) (jute.Op, []byte) {
				size := sizes[rnd.IntN(len(sizes))]
				switch {
				case len(paths) == 0 || growing && rnd.IntN(4) > 0:
					made++
					paths = append(paths, fmt.Sprintf("/n%06d", made))
					return jute.OpCreate, createOf(paths[len(paths)-1], size)
				case rnd.IntN(3) == 0:
					q := jute.SetDataRequest{Path: paths[rnd.IntN(len(paths))], Data: make([]byte, size), Version: -1}
					return jute.OpSetData, q.Append(nil)
				}
				i := rnd.IntN(len(paths))
				doomed := paths[i]
				paths = slices.Delete(paths, i, i+1)
				return jute.OpDelete, deleteOf(doomed)
			})
			var img *Image
			var want [][]byte
			if round%15 == 0 {
				want, img = drain(busy, chunkSize), busy.BeginSnapshot()
			}
			pages := blocksOf(busy)
			for range 3 {
				busy.Compact()
			}
			others := blocksOf(idle)
			run(t, busy, list)
			run(t, idle, list)
			moves += differing(pages, blocksOf(busy)) - differing(others, blocksOf(idle))
			if busy.Digest() != idle.Digest() {
				t.Fatalf("seed %d, round %d: the digests differ", seed, round)
			}
			if img != nil {
				var got [][]byte
				for more := true; more; {
					var chunk []byte
					chunk, more = img.Next(nil)
					got = append(got, chunk)
				}
				img.Close()
				if !bytes.Equal(content(got), content(want)) {
					t.Fatalf("seed %d, round %d: the snapshot differs", seed, round)
				}
			}
			if round%25 == 0 {
				if bad := invariants(busy); bad != "" {
					t.Fatalf("seed %d, round %d: %s", seed, round, bad)
				}
			}
		}
		if moves < 100 {
			t.Errorf("seed %d: %d blocks were moved: this test should have more", seed, moves)
		}
	}
}

// blocksOf returns where the block of each znode is.
func blocksOf(t *Tree) map[uint32]uint32 {
	at := map[uint32]uint32{}
	for slot := range t.nodes.all {
		if n := t.at(slot); t.live(slot) && n.payload() > 0 && n.payload() <= blockMax {
			at[slot] = n.block
		}
	}
	return at
}

func differing(a, b map[uint32]uint32) (n int) {
	for slot, block := range a {
		if now, ok := b[slot]; ok && now != block {
			n++
		}
	}
	return n
}

// TestCompactionInSteps: blocks of every size move together, those of a step are no more than its bound and one, and
// afterwards their pages are half full at least.
func TestCompactionInSteps(t *testing.T) {
	t.Parallel()
	const name = len("n000000")
	for _, size := range []int{fineMax, fineMax + 1, blockMax - 1, blockMax} {
		tree := begun(t, Options{})
		tree.compaction.slack = 4 * arenaPage // one for each class that is used here
		each := arenaPage / classSize(classOf(size))
		pages := 16
		if size > fineMax+1 {
			pages = 40 // with a block for each, they are more than a step moves
		}
		create := func(i int) (jute.Op, []byte) {
			return jute.OpCreate, createOf(fmt.Sprintf("/n%06d", i), size-name)
		}
		n := pages * each / 100
		run(t, tree, batches(n, nextSeq(tree), create))
		var doomed []int
		for i := range 100 * n {
			if i%(each+1) > 0 {
				doomed = append(doomed, i)
			}
		}
		run(t, tree, batches(len(doomed)/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
			return jute.OpDelete, deleteOf(fmt.Sprintf("/n%06d", doomed[i]))
		}))
		for steps, more := 0, true; more; steps++ {
			if steps > pages {
				t.Fatalf("blocks of %d bytes: after %d steps there is more to do", size, steps)
			}
			before := blocksOf(tree)
			more = tree.Compact()
			if moved := differing(before, blocksOf(tree)) * size; moved > compactBytes+blockMax {
				t.Errorf("a step moves %d bytes", moved)
			}
		}
		taken := (len(tree.payloads.pages) - len(tree.payloads.pool)) * arenaPage
		if live := tree.payloads.liveBytes; taken > 2*live+tree.compaction.slack {
			t.Errorf("blocks of %d bytes: %d live bytes are in pages of %d", size, live, taken)
		}
		if bad := invariants(tree); bad != "" {
			t.Fatal(bad)
		}
	}
}

// TestLargeBlocksGoBack sets values of growing and shrinking sizes: what they take is in proportion to what is live, on
// no account on Go's heap, and freed memory is taken again before new memory is.
func TestLargeBlocksGoBack(t *testing.T) {
	t.Parallel()
	taken, released := 0, 0
	o := releasing(&released)
	o.Alloc = func(n int) []byte { taken += n; return make([]byte, n) }
	tree := begun(t, o)
	path := func(i int) string { return fmt.Sprintf("/large-%03d", i) }
	create := func() {
		run(t, tree,
			batches(1, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpCreate, createOf(path(i), 200_000) }))
	}
	remove := func() {
		run(t, tree, batches(1, nextSeq(tree), func(i int) (jute.Op, []byte) { return jute.OpDelete, deleteOf(path(i)) }))
	}
	begin := taken
	create()
	first := taken - begin
	if live := 100 * 200_000; first < live || first > live*5/4+2*largeSpan {
		t.Errorf("%d bytes of values take %d", live, first)
	}
	remove()
	if released < first-largeKeep-2*largeSpan {
		t.Errorf("of %d bytes %d were given back", first, released)
	}
	create()
	if again := taken - begin; again != first {
		t.Errorf("%d bytes were taken anew, though all was free", again-first)
	}
	for i := range 100 {
		reply, _ := tree.AppendGetData(nil, path(i), nil)
		if data := jute.NewDecoder(reply).Buffer(); len(data) != 200_000 || data[0] != path(i)[len(path(i))-1] ||
			data[199_999] != data[0] {
			t.Fatalf("%s was overwritten", path(i))
		}
	}
	if bad := invariants(tree); bad != "" {
		t.Fatal(bad)
	}
}

// TestLargeClasses checks that each size fits its class and wastes little.
func TestLargeClasses(t *testing.T) {
	t.Parallel()
	for n := blockMax + 1; n < 1<<30; n += 1 + n/5000 {
		c := largeClass(n)
		if size := largeSize(c); size < n || size-n > n/4 || size%4096 != 0 || c > 0 && largeSize(c-1) >= n {
			t.Fatalf("%d bytes are of class %d of %d bytes", n, c, size)
		}
	}
	if c := largeClass(math.MaxInt32); c != largeClasses-1 {
		t.Fatalf("the last class is %d of %d", c, largeClasses)
	}
}

// TestAddressesRunOut fills a tree that can address 32 MiB: it says that it is full while an eighth of that is left,
// and no longer once znodes were deleted and their neighbours moved together.
func TestAddressesRunOut(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{Chunks: 32})
	tree.compaction.slack = 4 << 20 // of 32 MiB
	made := 0
	for ; !tree.Memory().Full; made += 100 {
		if made > 40_000 {
			t.Fatal("a tree with all its addresses taken isn't full")
		}
		run(t, tree, batches(1, nextSeq(tree), func(i int) (jute.Op, []byte) {
			return jute.OpCreate, createOf(fmt.Sprintf("/full-%06d", made+i), 1000)
		}))
	}
	if took := len(tree.payloads.chunks); took < 26 || took > 28 {
		t.Errorf("full with %d of 32 chunks taken", took)
	}
	var doomed []int
	for i := range made {
		if i%3 > 0 {
			doomed = append(doomed, i)
		}
	}
	run(t, tree, batches(len(doomed)/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
		return jute.OpDelete, deleteOf(fmt.Sprintf("/full-%06d", doomed[i]))
	}))
	for tree.Compact() {
	}
	if tree.Memory().Full {
		t.Errorf("still full, though %d of %d bytes are live", tree.payloads.liveBytes, tree.payloads.size())
	}
	if bad := invariants(tree); bad != "" {
		t.Fatal(bad)
	}
}
