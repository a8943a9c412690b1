package tree

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A request on a large tree waits for memory three times, each time for an address that only the previous load
// provides: the place in the table, the znode, its block. Requests that arrive together needn't wait one after another:
// Prefetch does each of the three stages for all of them, so that the processor has many loads in flight at once. The
// loads of each stage have a loop of their own, since a core executes only a few hundred instructions beyond a waiting
// load.
const (
	// PrefetchMax bounds the paths of one Prefetch: about as many loads as a core can have in flight.
	PrefetchMax = 16

	// PrefetchNodesMin is the size of a tree, in znodes, below which Prefetch isn't worth its cost: a smaller tree
	// takes at most about a megabyte and is in a core's own caches.
	PrefetchNodesMin = 1 << 12

	cacheLine = 64 // bytes

	// probeUsual is the distance from their home in the table, in places, within which most znodes are
	// found. It may reach into the next cache line.
	probeUsual = 3
)

// Prefetch loads the data for requests on up to PrefetchMax paths into the processor's caches. It may run concurrently
// with reads. Its result has no meaning; it only prevents the compiler from dropping the loads.
//
//go:noinline
func (z *znodes) Prefetch(paths []string) (touched uint64) {
	var places [PrefetchMax]probe
	n := 0
	for _, path := range paths[:min(len(paths), PrefetchMax)] {
		if len(path) > 1 && path[0] == '/' {
			places[n] = z.table.probe(z.hash(path))
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
			nodes = append(nodes, z.at(slot))
		}
	}
	for _, n := range nodes {
		touched += n.hash + uint64(n.dataLen) // the first and the last cache line of the node
	}
	var blocks [PrefetchMax][]byte
	var parents [PrefetchMax]*node
	for i, n := range nodes {
		parents[i] = z.at(n.parent)
		if n.payload() <= blockMax {
			blocks[i] = z.payloads.bytes(n.block, n.payload())
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

// hash returns the hash of a path that begins with a slash and isn't "/".
func (z *znodes) hash(path string) uint64 { return z.hashBelow(z.rootHash, path) }

// hashBelow returns the hash of a path that consists of one with the given hash, followed by path.
func (z *znodes) hashBelow(hash uint64, path string) uint64 {
	for rest := path[1:]; ; {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return z.key.child(hash, rest)
		}
		hash = z.key.child(hash, rest[:i])
		rest = rest[i+1:]
	}
}

// prefetchRecords is Prefetch for the next requests. It skips requests that don't begin with a path.
func (z *znodes) prefetchRecords(records Records) {
	if z.totals.nodes < PrefetchNodesMin {
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
	z.Prefetch(paths[:])
}
