// Package costly makes plans of well-formed requests that cost a server much, and searches for costlier ones.
//
// A [Search] learns: it changes the plans that have cost most so far, and keeps those that cost more. Everything in it
// is derived from a seed. TestLearning of internal/replica runs the plans on a replica in memory and counts, and
// TestLearning of test/hostile sends them to a server and measures.
package costly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

const (
	// Clients is how many clients send a plan.
	Clients = 2
	// stepsMax is how many steps a plan has.
	stepsMax = 12
	// multiBytes is how large a multi becomes: a little less than jute.maxbuffer, whose default is 1 MiB.
	multiBytes = 900_000
)

// A Step is one request, or as many as have to come together, of one client.
type Step struct {
	Who   int // 0 or 1
	Kind  int // index in kinds
	Count int // of operations, watches, or identities
	Depth int // of the paths
	ACL   int // entries
	Size  int // bytes of data
	Chain int // which chain of znodes the paths are on; the operations of a multi take turns among those up to it
}

// limitsOfStep are one more than the largest value of each field. An ACL has at most 256 entries, of which up to 60 are
// the sender's.
var limitsOfStep = Step{Clients, 14, 40_000, 900, 190, 100_000, 20}

// path returns a path of so many parts on the step's chain.
func (e *Encoder) path(s *Step, depth int) string {
	return e.Root + strings.Repeat("/"+string(rune('c'+s.Chain)), max(depth, 1))
}

// turn returns the path of an operation of a multi, each of which is on the next chain.
func (e *Encoder) turn(s *Step, i int) string {
	return e.path(&Step{Chain: i % (1 + s.Chain)}, s.Depth)
}

// acl returns an ACL with so many entries of others, and one of everybody, or of the sender if ACL is odd.
func (s *Step) acl() []jute.ACL {
	list := make([]jute.ACL, 0, s.ACL+1)
	for i := range s.ACL {
		id := jute.ID{Scheme: "digest", ID: fmt.Sprintf("v%d:x", i)}
		list = append(list, jute.ACL{Perms: jute.PermRead, ID: id})
	}
	if s.ACL%2 == 1 {
		return append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}})
	}
	return append(list, jute.WorldACL(jute.PermAll)...)
}

// many makes a multi of Count operations.
func (s *Step) many(op func(i int) jute.MultiOp) func([]byte) []byte {
	return func(b []byte) []byte {
		ops := make([]jute.MultiOp, 0, s.Count)
		size := 0
		for i := range s.Count {
			o := op(i)
			if size += 25 + len(o.Path) + len(o.Data) + 30*len(o.ACL); size > multiBytes {
				break
			}
			ops = append(ops, o)
		}
		return jute.AppendMulti(b, ops)
	}
}

// kinds append the requests of a step.
var kinds = []func(s *Step, e *Encoder, b []byte) []byte{
	func(s *Step, e *Encoder, b []byte) []byte { // prove identities
		for i := range s.Count % 60 {
			auth := fmt.Appendf(nil, "u%d:x", i)
			b = e.request(b, jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: auth}).Append)
		}
		return b
	},
	func(s *Step, e *Encoder, b []byte) []byte { // make a chain
		return e.request(b, jute.OpMulti, (&Step{Count: s.Depth}).many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpCreate, Path: e.path(s, i+1), ACL: s.acl()}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // create at its end, ephemerals with an odd depth
		return e.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{
				Op: jute.OpCreate, Path: fmt.Sprint(e.turn(s, i), "/", i), ACL: s.acl(), Flags: jute.CreateMode(s.Depth % 2),
				Data: make([]byte, s.Size/max(s.Count, 1)),
			}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // set
		return e.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			data := make([]byte, s.Size/max(s.Count, 1))
			return jute.MultiOp{Op: jute.OpSetData, Path: e.turn(s, i), Version: -1, Data: data}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // delete
		return e.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpDelete, Path: fmt.Sprint(e.turn(s, i), "/", i), Version: -1}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // check
		return e.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpCheck, Path: e.turn(s, i), Version: -1}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // read together
		op := jute.OpGetChildren
		if s.Size%2 == 0 {
			op = jute.OpGetData
		}
		return e.request(b, jute.OpMultiRead, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: op, Path: e.turn(s, i)}
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // read one by one, with watches
		for range s.Count % 500 {
			b = e.request(b, jute.OpGetChildren, (&jute.PathWatchRequest{Path: e.path(s, s.Depth), Watch: s.Size%2 == 0}).Append)
		}
		return b
	},
	func(s *Step, e *Encoder, b []byte) []byte { // watch recursively, at one depth and those above
		for i := range s.Count % 500 {
			q := jute.AddWatchRequest{Path: e.path(s, s.Depth-i), Mode: jute.AddWatchPersistentRecursive}
			b = e.request(b, jute.OpAddWatch, q.Append)
		}
		return b
	},
	func(s *Step, e *Encoder, b []byte) []byte { // change an ACL
		return e.request(b, jute.OpSetACL, (&jute.SetACLRequest{Path: e.path(s, s.Depth), ACL: s.acl(), Version: -1}).Append)
	},
	func(s *Step, e *Encoder, b []byte) []byte { // a quota
		q := "/zookeeper/quota" + e.path(s, s.Depth)
		return e.request(b, jute.OpMulti, (&Step{Count: s.Depth + 2}).many(func(i int) jute.MultiOp {
			o := jute.MultiOp{Op: jute.OpCreate, Path: "/zookeeper/quota" + e.path(s, i+1), ACL: jute.WorldACL(jute.PermAll)}
			if i >= s.Depth {
				o.Path, o.Data = q+[...]string{"/zookeeper_limits", "/zookeeper_stats"}[i-s.Depth], []byte("count=1,bytes=1")
			}
			return o
		}))
	},
	func(s *Step, e *Encoder, b []byte) []byte { // set watches again
		q := jute.SetWatches{RelativeZxid: int64(s.Size)}
		for i := range min(s.Count, multiBytes/(len(e.path(s, s.Depth))+10)) {
			q.Child = append(q.Child, fmt.Sprint(e.path(s, s.Depth), "/", i))
		}
		return e.request(b, jute.OpSetWatches, func(b []byte) []byte { return q.Append(b, jute.OpSetWatches) })
	},
	func(s *Step, e *Encoder, b []byte) []byte { // count and list
		path := func(b []byte) []byte { return jute.AppendString(b, e.path(s, s.Depth)) }
		return e.request(e.request(b, jute.OpGetAllChildrenNumber, path), jute.OpGetEphemerals, path)
	},
	func(s *Step, e *Encoder, b []byte) []byte { return e.request(b, jute.OpCloseSession, nil) },
}

// An Encoder encodes the requests of one client.
type Encoder struct {
	// Root is the znode below which the plans' znodes are; "" is the root. It and its like below /zookeeper/quota must
	// exist.
	Root string

	xid int32
}

func (e *Encoder) request(b []byte, op jute.Op, record func([]byte) []byte) []byte {
	e.xid++
	return jute.AppendRequest(b, e.xid, op, record)
}

// Append appends the requests of a step.
func (e *Encoder) Append(b []byte, s *Step) []byte { return kinds[s.Kind](s, e, b) }

// End appends a request whose reply says that all earlier ones are answered, and returns its xid.
func (e *Encoder) End(b []byte) ([]byte, int32) {
	b = e.request(b, jute.OpExists, (&jute.PathWatchRequest{Path: "/"}).Append)
	return b, e.xid
}

// A Plan is the clients' requests, one step after another.
type Plan []Step

// changed returns a plan that differs a little.
func (p Plan) changed(dice *rand.Rand) Plan {
	p = slices.Clone(p)
	anywhere := func() int { return dice.IntN(len(p)) }
	for range 1 + dice.IntN(3) {
		switch dice.IntN(5) {
		case 0:
			if len(p) < stepsMax {
				p = slices.Insert(p, anywhere(), randomStep(dice))
			}
		case 1:
			if len(p) > 1 {
				at := anywhere()
				p = slices.Delete(p, at, at+1)
			}
		case 2:
			a, b := anywhere(), anywhere()
			p[a], p[b] = p[b], p[a]
		default:
			at, fresh := anywhere(), randomStep(dice)
			fields, news := p[at].fields(), fresh.fields()
			which := dice.IntN(len(fields))
			if *fields[which] = *news[which]; dice.IntN(2) == 0 { // or nearby
				*fields[which] = min(*fields[which]*2, *limitsOfStep.fields()[which]-1)
			}
		}
	}
	return p
}

func (s *Step) fields() []*int {
	return []*int{&s.Who, &s.Kind, &s.Count, &s.Depth, &s.ACL, &s.Size, &s.Chain}
}

// randomStep returns a step whose numbers are as often small as large.
func randomStep(dice *rand.Rand) (s Step) {
	for i, f := range s.fields() {
		most := *limitsOfStep.fields()[i]
		if *f = dice.IntN(most); i >= 2 && dice.IntN(2) == 0 {
			*f = dice.IntN(1 + *f>>dice.IntN(10))
		}
	}
	return s
}

// String returns the plan in the form that ParsePlan parses.
func (p Plan) String() string {
	var steps []string
	for i := range p {
		steps = append(steps, strings.Trim(fmt.Sprint(p[i]), "{}"))
	}
	return strings.Join(steps, "; ")
}

// ParsePlan parses the result of String.
func ParsePlan(line string) (p Plan, err error) {
	for text := range strings.SplitSeq(line, ";") {
		var s Step
		into := make([]any, 0, len(s.fields()))
		for _, f := range s.fields() {
			into = append(into, f)
		}
		if _, err = fmt.Sscan(text, into...); err != nil {
			return nil, err
		}
		for i, f := range s.fields() {
			if *f < 0 || *f >= *limitsOfStep.fields()[i] {
				return nil, fmt.Errorf("%q: %d is out of range", text, *f)
			}
		}
		p = append(p, s)
	}
	return p, nil
}
