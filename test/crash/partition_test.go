package crash

import (
	"testing"
	"time"
)

// partitioned is an ensemble for partitions: its servers lose patience sooner, so
// that clients of a minority are turned away within a test, long before their
// sessions could expire.
func partitioned(seed uint64) RunOptions {
	o := trio(seed, 1000)
	o.Config = map[string]string{"syncLimit": "4"}
	return o
}

const (
	minorityPatience = 2 * time.Second // syncLimit ticks of the above
	// isolation lasts long enough for the minority's clients to be turned away.
	isolation = minorityPatience + 2*time.Second
	// deafness is how long one-way partitions and bridges last.
	deafness = 2 * time.Second
)

// cut says what is done to the bytes from one server to another.
type cut func(from, to int) bool

// A partition is one row of the matrix: given the leader, who is the victim, and
// which ways are cut.
type partition struct {
	name   string
	leads  bool // the victim is the leader
	cut    func(victim int) cut
	severe bool // the victim is cut off from a majority, both ways
}

func both(v int) cut   { return func(from, to int) bool { return from == v || to == v } }
func deaf(v int) cut   { return func(from, to int) bool { return to == v } }
func mute(v int) cut   { return func(from, to int) bool { return from == v } }
func bridge(v int) cut { return func(from, to int) bool { return from != (v+1)%3 && to != (v+1)%3 } }

var partitions = []partition{
	{"isolate the leader", true, both, true},
	{"isolate a follower", false, both, true},
	{"the leader hears nothing", true, deaf, false},
	{"nobody hears the leader", true, mute, false},
	{"a follower hears nothing", false, deaf, false},
	{"nobody hears a follower", false, mute, false},
	{"a bridge", true, bridge, false},
}

// TestPartitions cuts three servers apart in every way, by proxies between them.
func TestPartitions(t *testing.T) {
	seed, _ := hurtful(t)
	o := partitioned(seed)
	o.PeerProxies = true
	r := Begin(t, o)
	for range times(0, 1, 20) {
		r.partitions(func(is cut) {
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

// partitions goes through the matrix; set makes a partition, or heals one.
func (r *Run) partitions(set func(cut)) {
	heal := func() { set(func(int, int) bool { return false }) }
	for _, p := range partitions {
		r.WaitAnswered(100)
		leader := r.leader()
		victim := leader
		if !p.leads {
			victim = (leader + 1) % len(r.Servers)
		}
		r.Down(victim)
		if p.name == "a bridge" {
			r.Down((victim + 1) % 3)
			r.Down((victim + 2) % 3)
		}
		set(p.cut(victim))
		fault := time.Now() // from here on nothing passes
		gap := r.majority(p, victim, fault)
		if p.severe {
			time.Sleep(time.Until(fault.Add(isolation)))
			r.refuses(victim, fault)
		} else {
			time.Sleep(time.Until(fault.Add(deafness)))
		}
		healed := time.Now()
		heal()
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
		r.t.Logf("%s: longest write over the others %v; after it healed, writes over all servers again within %v",
			p.name, gap.Round(time.Millisecond), back.Round(time.Millisecond))
	}
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
	if n := pulse.Beats(fault, time.Now()); n > 0 {
		r.t.Errorf("server %d acknowledged %d writes without a majority", victim+1, n)
	}
	breaks, _ := pulse.Breaks()
	if len(breaks) == 0 || breaks[len(breaks)-1].Before(fault) {
		r.t.Errorf("server %d kept its clients for %v without a majority; its patience is %v", victim+1, time.Since(fault).Round(time.Millisecond), minorityPatience)
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
	faults := 0
	for range times(0, 20, 500) {
		r.WaitAnswered(20)
		for _, p := range r.Peers {
			faults += hurt(p, rng.IntN(8), time.Duration(rng.IntN(60))*time.Millisecond)
		}
		moment(rng, 400*time.Millisecond)
		for _, p := range r.Peers {
			p.Set(Faults{})
		}
	}
	t.Logf("%d faults", faults)
	r.Verdict()
}

// hurt does something to a proxy that lasts until the next Set, and says whether
// it did.
func hurt(p *Proxy, what int, delay time.Duration) int {
	switch what {
	case 0:
		p.Set(Faults{Up: Line{Delay: delay}, Down: Line{Delay: delay / 2}})
	case 1:
		p.Set(Faults{Up: Line{BytesPerSecond: 64 << 10}})
	case 2:
		p.Set(Faults{Down: Line{BytesPerSecond: 32 << 10}})
	case 3:
		p.Set(Faults{Up: Line{Block: true}})
	case 4:
		p.CutAfter(1 + int64(delay)/1e3)
	case 5:
		p.Reset()
	default:
		return 0
	}
	return 1
}

// TestClientNetwork does the same and more to the ways between clients and
// servers, which themselves are well.
func TestClientNetwork(t *testing.T) {
	seed, rng := hurtful(t)
	o := trio(seed, 1000)
	o.ClientProxies, o.Pulses = true, false
	r := Begin(t, o)
	faults := 0
	for range times(0, 25, 500) {
		r.WaitAnswered(20)
		for _, p := range r.Clients {
			what := rng.IntN(10)
			switch what {
			case 8: // the server's side is gone, and the client finds out later
				p.HalfOpen()
				faults++
			case 9:
				p.Set(Faults{Refuse: true})
				p.Reset()
				faults++
			default:
				faults += hurt(p, what, time.Duration(rng.IntN(60))*time.Millisecond)
			}
		}
		moment(rng, 400*time.Millisecond)
		for _, p := range r.Clients {
			p.Reset()
			p.Set(Faults{})
		}
	}
	t.Logf("%d faults", faults)
	r.Verdict()
}
