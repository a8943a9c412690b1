package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// A cluster is a group of Loops on memory disks that a test steps: no
// goroutine, no clock, no socket.
type cluster struct {
	t       *testing.T
	members []Member
	ids     []uint64
	nodes   map[uint64]*node
	cut     map[[2]uint64]bool // links that lose everything
	strange bool               // servers are linked only if each knows the other's address
	changes map[uint64]Change  // of membership, by id
	lives   uint64
	log     slog.Handler // of servers that start from now on; nil for none
	said    uint64
	late    map[[2]uint64][]func()            // frames on draining that are kept back, by link; nil if none are
	spoil   func(message, file []byte) []byte // changes a snapshot on its way, and returns the message
	slow    bool                              // snapshots wait in streams
	streams []func()
}

// A node is one server: its Loop, its disk, what it applied, and its Shell.
type node struct {
	c     *cluster
	id    uint64
	fs    *storage.MemFS
	loop  *Loop
	dir   *storage.Dir
	inbox []func() // frames and events on their way

	// The state machine: a list of numbers, each proposed by one server.
	mine     []uint64 // of this server, not applied yet
	waiting  []uint64 // to be taken by Batch or Forward
	applied  []uint64
	ticket   uint64
	synced   uint64
	seen     int // applied when the last sync was answered
	wanted   []Member
	version  int64
	change   *Change              // staged by a number of asks
	ended    map[int64]ChangeStep // how each change ended
	snapshot int64                // log bytes that make one due; 0 for never
	joined   bool
	peers    []Member   // as SetPeers and AddPeers were told
	told     [][]Member // as SetPeers was
	known    []Member   // in this life
	dropped  []uint64   // as DropPeer was told
	full     bool       // this server's queue to its leader has no room
	garbled  bool       // its snapshots hold no state

	clock, correction int64

	note     []byte // as AnnounceSkips was told
	poisoned bool   // applying the number poison fails
	doubtful bool
	odd      uint64 // the digest of its state
	mayFail  bool
	failed   error

	level, inForce, supported uint32 // feature levels; 0 is 1

	unfit bool // it can't go on from a snapshot

	frames FrameKind // that it announces

	rules     []byte // that it announces, unless they are nil
	announced []Announcement

	hung  bool  // its disk finishes no write
	write *Task // an append that its disk has begun
	busy  bool  // its state machine finishes no call

	forwarded int    // bytes that Forwarded got
	called    *Task  // a call that its state machine has begun
	report    []byte // what Report returns
	upToDate  int64  // tick as of which it is up to date
	reported  int    // number of reports that it got
	sent      func(to uint64, kind FrameKind, payload []byte)
}

// turn does what waits, as far as the disk lets it.
func (b *node) turn() {
	for w := b.loop.Advance(); w != nil; w = b.loop.Advance() {
		if b.hung && w.Appends() {
			b.write = w
			return
		}
		if b.busy && !w.Appends() {
			b.called = w
			return
		}
		w.Do()
		b.loop.Done()
	}
}

// used fails the test if the state machine is used while a call is under way.
func (b *node) used(method string) {
	if b.called != nil {
		b.c.t.Errorf("server %d: the loop calls %s while its state machine is busy", b.id, method)
	}
}

// rest lets a busy state machine finish its call.
func (b *node) rest() {
	b.busy = false
	if w := b.called; w != nil {
		b.called = nil
		w.Do()
		b.loop.Done()
		b.turn()
	}
}

// heal lets a disk that hung finish its write.
func (b *node) heal() {
	b.hung = false
	if w := b.write; w != nil {
		b.write = nil
		w.Do()
		b.loop.Done()
	}
}

func newCluster(t *testing.T, ids ...uint64) *cluster {
	c := &cluster{t: t, ids: ids, nodes: map[uint64]*node{}, cut: map[[2]uint64]bool{}, changes: map[uint64]Change{}}
	for _, id := range ids {
		c.members = append(c.members, Member{ID: id, Addrs: []string{fmt.Sprint("server", id)}})
	}
	for _, id := range ids {
		c.nodes[id] = &node{c: c, id: id, fs: storage.NewMemFS(), ended: map[int64]ChangeStep{}}
		c.open(id, 0, 0)
	}
	return c
}

// open starts a server on its disk.
func (c *cluster) open(id, joinedAfter, joinedTerm uint64) {
	c.t.Helper()
	b := c.nodes[id]
	dir, err := storage.Open(storage.Options{
		FS: b.fs, Dir: "/data", ClusterID: 7, SegmentSize: 64 << 10, Rand: rand.NewChaCha8([32]byte{byte(id)}),
		Go: func(f func()) { f() }, Space: storage.SpaceLimits{ReserveBytes: -1},
	})
	if err != nil {
		c.t.Fatalf("open the disk of server %d: %v", id, err)
	}
	b.dir, b.applied, b.inbox, b.change, b.write = dir, nil, nil, nil, nil
	var index uint64
	if meta, ok := dir.NewestSnapshot(); ok {
		snap, err := dir.OpenSnapshot(meta.Index)
		if err != nil {
			c.t.Fatal(err)
		}
		install, err := b.Load(meta, snap)
		if err != nil {
			c.t.Fatal(err)
		}
		install()
		snap.Close()
		index = meta.Index
	}
	c.lives++
	log := slog.DiscardHandler
	if c.log != nil {
		log = c.log
	}
	b.loop, err = NewLoop(LoopOptions{
		ID: id, Incarnation: c.lives, Dir: dir, State: b, Shell: b, Applied: index, Members: c.members, ElectionTicks: 10,
		SnapshotsKept: 1,
		Log:           slog.New(log), JoinedAfter: joinedAfter, JoinedTerm: joinedTerm, OnJoined: func() { b.joined = true },
	})
	if err != nil {
		c.t.Fatalf("start server %d: %v", id, err)
	}
	b.known = b.loop.Peers()
}

// join starts a server with an empty disk that was let in.
func (c *cluster) join(id uint64, r JoinReply) {
	c.t.Helper()
	c.nodes[id].fs, c.nodes[id].joined = storage.NewMemFS(), false
	c.open(id, r.Index, r.Term)
}

// crash stops a server without any care.
func (c *cluster) crash(id uint64) {
	c.nodes[id].loop = nil
	for _, other := range c.ids {
		if o := c.nodes[other]; o.loop != nil {
			o.post(func() { o.loop.Handle(Event{Kind: EventLost, From: id}) })
		}
	}
}

// restart starts it again on what its disk has.
func (c *cluster) restart(id uint64) {
	c.nodes[id].fs.Reboot()
	c.open(id, 0, 0)
	c.greet(id)
}

// greet tells every pair with id that their connection is new.
func (c *cluster) greet(id uint64) {
	for _, other := range c.ids {
		for _, pair := range [][2]uint64{{id, other}, {other, id}} {
			if b := c.nodes[pair[0]]; pair[0] != pair[1] && b.loop != nil {
				b.post(func() { b.loop.Handle(Event{Kind: EventConnected, From: pair[1]}) })
				if o := c.nodes[pair[1]]; o.level > LevelFirst || o.frames > 0 {
					e := Event{Kind: EventLevel, From: pair[1], Level: max(o.level, LevelFirst), Frames: o.frames}
					b.post(func() { b.loop.Handle(e) })
				}
				if rules := c.nodes[pair[1]].rules; rules != nil {
					b.post(func() { b.loop.Handle(Event{Kind: EventRules, From: pair[1], Data: rules}) })
				}
				if note := c.nodes[pair[1]].note; note != nil && c.nodes[pair[1]].loop != nil {
					b.post(func() { b.loop.Handle(Event{Kind: EventSkips, From: pair[1], Data: note}) })
				}
			}
		}
	}
}

func (b *node) post(f func()) { b.inbox = append(b.inbox, f) }

// step delivers what is on its way and lets every server take a turn, until
// nothing moves; ticks says how many ticks pass before.
func (c *cluster) step(ticks int) {
	c.t.Helper()
	for range ticks {
		for _, id := range c.ids {
			if b := c.nodes[id]; b.loop != nil {
				b.loop.Tick()
			}
		}
		for moved := true; moved; {
			moved = false
			for _, id := range c.ids {
				b := c.nodes[id]
				if b.loop == nil {
					b.inbox = nil
					continue
				}
				for _, f := range b.inbox {
					moved = true
					if f(); b.loop == nil {
						break
					}
				}
				b.inbox = b.inbox[:0]
				b.turn()
				if err := b.loop.Failed(); err != nil && b.mayFail {
					b.failed = err
					c.crash(id)
					continue
				} else if err != nil {
					c.t.Fatalf("server %d failed: %v", id, err)
				}
				moved = moved || len(b.inbox) > 0
			}
			for _, id := range c.ids {
				moved = moved || len(c.nodes[id].inbox) > 0 && c.nodes[id].loop != nil
			}
		}
	}
	c.check()
}

// check holds the invariants: one leader per term, logs that agree.
func (c *cluster) check() {
	c.t.Helper()
	leaders := map[uint64]uint64{}
	var longest []uint64
	for _, id := range c.ids {
		b := c.nodes[id]
		if len(b.applied) > len(longest) {
			longest = b.applied
		}
		if b.loop != nil && b.loop.IsLeader() {
			if other, taken := leaders[b.loop.node.Term()]; taken {
				c.t.Fatalf("servers %d and %d both lead term %d", other, id, b.loop.node.Term())
			}
			leaders[b.loop.node.Term()] = id
		}
	}
	for _, id := range c.ids {
		for i, n := range c.nodes[id].applied {
			if longest[i] != n {
				c.t.Fatalf("server %d applied %d as number %d, another %d", id, n, i, longest[i])
			}
		}
	}
}

// leader steps until there is one, cut off from nobody.
func (c *cluster) leader() *node {
	c.t.Helper()
	for range 200 {
		for _, id := range c.ids {
			if b := c.nodes[id]; b.loop != nil && b.loop.IsLeader() && len(b.loop.node.Followers()) > 0 && c.followed(b) {
				return b
			}
		}
		c.step(1)
	}
	c.t.Fatal("no leader in 200 ticks")
	return nil
}

func (c *cluster) followed(b *node) bool {
	n := 1
	for _, id := range c.ids {
		if o := c.nodes[id]; o != b && o.loop != nil && o.loop.node.Leader() == b.id {
			n++
		}
	}
	return n > len(b.loop.conf.GetVoters())/2
}

// say makes a server want n agreed on.
func (b *node) say(n uint64) {
	b.mine = append(b.mine, n)
	b.waiting = append(b.waiting, n)
}

// The Shell.

func (b *node) linked(to uint64) bool {
	o := b.c.nodes[to]
	return o != nil && o.loop != nil && !b.c.cut[[2]uint64{b.id, to}] &&
		(!b.c.strange || isMember(b.known, to) && isMember(o.known, b.id))
}

func (b *node) Send(to uint64, kind FrameKind, payload []byte) bool {
	if !b.linked(to) {
		return false
	}
	if b.sent != nil {
		b.sent(to, kind, payload)
	}
	e, ok := kind.Event(b.id, b.c.lives, append([]byte(nil), payload...))
	if !ok {
		b.c.t.Fatalf("frame of unknown kind %d", kind)
	}
	o := b.c.nodes[to]
	arrive := func() { o.loop.Handle(e) }
	if link := [2]uint64{b.id, to}; b.c.late != nil && (kind == FrameDrain || kind == FrameDrainAnswer) {
		b.c.late[link] = append(b.c.late[link], arrive)
		return true
	}
	o.post(arrive)
	return true
}

func (b *node) Lineage() uint64 { return 0 }

func (b *node) Levels() (inForce, known uint32) { return max(b.inForce, 1), max(b.level, 1) }

func (b *node) Clock() int64 { return b.clock }

func (b *node) Correct(ms int64) { b.correction = ms }

func (b *node) Doubtful() bool {
	b.used("Doubtful")
	was := b.doubtful
	b.doubtful = false
	return was
}

func (b *node) DigestAt(index uint64) (uint64, bool) {
	b.used("DigestAt")
	return b.odd, index == b.loop.applied
}

func (b *node) Supported(level uint32) {
	b.used("Supported")
	b.supported = level
}

func (b *node) Rules() []byte { return b.rules }

func (b *node) Announced(members []Announcement) {
	b.used("Announced")
	b.announced = members
}

func (b *node) Connected(to uint64) bool { return b.linked(to) }

func (b *node) Room(to uint64) bool { return !b.full && b.linked(to) }

func (b *node) AnnounceSkips(note []byte) {
	b.note = note
	for _, id := range b.c.ids {
		if o := b.c.nodes[id]; id != b.id && o.loop != nil && b.linked(id) {
			o.post(func() { o.loop.Handle(Event{Kind: EventSkips, From: b.id, Data: note}) })
		}
	}
}

func (b *node) SetPeers(members []Member) {
	b.told = append(b.told, members)
	b.AddPeers(members)
}

func (b *node) AddPeers(servers []Member) {
	b.peers, b.known = append(b.peers, servers...), append(b.known, servers...)
}

func (b *node) DropPeer(id uint64) {
	b.dropped = append(b.dropped, id)
	b.known = slices.DeleteFunc(b.known, func(m Member) bool { return m.ID == id })
}

func (b *node) Visit(announcement []byte) {
	for _, id := range b.c.ids {
		if o := b.c.nodes[id]; id != b.id && o.loop != nil && b.linked(id) {
			o.post(func() { o.loop.Handle(Event{Kind: EventGuest, From: b.id, Data: announcement}) })
		}
	}
}

func (b *node) SendSnapshot(to, index uint64, message []byte) {
	snap, err := b.dir.OpenSnapshot(index)
	unread := err != nil
	send := func() {
		if err == nil {
			err = fmt.Errorf("no link to %d", to)
			if b.linked(to) {
				err = b.stream(b.c.nodes[to], snap, message)
			}
			snap.Close()
		}
		b.post(func() { b.loop.Handle(Event{Kind: EventSent, From: to, Err: err, Unread: unread}) })
	}
	if b.c.slow {
		b.c.streams = append(b.c.streams, send)
		return
	}
	send()
}

func (b *node) stream(o *node, snap *storage.Snapshot, message []byte) error {
	w, err := o.dir.ReceiveSnapshot()
	if err != nil {
		return err
	}
	buf := make([]byte, snap.Size())
	if _, err := snap.ReadAt(buf, 0); err != nil && err != io.EOF {
		return err
	}
	if b.c.spoil != nil {
		message = b.c.spoil(message, buf)
	}
	if err := w.WriteRaw(buf); err != nil {
		return err
	}
	o.post(func() { o.loop.Handle(Event{Kind: EventSnapshot, From: b.id, Data: message, File: w}) })
	return nil
}

func (b *node) WriteSnapshot(meta storage.Meta, image Image) {
	n, err := WriteImage(b.dir, meta, image, nil)
	b.post(func() { b.loop.Handle(Event{Kind: EventWritten, Meta: meta, Bytes: n, Err: err}) })
}

func (b *node) Purge(keep int, needed uint64) {
	Purge(b.dir, keep, needed, slog.New(slog.DiscardHandler))
}

func (b *node) Beside(work func()) (wait func()) { return work }

// The StateMachine.

func numbers(ns []uint64) (data []byte) {
	for _, n := range ns {
		data = binary.BigEndian.AppendUint64(data, n)
	}
	return data
}

func (b *node) take() []byte {
	if b.write != nil {
		b.c.t.Errorf("server %d is asked for a batch before its last one is on the disk", b.id)
	}
	data := numbers(b.waiting)
	b.waiting = nil
	return data
}

func (b *node) Batch() []byte {
	b.used("Batch")
	if len(b.waiting) == 0 {
		return nil
	}
	return b.take()
}

func (b *node) Forward() []byte {
	b.used("Forward")
	return b.take()
}

func (b *node) Forwarded(data []byte) error {
	b.used("Forwarded")
	b.forwarded += len(data)
	for ; len(data) > 0; data = data[8:] {
		b.waiting = append(b.waiting, binary.BigEndian.Uint64(data))
	}
	return nil
}

func (b *node) Resend() {
	b.used("Resend")
	b.waiting = append([]uint64(nil), b.mine...)
}

// Apply appends each number once, as the tree drops what it has seen.
func (b *node) Apply(entries []Entry) error {
	b.used("Apply")
	for _, e := range entries {
		for data := e.Data; len(data) > 0; data = data[8:] {
			n := binary.BigEndian.Uint64(data)
			if n == poison && b.poisoned {
				return errPoison
			}
			seen := false
			for _, a := range b.applied {
				seen = seen || a == n
			}
			if !seen {
				b.applied = append(b.applied, n)
				b.changes(n)
			}
			for i, m := range b.mine {
				if m == n {
					b.mine = append(b.mine[:i], b.mine[i+1:]...)
					break
				}
			}
		}
	}
	return nil
}

func (b *node) Syncs() uint64 {
	t := b.ticket
	b.ticket = 0
	return t
}

func (b *node) Synced(ticket uint64) {
	b.used("Synced")
	b.synced, b.seen = ticket, len(b.applied)
}

func (b *node) Lead(l Leadership) {
	b.used("Lead")
	if l.Leader != 0 {
		b.Resend()
	}
}

func (b *node) Membership(known int64) (*Membership, int64) {
	b.used("Membership")
	if b.version == known {
		return nil, known
	}
	m := &Membership{Members: b.wanted}
	if b.change != nil {
		c := *b.change
		m.Change = &c
	}
	return m, b.version
}

// A change of membership is the number changeMark plus a key of cluster.changes, a
// step of it the number stepMark plus 16 times that key plus the step.
const (
	changeMark = 1 << 32
	stepMark   = 1 << 40
)

func (b *node) StepChange(id int64, step ChangeStep) {
	b.used("StepChange")
	b.waiting = append(b.waiting, stepMark+16*uint64(id)+uint64(step))
}

// changes applies n if it is about a change of membership.
func (b *node) changes(n uint64) {
	switch {
	case n < changeMark:
		return
	case n < stepMark:
		if b.change == nil {
			c := b.c.changes[n-changeMark]
			b.change = &c
		}
	default:
		id, step := int64(n-stepMark)/16, ChangeStep((n-stepMark)%16)
		if b.change == nil || b.change.ID != id || b.change.Named != (step == ChangeDone) {
			return
		}
		switch step {
		case ChangeNamed:
			b.change.Named, b.wanted = true, b.change.Members
		default:
			b.change = nil
			b.ended[id] = step
		}
	}
	b.version++
}

func (b *node) Moment() int64 { return int64(b.loop.ticks) }
func (b *node) UpToDate(as int64) {
	b.used("UpToDate")
	b.upToDate = as
}

func (b *node) Report() []byte         { return b.report }
func (b *node) Reported(report []byte) { b.reported++ }

func (b *node) SnapshotDue(logBytes int64) bool {
	b.used("SnapshotDue")
	return b.snapshot > 0 && logBytes >= b.snapshot
}

func (b *node) SnapshotDone(storage.Meta, int64) {}

func (b *node) Snapshot() Image {
	b.used("Snapshot")
	term, _ := b.dir.Log().Term(b.loop.applied)
	chunk := numbers(b.applied)
	if b.garbled {
		chunk = append(chunk, 0) // no whole number any more
	}
	return &numberImage{meta: storage.Meta{Index: b.loop.applied, Term: term}, chunk: chunk}
}

func (b *node) Load(_ storage.Meta, snap *storage.Snapshot) (install func(), err error) {
	b.used("Load")
	if b.unfit {
		return nil, fmt.Errorf("%w", &UnfitError{errOdd})
	}
	var numbers []uint64
	err = snap.Load(func(chunk []byte) ([]byte, error) {
		if len(chunk)%8 != 0 {
			return nil, errOdd
		}
		for ; len(chunk) > 0; chunk = chunk[8:] {
			numbers = append(numbers, binary.BigEndian.Uint64(chunk))
		}
		return nil, nil
	})
	return func() {
		b.applied = nil
		for _, n := range numbers {
			b.applied = append(b.applied, n)
			b.changes(n)
		}
	}, err
}

// errOdd says that a snapshot is not of numbers.
var errOdd = errors.New("the snapshot holds no numbers")

type numberImage struct {
	meta  storage.Meta
	chunk []byte
}

func (i *numberImage) Next(dst []byte) ([]byte, bool) { return append(dst, i.chunk...), false }
func (i *numberImage) Describe() storage.Meta         { return i.meta }
func (i *numberImage) Close()                         {}
