package tree

// Deletes leave holes: a page with one live block, a chunk of a slab without a live slot.
// Compaction gives their memory back, a little with each entry of the log and when the
// tree's owner has time (Compact). It moves blocks of sparse pages to fuller ones, and so
// changes neither a reply, nor the digest, nor a snapshot: where a block is, only its
// znode knows.
//
// A sweep goes over all znodes in the order of their slots. After one, pages with less
// than half of their bytes live are as many as there are classes of sizes, if nothing was
// deleted meanwhile.
type compaction struct {
	sweeping bool
	cursor   uint64 // slot of the next znode to look at
	sparse   int    // a page with fewer live bytes is to be emptied
	slack    int    // compactSlack, less in tests
}

const (
	// compactSlack bytes that pages take beyond twice what is live in them start no sweep:
	// a page of each class, and what the pool keeps.
	compactSlack = 8 << 20

	// A step looks at compactSlots znodes and moves compactBytes, and a block beyond, at the most:
	// a few hundred microseconds.
	compactSlots = 4096
	compactBytes = 512 << 10
	compactIdle  = 8 // chunks of a slab given back

	// compactPerRequest is how many znodes a request of the log brings the sweep forward by.
	compactPerRequest = 32
)

// Compact does a step of what there is to do and reports whether there is more. It needs
// the tree to itself.
func (t *Tree) Compact() (more bool) {
	t.compact(compactSlots)
	return t.compacts()
}

// compacts reports whether there is something to do.
func (t *Tree) compacts() bool {
	if t.compaction.sweeping || t.payloads.sparse(t.compaction.slack) {
		return true
	}
	return len(t.images) == 0 && (len(t.nodes.idle) > slabIdleKeep || len(t.extras.idle) > slabIdleKeep || len(t.sessions.slots.idle) > slabIdleKeep)
}

// sparse reports whether the live blocks would do with half of the pages, or, when few
// addresses are left, whether an eighth of the pages would be free.
func (a *arena) sparse(slack int) bool {
	taken, live := (len(a.pages)-len(a.pool))*arenaPage, a.liveBytes-a.large.bytes
	if a.full() {
		return taken > live/7*8+slack
	}
	return taken > 2*live+slack
}

// compact does a step of slots znodes at the most.
func (t *Tree) compact(slots int) {
	if len(t.images) == 0 { // an image finds what it has yet to write by the chunks
		for range compactIdle {
			if !t.nodes.reclaim() && !t.extras.reclaim() && !t.sessions.slots.reclaim() {
				break
			}
		}
	}
	c := &t.compaction
	if !c.sweeping {
		if !t.payloads.sparse(t.compaction.slack) {
			return
		}
		c.sweeping, c.cursor, c.sparse = true, rootSlot, arenaPage/2
		if t.payloads.full() {
			c.sparse = arenaPage / 8 * 7
		}
	}
	moved := 0
	c.cursor = t.nodes.from(uint32(c.cursor))
	for ; slots > 0 && moved < compactBytes && c.cursor <= uint64(t.nodes.used); slots-- {
		slot := uint32(c.cursor)
		if n := t.at(slot); t.live(slot) && n.payload() <= blockMax {
			if to := t.payloads.move(n.block, n.payload(), c.sparse); to != n.block {
				n.block = to
				moved += n.payload()
			}
		}
		c.cursor = t.nodes.next(c.cursor)
	}
	c.sweeping = c.cursor <= uint64(t.nodes.used)
}

// move returns where block ref of n bytes is from now on: elsewhere if its page is sparse
// and isn't the one that is being filled.
func (a *arena) move(ref uint32, n, sparse int) uint32 {
	if n == 0 {
		return ref
	}
	number := ref / (arenaPage / arenaGrain)
	p := &a.pages[number]
	if int(p.live)*classSize(int(p.class)) >= sparse || a.room[p.class] == number+1 || a.room[p.class] == 0 {
		return ref
	}
	to := a.get(n)
	copy(a.bytes(to, n), a.bytes(ref, n))
	a.put(ref, n)
	return to
}
