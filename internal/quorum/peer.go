package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// An Entry is one committed entry of the log. Data is empty for the entry with
// which a leader begins its term. It is shared: nobody may change it.
type Entry struct {
	Term, Index uint64
	Data        []byte
}

// Leadership says who leads, as far as this server knows.
type Leadership struct {
	Leader   uint64 // server id, 0 if none
	IsLeader bool   // this server leads
	Term     uint64
}

// A StateMachine is what the log is for. Peer calls its methods from one
// goroutine, so they may not wait for the log.
type StateMachine interface {
	// Batch returns the next entry's data to propose, or nil. It is asked only of
	// the leader, and not again before what it returned is on this server's disk.
	Batch() []byte
	// Apply applies committed entries, in order, each index once. An error ends
	// the Peer: the log is not what the state machine wrote.
	Apply(entries []Entry) error
	// Syncs returns a ticket for the reads that must see everything acknowledged
	// by now, or 0; each ticket is larger than the one before.
	Syncs() uint64
	// Synced says that what was acknowledged before the ticket was taken has been
	// applied; it holds for all smaller tickets too.
	Synced(ticket uint64)
	// Lead tells of a change of leader or term.
	Lead(Leadership)
	// SnapshotDue says whether to take a snapshot now, logBytes having been
	// applied since the last one. It is asked after each Apply.
	SnapshotDue(logBytes int64) bool
	// Snapshot returns an image of the state at this instant, after the last
	// applied entry.
	Snapshot() Image
	// SnapshotDone says that an image of that many bytes is on the disk.
	SnapshotDone(meta storage.Meta, bytes int64)
}

// An Image is the state of one instant, to be read in chunks while newer entries
// are applied. Its methods may be called from another goroutine than the
// StateMachine's.
type Image interface {
	// Next appends the next chunk to dst; more is false once none is left.
	Next(dst []byte) (chunk []byte, more bool)
	// Describe returns what the snapshot file's header tells of the state.
	Describe() storage.Meta
	// Close ends the image; it may be called before its end.
	Close()
}

// Options says what a Peer works on.
type Options struct {
	ID            uint64
	Dir           *storage.Dir
	State         StateMachine
	Applied       uint64        // index of the last entry State holds
	Members       []uint64      // voters of a new group; unused once the log has begun
	Tick          time.Duration // of the clock that raft counts in
	ElectionTicks int
	SnapshotsKept int // by the purge after each snapshot
	Log           *slog.Logger
	// Fatal is called once, from its own goroutine, with the error after which
	// the server must stop: the log can't be written any more.
	Fatal func(error)
}

// A Peer is one running member of the group.
type Peer struct {
	o    Options
	log  *slog.Logger
	node *Node
	disk *storage.Log

	kicked chan struct{} // capacity 1
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once

	// Owned by the loop.
	ef       Effects
	entries  []Entry
	applied  uint64
	conf     *pb.ConfState
	hard     pb.HardState
	reads    reads
	snap     snapshots
	failed   error
	ticks    uint64
	writing  bool // entries of this server's own batch are not yet on disk
	sole     bool // this server is the only voter
	lastLead Leadership
}

// Open continues from what o.Dir holds, or begins a new group, and starts the
// loop.
func Open(o Options) (*Peer, error) {
	disk := o.Dir.Log()
	hard, conf, err := disk.InitialState()
	if err != nil {
		return nil, fmt.Errorf("read the log's state: %w", err)
	}
	node, err := NewNode(NodeOptions{ID: o.ID, ElectionTicks: o.ElectionTicks, Storage: disk, Applied: o.Applied})
	if err != nil {
		return nil, err
	}
	p := &Peer{
		o: o, log: o.Log, node: node, disk: disk, conf: conf, applied: o.Applied,
		kicked: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if hard != nil {
		p.hard.Term, p.hard.Vote, p.hard.Commit = hard.Term, hard.Vote, hard.Commit
	}
	if last, err := disk.LastIndex(); err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	} else if last == 0 {
		if err := node.Bootstrap(o.Members); err != nil {
			return nil, err
		}
	}
	p.snap.init()
	p.member(conf)
	go p.run()
	return p, nil
}

// Kick tells the loop that State has a batch or syncs. It doesn't block.
func (p *Peer) Kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// Close stops the loop and waits for it. The Dir stays open.
func (p *Peer) Close() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

// run is the loop: the only goroutine that touches the node.
func (p *Peer) run() {
	defer close(p.done)
	defer p.snap.wait()
	ticker := time.NewTicker(p.o.Tick)
	defer ticker.Stop()
	for p.failed == nil {
		p.turn()
		select {
		case <-p.kicked:
		case <-ticker.C:
			p.ticks++
			p.node.Tick()
			p.reads.tick(p)
		case s := <-p.snap.finished:
			p.snap.done(p, s)
		case <-p.stop:
			return
		}
	}
	go p.o.Fatal(p.failed)
	<-p.stop
}

// turn carries out what there is to do until nothing is left.
func (p *Peer) turn() {
	for p.failed == nil {
		p.feed()
		if !p.node.Turn(&p.ef) {
			if p.assume() {
				continue
			}
			return
		}
		if p.ef.LeaderChanged {
			p.leaderChanged()
		}
		for _, rs := range p.ef.Reads {
			p.reads.answered(p, rs)
		}
		for _, m := range p.ef.Appends {
			p.write(m)
		}
		for _, m := range p.ef.Applies {
			p.apply(m)
		}
	}
}

// feed gives the node what the state machine wants to be agreed on.
func (p *Peer) feed() {
	if p.node.IsLeader() && !p.writing {
		if b := p.o.State.Batch(); b != nil {
			if err := p.node.Propose(b); err != nil {
				p.log.Error("a batch was not accepted by raft", "err", err)
			}
		}
	}
	if ticket := p.o.State.Syncs(); ticket != 0 {
		p.reads.ask(p, ticket)
	}
}

// write makes one append durable and delivers its responses.
func (p *Peer) write(m *pb.Message) {
	if p.failed != nil {
		return
	}
	var hs *pb.HardState
	sync := len(m.GetEntries()) > 0
	if m.Term != nil {
		hs = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		sync = sync || hs.GetTerm() != p.hard.GetTerm() || hs.GetVote() != p.hard.GetVote()
		p.hard.Term, p.hard.Vote, p.hard.Commit = hs.Term, hs.Vote, hs.Commit
	}
	if hs != nil || len(m.GetEntries()) > 0 {
		if err := p.disk.Append(hs, m.GetEntries(), sync); err != nil {
			p.failed = err
			return
		}
	}
	p.deliver(m.GetResponses())
}

// deliver hands the responses of a local write to the node.
func (p *Peer) deliver(responses []*pb.Message) {
	for _, m := range responses {
		if m.GetTo() != p.o.ID {
			continue
		}
		if err := p.node.Step(m); err != nil {
			p.failed = fmt.Errorf("deliver raft's own response %s: %w", m.GetType(), err)
		}
	}
}

// apply hands committed entries to the state machine.
func (p *Peer) apply(m *pb.Message) {
	p.entries = p.entries[:0]
	for _, e := range m.GetEntries() {
		if e.GetIndex() != p.applied+1 {
			panic(fmt.Sprintf("quorum: entry %d is to be applied after %d", e.GetIndex(), p.applied))
		}
		p.applied = e.GetIndex()
		p.snap.logBytes += int64(len(e.GetData()))
		entry := Entry{Term: e.GetTerm(), Index: e.GetIndex(), Data: e.GetData()}
		if e.GetType() != pb.EntryNormal {
			conf, err := p.node.ApplyConfChange(e)
			if err != nil {
				p.failed = err
				return
			}
			p.member(conf)
			entry.Data = nil
		}
		p.entries = append(p.entries, entry)
	}
	if err := p.o.State.Apply(p.entries); err != nil {
		p.failed = err
		return
	}
	clear(p.entries)
	p.deliver(m.GetResponses())
	p.reads.applied(p)
	p.snap.consider(p)
}

// member takes note of the membership in force.
func (p *Peer) member(conf *pb.ConfState) {
	p.conf = conf
	p.sole = soleVoter(conf, p.o.ID)
}

// assume makes the only voter lead: nobody else can, so it needn't wait for the
// clock to find out. It reports whether that gave the node something to do.
func (p *Peer) assume() bool {
	if !p.sole || p.node.IsLeader() {
		return false
	}
	if err := p.node.Campaign(); err != nil {
		p.failed = fmt.Errorf("start as the only voter: %w", err)
	}
	return p.node.HasReady()
}

func (p *Peer) leaderChanged() {
	l := Leadership{Leader: p.node.Leader(), IsLeader: p.node.IsLeader(), Term: p.node.Term()}
	if l != p.lastLead {
		p.lastLead = l
		p.o.State.Lead(l)
		p.reads.retry(p)
	}
}

// reads are the syncs under way: which ticket may be answered once which index
// is applied.
type reads struct {
	asked   uint64 // ticket of the question under way, 0 if none
	id      uint64 // its context; never used twice, not even for a retry
	next    uint64 // ticket to ask for after it
	since   uint64 // tick of the question
	ready   uint64 // ticket that waits for readyAt
	readyAt uint64
}

// readRetryTicks is after how many ticks a question counts as lost.
const readRetryTicks = 5

func (r *reads) ask(p *Peer, ticket uint64) {
	if r.asked != 0 {
		r.next = ticket
		return
	}
	r.asked, r.since = ticket, p.ticks
	r.id++
	p.node.ReadIndex(binary.BigEndian.AppendUint64(nil, r.id))
}

func (r *reads) answered(p *Peer, rs raft.ReadState) {
	if len(rs.RequestCtx) != 8 || binary.BigEndian.Uint64(rs.RequestCtx) != r.id || r.asked == 0 {
		return
	}
	r.ready, r.readyAt, r.asked = r.asked, rs.Index, 0
	r.applied(p)
	if r.next != 0 {
		next := r.next
		r.next = 0
		r.ask(p, next)
	}
}

func (r *reads) applied(p *Peer) {
	if r.ready != 0 && p.applied >= r.readyAt {
		ticket := r.ready
		r.ready = 0
		p.o.State.Synced(ticket)
	}
}

// tick asks again if the question seems lost.
func (r *reads) tick(p *Peer) {
	if r.asked != 0 && p.ticks-r.since > readRetryTicks {
		r.retry(p)
	}
}

func (r *reads) retry(p *Peer) {
	if r.asked == 0 {
		return
	}
	ticket := max(r.asked, r.next)
	r.asked, r.next = 0, 0
	r.ask(p, ticket)
}

// ErrStopped is returned by calls on a Peer that has been closed or has failed.
var ErrStopped = errors.New("the quorum's loop has stopped")
