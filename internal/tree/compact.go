package tree

// A compaction returns the memory of holes that deletes leave: a page with one live block, a slab chunk without a live
// slot. It does a small step with each log entry, and when the tree's owner has time and calls Compact. It moves blocks
// from sparse pages to fuller ones. This changes no reply, digest or snapshot, since only a block's znode knows where
// the block is.
//
// A sweep visits all znodes in the order of their slots. After a sweep without deletes, at most as many pages are less
// than half full as there are size classes.
type compaction struct {
	sweeping bool
	cursor   uint64 // slot of the next znode to look at
	sparse   int    // pages with fewer live bytes are to be emptied
	slack    int    // compactSlack, less in tests
}

const (
	// compactSlack is how many bytes pages may take beyond twice their live bytes before a sweep
	// starts: a page of each class, and the pool's pages.
	compactSlack = 8 << 20

	// A step visits at most compactSlots znodes and moves at most compactBytes and one block: a few hundred microseconds.
	compactSlots = 4096
	compactBytes = 512 << 10
	compactIdle  = 8 // slab chunks returned in a step

	// compactPerRequest is how many znodes the sweep visits per request of a log entry.
	compactPerRequest = 32
)

// Compact does one step of compaction and reports whether there is more to do. It needs exclusive access to the tree.
func (t *Tree) Compact() (more bool) {
	t.compact(compactSlots)
	return t.compacts()
}

// compacts reports whether there is more to compact.
func (t *Tree) compacts() bool {
	if t.compaction.sweeping || t.payloads.sparse(t.compaction.slack) {
		return true
	}
	return len(t.images) == 0 &&
		(len(t.nodes.idle) > slabIdleKeep || len(t.extras.idle) > slabIdleKeep || len(t.sessions.slots.idle) > slabIdleKeep)
}

// sparse reports whether the live blocks would fit in half of the pages, or, when few addresses are
// left, in seven eighths of them.
func (a *arena) sparse(slack int) bool {
	taken, live := (len(a.pages)-len(a.pool))*arenaPage, a.liveBytes-a.large.bytes
	if a.full() {
		return taken > live/7*8+slack
	}
	return taken > 2*live+slack
}

// compact does one step over at most slots znodes.
func (t *Tree) compact(slots int) {
	if len(t.images) == 0 { // a snapshot in progress needs the chunks that it has not written yet
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

// move returns the new reference of block ref of n bytes. It moves the block if its page is sparse and isn't the one
// being filled.
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
