package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The settings of every simulated server that are not drawn.
const (
	dataDir       = "/data"
	clusterID     = 0x5a001d
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
	held    []func()

	promise  promise
	log      *storage.Log // of the last life, to be asked what it holds
	out      string       // why it is not started any more; "" if it is
	restarts int
}

func (s *host) paused() bool { return s.pausing > 0 }

// monotonic is the server's monotonic clock, ns since its boot long ago.
func (s *host) monotonic() int64 { return int64(float64(s.w.now) * s.rate) }

// wall is its wall clock in ms.
func (s *host) wall() int64 { return (wallStart + s.monotonic() + s.offset) / millisecond }

// local turns a time of the server's clock into one of the World's.
func (s *host) local(d int64) int64 { return int64(float64(d) / s.rate) }

// when the server isn't paused run now, else when it goes on.
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
	rep  *server.Replica

	inbox   []quorum.Event
	ticks   int
	due     bool  // a turn is scheduled
	busy    int64 // until then the loop's goroutine waits for the disk
	elapsed int64 // since the present turn began
	conns   []*conn
	newID   func() int64
	record  recorder
	ended   bool
}

// start begins a process on what the disk holds.
func (s *host) start() {
	if s.life != nil || s.out != "" {
		return
	}
	w := s.w
	s.lives++
	l := &life{w: w, s: s, newID: server.NewIDs(s.id, w.now/millisecond+int64(s.lives)<<20)}
	s.life = l
	s.disk.begin(l)
	if !l.protect(l.open) {
		return
	}
	if s.life != l {
		return
	}
	for _, other := range w.servers {
		if other != s {
			link := w.links[s.index][other.index]
			link.up, link.backoff = false, backoffMin
			link.dial()
		}
	}
	l.turnSoon()
	l.tick()
	l.expire(s.monotonic() / millisecond)
	l.reap()
}

// open recovers the disk and begins the loop.
func (l *life) open() {
	s, plan := l.s, &l.w.plan
	dir, err := storage.Open(l.w.storageOptions(s.disk.fs, l.w.diskDice))
	if err != nil {
		l.refused(err)
		return
	}
	l.dir = dir
	if why := l.w.ledger.recovered(s, dir); why != "" {
		s.forgot(why)
		return
	}
	registry, err := auth.New(auth.Options{})
	if err != nil {
		panic(err)
	}
	var members []quorum.Member
	for _, m := range l.w.servers {
		members = append(members, quorum.Member{ID: m.id})
	}
	settings := tree.DefaultSettings()
	settings.ExtendedTypes = plan.TTL
	tick := time.Duration(plan.Tick)
	rep, applied, err := server.NewReplica(server.ReplicaOptions{
		Options: server.Options{
			ID: s.id, Members: members, Tick: tick, SessionTimeoutMin: 2 * tick, SessionTimeoutMax: 40 * tick,
			MaxOutstanding: 1 << 30, Settings: settings, SnapCount: plan.SnapCount,
		},
		Dir: dir, Cluster: clusterID, Auth: registry,
		Now: s.monotonic, Wall: s.wall, Secret: l.secret, Kick: l.turnSoon, Observe: l.record.observe,
	})
	if err != nil {
		l.refused(err)
		return
	}
	l.rep = rep
	l.loop, err = quorum.NewLoop(quorum.LoopOptions{
		ID: s.id, Dir: dir, State: &watched{Replica: rep, l: l}, Shell: l, Applied: applied, Members: members,
		ElectionTicks: electionTicks, SnapshotsKept: plan.SnapshotsKept, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		l.refused(err)
		return
	}
	s.log = dir.Log()
}

// storageOptions are those of every data directory.
func (w *World) storageOptions(fs *storage.MemFS, salts *rand.Rand) storage.Options {
	return storage.Options{
		FS: fs, Dir: dataDir, ClusterID: clusterID, SegmentSize: w.plan.SegmentSize, CacheSize: w.plan.CacheSize,
		Rand: &diceReader{salts}, Go: func(f func()) { f() },
		Space: storage.SpaceLimits{WarnPercent: -1, RefusePercent: -1, RefuseBytes: -1, ReserveBytes: reserveBytes},
	}
}

// refused handles a server that doesn't start on its disk.
func (l *life) refused(err error) {
	s := l.s
	s.end(false)
	switch {
	case s.disk.damaged():
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

// end is the end of a process; the disk stays as it is.
func (s *host) end(silent bool) {
	l := s.life
	if l == nil {
		return
	}
	s.life, l.ended = nil, true
	if l.dir != nil {
		s.log = l.dir.Log()
	}
	for _, c := range l.conns {
		c.serverGone(silent)
	}
	l.conns = nil
	s.fallen(silent, l)
}

// protect runs a piece of the process's work. It reports false if the process
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
	l.turnSoon()
}

// turnSoon has the loop run as soon as it is free.
func (l *life) turnSoon() {
	if l.due || l.ended {
		return
	}
	l.due = true
	l.w.at(max(l.busy, l.w.now), func() { l.s.awake(l.turn) })
}

// turn is one round of the loop: what waits is handled, then it works until
// nothing is left.
func (l *life) turn() {
	l.due = false
	if l.ended || l.loop == nil {
		return
	}
	l.elapsed = 0
	alive := l.protect(func() {
		inbox := l.inbox
		l.inbox = nil
		for i, e := range inbox {
			if l.w.ended {
				return
			}
			l.loop.Handle(e)
			inbox[i] = quorum.Event{}
		}
		for ; l.ticks > 0; l.ticks-- {
			l.loop.Tick()
		}
		l.loop.Turn()
	})
	l.busy, l.elapsed = l.w.now+l.elapsed, 0
	if !alive {
		return
	}
	if err := l.loop.Failed(); err != nil {
		l.failed(err)
		return
	}
	l.w.ledger.check(l)
}

// failed ends a process whose log can't be written any more.
func (l *life) failed(err error) {
	s := l.s
	if !s.disk.failing(err) {
		s.w.fail("server %d stops: %v", s.id, err)
		return
	}
	s.w.stats.FailStops++
	s.end(false)
	s.disk.reboot()
	s.w.after(restartPause, s.start)
}

// tick is the raft clock. A paused process misses ticks, and gets one when it goes
// on.
func (l *life) tick() {
	l.w.after(l.s.local(raftTick), func() {
		if l.ended {
			return
		}
		l.s.awake(func() {
			if !l.ended {
				l.ticks = 1
				l.turnSoon()
				l.tick()
			}
		})
	})
}

// expire is the clock of sessions.
func (l *life) expire(last int64) {
	l.w.after(l.s.local(l.w.plan.Tick), func() {
		l.s.awake(func() {
			if l.ended {
				return
			}
			now := l.s.monotonic() / millisecond
			l.protect(func() {
				l.rep.Expire(now, last)
				l.rep.CheckQuorum(now, patienceTicks*l.w.plan.Tick/millisecond)
			})
			l.expire(now)
		})
	})
}

func (l *life) reap() {
	l.w.after(l.s.local(reapInterval), func() {
		l.s.awake(func() {
			if !l.ended {
				l.protect(func() { l.rep.Reap(0) })
				l.reap()
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

// streamRate is how many bytes of a snapshot pass in one ns.
const streamRate = 0.02

// SendSnapshot implements quorum.Shell. A snapshot travels on a connection of its
// own, which breaks when anything happens on the way.
func (l *life) SendSnapshot(to, index uint64, message []byte) {
	w, s, other := l.w, l.s, l.w.servers[to-1]
	peer := other.life
	w.stats.SnapshotsSent++
	file, err := l.readSnapshot(index)
	took := 4*w.delay() + int64(float64(len(file))/streamRate)
	w.after(l.elapsed+took, func() {
		if err == nil && (l.ended || peer == nil || other.life != peer || w.cut(s.index, other.index) || other.paused()) {
			err = fmt.Errorf("the connection ended")
		}
		if err == nil {
			other.disk.receiving = true
			peer.protect(func() { err = peer.receive(s.id, message, file) })
			other.disk.receiving = false
		}
		w.after(w.delay(), func() { l.hear(quorum.Event{Kind: quorum.EventSent, From: to, Err: err}) })
	})
}

// receive writes a peer's snapshot file, which comes with raft's message.
func (l *life) receive(from uint64, message, file []byte) error {
	w, err := l.dir.ReceiveSnapshot()
	if err != nil {
		return err
	}
	if err := w.WriteRaw(file); err != nil {
		return errors.Join(err, w.Abort())
	}
	l.hear(quorum.Event{Kind: quorum.EventSnapshot, From: from, Data: message, File: w})
	return nil
}

func (l *life) readSnapshot(index uint64) ([]byte, error) {
	snap, err := l.dir.OpenSnapshot(index)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	b := make([]byte, snap.Size())
	if _, err := snap.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
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
	write = func() {
		l.w.after(l.w.plan.Sync+between(l.w.diskDice, 0, 20*millisecond), func() {
			l.s.awake(func() {
				if !l.ended {
					l.protect(work)
				}
			})
		})
	}
	write()
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

// SetPeers implements quorum.Shell: the members stay who they are.
func (l *life) SetPeers([]quorum.Member) {}
