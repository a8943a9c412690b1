package tree

// znodes are the znodes of a tree with their ACLs, the table that finds them by their paths, and sums over them. They
// know nothing of sessions, rights and requests: methods that change znodes check nothing.
type znodes struct {
	key      hashKey
	keyed    bool // the key is a secret from the log
	rootHash uint64

	nodes    slab[node]
	extras   slab[nodeExtra]
	table    table
	overflow map[childName]uint32 // znodes for which the table has no room; nil if there are none
	payloads arena
	acls     aclTable
	totals   totals

	// Not state.
	undo        undoLog  // of the multi being applied
	images      []*Image // snapshots being written
	compaction  compaction
	lists       listCache
	longestName int    // of all znodes that were ever in this tree, or more
	work        uint64 // see Work
}

// totals are sums over the tree, which each change updates.
type totals struct {
	nodes      int    // znodes, the root included
	dataSize   int    // bytes of data and paths
	ephemerals int    // znodes that belong to a session
	ephPaths   int    // bytes of their paths
	reapable   int    // containers and TTL znodes
	digest     uint64 // the sum described in digest.go
}

// init makes room for znodes, of which there are none yet; alloc provides memory.
func (z *znodes) init(o Options, alloc func(n int) []byte) {
	z.key = newHashKey(o.Key)
	z.rootHash = z.key.root()
	z.compaction.slack = compactSlack
	z.nodes.alloc, z.extras.alloc, z.payloads.alloc = alloc, alloc, alloc
	z.nodes.release, z.extras.release, z.payloads.release = o.Release, o.Release, o.Release
	if z.payloads.most = o.Chunks; z.payloads.most == 0 {
		z.payloads.most = arenaChunksMax
	}
	z.table = newTable(alloc)
	z.acls.init()
}
