package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/limit"
)

// A Plan is all that a seed decides in advance: the ensemble, its world, its clients, and
// the list of faults. It can be changed and run again, to shrink a failure to its
// essence. Times are ns.
type Plan struct {
	Seed    uint64
	Profile string // see profiles

	Servers int // of the ensemble at first
	Spare   int // servers beyond that, which may join
	Most    int // total number of servers that there may be; 0 for 5
	Observe int // how many of the first Servers are observers
	Clients int
	End     int64 // when the last fault is over and the clients stop
	Faults  []Fault

	// The network: the least travel time of a packet, the mean of the time added to it; the
	// percentage of writes that arrive in pieces, and of closed connections whose other end
	// doesn't notice.
	Delay, Jitter    int64
	Far              int64 // additional time of a packet between two of three regions
	Pieces, HalfOpen int
	// Queue is the most bytes of a send queue between servers, 0 for the real limit, which nothing reaches: see waiting.
	// Stream is how long a snapshot takes over a slow link, 0 for a link that isn't slow.
	Queue  int
	Stream int64

	// The servers.
	Sync          int64 // duration of an fdatasync
	Tick          int64
	Drift         []float64 // rates of the clocks
	SnapCount     int
	SnapshotsKept int
	SegmentSize   int64
	CacheSize     int
	ReadOnly      bool  // servers without a quorum serve read-only
	TwoDirs       bool  // the log has a directory of its own
	Load          int64 // how long a snapshot is loaded
	Refuse        int64 // free bytes below which clients' writes are refused
	// Pace is the requests per second that a connection may send; a server allows three times that in total; 0 is no limit
	Pace      int64
	Local     bool  // sessions are local to their server until they write
	Upgrading bool  // and become global when they ask for an ephemeral znode
	Old       []int // servers that begin with an older version
	Ruled     bool  // servers have a rule for the ids of a scheme: see rules
	Changing  bool  // disks are also lost while the membership changes
	Large     int   // size in bytes from which on requests take turns with others; 0 for the default
	Quotas    bool  // hard limits are enforced, and a client is a keeper
	Watchful  bool  // clients watch many paths
	Hurried   bool  // changes of membership wait for new servers for a moment only
	Absent    bool  // voters may be added that don't run, and operators add servers before they start them
	Twin      bool  // there is another ensemble with the same server lines
	Begins    bool  // servers are set up and started by faults, and their lines differ: see beginnings
	Midway    bool  // sessions are also ended between two steps of one loop iteration

	// The clients.
	Timeout  int64 // of sessions
	Think    int64 // mean time between requests
	Window   int   // requests under way
	Requests int   // of each client, at most
	Wide     int   // names per level
	Quits    int   // per mille of requests that are replaced by a disconnect or a closeSession
	Syncs    int   // percentage of requests that are syncs, in addition to those of the mix
	Calls    int   // percent of the calls of a state machine that take long after End, while the loop goes on
	TTL      bool
	Life     int64 // of TTL znodes, ms; 0 means longer than the run
}

// limits returns the clients' limits.
func (p *Plan) limits() (sets [limit.Scopes]limit.Set) {
	if p.Pace > 0 {
		sets[limit.Connection][limit.Requests] = p.Pace
		sets[limit.Address][limit.Bytes] = 200 * p.Pace
		sets[limit.Path] = limit.Set{limit.Requests: 3 * p.Pace, limit.Children: 100}
	}
	return sets
}

// Kind is a fault's effect.
type Kind string

// The kinds of fault. Dur is how long a fault lasts: until the server is
// started again, the path is open again, and so on.
const (
	Crash     Kind = "crash"      // the process dies, the disk's cache stays
	Power     Kind = "power"      // the power goes off, Arg file system calls later; if negative, -Arg that change names
	CrashAll  Kind = "crash-all"  // all processes die
	PowerAll  Kind = "power-all"  // the power of all servers goes off
	Restart   Kind = "restart"    // an orderly stop, leadership handed over
	Transfer  Kind = "transfer"   // the leader hands leadership over
	Pause     Kind = "pause"      // the process is stopped and continues
	Cut       Kind = "cut"        // no packets between Server and Other
	OneWay    Kind = "one-way"    // no packets from Server to Other, or with the Arg toAll to any server
	Isolate   Kind = "isolate"    // no packets between Server and its peers
	Ring      Kind = "ring"       // each server reaches its two neighbours only
	Halves    Kind = "halves"     // no packets between two groups
	Flap      Kind = "flap"       // a cut of Server and Other that comes and goes
	ClientCut Kind = "client-cut" // no packets between the clients and Server
	// the connections of Server and Other are reset; if Dur is set, data that Server sent meanwhile is lost
	Reset    Kind = "reset"
	Dropped  Kind = "dropped"   // the connections of Server's clients are reset
	Loss     Kind = "loss"      // Arg percent of all packets are lost
	SlowDisk Kind = "slow-disk" // an fdatasync takes Arg ms more
	// a file system call fails with EIO, Arg calls later; if negative, -Arg writes of a peer's snapshot
	DiskError Kind = "disk-error"
	HungDisk  Kind = "hung-disk"  // no syncs are finished until the end; Arg says of which files, 0 is the log
	LongApply Kind = "long-apply" // the next entry that Server applies takes it Arg ms
	DiskFull  Kind = "disk-full"  // the disk has Arg bytes left
	Rot       Kind = "rot"        // the process dies and a bit on its disk flips
	Lie       Kind = "lie"        // fsync lies, then the power goes off
	Clock     Kind = "clock"      // the wall clock jumps by Arg ms
	LowDisk   Kind = "low-disk"   // the disk has Arg bytes more than the limit for refusing writes, or fewer
	Wipe      Kind = "wipe"       // the disk is replaced by an empty one
	Double    Kind = "double"     // Arg percent of raft's messages arrive twice
	Join      Kind = "join"       // Server, if it is no member, becomes one, an observer if Arg is 1
	Leave     Kind = "leave"      // Server, if it is a member, leaves; its process continues if Arg is 1
	Frozen    Kind = "frozen"     // client Server stops and continues
	Diverge   Kind = "diverge"    // Server's state diverges from its log
	Upgrade   Kind = "upgrade"    // Server gets the newer version, by an orderly restart if Arg is 1
	// Servers panic at an entry; if Arg is 1, Other has a program that applies it.
	Poison  Kind = "poison"
	Program Kind = "program" // Server gets the program of number Arg, or for Dur one without rules: see rules
	Role    Kind = "role"    // Server, if it is a member, becomes an observer or a voter
	// an impostor elsewhere with an empty disk asks for Dur to join as Server; recorded plans use this name
	DuplicateID Kind = "twin"
	Restore     Kind = "restore" // Server's state is saved, and the state saved before is restored
	Swap        Kind = "swap"    // the servers whose bits are set in Arg become the only members, in one change
	// All servers end, and only those whose bits are set in Arg keep their disks: see recover.
	LostMajority Kind = "lost-majority"

	// Where servers begin; see beginnings.
	Alone    Kind = "alone"    // Server is set up without server lines, and started
	Begin    Kind = "begin"    // Server gets its server lines; Arg is a mistake about Other, corrected after Dur
	Copy     Kind = "copy"     // Server is stopped, and its disk is copied to Other, or moved if Arg is 1
	PutBack  Kind = "put-back" // Server's disk is replaced with the copy of Other's
	Aside    Kind = "aside"    // Server's data was set aside: it joins only
	Foreign  Kind = "foreign"  // Server has the disk of another ensemble with the same lines
	Doom     Kind = "doom"     // the next server that founds an ensemble ends right afterwards, for Dur
	Order    Kind = "order"    // Server is ordered to found an ensemble
	Off      Kind = "off"      // Server's machine is switched off
	NoName   Kind = "no-name"  // Server's name doesn't exist
	Astray   Kind = "astray"   // Server's name leads to another ensemble's server; all names, if Arg is 1
	Unproven Kind = "unproven" // Server has another secret than the others
	Stranger Kind = "stranger" // something else listens at Server's address, and the server doesn't run
)

// A Fault is one thing that goes wrong.
type Fault struct {
	At, Dur       int64
	Kind          Kind
	Server, Other int // numbers from 1
	Arg           int64
}

// kinds are the kinds of fault that a swarm chooses from, with their weights
// and the number of servers that they need.
var kinds = []struct {
	kind    Kind
	weight  int
	servers int
}{
	{Crash, 10, 1}, {Power, 12, 1}, {CrashAll, 2, 1}, {PowerAll, 3, 1}, {Restart, 4, 1}, {Transfer, 4, 2},
	{Pause, 6, 1}, {Cut, 5, 2}, {OneWay, 5, 2}, {Isolate, 8, 2}, {Ring, 3, 5}, {Halves, 5, 3}, {Flap, 3, 2},
	{ClientCut, 4, 1}, {Reset, 6, 2}, {Dropped, 6, 1}, {Loss, 3, 1}, {SlowDisk, 4, 1}, {DiskError, 4, 1},
	{DiskFull, 5, 1}, {Rot, 3, 3}, {Lie, 2, 3}, {Clock, 3, 1}, {LowDisk, 6, 1}, {Wipe, 7, 3}, {Double, 3, 2},
	{Join, 12, 1}, {Leave, 8, 1}, {Role, 5, 1}, {Swap, 6, 1}, {DuplicateID, 3, 3}, {Frozen, 4, 1},
}

// toAll is the Arg of a OneWay fault from one server to all others.
const toAll = 1

// changesMembers reports whether a fault changes the membership, for which there must be spare servers.
func (k Kind) changesMembers() bool { return k == Join || k == Leave || k == Role || k == Swap }

// pick returns one of the choices.
func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// NewPlanOf draws the plan of a seed, for so many seconds of simulated time, with the profile of that name; without a
// name, with one chosen by the seed.
func NewPlanOf(name string, seed uint64, seconds int) Plan {
	r := dice(seed, "plan")
	p := Plan{
		Seed: seed, Servers: pick(r, 1, 3, 3, 3, 3, 3, 3, 5, 5), Clients: 2 + r.IntN(6), End: int64(seconds) * second,
		Delay: between(r, millisecond/20, 2*millisecond), Jitter: pick[int64](r, 0, millisecond/10, millisecond,
			5*millisecond),
		Pieces: pick(r, 0, 2, 20), HalfOpen: pick(r, 0, 10, 50),
		Sync: pick(r, millisecond/10, millisecond, 5*millisecond), Tick: pick[int64](r, 200, 500, 1000) * millisecond,
		SnapCount: pick(r, 5, 20, 100, 1000), SnapshotsKept: 1 + r.IntN(3),
		SegmentSize: pick[int64](r, 4<<10, 16<<10, 64<<10),
		CacheSize:   pick(r, 1<<10, 64<<10, 1<<20),
		Think:       between(r, 50*millisecond, 400*millisecond), Window: 1 + r.IntN(8), Requests: 1 << 30, Wide: pick(r, 2,
			4,
			6),
		Quits: pick(r, 0, 3, 10), TTL: chance(r, 50),
	}
	p.Syncs = pick(r, 0, 0, 5, 30)
	p.Life = pick[int64](dice(seed, "life"), 0, 1000, 5000, 15000, 30000)
	p.Timeout = pick[int64](r, 2, 5, 10, 20) * p.Tick
	p.TwoDirs = seed%3 == 0
	p.ReadOnly, p.Refuse = chance(r, 50), pick[int64](r, 0, 64<<10, 128<<10)
	if chance(r, 45) {
		p.Spare = 5 - p.Servers
		p.Observe = min(pick(r, 0, 0, 1), p.Servers/3)
	}
	f := drawProfile(r)
	if i := slices.IndexFunc(profiles, func(f profile) bool { return f.name == name }); i >= 0 {
		f = &profiles[i]
	}
	p.Profile = f.name
	if f.world != nil {
		f.world(r, &p)
	}
	p.Spare = max(min(p.Spare, max(p.Most, 5)-p.Servers), 0)
	p.Observe = min(p.Observe, p.Servers/3)
	p.Absent = p.Absent || p.Spare > 0 && chance(dice(seed, "absent"), 50)
	drift := pick[int64](r, 0, driftMax)
	for range p.Servers + p.Spare {
		p.Drift = append(p.Drift, 1+float64(between(r, -drift, drift))/1e6)
	}
	if f.share > 0 {
		p.Midway, p.Local, p.Upgrading = chance(r, 30), chance(r, 20), chance(r, 50)
	}
	p.Upgrading = p.Upgrading && p.Local
	if f.kinds != nil || f.name == "swarm" {
		p.Faults = drawFaults(dice(seed, "faults"), &p, f)
	}
	if f.share > 0 {
		p.drawVersions(dice(seed, "versions"))
		p.drawDivergence(dice(seed, "divergence"))
		p.drawRules(dice(seed, "rules"))
	}
	if r := dice(seed, "hangs"); f.name == hanging || f.share > 0 && chance(r, 25) {
		p.drawHangs(r)
	}
	if r := dice(seed, "stands"); f.name == standing || f.share > 0 && chance(r, 25) {
		p.drawStands(r)
	}
	if f.name == panics {
		p.drawPanics(dice(seed, "panics"))
	}
	if f.name == recovering {
		p.drawLosses(dice(seed, "losses"))
	}
	if r := dice(seed, "links"); f.name == narrow || f.share > 0 && chance(r, 20) {
		p.Queue, p.Stream = pick(r, 4<<10, 16<<10), pick(r, 100*millisecond, second, 3*second)
	}
	if r := dice(seed, "large requests"); chance(r, 30) {
		p.Large = pick(r, 60, 100, 140)
	}
	if r := dice(seed, "restore"); f.name == restoring || p.Quotas && chance(r, 50) || f.share > 0 && chance(r, 15) {
		p.drawRestores(r)
	}
	return p
}

// hanging is the profile in which disks hang again and again.
const hanging = "hanging"

// standing is the profile in which servers also take their time to apply and to load.
const standing = "standing"

// drawHangs adds faults that let the disk of a server hang.
func (p *Plan) drawHangs(r *rand.Rand) {
	mean := 20 * second
	if p.Profile == hanging {
		mean = 5 * second
	}
	for at := 3 * second; at < p.End; at += int64((0.2 + r.ExpFloat64()) * float64(mean)) {
		f := Fault{At: at, Kind: HungDisk, Server: 1 + r.IntN(p.Servers), Other: 1}
		f.Dur = min(between(r, second/10, pick(r, second, 4*second, 4*second, 12*second, 12*second, 40*second)), p.End-at)
		if f.Arg = hangsLog; chance(r, 50) {
			f.Arg = between(r, 0, hangModes-1)
		}
		p.Faults = append(p.Faults, f)
	}
	p.sortFaults()
}

// drawStands adds entries whose Apply takes long, on one server or on all, and the time that snapshots take to load.
func (p *Plan) drawStands(r *rand.Rand) {
	mean := 20 * second
	p.Load = pick(r, 0, 0, 100*millisecond, second/2)
	if p.Profile == standing {
		mean = 5 * second
		p.Load = pick(r, 100*millisecond, second, 3*second)
	}
	for at := 4 * second; at < p.End; at += int64((0.2 + r.ExpFloat64()) * float64(mean)) {
		f := Fault{At: at, Kind: LongApply, Server: 1 + r.IntN(p.Servers), Other: 1}
		f.Arg = between(r, 100, pick[int64](r, 300, 1000, 4000, 12000))
		first, servers := f.Server, 1
		if chance(r, 30) {
			servers = p.Servers
		}
		for i := range servers {
			f.Server = 1 + (first-1+i)%p.Servers
			p.Faults = append(p.Faults, f)
		}
	}
	p.sortFaults()
}

// restoring is the profile in which snapshots are restored again and again.
const restoring = "restoring"

// drawRestores adds faults that restore the state of some seconds before.
func (p *Plan) drawRestores(r *rand.Rand) {
	for at := 3 * second; at < p.End; at += between(r, second/2, 12*second) {
		p.Faults = append(p.Faults, Fault{At: at, Kind: Restore, Server: 1 + r.IntN(p.Servers), Other: 1})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// drawFaults draws the list of faults: of the profile's kinds, or of a random
// subset at a mean interval of two to eight seconds.
func drawFaults(r *rand.Rand, p *Plan, of *profile) []Fault {
	hosts := p.Servers + p.Spare
	weights := make([]int, len(kinds))
	sum := 0
	for sum == 0 {
		share := pick(r, 20, 40, 70)
		for i, k := range kinds {
			weights[i] = 0
			swarm := of.kinds == nil && chance(r, share)
			if hosts >= k.servers && (p.Spare > 0 || !k.kind.changesMembers()) && (swarm || slices.Contains(of.kinds, k.kind)) {
				weights[i] = k.weight
			}
			sum += weights[i]
		}
	}
	mean := pick[int64](r, 2, 4, 8) * second
	if of.mean != 0 {
		mean = of.mean
	}
	var list []Fault
	for at := max(of.from, second); ; {
		at += int64(r.ExpFloat64() * float64(mean))
		if at >= p.End {
			break
		}
		n := r.IntN(sum)
		i := 0
		for ; n >= weights[i]; i++ {
			n -= weights[i]
		}
		f := drawFault(r, p, kinds[i].kind, at)
		if of.tune != nil {
			of.tune(r, &f)
			f.Dur = min(f.Dur, p.End-at)
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return list
}

// drawFault draws one fault of a kind.
func drawFault(r *rand.Rand, p *Plan, kind Kind, at int64) Fault {
	hosts := p.Servers + p.Spare
	f := Fault{
		At: at, Kind: kind, Server: 1 + r.IntN(hosts),
		Dur: int64((0.05 + r.ExpFloat64()) * float64(pick(r, 200*millisecond, second, 4*second, 12*second))),
	}
	f.Other = 1 + (f.Server+r.IntN(max(hosts-1, 1)))%hosts
	switch kind {
	case Power, PowerAll, Lie:
		f.Arg = between(r, -6, 7)
	case DiskError:
		f.Arg = pick(r, between(r, 1, 12), between(r, 1, 12), between(r, -3, -1))
	case Loss:
		f.Arg = pick[int64](r, 1, 5, 20, 30)
	case Double:
		f.Arg = pick[int64](r, 1, 10, 50)
	case SlowDisk:
		f.Arg = pick[int64](r, 10, 100, 2000)
	case DiskFull:
		f.Arg = int64(r.IntN(40 << 10))
	case LowDisk:
		f.Arg = between(r, -20<<10, 20<<10)
	case Clock:
		f.Arg = between(r, -3600_000, 3600_000)
	case Join, Leave:
		f.Arg = int64(r.IntN(3))
	case Swap:
		f.Arg = between(r, 1, 1<<hosts-1)
	}
	f.Dur = min(f.Dur, p.End-at)
	if slices.Contains([]Kind{Reset, Dropped, Transfer, Clock, DiskError, Join, Leave, Role, Swap}, kind) {
		f.Dur = 0
	}
	if kind == Lie { // the power goes off before the end
		f.Dur = max(min(f.Dur, p.End-at-2*second), 0)
	}
	return f
}

// driftMax is how far a clock's rate may be off, in parts per million.
const driftMax = 500

// wrongClocks reports whether the rates of the servers' clocks differ from the World's.
func (p *Plan) wrongClocks() bool {
	return slices.ContainsFunc(p.Drift, func(rate float64) bool { return rate != 1 }) ||
		slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Clock })
}

// jumps reports whether a clock jumps.
func (p *Plan) jumps() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Clock })
}
