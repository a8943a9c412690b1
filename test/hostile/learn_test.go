package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/proof/traffic/costly"
	"github.com/zooid-project/zooid/jute"
)

// An attacker that learns: a search over well-formed requests of several connections to a server, each plan made from
// those that have cost the server and its honest clients most so far. What it measures depends on the machine, so CI
// judges only what others on the machine can't cause: memory, and processor time.
//
//	make hostile HOSTILE='-run TestLearning -hostile.learn 1h -hostile.seed 7'
//
// Each search begins with testdata/costliest.txt and the worst plans that TestLearning of internal/replica knows.
var learnFlag = flag.Duration("hostile.learn", 20*time.Second, "how long the attacker learns")

var costliestFiles = []string{"testdata/costliest.txt", "../../internal/replica/testdata/costliest.txt"}

const (
	// learnRound is how long a server is attacked before the next one takes its place, with an empty tree.
	learnRound = 30 * time.Second
	// learnBytes bounds what a plan sends, and learnPatience how long a step of it may take.
	learnBytes    = 4 << 20
	learnPatience = 20 * time.Second
	// learnHoldMax is for how long a plan may hold the server, and learnPerByteMax what each byte sent or received may
	// cost it, both in processor time of the server: others on the machine make neither longer. They are far above what
	// an idle machine shows, and far below what bugs of decision 090's kind cost.
	learnHoldMax    = time.Second
	learnPerByteMax = 3 * time.Microsecond
	// learnBytesMin is the least number of bytes by which costs are divided: what the server does besides is no cost.
	learnBytesMin = 64 << 10
	// learnCrowd is how often a plan that takes much memory is sent again, by clients that stay: the honest clients
	// need the other places of their address.
	learnCrowd = 20
	// learnMemory is the place of memory in learnMeasures.
	learnMemory = 2
	// learnPrints is the shortest search that prints its plans.
	learnPrints = time.Minute
)

// learnMeasures are what the attacker learns to make large.
var learnMeasures = [...]string{
	"hold (ms)", "processor time per byte (ns)", "memory (MiB)", "others' slowest write (ms)",
}

// A learner attacks one server after another.
type learner struct {
	t      *testing.T
	search *costly.Search
	known  []costly.Plan // to be tried first
	tried  int
	port   int           // of the present server's metrics
	hold   time.Duration // longest hold, on any server, as the server tells it
	memory int64         // most memory
	// writes of honest clients without the attacker, and beside it
	alone, beside []time.Duration
}

// TestLearning searches for what costs a server and its honest clients much.
func TestLearning(t *testing.T) {
	if os.Getenv("ZOOID_HOSTILE") != "1" {
		t.Skip("set ZOOID_HOSTILE=1, or run make hostile")
	}
	l := &learner{t: t, search: costly.NewSearch(seed(), len(learnMeasures))}
	for _, file := range costliestFiles {
		plans, err := costly.ReadCorpus(file)
		if err != nil {
			t.Fatal(err)
		}
		l.known = append(l.known, plans...)
	}
	for left, n := *learnFlag, uint64(0); left > 0 && !t.Failed(); left, n = left-learnRound, n+1 {
		l.round(min(left, learnRound), seed()+n)
	}
	l.report()
}

// report prints what was found.
func (l *learner) report() {
	l.t.Logf("%d plans tried, seed %d; longest hold %v; memory %d MiB of memory.limit %d MiB; "+
		"p99 of honest writes: %v alone, %v beside", l.tried, seed(), l.hold, l.memory>>20, littleMemory>>20,
		short(percentile(l.alone, 0.99)), short(percentile(l.beside, 0.99)))
	for m, name := range learnMeasures {
		f, ok := l.search.Worst(m)
		if !ok {
			continue
		}
		l.t.Logf("most %s: %s", name, costsOf(&f))
		if *learnFlag >= learnPrints {
			l.t.Logf("\n# %s\n%s", name, f.Plan)
		}
	}
}

func costsOf(f *costly.Found) (text string) {
	for m, name := range learnMeasures {
		text += fmt.Sprintf("%s %.1f; ", name, f.Costs[m])
	}
	return text
}

// round starts a server with honest clients and attacks it, then checks the history of all.
func (l *learner) round(budget time.Duration, seed uint64) {
	l.port = freeport.Take(l.t, 1)[0]
	j := newJudge(l.t, 1, needs{memory: littleMemory, metrics: l.port}, seed)
	began := time.Now()
	time.Sleep(aloneTime)
	l.alone = append(l.alone, j.writes(began, time.Now())...)
	for until := time.Now().Add(budget); time.Now().Before(until) && !l.t.Failed(); l.tried++ {
		p := l.next()
		f, err := l.try(j, p)
		if err != nil {
			l.t.Errorf("%v: %s", err, p)
			break
		}
		l.search.Learn(f)
	}
	if n, example := j.run.Disturbed(); n > 0 {
		l.t.Errorf("%d connections of honest clients ended, such as %s; none was to", n, example)
	}
	j.run.Verdict()
}

// next returns the next plan to try.
func (l *learner) next() costly.Plan {
	if len(l.known) == 0 {
		return l.search.Next()
	}
	p := l.known[0]
	l.known = l.known[1:]
	return p
}

// try sends a plan and returns what it cost. The error is what can be held against the server.
func (l *learner) try(j *judge, p costly.Plan) (f costly.Found, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), learnPatience)
	defer cancel()
	server := j.run.Servers[0]
	a, err := awaitLearningAttacker(newField(ctx, j.seed, j.run.Addrs(), nil), l.tried)
	if err != nil {
		return f, fmt.Errorf("for %v no newcomer was let in: %w", learnPatience, err)
	}
	defer func() { a.close() }()
	heldBefore, err := l.held()
	if err != nil {
		return f, err
	}
	memoryBefore, usedBefore, began := server.Memory(), server.ProcessorTime(), time.Now()
	if err := a.send(p); err != nil {
		return l.late(p, err, server.ProcessorTime()-usedBefore)
	}
	memory, used := server.Memory(), server.ProcessorTime()-usedBefore
	more := float64(memory-memoryBefore) / (1 << 20)
	if worst, ok := l.search.Worst(learnMemory); !ok || more > worst.Costs[learnMemory] {
		most, err := l.crowd(j, p)
		if err != nil {
			return f, err
		}
		memory = max(memory, most)
	}
	if !server.Running() {
		return f, fmt.Errorf("the server has ended; its log ends: %s", server.LogEnd())
	}
	held, err := l.held()
	if err != nil {
		return f, err
	}
	var writes []time.Duration
	for _, pulse := range j.run.Pulses {
		writes = append(writes, pulse.Durations(began, time.Now())...)
	}
	l.beside = append(l.beside, writes...)
	l.hold, l.memory = max(l.hold, held), max(l.memory, memory)
	if held <= heldBefore {
		held = 0 // it is an earlier plan's
	}
	perByte := float64(used) / float64(max(a.bytes(), learnBytesMin))
	f = costly.Found{Plan: p, Costs: []float64{
		float64(held) / 1e6, perByte, more, float64(percentile(writes, 1)) / 1e6,
	}}
	switch {
	case memory > j.ceiling:
		err = fmt.Errorf("the server took %d MiB; at most %d are allowed", memory>>20, j.ceiling>>20)
	case min(held, used) > learnHoldMax:
		err = fmt.Errorf("the server was held for %v, and used %v of processor time; %v are allowed", held, used, learnHoldMax)
	case perByte > float64(learnPerByteMax):
		err = fmt.Errorf("each of %d bytes took the server %v; at most %v are allowed",
			a.bytes(), time.Duration(perByte), learnPerByteMax)
	}
	return f, err
}

// late judges a plan that wasn't answered in time: it is the server's fault if that has computed all the while, and the
// machine's if not.
func (l *learner) late(p costly.Plan, err error, used time.Duration) (costly.Found, error) {
	if used > learnPatience/2 {
		return costly.Found{}, fmt.Errorf("%w; the server used %v of processor time", err, used)
	}
	l.t.Logf("%v, but the server used only %v of processor time: %s", err, used, p)
	return costly.Found{Plan: p, Costs: make([]float64, len(learnMeasures))}, nil
}

// crowd sends a plan from as many clients as one address may have, all connected until the end, as long as the server
// takes it: what one client may make a server keep is little, and what many may is the limit's business. It returns how
// much memory the server used in the end.
func (l *learner) crowd(j *judge, p costly.Plan) (memory int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), learnPatience)
	defer cancel()
	f := newField(ctx, j.seed, j.run.Addrs(), nil)
	for n := range learnCrowd {
		a, err := newLearningAttacker(f, l.tried, n+1)
		if err != nil {
			break // refused, as a server may that is short of memory
		}
		defer a.close()
		if a.send(p) != nil {
			break // it is late, which is judged for one alone
		}
		if memory = max(memory, j.run.Servers[0].Memory()); memory > j.ceiling {
			break
		}
	}
	return memory, nil
}

// held returns the longest hold that the server's metrics tell of, within the last minute or two.
func (l *learner) held() (time.Duration, error) {
	r, err := (&http.Client{Timeout: learnPatience}).Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", l.port))
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	return heldOf(string(text))
}

var heldLine = regexp.MustCompile(`(?m)^zooid_replica_held_seconds\{for="\w+"\} (\S+)$`)

// heldOf returns the longest hold in the text of metrics.
func heldOf(text string) (longest time.Duration, err error) {
	lines := heldLine.FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		return 0, errors.New("the metrics tell of no holds")
	}
	for _, line := range lines {
		s, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			return 0, err
		}
		longest = max(longest, time.Duration(s*1e9))
	}
	return longest, nil
}

// A learningAttacker has the connections of a plan's clients.
type learningAttacker struct {
	f        *field
	conns    [costly.Clients]*conn
	encoders [costly.Clients]costly.Encoder
	replies  [costly.Clients]chan int32 // xids; closed when the connection ends
	ends     []func()
}

// awaitLearningAttacker connects the clients of a plan. While the server is short of memory, because of the plan
// before, it refuses newcomers; awaitLearningAttacker then tries again until f's context ends.
func awaitLearningAttacker(f *field, plan int) (*learningAttacker, error) {
	for number := 0; ; number += learnCrowd + 1 { // the crowd has the numbers between
		a, err := newLearningAttacker(f, plan, number)
		if err == nil || f.ctx.Err() != nil {
			return a, err
		}
	}
}

// newLearningAttacker connects the clients and creates the znode below which the plan's znodes are. Numbers distinguish
// it from others.
func newLearningAttacker(f *field, plan, number int) (*learningAttacker, error) {
	a := &learningAttacker{f: f}
	root := fmt.Sprintf("/%d-%d", plan, number)
	for i := range a.conns {
		c, err := f.connect(f.addr(0), 40_000)
		if err != nil {
			a.close()
			return nil, fmt.Errorf("connect client %d: %w", i, err)
		}
		a.conns[i], a.encoders[i].Root = c, root
		if i > 0 {
			continue
		}
		for _, path := range []string{root, "/zookeeper/quota" + root} {
			if err := c.create(path, nil, jute.ModePersistent); err != nil {
				a.close()
				return nil, fmt.Errorf("create %s: %w", path, err)
			}
		}
	}
	for i, c := range a.conns {
		c.unpaced = true // the plan's bytes are bounded
		replies := make(chan int32, 1)
		a.replies[i] = replies
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer close(replies)
			for {
				h, body, err := c.receive(learnPatience)
				if err != nil {
					return
				}
				f.counts.bytes.Add(int64(len(body)))
				if h.Xid <= 0 {
					continue // a notification
				}
				select {
				case <-replies: // nobody waited for it
				default:
				}
				replies <- h.Xid
			}
		}()
		a.ends = append(a.ends, func() { <-done })
	}
	return a, nil
}

// bytes returns how many bytes were sent and received.
func (a *learningAttacker) bytes() int64 { return a.f.counts.bytes.Load() }

func (a *learningAttacker) close() {
	for _, c := range a.conns {
		if c != nil {
			c.close()
		}
	}
	for _, end := range a.ends {
		end()
	}
}

// send sends the steps of a plan, each when the one before is answered. A connection that the server ends is no error:
// the plan may close its session, or ask for more than a limit.
func (a *learningAttacker) send(p costly.Plan) error {
	sent := 0
	for i := range p {
		who := p[i].Who
		e := &a.encoders[who]
		b, last := e.End(e.Append(nil, &p[i]))
		if sent += len(b); sent > learnBytes {
			return nil
		}
		if a.conns[who].write(b) != nil {
			continue
		}
		for open := true; open; {
			var xid int32
			select {
			case xid, open = <-a.replies[who]:
				open = open && xid != last
			case <-a.f.ctx.Done():
				return fmt.Errorf("step %d isn't answered within %v", i, learnPatience)
			}
		}
	}
	return nil
}

// TestHeldOf: the longest hold is read from metrics, and metrics without one are an error.
func TestHeldOf(t *testing.T) {
	const text = "# TYPE zooid_replica_held_seconds gauge\n" +
		"zooid_replica_held_seconds{for=\"apply\"} 0.0125\nzooid_replica_held_seconds{for=\"reads\"} 0.5\n"
	if got, err := heldOf(text); got != time.Second/2 || err != nil {
		t.Errorf("the longest hold is %v, %v", got, err)
	}
	if got, err := heldOf("zooid_serving 1\n"); err == nil {
		t.Errorf("no hold is read as %v", got)
	}
}
