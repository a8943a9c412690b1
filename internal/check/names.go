package check

import (
	"hash/maphash"

	"github.com/zooid-project/zooid/internal/history"
	"github.com/zooid-project/zooid/jute"
)

// Nearly every request names a znode, and a look-up by path is the dearest thing
// the sweep could do for it. So while one goroutine reads the wire, another looks
// up what the requests name; the model is its own until both are done.

// names holds the nodes that the requests name, in the order of the requests.
type names struct {
	nodes  []*node
	multis []multi
	of     []mention // by op, and one more: where the next one's would begin
}

// A mention says where in names an op's begin.
type mention struct{ node, multi int32 }

// A multi is the decoded record of a multi or multiRead.
type multi struct {
	ops []jute.MultiOp
	err error
}

// multisPerPage is how many operations of multis are made room for at once.
const multisPerPage = 256

// name looks up what the requests, about so many, name.
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
		// a path, but no znode's
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

// nameSeed makes the hashes of names differ from run to run: no two sets of names
// that were chosen for it look equal.
var nameSeed = maphash.MakeSeed()

// A nameSet stands for a set of names of children: equal sets are equal, and two
// others are with a chance of 2^-64.
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
