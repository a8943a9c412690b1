package tree

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A request on a large tree waits for memory three times, each time for an
// address that only the one before tells: the place in the table, the znode, its
// block. Requests that came together needn't each wait alone: Prefetch goes through
// the three stages with all of them, so that the processor has many loads under
// way at once. The loads of a stage stand in a loop of their own: a core looks only
// some hundred instructions ahead of a load that waits.
const (
	// PrefetchMax is how many paths one Prefetch takes: about as many loads as a core
	// has under way.
	PrefetchMax = 16

	// PrefetchNodesMin is the size, in znodes, below which a tree is in a core's own
	// caches (it takes about a megabyte) and Prefetch only costs.
	PrefetchNodesMin = 1 << 12

	cacheLine = 64 // bytes

	// probeUsual is how many places of the table further most znodes are found at
	// the latest, perhaps beyond a line of cache.
	probeUsual = 3
)

// Prefetch loads what requests for the paths are going to need into the
// processor's caches, at most PrefetchMax of them. Like a read it may run beside
// others. What it returns means nothing: it keeps the loads from being dropped.
//
//go:noinline
func (t *Tree) Prefetch(paths []string) (touched uint64) {
	var places [PrefetchMax]probe
	n := 0
	for _, path := range paths[:min(len(paths), PrefetchMax)] {
		if len(path) > 1 && path[0] == '/' {
			places[n] = t.table.probe(t.hash(path))
			n++
		}
	}
	for i := range places[:n] {
		p := &places[i]
		touched += uint64(*in(p.entries, p.at)) + uint64(*in(p.entries, p.at+probeUsual))
	}
	var found [PrefetchMax]*node
	nodes := found[:0]
	for i := range places[:n] {
		if slot := places[i].next(); slot > rootSlot {
			nodes = append(nodes, t.at(slot))
		}
	}
	for _, n := range nodes {
		touched += n.hash + uint64(n.dataLen) // its first line and its last
	}
	var blocks [PrefetchMax][]byte
	var parents [PrefetchMax]*node
	for i, n := range nodes {
		parents[i] = t.at(n.parent)
		if n.payload() <= blockMax {
			blocks[i] = t.payloads.bytes(n.block, n.payload())
		}
	}
	for i := range nodes {
		touched += parents[i].hash + uint64(parents[i].dataLen)
		b := blocks[i]
		for len(b) > cacheLine {
			touched += uint64(b[0])
			b = b[cacheLine:]
		}
		if len(b) > 0 {
			touched += uint64(b[0]) + uint64(b[len(b)-1])
		}
	}
	return touched
}

// hash returns the hash of a path that begins with a slash and isn't the root's.
func (t *Tree) hash(path string) uint64 {
	hash := t.rootHash
	for rest := path[1:]; ; {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return t.key.child(hash, rest)
		}
		hash = t.key.child(hash, rest[:i])
		rest = rest[i+1:]
	}
}

// prefetchRecords is Prefetch for the requests that come next. Those that don't begin
// with a path are left out.
func (t *Tree) prefetchRecords(records Records) {
	if t.totals.nodes < PrefetchNodesMin {
		return
	}
	var paths [PrefetchMax]string
	var q Request
	var d jute.Decoder
	for n := range paths {
		if _, ok := records.next(&q); !ok {
			break
		}
		d.Reset(q.Body)
		paths[n] = d.String()
	}
	t.Prefetch(paths[:])
}
