package replica

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/proof/traffic/costly"
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
	planBytesMax  = 4 << 20
	memoryOfPages = 320 << 10 // that the first znodes, watches and buffers take, of whatever size
	costliestFile = "testdata/costliest.txt"

	// workPerByteMax and memoryPerByteMax are twice what searches of minutes have found.
	workPerByteMax   = 2.0
	memoryPerByteMax = 40.0
)

// A cost is what a plan cost.
type cost struct {
	bytes, work, memory int64
	hold                time.Duration
}

// measures are what the attacker learns to make large.
var measures = [...]string{"hold", "work per byte", "memory per byte"}

func (c *cost) measured() []float64 {
	return []float64{float64(c.hold), float64(c.work) / float64(c.bytes), float64(c.memory) / float64(c.bytes)}
}

// processorTime returns what the calling thread has used (ns): others on the machine don't count.
func processorTime(t testing.TB) int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

// costOf sends a plan to a new replica. The caller has locked its goroutine to its thread.
func costOf(t testing.TB, p costly.Plan) (c cost) {
	s := newStage(t, Options{})
	s.r.now = func() int64 { return int64(1e12) + processorTime(t) }
	s.now = 1e6
	var clients [costly.Clients]*Client
	for i := range clients {
		clients[i] = s.session()
	}
	var encoders [costly.Clients]costly.Encoder
	s.r.holds = [holds]metrics.Longest{}
	use := s.r.memoryUse()
	memory, work := use.Total(), int64(s.r.tree.Work()+s.r.watches.table.Work())
	for i := range p {
		step := &p[i]
		from := clients[step.Who]
		in := encoders[step.Who].Append(nil, step)
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

// found returns a plan with its costs. A hold that is to be kept is the shorter of two: interrupts and the collector
// may have come in between.
func found(t *testing.T, search *costly.Search, p costly.Plan) costly.Found {
	c := costOf(t, p)
	if search.Wants(0, float64(c.hold)) {
		again := costOf(t, p)
		c.hold = min(c.hold, again.hold)
	}
	return costly.Found{Plan: p, Costs: c.measured()}
}

// TestLearning searches for plans that cost much, from the worst ones known on.
func TestLearning(t *testing.T) {
	runtime.LockOSThread() // see processorTime
	defer runtime.UnlockOSThread()
	corpus, err := costly.ReadCorpus(costliestFile)
	if err != nil {
		t.Fatal(err)
	}
	search := costly.NewSearch(*learnSeedFlag, len(measures))
	for _, p := range corpus {
		search.Learn(found(t, search, p))
	}
	tried := len(corpus)
	for until := time.Now().Add(*learnFlag); time.Now().Before(until); tried++ {
		search.Learn(found(t, search, search.Next()))
	}
	t.Logf("%d plans tried, seed %d", tried, *learnSeedFlag)
	for m, name := range measures {
		f, ok := search.Worst(m)
		if !ok {
			continue
		}
		t.Logf("most %s: hold %v, work per byte %.2f, memory per byte %.1f",
			name, time.Duration(f.Costs[0]), f.Costs[1], f.Costs[2])
		if *learnFlag > 10*time.Second {
			t.Logf("\n# %s\n%s", name, f.Plan)
		}
		if f.Costs[1] > workPerByteMax {
			t.Errorf("each byte makes a replica do %.1f units of work: %s", f.Costs[1], f.Plan)
		}
		if f.Costs[2] > memoryPerByteMax {
			t.Errorf("each byte makes a replica use %.1f bytes of memory: %s", f.Costs[2], f.Plan)
		}
	}
}

// BenchmarkCostliest runs each plan of the corpus, and tells the shortest and the longest hold in processor time (ms).
func BenchmarkCostliest(b *testing.B) {
	corpus, err := costly.ReadCorpus(costliestFile)
	if err != nil {
		b.Fatal(err)
	}
	for i, p := range corpus {
		b.Run(fmt.Sprint(i+1), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for b.Loop() {
				c := costOf(b, p)
				least, most = min(least, c.hold), max(most, c.hold)
			}
			b.ReportMetric(float64(least)/1e6, "least-ms")
			b.ReportMetric(float64(most)/1e6, "most-ms")
		})
	}
}
