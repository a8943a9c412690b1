package sim

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// The settings of the simulated servers that aren't drawn.
const (
	dataDir       = "/data"
	raftTick      = 50 * millisecond
	electionTicks = 10
	reapInterval  = 7 * second
	patienceTicks = 5
	restartPause  = second / 2 // before a server that failed is started again
)

// A host is the machine of one server: its disk, its clocks and, most of the time, a
// process.
type host struct {
	w     *World
	id    uint64
	index int // in World.links and World.cuts
	disk  disk
	life  *life // nil while no process runs
	lives int

	rate    float64 // of its clocks
	offset  int64   // of its wall clock, ns
	pausing int     // faults that pause it
	pauses  []span
	held    []func()
	drag    int64 // how long its next Apply takes more
	ahead   int64 // how far its clocks are ahead of the World's in the present step, because of a long Apply
	stoodTo int64 // when its loop turns again, or did, after a long Apply or loading a snapshot
	heldTo  int64 // when it works again, or did
	wantsTo int64 // until then it has waited for a snapshot, or does
	lagging bool  // its Apply took long, and it has received no snapshot since

	diverged  bool            // its state was made to differ
	twistedAt uint64          // by this entry
	level     int32           // highest feature level that its version knows
	program   int             // number of its program: see rules
	soundTo   uint64          // up to this entry its program has no fault: see poison
	mistaken  int             // number of operators that have started it with a program without rules
	installed bool            // it was set up
	stopped   bool            // it was stopped on purpose
	joins     int             // how often an operator has begun to make it a member
	config    []quorum.Member // the members that its configuration names
	begun     bool            // it has a log
	cluster   uint64          // of its data, if it has begun
	elected   uint64          // the lineage of the elected leader whose entry it applied last
	wiped     bool            // its disk was replaced, and it has not joined again yet
	replaced  bool            // its disk was replaced, and its vote doesn't count again yet
	// countsFrom is the entry from which the vote of a replaced server that votes
	// again counts; 0 if that isn't known yet.
	countsFrom uint64
	renewed    bool   // it has been replaced before
	lost       uint64 // the index it had acknowledged when it lost its disk
	joinedAt   int64  // when it last joined again
	awaits     bool   // it was admitted with an empty disk, and may not vote yet

	electorate [2][]uint64 // the voters as of the last applied entry, and those before them
	former     [2][]uint64 // the electorate before that
	formerTo   uint64      // the last entry in any log at that time: entries up to it may count by former

	promise promise
	voted   votes
	log     *storage.Log // of the last life, to examine its content
	out     string       // why it is no longer started; "" if it is

	// What servers meet that begin; see Plan.Begins.
	dark      state          // the machine is switched off
	unnamed   state          // its name doesn't exist
	secret    state          // it has another secret than the others
	astray    state          // its name leads to the server with its id of the twin
	stranger  state          // something else answers at its address
	keeps     bool           // its disk is that of a standalone server, or a copy
	foreign   bool           // its disk is that of another ensemble
	outlived  bool           // its disk is that of the ensemble of which the present one was made
	joinsOnly bool           // it must not found an ensemble
	ordered   bool           // it was ordered to found one
	kept      *storage.MemFS // a copy of its former disk
	stoppedAt int64          // when its last process ended that had a peer port
	lasted    int64          // how long that had run

	lastIndex uint64 // the last entry applied, unchanged since lastMoved
	lastMoved int64
}

func (s *host) paused() bool { return s.pausing > 0 }

// monotonic is the server's monotonic clock, ns since its boot long ago.
func (s *host) monotonic() int64 { return int64(float64(s.w.now+s.ahead) * s.rate) }

// wall is the server's wall clock in ms.
func (s *host) wall() int64 { return (wallStart + s.monotonic() + s.offset) / millisecond }

// local converts a duration by the server's clock to one by the World's.
func (s *host) local(d int64) int64 { return int64(float64(d) / s.rate) }

// awake calls run now or, if the server is paused, when it resumes.
func (s *host) awake(run func()) {
	if s.paused() {
		s.held = append(s.held, run)
		return
	}
	run()
}

// A life is one process of a server: the shell around a Loop and a Replica.
type life struct {
	w    *World
	s    *host
	dir  *storage.Dir
	loop *quorum.Loop
	rep  *replica.Replica

	twisted   bool   // the next entry makes its state diverge
	level     int32  // highest feature level that its version knows
	program   int    // number of its program, 0 for one without rules
	skips     []byte // the note of the last AnnounceSkips
	inbox     []quorum.Event
	ticks     int
	due       bool                    // a step is scheduled
	busy      int64                   // until then the loop's goroutine waits for the disk
	elapsed   int64                   // since the present step began
	pending   *quorum.Task            // of the log or a call, which is not finished
	pendingAt int64                   // when it began
	spared    int64                   // since when the others could do without this leader; 0: they can't
	ledAt     int64                   // when it learned the present leader, or that there is none
	writeAt   int64                   // before which it doesn't end
	lockedTo  int64                   // until then the replica is locked
	waiting   []func()                // for it
	loading   *storage.SnapshotWriter // the peer's snapshot that the loop loads, or has
	conns     []*conn
	served    map[*replica.Client]bool // the clients of connections that have not ended
	newID     func() int64
	record    recorder
	ended     bool

	peers     map[uint64]bool // that it connects to
	accepted  uint64          // number of connections accepted from peers
	questions []question
	inquiry   *quorum.Inquiry  // of a server that began with an empty disk, or a standalone server's data
	rounds    []int64          // when its last rounds of questions began
	image     quorum.Image     // of that data, until the ensemble is founded with it
	znodes    uint64           // in that data
	bare      bool             // it has no server lines, and no peer port
	began     int64            // when the process was started
	joinedIn  int64            // when its loop was started
	founding  *quorum.Founding // that it took part in, if any
	sending   map[uint64]*transfer
	taking    *transfer // from a peer
	incoming  storage.Incoming
	part      storage.Meta // of what incoming got last
	voters    []uint64     // raft's after the last Apply; outgoing are those before
	outgoing  []uint64
	// electorates are those in force since the present step began.
	electorates [][2][]uint64
	full        bool  // it refuses clients' writes for lack of room
	expired     int64 // when (ms of its clock) it last looked for sessions to end
}

// start begins a process on the disk's content.
func (s *host) start() {
	if s.life != nil || s.out != "" || !s.installed || s.stopped || s.dark.on() || s.stranger.on() {
		return
	}
	w := s.w
	w.logger(s.id).Info("starts")
	s.lives++
	l := &life{
		w: w, s: s, level: s.level, program: s.programNow(),
		newID: serverid.NewIDs(s.id, w.now/millisecond+int64(s.lives)<<20),
		peers: map[uint64]bool{}, served: map[*replica.Client]bool{}, bare: len(s.config) == 0, began: w.now,
		sending: map[uint64]*transfer{},
	}
	s.life = l
	s.disk.begin(l)
	l.protect(func() {
		switch cluster, err := storage.ReadIdentity(s.disk.fs, dataDir, w.logDir()); {
		case err == nil:
			b, err := l.joining()
			if err != nil {
				l.refused(err)
				return
			}
			b.Cluster = cluster
			if w.plan.Begins && !l.bare && b.JoinedAfter == 0 && l.standalone(cluster) {
				return
			}
			l.begin(b)
		case !errors.Is(err, fs.ErrNotExist):
			l.refused(err)
		case s.promise != promise{}:
			s.forgot("finds its disk empty")
		case l.bare:
			l.begin(quorum.Beginning{Cluster: l.number()})
		case len(s.config) == 1:
			b := aloneFrom(s.id, l.number())
			if err := l.joins(b); err != nil {
				l.refused(err)
				return
			}
			l.begin(b)
		default:
			l.inquire(quorum.Holding{})
		}
	})
}

// begin starts the server once it is known how to.
func (l *life) begin(b quorum.Beginning) {
	s, w := l.s, l.w
	if s.cluster != b.Cluster {
		s.cluster, s.voted = b.Cluster, votes{} // a term of one lineage is none of another
	}
	l.open(b)
	if s.life != l || l.loop == nil {
		return
	}
	l.joinedIn = w.now
	took := l.elapsed // recovery waits for a disk that hangs
	if _, ok := l.dir.NewestSnapshot(); ok {
		took += w.plan.Load
	}
	if l.elapsed = 0; took >= raftTick {
		l.busy, l.lockedTo = w.now+took, w.now+took
		l.stand(l.busy)
		w.at(l.lockedTo, l.unlock)
	}
	for _, other := range w.servers {
		if other != s {
			link := w.links[s.index][other.index]
			link.up, link.backoff = false, backoffMin
		}
	}
	if !s.begun && b.Founding == nil && !l.bare {
		// A new server that the others began without joins like one that lost its
		// disk: it was taken out, and doesn't count before it votes.
		s.replaced, s.renewed, s.countsFrom, w.unsettled = true, true, 0, true
	}
	s.begun = true
	l.SetPeers(l.loop.Peers())
	l.stepSoon()
	l.watchOvertaken()
	l.tick()
	l.expired = s.monotonic() / millisecond
	l.expire()
	l.look()
	l.watch()
	l.reap()
	l.lookAtSpace(false)
}

// open recovers the disk and creates the loop.
func (l *life) open(b quorum.Beginning) {
	s, plan := l.s, &l.w.plan
	dir, err := storage.Open(l.w.storageOptions(s, s.disk.fs, l.w.diskDice))
	if err != nil {
		l.refused(err)
		return
	}
	l.dir = dir
	s.lastMoved = l.w.now // it may have waited long to be admitted
	if why := l.w.ledger.recovered(s, dir); why != "" {
		s.forgot(why)
		return
	}
	treeOptions := l.treeOptions()
	state, err := treeload.Newest(dir, treeOptions, nil)
	if err != nil {
		l.refused(err)
		return
	}
	if l.founding, err = l.foundingKept(); err != nil {
		l.refused(err)
		return
	}
	applied := state.LastIndex()
	l.rep = replica.New(l.replicaOptions(dir, state, treeOptions))
	l.loop, err = quorum.NewLoop(quorum.LoopOptions{
		ID: s.id, Incarnation: s.id<<32 | uint64(s.lives), Dir: dir, State: &watched{Replica: l.rep, l: l}, Shell: l,
		Applied: applied, Members: l.configured(),
		Founding: l.founding, JoinedAfter: b.JoinedAfter, JoinedTerm: b.JoinedTerm, OnJoined: l.joined,
		ElectionTicks: electionTicks, SnapshotsKept: plan.SnapshotsKept, RunningOnly: !plan.Absent,
		Log: l.w.logger(s.id),
	})
	if err != nil {
		l.refused(err)
		return
	}
	s.log = dir.Log()
	l.voters, l.outgoing = l.loop.Voters()
}

// treeOptions returns the options of the process's trees.
func (l *life) treeOptions() tree.Options {
	o := treeload.Options(l.s.cluster, changeMembers, l.level)
	o.FindRule = l.findRule
	return o
}

// replicaOptions returns the options of a replica that begins with state.
func (l *life) replicaOptions(dir *storage.Dir, state *tree.Tree, treeOptions tree.Options) replica.Options {
	s, plan := l.s, &l.w.plan
	tick := time.Duration(plan.Tick)
	return replica.Options{
		ID: s.id, Servers: max(len(s.config), 1), Membership: l.membership(),
		Serving: replica.Serving{
			Tick: tick, SessionTimeoutMin: 2 * tick, SessionTimeoutMax: 40 * tick, MaxOutstanding: 1 << 30,
			SnapCount: plan.SnapCount,
			Limits:    plan.limits(), ReadOnlyMode: plan.ReadOnly, LocalSessions: plan.Local,
			LocalSessionsUpgrading: plan.Upgrading,
		},
		Settings: l.settings(), Log: l.w.logger(s.id),
		Auth: registry(), Tree: state, Began: s.monotonic(),
		Load: func(meta storage.Meta, snap *storage.Snapshot) (*tree.Tree, error) {
			return treeload.Tree(meta, snap, treeOptions)
		},
		Now: s.monotonic, Wall: s.wall, Secret: l.secret, Kick: l.stepSoon, Observe: l.record.observe, Vet: l.vet,
		LargeRequest: plan.Large, Forwarded: 4 * plan.Large, // a few requests
		Panicked: l.panicked,
	}
}

// reapAll removes all containers and TTL znodes that may go, except containers
// that never had a child.
func (l *life) reapAll() {
	var cursor uint32
	for first := true; first || cursor != 0; first = false {
		var paths []string
		paths, cursor = l.rep.Reapable(cursor, 0)
		for _, path := range paths {
			l.rep.Reap(path, 0)
		}
	}
}

// logDir is the directory of the servers' logs, on the same disk.
func (w *World) logDir() string {
	if w.plan.TwoDirs {
		return "/log"
	}
	return dataDir
}

// settings returns the settings that the server is configured with.
func (l *life) settings() tree.Settings {
	settings := tree.DefaultSettings()
	settings.FeatureLevel = l.level
	settings.ExtendedTypes, settings.ReconfigEnabled = l.w.plan.TTL, true
	settings.EnforceQuota = l.w.plan.Quotas
	if settings.Rules = l.rules(); len(settings.Rules) > 0 {
		settings.Schemes = auth.NewSchemes(append(settings.Schemes, ruledScheme)...)
	}
	return settings
}

// storageOptions returns the options of a server's data directory.
func (w *World) storageOptions(s *host, fs *storage.MemFS, salts *rand.Rand) storage.Options {
	return storage.Options{
		FS: fs, Dir: dataDir, LogDir: w.logDir(), ClusterID: s.cluster, SegmentSize: w.plan.SegmentSize,
		CacheSize: w.plan.CacheSize,
		Rand:      &diceReader{salts}, Go: func(f func()) { f() },
		Space: storage.SpaceLimits{
			WarnPercent: -1, RefusePercent: -1, RefuseBytes: max(w.plan.Refuse, 1), ReserveBytes: reserveBytes,
		},
	}
}

// refused handles a server that refuses to start on its disk.
func (l *life) refused(err error) {
	s := l.s
	if l.stopsForRule(err) {
		return
	}
	s.end(false)
	switch {
	case s.disk.damaged():
		s.w.logger(s.id).Info("refuses to start", "err", err)
		s.out = "refused: " + err.Error()
		s.w.stats.Refused++
	case s.disk.failing(err):
		s.w.after(restartPause, s.start)
	default:
		s.w.fail("server %d doesn't start: %v", s.id, err)
	}
}

// forgot handles a server that recovered less than it promised.
func (s *host) forgot(why string) {
	if s.disk.damaged() {
		s.end(false)
		s.out = "forgot: " + why
		s.w.stats.Forgot++
		return
	}
	s.w.fail("promise ledger: server %d %s", s.id, why)
}

// end ends the server's process; the disk stays as it is.
func (s *host) end(silent bool) {
	l := s.life
	if l == nil {
		return
	}
	s.w.logger(s.id).Info("ends", "powerCut", silent)
	s.life, l.ended = nil, true
	s.drag, s.ahead = 0, 0
	s.standsNoMore()
	if !l.bare {
		s.stoppedAt, s.lasted = s.w.now, s.w.now-l.began
	}
	if l.dir != nil {
		s.log = l.dir.Log()
	}
	for _, c := range l.conns {
		c.serverGone(silent)
	}
	l.conns = nil
	s.fallen(silent, l)
}

// protect runs a piece of the process's work. It returns false if the process
// ended in it.
func (l *life) protect(work func()) (alive bool) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case powerCut:
			alive = false
			l.s.lostPower()
		default:
			l.w.fail("server %d panics: %v\n%s", l.s.id, r, debug.Stack())
			alive = false
		}
	}()
	work()
	return !l.ended
}

// The loop's goroutine.

// hear queues an event for the loop.
func (l *life) hear(e quorum.Event) {
	if l.ended {
		return
	}
	l.inbox = append(l.inbox, e)
	l.stepSoon()
}

// stepSoon has the loop run as soon as it is free.
func (l *life) stepSoon() {
	if l.due || l.ended {
		return
	}
	l.due = true
	l.w.at(max(l.busy, l.w.now), func() { l.s.awake(l.step) })
}

// step runs the loop once: it handles waiting events, then works until nothing is left.
func (l *life) step() {
	l.due = false
	if l.ended || l.loop == nil {
		return
	}
	l.elapsed = 0
	l.electorates = append(l.electorates[:0], [2][]uint64{l.voters, l.outgoing})
	alive := l.protect(func() {
		inbox := l.inbox
		l.inbox = nil
		for i, e := range inbox {
			if l.w.ended {
				return
			}
			if l.elapsed >= raftTick || l.loads(&inbox[i]) { // time has passed: the rest is for a later step
				l.inbox = append(inbox[i:], l.inbox...)
				return
			}
			l.loop.Handle(e)
			inbox[i] = quorum.Event{}
		}
		for ; l.ticks > 0; l.ticks-- {
			l.loop.Tick()
		}
		l.write()
	})
	l.answer()
	if l.elapsed >= raftTick {
		l.stand(l.w.now + l.elapsed)
	}
	l.busy, l.elapsed, l.s.ahead = max(l.busy, l.w.now+l.elapsed), 0, 0
	if !alive {
		return
	}
	if err := l.loop.Failed(); err != nil {
		l.failed(err)
		return
	}
	if len(l.inbox) > 0 {
		l.stepSoon()
	}
	if l.s.cluster == l.w.descent.lineage {
		l.w.ledger.check(l)
	}
}

// failed ends a process that can no longer write its log.
func (l *life) failed(err error) {
	s := l.s
	if l.stopsForRule(err) || l.stopsForPanic(err) || l.gaveUp(err) {
		return
	}
	if !s.disk.failing(err) {
		s.w.fail("server %d stops: %v", s.id, err)
		return
	}
	s.w.stats.FailStops++
	s.end(false)
	s.disk.reboot()
	s.w.after(restartPause, s.start)
}

// patience is how long clients keep their connection to a server without a
// leader.
func (l *life) patience() int64 {
	p := &l.w.plan
	if p.ReadOnly {
		return min(patienceTicks*p.Tick, max(readOnlyPatience, p.Tick))
	}
	return patienceTicks * p.Tick
}

// readOnlyPatience is the same as the real server's.
const readOnlyPatience = 2 * second

// spaceInterval is how often the free space is checked.
const spaceInterval = second

// lookAtSpace acts as the server does when a disk fills up. led means that it led with a
// full disk at the last check.
func (l *life) lookAtSpace(led bool) {
	l.protect(func() {
		state, err := l.dir.SpaceState()
		if err == nil {
			l.full = state.Level == storage.SpaceRefuse
			l.rep.Space(state, l.loop.Status().Needed)
			if state.Short {
				l.Purge(l.w.plan.SnapshotsKept, 0)
			}
		} else if err := l.dir.Log().Err(); err == nil && !l.s.disk.failing(err) {
			l.w.trace(0x11)
		}
		if leads := l.full && l.loop.IsLeader(); leads && !led {
			l.loop.TransferLeadership()
			l.stepSoon()
			led = true
		} else {
			led = leads
		}
	})
	if l.ended {
		return
	}
	l.w.after(l.s.local(spaceInterval), func() {
		l.s.awake(func() {
			if !l.ended {
				l.lookAtSpace(led)
			}
		})
	})
}

func (l *life) reap() {
	l.w.after(l.s.local(reapInterval), func() {
		l.s.awake(func() {
			if !l.ended {
				l.locked(func() {
					l.protect(l.reapAll)
					l.reap()
				})
			}
		})
	})
}

func (l *life) secret() []byte {
	p := make([]byte, jute.PasswdSize)
	for i := range p {
		p[i] = byte(l.w.diskDice.Uint32())
	}
	return p
}

// The Shell of the loop.

// Send implements quorum.Shell.
func (l *life) Send(to uint64, kind quorum.FrameKind, payload []byte) bool {
	if kind == quorum.FrameRaft {
		l.w.ledger.promised(l.s, payload)
	}
	return l.w.links[l.s.index][to].send(l.w.now+l.elapsed, kind, payload)
}

// Connected implements quorum.Shell.
func (l *life) Connected(to uint64) bool { return l.w.links[l.s.index][to].up }

// Room implements quorum.Shell.
func (l *life) Room(to uint64) bool {
	return l.Connected(to) && l.w.links[l.s.index][to].waiting.room()
}

// WriteSnapshot implements quorum.Shell: one chunk at a time, with writes in
// between.
func (l *life) WriteSnapshot(meta storage.Meta, image quorum.Image) {
	l.w.stats.SnapshotsWritten++
	var out *storage.SnapshotWriter
	var bytes int64
	var write func()
	done := func(err error) {
		image.Close()
		if err != nil && out != nil {
			out.Abort()
		}
		l.hear(quorum.Event{Kind: quorum.EventWritten, Meta: meta, Bytes: bytes, Err: err})
	}
	work := func() {
		var err error
		if out == nil {
			if out, err = l.dir.CreateSnapshot(meta); err != nil {
				done(err)
				return
			}
		}
		chunk, more := image.Next(nil)
		if len(chunk) > 0 {
			if err = out.WriteChunk(chunk); err != nil {
				done(err)
				return
			}
			bytes += int64(len(chunk))
		}
		if more {
			write()
			return
		}
		done(out.Commit())
	}
	write = func() { l.besideLoop(work) }
	write()
}

// Purge implements quorum.Shell.
func (l *life) Purge(keep int, needed uint64) {
	l.besideLoop(func() { quorum.Purge(l.dir, keep, needed, l.w.logger(l.s.id)) })
}

// besideLoop does work on the disk a little later, if the server lives until then.
func (l *life) besideLoop(work func()) {
	l.w.after(l.w.plan.Sync+between(l.w.diskDice, 0, 20*millisecond), func() {
		l.s.awake(func() {
			l.s.whenSynced(func() {
				if !l.ended {
					l.unhurried(work)
				}
			})
		})
	})
}

// Beside implements quorum.Shell: the work is done before or after the loop's work.
func (l *life) Beside(work func()) (wait func()) {
	if chance(l.w.besideDice, 50) {
		return work
	}
	work()
	return func() {}
}

// diceReader gives storage its salts.
type diceReader struct{ r *rand.Rand }

// Read fills p.
func (d *diceReader) Read(p []byte) (int, error) {
	var b [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(b[:], d.r.Uint64())
		}
		p[i] = b[i%8]
	}
	return len(p), nil
}
