// Package peer runs one member of a group that agrees on a log: a [quorum.Loop] with
// its goroutine, its clock, and the connections to the other members. A secret of the group, and
// over TLS a certificate too, authenticates the other end of a connection ([Secure]).
package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// Options configures a Peer.
type Options struct {
	ID            uint64
	Dir           *storage.Dir
	Cluster       uint64 // cluster id of Dir
	State         quorum.StateMachine
	Applied       uint64           // index of the last entry State holds
	Members       []quorum.Member  // the configured members and their addresses
	Founding      *quorum.Founding // see LoopOptions
	JoinedAfter   uint64           // see LoopOptions
	JoinedTerm    uint64           // see LoopOptions
	OnJoined      func()           // see LoopOptions
	Joined        quorum.Admission // for a server that has just been let in
	Listener      net.Listener     // accepts peers; nil if there are none
	Secure        Secure           // how peers authenticate to each other
	Tick          time.Duration    // length of one tick of raft's clock
	ElectionTicks int
	SnapshotsKept int  // how many the purge after each snapshot keeps
	RunningOnly   bool // see LoopOptions
	Log           *slog.Logger
	// Fatal is called on its own goroutine with an error after which the server must
	// stop: the loop's, for instance if the log can't be written, or ErrDuplicateID.
	Fatal func(error)
}

// leaveTicks is how long a leader that is stopping waits for another server to
// take over.
const leaveTicks = 20

// A Peer is one running member of the group: a Loop with its goroutine, its
// connections and its clock.
type Peer struct {
	o         Options
	loop      *quorum.Loop
	transport *transport
	streams   *streams
	writer    snapshotWriter

	work     chan func()   // work for the goroutine of workBeside
	worked   chan struct{} // signals that the work is done; capacity 1
	began    time.Time     // SinceTurn counts from it
	turned   atomic.Int64  // time (ns) of the last tick, since began
	tasks    tasks
	kicked   chan struct{} // capacity 1
	transfer chan struct{} // capacity 1
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once
	ownAgain time.Time // when to write server.kept, if that failed at the start; else zero

	mu sync.Mutex // held by the goroutine that uses the loop: run, or standIn while run does a task
}

// Open returns a Peer that continues from what o.Dir holds, or begins a new group. It
// doesn't run before Start.
func Open(o Options) (*Peer, error) {
	p := &Peer{
		o: o, work: make(chan func()), worked: make(chan struct{}, 1), kicked: make(chan struct{}, 1),
		transfer: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		transport: newTransport(o.ID, o.Cluster, o.Secure, o.Log), began: time.Now(),
	}
	p.tasks.timer = time.AfterFunc(time.Hour, p.watchTask)
	p.tasks.timer.Stop()
	inForce, known := o.State.Levels()
	p.transport.level, p.transport.rules = known, o.State.Rules()
	p.transport.inForce.Store(inForce)
	last, err := o.Dir.Log().LastIndex()
	if err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	}
	if err := p.own(last); err != nil {
		return nil, err
	}
	lineage, err := keptLineage.read(o.Dir, o.Cluster)
	if err != nil {
		return nil, err
	}
	p.transport.lineage.Store(lineage)
	p.transport.decideOlder(&o, last)
	p.streams = &streams{
		dir: o.Dir, t: p.transport, log: o.Log, sending: map[uint64]bool{}, failed: map[uint64]failures{},
		sent: map[uint64]uint64{},
	}
	p.transport.snapshot = p.streams.receive
	p.writer = snapshotWriter{dir: o.Dir, log: o.Log, stop: make(chan struct{}), tell: p.transport.tell}
	p.loop, err = quorum.NewLoop(quorum.LoopOptions{
		ID: o.ID, Incarnation: newNonce(), Dir: o.Dir, State: o.State, Shell: p, Applied: o.Applied, Members: o.Members,
		Founding: o.Founding, JoinedAfter: o.JoinedAfter, JoinedTerm: o.JoinedTerm, OnJoined: o.OnJoined,
		ElectionTicks: o.ElectionTicks, SnapshotsKept: o.SnapshotsKept, RunningOnly: o.RunningOnly, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	p.transport.standing, p.transport.founding = p.loop.Status, o.Founding
	return p, nil
}

// Start connects to the peers and starts the loop, which calls State from then on.
// It must be called once, before Close.
func (p *Peer) Start() {
	p.transport.configured = p.o.Members
	p.transport.setMembers(p.loop.Peers())
	if p.o.Listener != nil {
		p.transport.listen(p.o.Listener)
		p.transport.wg.Go(func() { p.transport.watchDuplicateID(func(err error) { go p.o.Fatal(err) }) })
		p.transport.wg.Go(p.transport.agree)
		p.transport.wg.Go(func() { p.transport.watchOvertaken(p.o.Members, func(err error) { go p.o.Fatal(err) }) })
	}
	go p.run()
}

// Accept accepts peers on l, in addition to Options.Listener, until l is closed. Close
// closes it.
func (p *Peer) Accept(l net.Listener) { p.transport.listen(l) }

// Kick tells the loop that State has a batch, requests to forward, or syncs. It
// doesn't block.
func (p *Peer) Kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// TransferLeadership asks another server to lead if this one leads. It doesn't wait for that.
func (p *Peer) TransferLeadership() {
	select {
	case p.transfer <- struct{}{}:
	default:
	}
}

// Close transfers leadership if this server leads, stops the loop and waits until it has
// ended. The Dir stays open.
func (p *Peer) Close() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

// Abandon closes the connections to all peers. Unlike Close it waits for nothing. It is for a
// server whose disk hangs.
func (p *Peer) Abandon() { p.transport.abandon() }

// Drain sets whether this server drains; see quorum.Loop.Drain. It doesn't wait for anything.
func (p *Peer) Drain(w quorum.DrainWish) (number uint64) { return p.loop.Drain(w) }

// Status returns the state of the quorum as this server sees it.
func (p *Peer) Status() quorum.Status { return p.loop.Status() }

// run is the loop's goroutine.
func (p *Peer) run() {
	defer close(p.done)
	defer p.tasks.timer.Stop()
	defer close(p.work)
	go p.workBeside()
	defer p.streams.incoming.Keep(nil)
	defer p.writer.close()
	defer p.transport.close() // runs first: afterwards no goroutine waits for the loop to take an event
	if err := p.turns(); err != nil {
		go p.o.Fatal(err)
		<-p.stop
	}
}

// turns runs the loop. It returns nil when the Peer is closed, or the error with which the
// loop failed.
func (p *Peer) turns() (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			if err = unreadable(failure); err == nil {
				panic(failure)
			}
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	ticker := time.NewTicker(p.o.Tick)
	defer ticker.Stop()
	p.turned.Store(int64(time.Since(p.began)))
	resting := false
	stop, leaving := p.stop, 0 // leaving: ticks left to wait for a successor
	for p.loop.Failed() == nil {
		if p.turn(); p.loop.Failed() != nil {
			break
		}
		p.transport.setLevel(p.loop.LevelInForce())
		if rests := p.loop.Resting(); rests != resting {
			resting = rests
			ticker.Reset(p.pause(resting))
		}
		if stop == nil && (leaving == 0 || !p.loop.IsLeader()) {
			return nil
		}
		select {
		case <-p.kicked:
		case <-p.transfer:
			p.loop.TransferLeadership()
		case e := <-p.transport.events:
			p.handle(e)
			p.handleWaiting()
		case <-ticker.C:
			p.handleWaiting() // after a stall, the leader's messages are handled before its silence is counted
			p.turn()
			p.tick()
			p.ownLater()
			if err := p.noteLineage(); err != nil {
				return err
			}
			leaving = max(leaving-1, 0)
		case <-stop:
			if !p.loop.TransferLeadership() {
				return nil
			}
			stop, leaving = nil, leaveTicks
		}
	}
	return p.loop.Failed()
}

// turn does all work that is ready. The caller holds mu.
func (p *Peer) turn() {
	for t := p.loop.Advance(); t != nil; t = p.loop.Advance() {
		p.do(t)
	}
}

// restTicks is the length of a tick, in normal ticks, while nothing waits for a tick. An idle server did little else
// than wake up 20 times a second.
const restTicks = 10

// pause returns the time between two ticks.
func (p *Peer) pause(resting bool) time.Duration {
	if resting {
		return restTicks * p.o.Tick
	}
	return p.o.Tick
}

// unreadable returns the error if a panic came from a log that can't be read, else nil. Raft can't
// continue then, and panics with the error that its storage returned. The cause is the disk, not
// this program.
func unreadable(failure any) error {
	err, ok := failure.(error)
	var damage *storage.DamageError
	var kernel syscall.Errno
	if ok && (errors.As(err, &damage) || errors.As(err, &kernel) || errors.Is(err, io.EOF)) {
		return err
	}
	return nil
}

// handleWaiting hands the loop all events that are waiting, so that one turn serves
// them all, unless it is full.
func (p *Peer) handleWaiting() {
	for !p.loop.Full() {
		select {
		case e := <-p.transport.events:
			p.handle(e)
		default:
			return
		}
	}
}

// handle hands the loop an event, and returns a frame's buffer to the pool: the loop retains none of its bytes.
func (p *Peer) handle(e quorum.Event) {
	p.loop.Handle(e)
	switch e.Kind {
	case quorum.EventRaft, quorum.EventForward, quorum.EventReport, quorum.EventMembers, quorum.EventDigest,
		quorum.EventClock, quorum.EventDrain, quorum.EventDrainAnswer:
		p.transport.frames.give(e.Data)
	}
}

// workBeside does the work of Beside, while the loop writes.
func (p *Peer) workBeside() {
	for work := range p.work {
		work()
		p.worked <- struct{}{}
	}
}

// Beside implements Shell.
func (p *Peer) Beside(work func()) (wait func()) {
	p.work <- work
	return p.waitBeside
}

func (p *Peer) waitBeside() { <-p.worked }

// Send implements Shell.
func (p *Peer) Send(to uint64, kind quorum.FrameKind, payload []byte) bool {
	return p.transport.send(to, kind, payload)
}

// Connected implements Shell.
func (p *Peer) Connected(to uint64) bool { return p.transport.connected(to) }

// Room implements Shell.
func (p *Peer) Room(to uint64) bool { return p.transport.room(to) }

// AnnounceSkips implements Shell.
func (p *Peer) AnnounceSkips(note []byte) { p.transport.announceSkips(note) }

// SendSnapshot implements Shell.
func (p *Peer) SendSnapshot(to, index uint64, message []byte) { p.streams.send(to, index, message) }

// SetPeers implements Shell.
func (p *Peer) SetPeers(members []quorum.Member) { p.transport.setMembers(members) }

// AddPeers implements Shell.
func (p *Peer) AddPeers(servers []quorum.Member) { p.transport.addPeers(servers) }

// DropPeer implements Shell.
func (p *Peer) DropPeer(id uint64) { p.transport.dropPeer(id) }

// Visit implements Shell.
func (p *Peer) Visit(announcement []byte) { p.transport.visit(announcement) }

// WriteSnapshot implements Shell.
func (p *Peer) WriteSnapshot(meta storage.Meta, image quorum.Image) { p.writer.start(meta, image) }

// Purge implements Shell.
func (p *Peer) Purge(keep int, needed uint64) { p.writer.purge(keep, needed) }
