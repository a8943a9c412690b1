package sim

import "math/rand/v2"

// A profile is a choice of kinds of fault, at a mean interval, in a particular
// kind of world. If it has no kinds, the seed chooses them.
type profile struct {
	name  string
	kinds []Kind
	mean  int64 // ns between faults
	from  int64 // when the first may come, 0 for after a second
	world func(r *rand.Rand, p *Plan)
	tune  func(r *rand.Rand, f *Fault) // changes a drawn fault
	// share is its part of all seeds; profiles without one are chosen only by name.
	share int
}

// profiles are what NewPlan chooses from, by share or by name. Each profile
// without a share looks for one kind of bug: see the mutants.
var profiles = []profile{
	{name: "swarm", share: 6},
	{name: "calm", share: 1},
	{name: "storm", share: 1, kinds: []Kind{Crash, Power, PowerAll, CrashAll}, mean: second},
	{name: "restless", share: 1, kinds: []Kind{Reset, Loss, OneWay, Transfer, Dropped, Flap}, mean: second / 2,
		world: restless},
	{name: "members", share: 2, kinds: []Kind{Join, Leave, Role, Wipe, Crash, Isolate, Transfer, Cut, Halves},
		mean: 3 * second, world: growing},
	{name: "changes", share: 2, kinds: []Kind{Swap, Join, Leave, Role, Wipe, Crash, Pause, Transfer}, mean: second,
		world: changing, tune: briefly},
	// Leaders are elected while the membership changes, and slow disks take longer to commit their first entry than
	// the change may wait.
	{name: "hurried", kinds: []Kind{Swap, SlowDisk, Crash, Isolate}, mean: second / 2,
		world: func(r *rand.Rand, p *Plan) {
			changing(r, p)
			p.Servers, p.Observe, p.Hurried, p.ReadOnly, p.SnapCount = pick(r, 3, 3, 4), 0, true, false, 1000
			p.Spare = 5 - p.Servers
		}, tune: func(r *rand.Rand, f *Fault) {
			if briefly(r, f); f.Kind == SlowDisk {
				f.Arg, f.Dur = between(r, 100, 400), between(r, 2*second, 8*second)
			}
		}},
	{name: "disks", share: 1, kinds: []Kind{DiskError, DiskFull, LowDisk, Rot, Lie, Wipe, SlowDisk, Power},
		mean: 3 * second, world: fixed},
	{name: "cutoff", share: 1, kinds: []Kind{Isolate, Halves, Ring, CrashAll, Pause, Crash}, mean: 4 * second,
		world: cutoff},
	// Seven servers, of which three may be away.
	{name: "seven", share: 1, kinds: []Kind{
		Crash, Power, Isolate, Halves, Ring, Cut, OneWay, Transfer, Wipe, Pause, Rot, DiskError, Reset, Restart,
	}, mean: 3 * second, world: seven},
	// Seven servers are replaced, by others and by observers.
	{name: "seven-changes", kinds: []Kind{Swap, Join, Leave, Role, Crash, Transfer, Wipe}, mean: 2 * second,
		world: func(r *rand.Rand, p *Plan) {
			changing(r, p)
			seven(r, p)
			p.Servers, p.Most = pick(r, 3, 5), 7
			p.Spare = 7 - p.Servers
		}, tune: briefly},
	// The servers are in three regions, far from each other.
	{name: wide, share: 1, kinds: []Kind{
		Crash, Power, Isolate, Cut, OneWay, Flap, Transfer, Loss, Reset, Pause, Dropped, ClientCut, Restart, Wipe,
	}, mean: 3 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick = pick(r, 3, 5), pick[int64](r, 500, 1000)*millisecond
		p.Far, p.Jitter = between(r, 10*millisecond, 75*millisecond), pick[int64](r, 1, 5)*millisecond
		p.Timeout = pick[int64](r, 4, 10, 20) * p.Tick
	}},
	// Disks hang, and nothing else goes wrong.
	{name: hanging, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick = pick(r, 3, 3, 5), pick[int64](r, 500, 1000)*millisecond
		p.Timeout = pick[int64](r, 4, 10, 20) * p.Tick
	}},
	// Some disks are slow.
	{name: "slow-disks", kinds: []Kind{SlowDisk}, mean: 3 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Tick = pick[int64](r, 500, 1000) * millisecond
		p.Timeout = pick[int64](r, 4, 10, 20) * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Arg = pick[int64](r, 10, 50, 100, 300, 700, 2000, 5000) }},
	// Leaders are elected while disks are slow.
	{name: "elections", kinds: []Kind{SlowDisk, Transfer, Isolate}, mean: second / 2, world: fixed,
		tune: func(r *rand.Rand, f *Fault) {
			if f.Dur = between(r, second/2, 2*second); f.Kind == SlowDisk {
				f.Arg = between(r, 50, 450)
			}
		}},
	// Servers take long to apply and to load snapshots, which they need after being cut off. Calls of the state machine
	// take long, and at last there are no writes: a sync may be ready during another one's call.
	{name: "calling", kinds: []Kind{Reset, Transfer}, mean: 10 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Syncs, p.Calls = 3, 30, pick(r, 20, 50)
	}},
	{name: standing, kinds: []Kind{Isolate}, mean: 20 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick, p.SnapCount, p.SnapshotsKept = pick(r, 3, 3, 5), pick[int64](r, 200, 500, 1000)*millisecond,
			pick(r, 5, 20, 100), 1
		p.Timeout = pick[int64](r, 2, 4, 10, 20) * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second, 6*second) }},
	// Servers are cut off for longer than sessions last, and for less than their patience.
	{name: "outlived", kinds: []Kind{Isolate}, mean: 6 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick, p.ReadOnly, p.Clients, p.Quits = 3, second, false, 7, 0
		p.Timeout = 2 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, 4*second, 6*second) }},
	// Servers are suspended for longer than sessions last, and clients often have nothing but pings to send.
	{name: "suspended", kinds: []Kind{Pause}, mean: 5 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick, p.ReadOnly, p.Clients, p.Quits = 3, pick(r, second/2, second), false, 7, 0
		p.Timeout = 2 * p.Tick
		if chance(r, 70) {
			p.Think, p.Syncs = between(r, p.Tick, 4*p.Tick), 0
		}
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, 2*second, 7*second) }},
	// Snapshots are restored while leaders, servers and connections are lost.
	{name: restoring, kinds: []Kind{Transfer, Crash, PowerAll, Reset, Dropped, Isolate, Pause, LowDisk}, mean: 2 * second,
		world: func(r *rand.Rand, p *Plan) {
			fixed(r, p)
			p.Servers, p.SnapCount = pick(r, 1, 3, 3), pick(r, 5, 20)
		}, tune: briefly},
	// Quotas come and go, are restored, and come with snapshots.
	{name: quotas, kinds: []Kind{Transfer, Crash, PowerAll, Isolate, Wipe, Dropped}, mean: 2 * second,
		world: func(r *rand.Rand, p *Plan) {
			fixed(r, p)
			p.Servers, p.SnapCount, p.SnapshotsKept, p.Quotas = 3, pick(r, 5, 20), 1, true
			p.Think, p.Clients = between(r, 20*millisecond, 100*millisecond), 3
		}, tune: briefly},
	// Servers panic at an entry, and operators decide that the ensemble goes on without it.
	{name: panics, kinds: []Kind{Crash, Power, Pause, Isolate, Transfer, Restart, Reset, Wipe}, mean: 2 * second,
		world: fixed, tune: briefly},
	{name: "powers", kinds: []Kind{Power, PowerAll, Transfer}, mean: second, world: snapshotting},
	{name: "names", kinds: []Kind{Power, PowerAll}, mean: second / 2, world: snapshotting,
		tune: func(r *rand.Rand, f *Fault) {
			f.Arg, f.Dur = between(r, -9, -1), 200*millisecond
		}},
	{name: "failing", kinds: []Kind{DiskError, Isolate}, mean: 4 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		snapshotting(r, p)
		p.Servers, p.SnapshotsKept = 3, 1
	}, tune: func(r *rand.Rand, f *Fault) {
		if f.Kind == DiskError {
			f.Arg = between(r, -3, -1)
		} else {
			f.Dur = between(r, second, 3*second)
		}
	}},
	{name: "swallowed", kinds: []Kind{DiskError, Power}, mean: second / 2, world: batching,
		tune: func(r *rand.Rand, f *Fault) {
			if f.Dur = 200 * millisecond; f.Kind == DiskError {
				f.Arg = between(r, 1, 4)
			}
		}},
	// Several servers wouldn't begin while their power goes off all the time.
	{name: "batches", kinds: []Kind{Power, PowerAll}, mean: second / 2, from: begun, world: batching,
		tune: func(r *rand.Rand, f *Fault) {
			f.Arg, f.Dur = between(r, 1, 6), 200*millisecond
		}},
	{name: "rotten", kinds: []Kind{Rot, Crash}, mean: 3 * second, world: snapshotting, tune: briefly},
	{name: "rotten-log", kinds: []Kind{Rot, Crash}, mean: 3 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.SnapCount, p.SegmentSize, p.Think = 1000, 64<<10, between(r, 20*millisecond, 60*millisecond)
	}, tune: briefly},
	{name: "wipes", kinds: []Kind{Wipe, Isolate, Halves}, mean: 2 * second, world: fixed,
		tune: func(r *rand.Rand, f *Fault) {
			if briefly(r, f); f.Kind != Wipe {
				f.Dur *= 4
			}
		}},
	// A server that joins again gets an older snapshot, and is behind the log again.
	{name: "rejoin", kinds: []Kind{Wipe, Isolate}, mean: 2 * second, world: func(r *rand.Rand, p *Plan) {
		snapshotting(r, p)
		p.Servers, p.SnapCount, p.SnapshotsKept, p.Clients, p.Refuse = 3, 5, 1, 6, 0
		p.Delay, p.Tick = between(r, 10*millisecond, 40*millisecond), second
		p.Timeout = 20 * p.Tick
	}, tune: briefly},
	// Disks are lost while leaders are away, slow or deposed, and while roles change.
	{name: "lost", share: 1, kinds: []Kind{Wipe, Role, Isolate, Pause, SlowDisk, CrashAll, Transfer, Crash},
		mean: 2 * second, world: func(r *rand.Rand, p *Plan) {
			p.Servers, p.Observe = pick(r, 3, 3, 5), 0
			p.Spare = pick(r, 0, 5-p.Servers)
			p.SnapCount, p.Refuse = pick(r, 5, 20, 100, 1000), 0
			if chance(r, 50) {
				p.Delay, p.Tick = between(r, 10*millisecond, 40*millisecond), second
				p.Timeout = 10 * p.Tick
			}
		}, tune: func(r *rand.Rand, f *Fault) {
			if f.Kind != SlowDisk {
				briefly(r, f)
			}
		}},
	// An impostor asks in the name of servers that restart.
	{name: "duplicates", kinds: []Kind{DuplicateID, Crash, Restart, Pause, Wipe}, mean: 2 * second, world: fixed,
		tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second, 4*second) }},
	// Server 3 is away while the others are replaced. They leave and run on.
	{name: "replaced", world: func(r *rand.Rand, p *Plan) {
		p.Servers, p.Spare, p.Observe = 3, 2, 0
		p.Faults = []Fault{
			{At: begun, Dur: 13 * second, Kind: Crash, Server: 3, Other: 1},
			{At: begun + second/2, Kind: Join, Server: 4, Other: 1}, {At: begun + 5*second/2, Kind: Join, Server: 5, Other: 1},
			{At: begun + 9*second/2, Kind: Leave, Server: 1, Other: 2, Arg: 1},
			{At: begun + 13*second/2, Kind: Leave, Server: 2, Other: 1, Arg: 1},
		}
	}},
	// Servers are added before they are started, with a disk that is always empty.
	{name: "absent", kinds: []Kind{Join, Leave, Crash, Isolate, Transfer, Restart}, mean: 2 * second,
		world: func(r *rand.Rand, p *Plan) {
			p.Servers, p.Observe, p.Absent, p.Tick = pick(r, 3, 3, 4), 0, true, 200*millisecond
			p.Spare, p.Timeout = 5-p.Servers, 20*p.Tick
		},
		tune: func(r *rand.Rand, f *Fault) {
			if briefly(r, f); f.Kind == Join || f.Kind == Leave {
				f.Arg = 2
			}
		}},
	// Servers are away while all others are replaced.
	{name: "away", kinds: []Kind{Crash, Isolate, Join, Leave}, mean: 3 * second, world: growing,
		tune: func(r *rand.Rand, f *Fault) {
			switch f.Kind {
			case Crash, Isolate:
				f.Dur = between(r, 5*second, 20*second)
			case Leave:
				f.Arg = 1
			}
		}},
	// Writes are refused for a moment while answers get lost.
	{name: "refusals", kinds: []Kind{LowDisk, Dropped, Loss}, mean: second, world: func(r *rand.Rand, p *Plan) {
		p.Servers, p.Spare, p.Observe = pick(r, 1, 1, 3), 0, 0
		p.Window, p.Think, p.Clients, p.HalfOpen = 8, between(r, 20*millisecond, 100*millisecond), 7, 50
		p.Refuse = 128 << 10
	}, tune: func(r *rand.Rand, f *Fault) {
		if f.Dur = between(r, 100*millisecond, 1500*millisecond); f.Kind == LowDisk {
			f.Arg = between(r, -20<<10, -1)
		} else if f.Kind == Loss {
			f.Arg, f.Dur = 30, 2*f.Dur
		}
	}},
	// Clients are faster than their limits, while answers get lost.
	{name: "paced", kinds: []Kind{Dropped, Loss, Transfer, Crash}, mean: 2 * second, world: func(r *rand.Rand, p *Plan) {
		p.Servers, p.Spare, p.Observe = pick(r, 1, 3, 3), 0, 0
		p.Window, p.Think, p.Clients, p.HalfOpen = 8, between(r, 20*millisecond, 60*millisecond), 7, 50
		p.Pace = between(r, 20, 60)
	}, tune: briefly},
	{name: "sparse", kinds: []Kind{Transfer, Crash, Reset}, mean: 8 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Quits, p.Window, p.Think, p.HalfOpen, p.Syncs, p.Tick = 0, 8, between(r, 10*millisecond, 50*millisecond), 0, 20,
			second
		p.Timeout, p.Jitter = 20*p.Tick, 20*millisecond
	}, tune: briefly},
	// Sessions end while leadership passes.
	{name: "handover", kinds: []Kind{Transfer, Frozen}, mean: second / 2, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Tick, p.Clients, p.ReadOnly, p.Midway = 200*millisecond, 7, false, true
		p.Timeout = 2 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second, 3*second) }},
	// A server receives nothing while clients connect to it, lose patience and move on.
	{name: "deaf", kinds: []Kind{OneWay}, mean: second / 3, world: func(r *rand.Rand, p *Plan) {
		restless(r, p)
		fixed(r, p)
		p.Tick, p.HalfOpen, p.Clients = 200*millisecond, 100, 7
		p.Timeout = 2 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second/2, 2*second) }},
	// Servers aren't heard for longer than their patience, and for less than half of their sessions' timeout.
	{name: "unheard", kinds: []Kind{OneWay, Isolate}, mean: 4 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Tick, p.ReadOnly, p.Clients, p.HalfOpen = 3, 200*millisecond, false, 7, 0
		p.Timeout = 40 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Arg, f.Dur = toAll, between(r, 3*second, 9*second) }},
	// Clients that watch many paths come and go.
	{name: "watchful", kinds: []Kind{Dropped, Transfer, Crash}, mean: 3 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Watchful, p.Quits, p.Window = pick(r, 1, 3), true, 3, 8
		p.Think = between(r, 10*millisecond, 40*millisecond)
		p.Local = chance(r, 30)
	}, tune: briefly},
	// Local sessions begin to write while leaders and connections are lost.
	{name: "local", kinds: []Kind{Transfer, Crash, Reset, Dropped, Isolate, Frozen}, mean: second, world: local,
		tune: briefly},
	// Many sessions begin to write when a connection to the leader is new.
	{name: "entering", kinds: []Kind{Reset}, mean: second / 2, world: func(r *rand.Rand, p *Plan) {
		local(r, p)
		p.Servers, p.Clients, p.Quits, p.Think, p.HalfOpen = 3, 7, 200, between(r, 10*millisecond, 30*millisecond), 0
		p.Tick, p.Jitter = second, 20*millisecond
		p.Timeout = 20 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, 100*millisecond, 400*millisecond) }},
	{name: "slow", kinds: []Kind{SlowDisk, Pause, Transfer, Isolate, Loss, Reset}, mean: second,
		world: func(r *rand.Rand, p *Plan) {
			restless(r, p)
			fixed(r, p)
			p.Syncs, p.Quits = 60, 3
		}},
	{name: "resets", kinds: []Kind{Reset}, mean: 4 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Quits, p.Window, p.Think, p.HalfOpen, p.Tick = 3, 0, 8, between(r, 10*millisecond, 50*millisecond), 0,
			second
		p.Timeout, p.Jitter, p.Clients = 20*p.Tick, 20*millisecond, 6
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, 100*millisecond, 400*millisecond) }},
	// Followers start again and again, each time with unanswered syncs.
	{name: "reborn", kinds: []Kind{Crash, Pause}, mean: second / 4, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Servers, p.Clients, p.Syncs, p.Quits, p.Think, p.HalfOpen = 3, 7, 60, 0, between(r, 5*millisecond, 20*millisecond),
			0
		p.Tick, p.Sync, p.Refuse = second, millisecond/10, 0
		p.Timeout, p.Delay, p.Jitter = 20*p.Tick, 5*millisecond, 20*millisecond
	}, tune: func(r *rand.Rand, f *Fault) {
		if f.Dur = between(r, millisecond, 20*millisecond); f.Kind == Pause {
			f.Dur = between(r, 50*millisecond, 500*millisecond)
		}
	}},
	{name: "takeover", kinds: []Kind{Flap, OneWay, Cut}, mean: second / 3, world: func(r *rand.Rand, p *Plan) {
		restless(r, p)
		fixed(r, p)
		p.Quits, p.HalfOpen, p.Timeout = 100, 50, 20*p.Tick
	}, tune: briefly},
	{name: "quiet", world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.ReadOnly, p.Tick = false, 200*millisecond
		p.Timeout, p.Think, p.Quits = 5*p.Tick, between(r, p.Tick, 4*p.Tick), pick(r, 3, 30)
	}},
	{name: "frozen", kinds: []Kind{Frozen}, mean: second / 2, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		p.Tick = 200 * millisecond
		p.Timeout = 5 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second, 3*second) }},
	{name: "pauses", kinds: []Kind{Pause}, mean: 6 * second, world: func(r *rand.Rand, p *Plan) {
		p.Servers, p.Spare, p.Observe, p.Tick = pick(r, 1, 1, 1, 3), 0, 0, 200*millisecond
		p.Timeout = 10 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second/2, 4*second) }},
	{name: misled, kinds: []Kind{Clock}, mean: 15 * second, world: fixed,
		tune: func(r *rand.Rand, f *Fault) { f.Server = 1 }},
	// Servers begin: see beginnings.
	{name: begins, world: beginnings},
	// Majorities are lost for good: see recover.
	{name: recovering, kinds: []Kind{Crash, Power, Isolate, Cut, Pause, Transfer, Reset}, mean: 3 * second,
		world: func(r *rand.Rand, p *Plan) {
			fixed(r, p)
			p.Servers, p.Spare, p.Observe, p.ReadOnly = pick(r, 3, 5), 0, 0, false
		}},
	{name: "clocks", kinds: []Kind{Clock, Transfer, Crash}, mean: second, world: fixed},
	{name: "filling", kinds: []Kind{DiskFull, LowDisk}, mean: 2 * second, world: snapshotting},
	// Send queues are small, and snapshots take long to arrive: see waiting and transfer.
	{name: narrow, kinds: []Kind{Isolate, Pause, Reset, Transfer, Crash, Cut, OneWay}, mean: 2 * second,
		world: func(r *rand.Rand, p *Plan) {
			fixed(r, p)
			p.SnapCount, p.SnapshotsKept, p.SegmentSize = pick(r, 5, 20, 100), 1, 4<<10
			p.Think, p.Clients = between(r, 20*millisecond, 100*millisecond), 7
		}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, second/2, 8*second) }},
	{name: "lagging", kinds: []Kind{Isolate, Pause}, mean: 4 * second, world: func(r *rand.Rand, p *Plan) {
		fixed(r, p)
		snapshotting(r, p)
		p.Servers, p.ReadOnly, p.Tick, p.Clients, p.CacheSize = 3, false, second, 7, 1<<10
		p.Timeout = 20 * p.Tick
	}, tune: func(r *rand.Rand, f *Fault) { f.Dur = between(r, 3*second/2, 4*second) }},
}

// narrow is the profile of small send queues and slow links.
const narrow = "narrow"

// quotas is the profile in which a client is a keeper.
const quotas = "quotas"

// wide is the profile of servers that are far from each other.
const wide = "wide"

// seven is a world of seven servers.
func seven(r *rand.Rand, p *Plan) {
	p.Servers, p.Spare, p.Observe, p.Most = 7, 0, 0, 7
	p.Clients = 4 + r.IntN(6)
}

// begun is when three servers that start together have begun, with some time to spare.
const begun = 10 * second

// restless is a world whose clients come and go.
func restless(r *rand.Rand, p *Plan) {
	p.Quits, p.Window, p.Think, p.Timeout = 60, 8, between(r, 20*millisecond, 100*millisecond), 5*p.Tick
	p.Jitter = pick(r, 5*millisecond, 20*millisecond)
}

// local is a world of local sessions, many of them short.
func local(r *rand.Rand, p *Plan) {
	restless(r, p)
	fixed(r, p)
	p.Tick, p.Local, p.Upgrading, p.ReadOnly = 200*millisecond, true, chance(r, 50), false
	p.Timeout = pick[int64](r, 5, 20) * p.Tick
}

// growing is a world whose ensemble changes.
func growing(r *rand.Rand, p *Plan) {
	p.Servers = pick(r, 1, 1, 3, 3, 4)
	p.Spare = 5 - p.Servers
	p.Observe = 0
	if p.Servers == 4 {
		p.Observe = 1
	}
}

// changing is a world whose ensemble changes all the time, while servers stop, freeze
// and lose their disks.
func changing(r *rand.Rand, p *Plan) {
	growing(r, p)
	p.Changing, p.Tick = true, 200*millisecond
	p.Timeout = 20 * p.Tick
}

// fixed makes the ensemble one whose membership doesn't change.
func fixed(r *rand.Rand, p *Plan) { p.Servers, p.Spare, p.Observe = pick(r, 3, 3, 5), 0, 0 }

// cutoff is a world whose servers serve read-only without a quorum.
func cutoff(r *rand.Rand, p *Plan) {
	fixed(r, p)
	p.ReadOnly, p.Tick = true, 200*millisecond
	p.Timeout = pick[int64](r, 5, 10, 20) * p.Tick
}

// snapshotting is a world of many snapshots and small files.
func snapshotting(r *rand.Rand, p *Plan) {
	p.Servers, p.Spare, p.Observe = pick(r, 1, 3, 3), 0, 0
	p.SnapCount, p.SnapshotsKept, p.SegmentSize = pick(r, 5, 10), 1+r.IntN(2), 4<<10
	p.Think, p.Refuse = between(r, 20*millisecond, 60*millisecond), pick[int64](r, 0, 64<<10)
}

// batching is a world of large batches.
func batching(r *rand.Rand, p *Plan) {
	p.Servers, p.Spare, p.Observe = pick(r, 1, 3), 0, 0
	p.SnapCount, p.SegmentSize, p.Sync = 1000, 64<<10, 5*millisecond
	p.Window, p.Think, p.Quits = 32, 5*millisecond, 0
}

// briefly makes a fault short.
func briefly(r *rand.Rand, f *Fault) { f.Dur = between(r, 100*millisecond, 2*second) }

// drawProfile draws one of the profiles that have a share.
func drawProfile(r *rand.Rand) *profile {
	sum := 0
	for i := range profiles {
		sum += profiles[i].share
	}
	n := r.IntN(sum)
	for i := range profiles {
		if n -= profiles[i].share; n < 0 {
			return &profiles[i]
		}
	}
	panic("sim: the shares of the profiles don't add up")
}
