package quorum

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// A Member is one server of the group, as its configuration names it.
type Member struct {
	ID       uint64
	Addrs    []string // of its peer port, "host:port"; names are resolved at each dial
	Observer bool     // follows the log without a vote (raft calls it a learner)
}

// Options says what a Peer works on.
type Options struct {
	ID            uint64
	Dir           *storage.Dir
	Cluster       uint64 // of Dir
	State         StateMachine
	Applied       uint64        // index of the last entry State holds
	Members       []Member      // of a new group, and their addresses later on
	Listener      net.Listener  // for peers; nil if there are none
	Tick          time.Duration // of the clock that raft counts in
	ElectionTicks int
	SnapshotsKept int // by the purge after each snapshot
	Log           *slog.Logger
	// Fatal is called once, from its own goroutine, with the error after which
	// the server must stop: the log can't be written any more.
	Fatal func(error)
}

const (
	// heardTicks is how often a follower reports which sessions it heard.
	heardTicks = 10
	// leaveTicks is how long a leader that is to stop waits for another to take
	// over.
	leaveTicks = 20
)

// A Peer is one running member of the group.
type Peer struct {
	o         Options
	log       *slog.Logger
	node      *Node
	disk      *storage.Log
	transport *transport
	streams   *streams

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
	batch    []byte // not accepted by raft yet
	reads    reads
	snap     snapshots
	failover failover
	arrived  *storage.SnapshotWriter // handed to raft, which decides whether it wants it
	failed   error
	ticks    uint64
	leaving  uint64 // tick at which to stop waiting for a successor
	sole     bool   // this server is the only voter
	lastLead Leadership

	mu     sync.Mutex
	status Status
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
		transport: newTransport(o.ID, o.Cluster, o.Log),
	}
	p.streams = &streams{dir: o.Dir, t: p.transport, log: o.Log, sending: map[uint64]bool{}}
	p.transport.snapshot = p.streams.receive
	if hard != nil {
		p.hard.Term, p.hard.Vote, p.hard.Commit = hard.Term, hard.Vote, hard.Commit
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	p.snap.init()
	p.member(conf)
	for _, m := range o.Members {
		p.transport.setPeer(m.ID, m.Addrs)
	}
	if o.Listener != nil {
		p.transport.listen(o.Listener)
	}
	go p.run()
	return p, nil
}

// begin writes the first entries of a new group's log.
func (p *Peer) begin() error {
	last, err := p.disk.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log's last index: %w", err)
	}
	if last != 0 {
		return nil
	}
	var voters []uint64
	for _, m := range p.o.Members {
		if !m.Observer {
			voters = append(voters, m.ID)
		}
	}
	return p.node.Bootstrap(voters)
}

// Kick tells the loop that State has a batch, requests to forward or syncs. It
// doesn't block.
func (p *Peer) Kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// Close hands leadership over if this server leads, stops the loop and waits
// for it. The Dir stays open.
func (p *Peer) Close() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

// run is the loop: the only goroutine that touches the node.
func (p *Peer) run() {
	defer close(p.done)
	defer p.streams.drop()
	defer p.transport.close()
	defer p.snap.wait()
	ticker := time.NewTicker(p.o.Tick)
	defer ticker.Stop()
	stop := p.stop
	for p.failed == nil {
		p.turn()
		if p.leaving > 0 && (!p.node.IsLeader() || p.ticks >= p.leaving) {
			return
		}
		select {
		case <-p.kicked:
		case e := <-p.transport.events:
			p.event(e)
			for more := true; more; {
				select {
				case e := <-p.transport.events:
					p.event(e)
				default:
					more = false
				}
			}
		case <-ticker.C:
			p.tick()
		case s := <-p.snap.finished:
			p.snap.done(p, s)
		case <-stop:
			if !p.handOver() {
				return
			}
			stop, p.leaving = nil, p.ticks+leaveTicks
		}
	}
	go p.o.Fatal(p.failed)
	<-p.stop
}

func (p *Peer) tick() {
	p.ticks++
	p.node.Tick()
	p.reads.tick(p)
	p.failover.tick(p)
	if p.ticks%heardTicks == 0 && !p.node.IsLeader() && p.node.Leader() != 0 {
		if heard := p.o.State.Heard(); len(heard) > 0 {
			b := make([]byte, 0, 8*len(heard))
			for _, id := range heard {
				b = binary.BigEndian.AppendUint64(b, uint64(id))
			}
			p.transport.send(p.node.Leader(), frameHeard, b)
		}
	}
	p.publish()
}

// event takes what the transport brings.
func (p *Peer) event(e event) {
	switch e.kind {
	case eventMessage:
		if err := p.node.Step(e.msg); err != nil {
			p.log.Warn("a peer's raft message was not accepted", "peer", e.from, "type", e.msg.GetType().String(), "err", err)
		}
	case eventForward:
		if p.node.IsLeader() {
			if err := p.o.State.Forwarded(e.data); err != nil {
				p.log.Error("a peer forwarded requests that can't be read", "peer", e.from, "err", err)
			}
		}
	case eventHeard:
		if p.node.IsLeader() {
			ids := make([]int64, 0, len(e.data)/8)
			for b := e.data; len(b) >= 8; b = b[8:] {
				ids = append(ids, int64(binary.BigEndian.Uint64(b)))
			}
			p.o.State.HeardBy(ids)
		}
	case eventConnected:
		if e.from == p.node.Leader() {
			p.o.State.Resend()
		}
	case eventLost:
		p.failover.lost(p, e.from)
	case eventSnapshot:
		p.received(e)
	case eventSent:
		status := raft.SnapshotFinish
		if e.err != nil {
			status = raft.SnapshotFailure
		}
		p.node.ReportSnapshot(e.from, status)
	}
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
		for _, m := range p.ef.Send {
			p.send(m)
		}
		for _, m := range p.ef.Appends {
			p.write(m)
		}
		for _, m := range p.ef.Applies {
			p.apply(m)
		}
	}
}

// feed gives the node what the state machine wants to be agreed on, or sends it
// to the leader.
func (p *Peer) feed() {
	switch {
	case p.node.IsLeader():
		if p.node.Transferring() {
			break
		}
		if p.batch == nil {
			p.batch = p.o.State.Batch()
		}
		if p.batch != nil {
			if err := p.node.Propose(p.batch); err == nil {
				p.batch = nil
			} else if !errors.Is(err, raft.ErrProposalDropped) {
				p.failed = fmt.Errorf("propose a batch: %w", err)
			}
		}
	case p.node.Leader() != 0 && p.transport.connected(p.node.Leader()):
		if requests := p.o.State.Forward(); len(requests) > 0 {
			p.transport.send(p.node.Leader(), frameForward, requests)
		}
	}
	if ticket := p.o.State.Syncs(); ticket != 0 {
		p.reads.ask(p, ticket)
	}
}

// send sends a raft message to a peer.
func (p *Peer) send(m *pb.Message) {
	if m.GetType() == pb.MsgSnap {
		p.streams.send(m)
		return
	}
	b, err := proto.Marshal(m)
	if err != nil {
		p.failed = fmt.Errorf("encode a raft message for server %d: %w", m.GetTo(), err)
		return
	}
	if !p.transport.send(m.GetTo(), frameRaft, b) && m.GetType() == pb.MsgApp {
		p.node.ReportUnreachable(m.GetTo())
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
	switch {
	case m.GetSnapshot() != nil:
		p.install(m, hs)
	case hs != nil || len(m.GetEntries()) > 0:
		if err := p.disk.Append(hs, m.GetEntries(), sync); err != nil {
			p.failed = err
		}
	}
	if p.failed == nil {
		p.deliver(m.GetResponses())
	}
}

// deliver hands the responses of a local write to those they are for.
func (p *Peer) deliver(responses []*pb.Message) {
	for _, m := range responses {
		if m.GetTo() != p.o.ID {
			p.send(m)
		} else if err := p.node.Step(m); err != nil {
			p.failed = fmt.Errorf("deliver raft's own response %s: %w", m.GetType(), err)
		}
	}
}

// apply hands committed entries to the state machine.
func (p *Peer) apply(m *pb.Message) {
	if p.failed != nil {
		return
	}
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
	if l == p.lastLead {
		return
	}
	p.lastLead = l
	p.batch = nil // its requests are sent again by the servers they came from
	p.failover.led(l)
	p.o.State.Lead(l)
	p.publish()
	p.reads.retry(p)
}

// handOver asks the follower that has most of the log to lead, if this server
// does. It reports whether there is something to wait for.
func (p *Peer) handOver() bool {
	if !p.node.IsLeader() {
		return false
	}
	var best []Progress
	for _, f := range p.node.Followers() {
		if f.Voter && f.Active {
			best = append(best, f)
		}
	}
	if len(best) == 0 {
		return false
	}
	to := slices.MaxFunc(best, func(a, b Progress) int { return cmp.Compare(a.Match, b.Match) })
	p.log.Info("handing leadership over before stopping", "to", to.ID)
	p.node.TransferLeader(to.ID)
	return true
}

// ErrStopped is returned by calls on a Peer that has been closed or has failed.
var ErrStopped = errors.New("the quorum's loop has stopped")
