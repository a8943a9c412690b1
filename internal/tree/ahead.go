package tree

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A request on a large tree waits for memory three times, each time for an
// address that only the one before tells: the place in the table, the znode, its
// block. Requests that came together needn't each wait alone: Fetch goes through
// the three stages with all of them, so that the processor has many loads under
// way at once.
const (
	// FetchMax is how many paths one Fetch takes: about as many loads as a core
	// has under way.
	FetchMax = 16

	// FetchNodesMin is the size, in znodes, below which a tree is in a core's own
	// caches (it takes about a megabyte) and Fetch only costs.
	FetchNodesMin = 1 << 12

	cacheLine = 64 // bytes
)

// Fetch loads what requests for the paths are going to need into the
// processor's caches, at most FetchMax of them. Like a read it may run beside
// others. What it returns means nothing: it keeps the loads from being dropped.
//
//go:noinline
func (t *Tree) Fetch(paths []string) (touched uint64) {
	var hashes [FetchMax]uint64
	var slots [FetchMax]uint32
	n := 0
	for _, path := range paths[:min(len(paths), FetchMax)] {
		if len(path) > 1 && path[0] == '/' {
			hashes[n] = t.hash(path)
			n++
		}
	}
	for _, h := range hashes[:n] {
		p := t.table.probe(h)
		touched += uint64(p.entries[p.at])
	}
	for i, h := range hashes[:n] {
		p := t.table.probe(h)
		if slots[i] = p.next(); slots[i] != 0 {
			node := t.at(slots[i])
			touched += node.hash + uint64(node.dataLen)
		}
	}
	for _, slot := range slots[:n] {
		if slot == 0 {
			continue
		}
		if node := t.at(slot); slot != rootSlot && node.payload() <= blockMax {
			b := t.payloads.bytes(node.block, node.payload())
			for i := 0; i < len(b); i += cacheLine {
				touched += uint64(b[i])
			}
			touched += uint64(b[len(b)-1])
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

// fetchRecords is Fetch for the requests that come next. Those that don't begin
// with a path are left out.
func (t *Tree) fetchRecords(records Records) {
	if t.totals.nodes < FetchNodesMin {
		return
	}
	var paths [FetchMax]string
	var q Request
	var d jute.Decoder
	for n := range paths {
		if _, ok := records.next(&q); !ok {
			break
		}
		d.Reset(q.Body)
		paths[n] = d.String()
	}
	t.Fetch(paths[:])
}
