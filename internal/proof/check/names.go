package check

import (
	"hash/maphash"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// Nearly every request names a znode, and looking it up by path would be the most expensive step of the sweep. So while
// one goroutine reads the wire, another looks up the names in the requests. It owns the model until both are done.

// names has the nodes that the requests name, in the order of the requests.
type names struct {
	nodes  []*node
	multis []multi
	of     []mention // by op, with one more at the end: where those of the next op would begin
}

// A mention is the place where the nodes and multis of an op begin in names.
type mention struct{ node, multi int32 }

// A multi is the decoded record of a multi or multiRead.
type multi struct {
	ops []jute.MultiOp
	err error
}

// multisPerPage is how many operations of multis are allocated at once.
const multisPerPage = 256

// name looks up the znodes that the requests name. requests is their approximate number.
func (c *checker) name(requests int) {
	var d jute.Decoder
	var room []jute.MultiOp
	t := &c.named
	t.of = make([]mention, 0, requests+1)
	t.nodes = make([]*node, 0, requests+requests/4)
	for i := range c.h.Events {
		e := &c.h.Events[i]
		if e.Kind != history.KindRequest {
			continue
		}
		t.of = append(t.of, mention{int32(len(t.nodes)), int32(len(t.multis))})
		switch op := e.Op(); {
		case op == jute.OpMulti || op == jute.OpMultiRead:
			d.Reset(e.Body)
			if room = room[len(room):]; cap(room) < multisPerPage/8 {
				room = make([]jute.MultiOp, 0, multisPerPage)
			}
			var err error
			room, err = jute.DecodeMultiInto(room, &d)
			ops := room[:len(room):len(room)]
			t.multis = append(t.multis, multi{ops, err})
			for j := range ops {
				t.nodes = append(t.nodes, c.m.node(ops[j].Path))
			}
		// a path, but not that of a znode
		case op == jute.OpAddWatch, op == jute.OpCheckWatches, op == jute.OpRemoveWatches, op == jute.OpGetEphemerals:
		case op.HasPath():
			d.Reset(e.Body)
			t.nodes = append(t.nodes, c.m.node(d.String()))
		}
	}
	t.of = append(t.of, mention{int32(len(t.nodes)), int32(len(t.multis))})
}

// nodesOf returns the nodes that an op names.
func (t *names) nodesOf(op int32) []*node {
	return t.nodes[t.of[op].node:t.of[op+1].node]
}

// nameSeed makes the hashes of names differ from run to run, so that no one can choose
// two sets of names that look equal.
var nameSeed = maphash.MakeSeed()

// A nameSet represents a set of names of children. Equal sets compare equal, and different sets with a probability of
// 2^-64.
type nameSet struct {
	count int
	sum   uint64 // of the names' hashes
}

func hashName(name string) uint64 { return maphash.String(nameSeed, name) }

func (s *nameSet) add(hash uint64) {
	s.count++
	s.sum += hash
}

func (s *nameSet) remove(hash uint64) {
	s.count--
	s.sum -= hash
}
