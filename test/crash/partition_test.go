package crash

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/verdict"
)

// partitioned is an ensemble for partitions. The first server is the one that is cut
// off: it loses patience soon, so that its clients are turned away within a test. The
// others have the usual patience, so that their clients wait for an election on a slow
// machine as well.
func partitioned(seed uint64) RunOptions {
	o := trio(seed, 1000)
	o.OfFirst = map[string]string{"syncLimit": "4"}
	return o
}

const (
	minorityPatience = 2 * time.Second // syncLimit ticks of the first server
	// turnAwayMax is until when a server that is cut off has turned its clients away: before
	// Patience is over, so it is the first server's own patience that makes it do so.
	turnAwayMax = Patience - 3*time.Second
	// turnedAway is how long a server is watched after that.
	turnedAway = time.Second
	// deafness is how long one-way partitions and bridges last.
	deafness = 2 * time.Second
)

// cut says what is done to the bytes from one server to another.
type cut func(from, to int) bool

// A partition is one row of the matrix: who is the victim, and which ways are cut.
type partition struct {
	name   string
	leads  bool // the victim is the leader
	cut    func(victim int) cut
	severe bool // the victim, the first server, is cut off from a majority, or nobody hears it
}

func nobody(int, int) bool { return false }

func both(v int) cut   { return func(from, to int) bool { return from == v || to == v } }
func deaf(v int) cut   { return func(from, to int) bool { return to == v } }
func mute(v int) cut   { return func(from, to int) bool { return from == v } }
func bridge(v int) cut { return func(from, to int) bool { return from != (v+1)%3 && to != (v+1)%3 } }

var partitions = []partition{
	{"isolate the leader", true, both, true},
	{"isolate a follower", false, both, true},
	{"nobody hears a follower", false, mute, true},
	{"a follower hears nothing", false, deaf, false},
	{"the leader hears nothing", true, deaf, false},
	{"nobody hears the leader", true, mute, false},
	{"a bridge", true, bridge, false},
}

// TestPartitions cuts three servers apart in every way, by proxies between them.
func TestPartitions(t *testing.T) {
	seed, _ := hurtful(t)
	o := partitioned(seed)
	o.PeerProxies = true
	r := Begin(t, o)
	held := 0
	for range times(0, 1, 20) {
		r.partitions(func() (n int) {
			for _, p := range r.Peers {
				_, _, own := p.Counts()
				n += own
			}
			n, held = n-held, n
			return n
		}, func(is cut) {
			for way, p := range r.Peers {
				// A message from i to j goes up the connection that i dialled and down
				// the one that j dialled; peers answer nothing on a connection but its
				// hello.
				p.Set(Faults{Up: Line{Block: is(way[0], way[1])}, Down: Line{Block: is(way[1], way[0])}})
			}
		})
	}
	r.undisturbed()
	r.flap(func(block bool) {
		for _, p := range r.Peers {
			p.Set(Faults{Up: Line{Block: block}, Down: Line{Block: block}})
		}
	})
	r.Verdict()
}

// partitions goes through the matrix; set makes a partition, or heals one, and
// kept says how much was kept from its receiver since it was asked last. The first
// server's clients are never counted as disturbed: it turns them away whenever it lacks a
// leader for minorityPatience.
func (r *Run) partitions(kept func() int, set func(cut)) {
	r.Down(0)
	for _, p := range partitions {
		r.WaitAnswered(100)
		victim := r.victim(p, set)
		r.Down(victim)
		if p.name == "a bridge" {
			r.Down((victim + 1) % 3)
			r.Down((victim + 2) % 3)
		}
		set(p.cut(victim))
		fault := time.Now() // from here on nothing passes
		gap := r.majority(p, victim, fault)
		if p.severe {
			r.refuses(victim, fault)
		} else {
			time.Sleep(time.Until(fault.Add(deafness)))
		}
		dropped := kept()
		if dropped == 0 {
			r.t.Errorf("%s: nothing was kept from anybody: nothing was shown", p.name)
		}
		healed := time.Now()
		set(nobody)
		back := time.Duration(0)
		for _, pulse := range r.Pulses {
			at, err := pulse.FirstBeat(healed, healPatience)
			if err != nil {
				r.t.Fatalf("%s: after it healed: %v", p.name, err)
			}
			back = max(back, at.Sub(healed))
		}
		r.Up(victim)
		if p.name == "a bridge" {
			r.Up((victim + 1) % 3)
			r.Up((victim + 2) % 3)
		}
		r.t.Logf("%s: %d packets or chunks kept back, longest write over the others %v; after it healed, writes over all servers again within %v",
			p.name, dropped, gap.Round(time.Millisecond), back.Round(time.Millisecond))
	}
}

// victim returns the server that a partition is about, once it leads or follows as the
// partition wants. Leaders are isolated for that until another leads, which none of their
// clients may notice. No server restarts: it would take the others' addresses from its log,
// which are those that the leader uses, and find a way past the proxies.
func (r *Run) victim(p partition, set func(cut)) int {
	r.t.Helper()
	for range 50 {
		leader := r.leader()
		switch {
		case p.leads && !p.severe:
			return leader
		case p.leads == (leader == 0):
			return 0
		}
		set(both(leader))
		_, err := r.LeaderOtherThan(leader)
		set(nobody)
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Fatalf("%s: server 1 doesn't lead, or doesn't follow, after 50 changes of leader", p.name)
	return 0
}

// majority waits until those that nothing cuts off write again. In a bridge each
// server still has a majority or is one hop from it, and who can write depends on
// who leads: nothing is asked of it but to be right, and to heal.
func (r *Run) majority(p partition, victim int, fault time.Time) time.Duration {
	if p.name == "a bridge" {
		return 0
	}
	return r.survivors(victim, fault)
}

// refuses checks that a server cut off from the majority did not acknowledge
// anything since, turned its clients away, and takes no new ones.
func (r *Run) refuses(victim int, fault time.Time) {
	r.t.Helper()
	pulse := r.Pulses[victim]
	turned := func() bool {
		breaks, _ := pulse.broken()
		return len(breaks) > 0 && breaks[len(breaks)-1].found.After(fault)
	}
	for deadline := fault.Add(turnAwayMax); !turned() && time.Now().Before(deadline); {
		time.Sleep(readyPause)
	}
	if !turned() {
		r.t.Errorf("server %d kept its clients for %v without a majority; its patience is %v", victim+1,
			time.Since(fault).Round(time.Millisecond), minorityPatience)
	}
	time.Sleep(turnedAway)
	if n := pulse.Beats(fault, time.Now()); n > 0 {
		verdict.Final(r.t, verdict.Checker)
		r.t.Errorf("server %d acknowledged %d writes without a majority", victim+1, n)
	}
	if mode, err := r.Servers[victim].Mode(); err != nil || mode != "" {
		r.t.Errorf("server %d says that it serves as %q (%v) without a majority", victim+1, mode, err)
	}
}

// flap cuts all from all and heals it, five times a second for some seconds.
func (r *Run) flap(set func(block bool)) {
	for i := range r.Servers {
		r.Down(i)
	}
	for range 15 {
		set(true)
		time.Sleep(100 * time.Millisecond)
		set(false)
		time.Sleep(100 * time.Millisecond)
	}
	healed := time.Now()
	for _, pulse := range r.Pulses {
		if _, err := pulse.FirstBeat(healed, healPatience); err != nil {
			r.t.Fatalf("after flapping: %v", err)
		}
	}
	for i := range r.Servers {
		r.Up(i)
	}
}

// TestPeerNetwork makes the ways between servers slow, narrow and unreliable.
func TestPeerNetwork(t *testing.T) {
	seed, rng := hurtful(t)
	o := partitioned(seed)
	o.PeerProxies = true
	r := Begin(t, o)
	d := newDeck(rng, peerFaults)
	for range times(0, 20, 500) {
		r.WaitAnswered(20)
		for _, way := range slices.SortedFunc(maps.Keys(r.Peers),
			func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
			d.hurt(r.Peers[way])
		}
		moment(rng, 400*time.Millisecond)
		for _, p := range r.Peers {
			p.Set(Faults{})
		}
	}
	d.told(t, slices.Collect(maps.Values(r.Peers)))
	r.Verdict()
}

// A networkFault is something done to a proxy that lasts until the next Set.
type networkFault struct {
	name string
	do   func(p *Proxy, delay time.Duration)
}

var peerFaults = []networkFault{
	{"nothing", func(*Proxy, time.Duration) {}},
	{"delay", func(p *Proxy, delay time.Duration) {
		p.Set(Faults{Up: Line{Delay: delay}, Down: Line{Delay: delay / 2}})
	}},
	{"throttle up", func(p *Proxy, _ time.Duration) { p.Set(Faults{Up: Line{BytesPerSecond: 64 << 10}}) }},
	{"throttle down", func(p *Proxy, _ time.Duration) { p.Set(Faults{Down: Line{BytesPerSecond: 32 << 10}}) }},
	{"hold back", func(p *Proxy, _ time.Duration) { p.Set(Faults{Up: Line{Block: true}}) }},
	{"cut inside a frame", func(p *Proxy, delay time.Duration) { p.CutAfter(1 + delay.Microseconds()) }},
	{"reset", func(p *Proxy, _ time.Duration) { p.Reset() }},
	{"nothing at all", func(*Proxy, time.Duration) {}},
}

var clientFaults = append(slices.Clone(peerFaults),
	// The server's side is gone, and the client finds out later.
	networkFault{"half-open", func(p *Proxy, _ time.Duration) { p.HalfOpen() }},
	networkFault{"refuse", func(p *Proxy, _ time.Duration) { p.Set(Faults{Refuse: true}); p.Reset() }},
)

// A deck deals faults in random order, each as often as the others.
type deck struct {
	rng    *rand.Rand
	faults []networkFault
	rest   []int
	dealt  []int // by fault
}

func newDeck(rng *rand.Rand, faults []networkFault) *deck {
	return &deck{rng: rng, faults: faults, dealt: make([]int, len(faults))}
}

// hurt does the next fault to a proxy.
func (d *deck) hurt(p *Proxy) {
	if len(d.rest) == 0 {
		d.rest = d.rng.Perm(len(d.faults))
	}
	n := d.rest[0]
	d.rest = d.rest[1:]
	d.dealt[n]++
	d.faults[n].do(p, time.Duration(d.rng.IntN(60))*time.Millisecond)
}

// told tells what was done, and fails the test if it was too little.
func (d *deck) told(t *testing.T, proxies []*Proxy) {
	t.Helper()
	for i, f := range d.faults {
		t.Logf("%4d times: %s", d.dealt[i], f.name)
		if d.dealt[i] == 0 {
			t.Errorf("%s was never done: the run proves too little", f.name)
		}
	}
	var accepted, broken, held int
	for _, p := range proxies {
		a, b, h := p.Counts()
		accepted, broken, held = accepted+a, broken+b, held+h
	}
	t.Logf("%d connections passed the proxies, %d were broken on purpose, %d chunks held back", accepted, broken, held)
	if broken == 0 || held == 0 {
		t.Errorf("%d connections broken, %d chunks held back: the run proves too little", broken, held)
	}
}

// TestClientNetwork does the same and more to the ways between clients and
// servers, which themselves are well.
func TestClientNetwork(t *testing.T) {
	seed, rng := hurtful(t)
	o := trio(seed, 1000)
	o.ClientProxies, o.Pulses = true, false
	r := Begin(t, o)
	d := newDeck(rng, clientFaults)
	for range times(0, 25, 500) {
		r.WaitAnswered(20)
		for _, p := range r.Clients {
			d.hurt(p)
		}
		moment(rng, 400*time.Millisecond)
		for _, p := range r.Clients {
			p.Reset()
			p.Set(Faults{})
		}
	}
	d.told(t, r.Clients)
	r.Verdict()
}
