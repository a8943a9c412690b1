package replica

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/jute"
)

// An attacker that learns: a search, derived from a seed, over well-formed requests. It changes the plans that have
// cost a replica most so far: most time for which others wait (the longest hold), and most work and memory for each
// byte sent. Work and memory are counted and so are the same each time: they have a bound. The time is told, not
// judged.
//
//	go test ./internal/replica -run TestLearning -v -learn 10m -learn.seed 7
//
// The worst plans are testdata/costliest.txt, with which each search begins. A run of more than ten seconds prints
// those that it found.
var (
	learnFlag     = flag.Duration("learn", 2*time.Second, "how long the attacker learns")
	learnSeedFlag = flag.Uint64("learn.seed", 1, "of everything random in it")
)

const (
	planStepsMax  = 12
	planBytesMax  = 4 << 20
	memoryOfPages = 256 << 10 // that the first znodes, watches and buffers take, of whatever size
	learnKeep     = 8         // plans of each measure that are changed further
	costliestFile = "testdata/costliest.txt"

	// workPerByteMax and memoryPerByteMax are twice what searches of minutes have found.
	workPerByteMax   = 2.0
	memoryPerByteMax = 40.0
)

// A planStep is one request, or as many as have to come together, of one of two clients.
type planStep struct {
	Who   int // 0 or 1
	Kind  int // index in stepKinds
	Count int // of operations, watches, or identities
	Depth int // of the paths
	ACL   int // entries
	Size  int // bytes of data
}

// limitsOfStep are one more than the largest value of each field.
var limitsOfStep = planStep{2, len(stepKinds), 8000, 900, 200, 100_000}

// chain is a path of so many parts.
func chain(depth int) string { return strings.Repeat("/c", max(depth, 1)) }

func (s *planStep) acl() []jute.ACL {
	list := jute.WorldACL(jute.PermAll)
	for i := range s.ACL {
		id := jute.ID{Scheme: "digest", ID: fmt.Sprintf("v%d:x", i)}
		list = slices.Insert(list, 0, jute.ACL{Perms: jute.PermRead, ID: id})
	}
	return list
}

// many makes a multi of Count operations.
func (s *planStep) many(op func(i int) jute.MultiOp) func([]byte) []byte {
	return func(b []byte) []byte {
		ops := make([]jute.MultiOp, 0, s.Count)
		size := 0
		for i := range s.Count {
			o := op(i)
			if size += 40 + len(o.Path) + len(o.Data) + 30*len(o.ACL); size > 900_000 {
				break // jute.maxbuffer
			}
			ops = append(ops, o)
		}
		return jute.AppendMulti(b, ops)
	}
}

// stepKinds append the requests of a step.
var stepKinds = []func(s *planStep, p *pipeline, b []byte) []byte{
	func(s *planStep, p *pipeline, b []byte) []byte { // prove identities
		for i := range s.Count % 60 {
			auth := fmt.Appendf(nil, "u%d:x", i)
			b = p.request(b, jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: auth}).Append)
		}
		return b
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // make a chain
		return p.request(b, jute.OpMulti, (&planStep{Count: s.Depth}).many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpCreate, Path: chain(i + 1), ACL: s.acl()}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // create at its end, ephemerals with an odd depth
		return p.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{
				Op: jute.OpCreate, Path: fmt.Sprint(chain(s.Depth), "/", i), ACL: s.acl(), Flags: jute.CreateMode(s.Depth % 2),
				Data: make([]byte, s.Size/max(s.Count, 1)),
			}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // set
		return p.request(b, jute.OpMulti, s.many(func(int) jute.MultiOp {
			data := make([]byte, s.Size/max(s.Count, 1))
			return jute.MultiOp{Op: jute.OpSetData, Path: chain(s.Depth), Version: -1, Data: data}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // delete
		return p.request(b, jute.OpMulti, s.many(func(i int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpDelete, Path: fmt.Sprint(chain(s.Depth), "/", i), Version: -1}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // check
		return p.request(b, jute.OpMulti, s.many(func(int) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpCheck, Path: chain(s.Depth), Version: -1}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // read together
		op := jute.OpGetChildren
		if s.Size%2 == 0 {
			op = jute.OpGetData
		}
		return p.request(b, jute.OpMultiRead, s.many(func(int) jute.MultiOp {
			return jute.MultiOp{Op: op, Path: chain(s.Depth)}
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // read one by one, with watches
		for range s.Count % 500 {
			b = p.request(b, jute.OpGetChildren, reading(chain(s.Depth), s.Size%2 == 0))
		}
		return b
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // watch recursively, at one depth and those above
		for i := range s.Count % 500 {
			q := jute.AddWatchRequest{Path: chain(s.Depth - i), Mode: jute.AddWatchPersistentRecursive}
			b = p.request(b, jute.OpAddWatch, q.Append)
		}
		return b
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // change an ACL
		return p.request(b, jute.OpSetACL, (&jute.SetACLRequest{Path: chain(s.Depth), ACL: s.acl(), Version: -1}).Append)
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // a quota
		q := "/zookeeper/quota" + chain(s.Depth)
		return p.request(b, jute.OpMulti, (&planStep{Count: s.Depth + 2}).many(func(i int) jute.MultiOp {
			o := jute.MultiOp{Op: jute.OpCreate, Path: "/zookeeper/quota" + chain(i+1), ACL: jute.WorldACL(jute.PermAll)}
			if i >= s.Depth {
				o.Path, o.Data = q+[...]string{"/zookeeper_limits", "/zookeeper_stats"}[i-s.Depth], []byte("count=1,bytes=1")
			}
			return o
		}))
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // set watches again
		q := jute.SetWatches{RelativeZxid: int64(s.Size)}
		for i := range min(s.Count, 400_000/len(chain(s.Depth))) {
			q.Child = append(q.Child, fmt.Sprint(chain(s.Depth), "/", i))
		}
		return p.request(b, jute.OpSetWatches, func(b []byte) []byte { return q.Append(b, jute.OpSetWatches) })
	},
	func(s *planStep, p *pipeline, b []byte) []byte { // count and list
		b = p.request(b, jute.OpGetAllChildrenNumber, func(b []byte) []byte { return jute.AppendString(b, chain(s.Depth)) })
		return p.request(b, jute.OpGetEphemerals, func(b []byte) []byte { return jute.AppendString(b, chain(s.Depth)) })
	},
	func(s *planStep, p *pipeline, b []byte) []byte { return p.request(b, jute.OpCloseSession, nil) },
}

// A plan is what the attacker sends; a cost is what it cost.
type (
	plan []planStep
	cost struct {
		bytes, work, memory int64
		hold                time.Duration
	}
)

// measures are what the attacker learns to make large.
var measures = []struct {
	name string
	of   func(c *cost) float64
}{
	{"hold", func(c *cost) float64 { return float64(c.hold) }},
	{"work per byte", func(c *cost) float64 { return float64(c.work) / float64(c.bytes) }},
	{"memory per byte", func(c *cost) float64 { return float64(c.memory) / float64(c.bytes) }},
}

// processorTime returns what the calling thread has used (ns): others on the machine don't count.
func processorTime(t *testing.T) int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

// run sends a plan to a new replica. The caller has locked its goroutine to its thread.
func (p plan) run(t *testing.T) (c cost) {
	s := newStage(t, Options{})
	s.r.now = func() int64 { return int64(1e12) + processorTime(t) }
	s.now = 1e6
	clients := []*Client{s.session(), s.session()}
	lines := make([]pipeline, len(clients))
	for i := range s.r.holds {
		s.r.holds[i].longest.Store(0)
	}
	use := s.r.memoryUse()
	memory, work := use.Total(), int64(s.r.tree.Work()+s.r.watches.table.Work())
	for i := range p {
		step := &p[i]
		from := clients[step.Who]
		in := stepKinds[step.Kind](step, &lines[step.Who], nil)
		if c.bytes += int64(len(in)); c.bytes > planBytesMax {
			break
		}
		for len(in) > 0 && from.Ending() == "" {
			used, err := s.receive(from, in)
			if err != nil || used == 0 {
				break
			}
			in = in[used:]
			s.apply(s.forward()...)
			for _, each := range clients { // whoever asks, and whoever is notified
				for out, _ := each.TakeOutput(nil); out != nil; out, _ = each.TakeOutput(nil) {
				}
			}
		}
	}
	apply, reads := s.r.LongestHolds()
	c.hold = max(apply, reads)
	c.work = int64(s.r.tree.Work()+s.r.watches.table.Work()) - work
	use = s.r.memoryUse()
	c.memory = max(0, use.Total()-memory-memoryOfPages)
	c.bytes = max(c.bytes, 1<<10) // what is smaller costs little
	return c
}

// changed returns a plan that differs a little.
func (p plan) changed(dice *rand.Rand) plan {
	p = slices.Clone(p)
	anywhere := func() int { return dice.IntN(len(p)) }
	for range 1 + dice.IntN(3) {
		switch dice.IntN(5) {
		case 0:
			if len(p) < planStepsMax {
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

func (s *planStep) fields() []*int {
	return []*int{&s.Who, &s.Kind, &s.Count, &s.Depth, &s.ACL, &s.Size}
}

// randomStep returns a step whose numbers are as often small as large.
func randomStep(dice *rand.Rand) (s planStep) {
	for i, f := range s.fields() {
		most := *limitsOfStep.fields()[i]
		if *f = dice.IntN(most); i >= 2 && dice.IntN(2) == 0 {
			*f = dice.IntN(1 + *f>>dice.IntN(10))
		}
	}
	return s
}

// String returns the plan in the form that readPlan reads.
func (p plan) String() string {
	var steps []string
	for i := range p {
		steps = append(steps, strings.Trim(fmt.Sprint(p[i]), "{}"))
	}
	return strings.Join(steps, "; ")
}

// readPlan reads the steps of a plan.
func readPlan(line string) (p plan, err error) {
	for text := range strings.SplitSeq(line, ";") {
		var s planStep
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

// TestLearning searches for plans that cost much, from the worst ones known on.
func TestLearning(t *testing.T) {
	type found struct {
		plan
		cost
	}
	runtime.LockOSThread() // see processorTime
	defer runtime.UnlockOSThread()
	best := make([][]found, len(measures))
	tried, longest := 0, time.Duration(0)
	try := func(p plan) {
		f := found{p, p.run(t)}
		tried++
		for m, measure := range measures {
			if of := measure.of(&f.cost); len(best[m]) == learnKeep && of <= measure.of(&best[m][learnKeep-1].cost) {
				continue
			}
			if m == 0 { // interrupts and the collector may have come in between
				again := p.run(t)
				f.hold = min(f.hold, again.hold)
				longest = max(longest, f.hold)
			}
			best[m] = append(best[m], f)
			slices.SortStableFunc(best[m], func(a, b found) int { return cmp.Compare(measure.of(&b.cost), measure.of(&a.cost)) })
			best[m] = best[m][:min(len(best[m]), learnKeep)]
		}
	}
	corpus, err := os.ReadFile(costliestFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(corpus)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, err := readPlan(line)
		if err != nil {
			t.Fatalf("%s: %v", costliestFile, err)
		}
		try(p)
	}
	dice := rand.New(rand.NewPCG(*learnSeedFlag, 0))
	for until := time.Now().Add(*learnFlag); time.Now().Before(until); {
		from := best[dice.IntN(len(best))]
		if len(from) == 0 || dice.IntN(20) == 0 {
			try(plan{randomStep(dice), randomStep(dice), randomStep(dice)})
			continue
		}
		try(from[dice.IntN(len(from))].changed(dice))
	}
	t.Logf("%d plans tried, seed %d; the longest hold is %v", tried, *learnSeedFlag, longest)
	for m, measure := range measures {
		if len(best[m]) == 0 {
			continue
		}
		f := best[m][0]
		t.Logf("most %s: %d bytes, hold %v, work %d, memory %d", measure.name, f.bytes, f.hold, f.work, f.memory)
		if *learnFlag > 10*time.Second {
			t.Logf("\n# %s\n%s", measure.name, f.plan)
		}
		if w := measures[1].of(&f.cost); w > workPerByteMax {
			t.Errorf("%d bytes make a replica do %.1f units of work for each: %s", f.bytes, w, f.plan)
		}
		if n := measures[2].of(&f.cost); n > memoryPerByteMax {
			t.Errorf("%d bytes make a replica use %.1f for each: %s", f.bytes, n, f.plan)
		}
	}
}
