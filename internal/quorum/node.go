package quorum

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Limits of one raft group. Raft's own defaults are "no limit".
const (
	// MessageSizeMax is the aim for one append message. What a follower that is
	// behind gets is read, encoded and queued by the loop that also commits: it is
	// cut small so that the others wait for a piece, not for all of it.
	MessageSizeMax = 256 << 10
	// inflightMessagesMax bounds appends sent and not yet acknowledged by one
	// follower.
	inflightMessagesMax = 256
	// inflightBytesMax bounds their size. A follower that is far behind gets so much
	// at once when it begins to catch up; with 64 MiB the leader committed nothing
	// for seconds, with 4 it lost a quarter of its pace meanwhile. It is 10 MB/s at
	// 100 ms from one server to another.
	inflightBytesMax = 1 << 20
	// uncommittedBytesMax bounds what a leader accepts and can't commit.
	uncommittedBytesMax = 256 << 20
	// committedBytesMax bounds entries handed out for apply and not yet applied.
	committedBytesMax = 16 << 20
)

// NodeOptions says who a Node is and how patient it is.
type NodeOptions struct {
	ID            uint64       // this server's id, not 0
	ElectionTicks int          // ticks without a leader before an election
	Storage       raft.Storage // the durable log
	Applied       uint64       // index of the last entry the state machine holds
	Logger        raft.Logger  // nil discards
}

// A Node is one member of the group as a pure state machine. It is not safe for
// concurrent use.
type Node struct {
	raw    *raft.RawNode
	leader uint64
	state  raft.StateType
	term   uint64
	heard  []uint64 // of a leader: the servers heard within the election timeout, before the last tick
}

// Effects holds what one turn of a Node asks of its shell. The next turn reuses Send.
type Effects struct {
	// Send holds messages to peers, to be sent in order; each may be lost.
	Send []*pb.Message
	// Append, if not nil, is to be written. Once it is durable its Responses go to
	// Node.Step (those addressed to this node) or to peers.
	Append *pb.Message
	// Apply, if not nil, holds committed entries to apply in order; the Responses
	// go to Node.Step afterwards.
	Apply *pb.Message
	// Reads holds answers to ReadIndex: once Index is applied, the read is safe.
	Reads []raft.ReadState
	// LeaderChanged says that Leader, IsLeader or Term differ from last turn.
	LeaderChanged bool
}

// NewNode returns the Node that continues what o.Storage holds.
func NewNode(o NodeOptions) (*Node, error) {
	logger := o.Logger
	if logger == nil {
		logger = discard{}
	}
	raw, err := raft.NewRawNode(&raft.Config{
		ID:                        o.ID,
		ElectionTick:              o.ElectionTicks,
		HeartbeatTick:             1,
		Storage:                   o.Storage,
		Applied:                   o.Applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             MessageSizeMax,
		MaxCommittedSizePerReady:  committedBytesMax,
		MaxUncommittedEntriesSize: uncommittedBytesMax,
		MaxInflightMsgs:           inflightMessagesMax,
		MaxInflightBytes:          inflightBytesMax,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    logger,
	})
	if err != nil {
		return nil, fmt.Errorf("start raft as server %d: %w", o.ID, err)
	}
	return &Node{raw: raw}, nil
}

// Tick advances the node's clock by one tick. Once in each election timeout raft forgets the
// servers it has heard. What it knew counts until the next tick, by which live servers have
// answered.
func (n *Node) Tick() {
	n.heard = n.heard[:0]
	if n.IsLeader() {
		n.raw.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			if pr.RecentActive {
				n.heard = append(n.heard, id)
			}
		})
	}
	n.raw.Tick()
}

// Step takes a message from a peer or a response of a local write. A message of
// a server that isn't a member is dropped, which is no error.
func (n *Node) Step(m *pb.Message) error {
	err := n.raw.Step(m)
	if errors.Is(err, raft.ErrStepPeerNotFound) || errors.Is(err, raft.ErrProposalDropped) {
		return nil
	}
	return err
}

// Campaign starts an election without waiting for the clock: for the only voter
// of a group, and for a follower that learned that its leader is gone.
func (n *Node) Campaign() error { return n.raw.Campaign() }

// Propose appends a batch to the log if this node leads; raft.ErrProposalDropped
// says that it was not accepted.
func (n *Node) Propose(batch []byte) error { return n.raw.Propose(batch) }

// ReadIndex asks for an index that no write acknowledged before this call
// exceeds. The answer is in a later turn's Effects, with ctx, or never comes if
// leadership is lost; ctx must not be used twice.
func (n *Node) ReadIndex(ctx []byte) { n.raw.ReadIndex(ctx) }

// TransferLeadership asks another voter to lead in this one's place.
func (n *Node) TransferLeadership(to uint64) { n.raw.TransferLeader(to) }

// Transferring reports whether this leader waits for another to take over; it
// accepts no proposals meanwhile.
func (n *Node) Transferring() bool { return n.raw.BasicStatus().LeadTransferee != 0 }

// ForgetLeader makes a follower ready to vote before the election timeout: it
// has reason to think that its leader is gone.
func (n *Node) ForgetLeader() {
	// The only error is about leases, which are not used.
	_ = n.raw.ForgetLeader()
}

// ReportUnreachable says that messages to a peer are lost.
func (n *Node) ReportUnreachable(id uint64) { n.raw.ReportUnreachable(id) }

// ReportSnapshot says what became of a snapshot sent to a peer.
func (n *Node) ReportSnapshot(id uint64, status raft.SnapshotStatus) {
	n.raw.ReportSnapshot(id, status)
}

// Leader returns the id of the leader as far as this node knows, or 0.
func (n *Node) Leader() uint64 { return n.leader }

// IsLeader reports whether this node leads.
func (n *Node) IsLeader() bool { return n.state == raft.StateLeader }

// Term returns the current term.
func (n *Node) Term() uint64 { return n.term }

// HasReady reports whether Turn has something to hand out.
func (n *Node) HasReady() bool { return n.raw.HasReady() }

// Turn moves what raft wants done into ef, and reports whether there is any.
func (n *Node) Turn(ef *Effects) bool {
	*ef = Effects{Send: ef.Send[:0]}
	if !n.raw.HasReady() {
		return false
	}
	rd := n.raw.Ready()
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			ef.Append = m // raft makes one at most
		case raft.LocalApplyThread:
			ef.Apply = m
		default:
			ef.Send = append(ef.Send, m)
		}
	}
	ef.Reads = rd.ReadStates
	st := n.raw.BasicStatus()
	if st.Lead != n.leader || st.RaftState != n.state || st.GetTerm() != n.term {
		n.leader, n.state, n.term = st.Lead, st.RaftState, st.GetTerm()
		ef.LeaderChanged = true
	}
	return true
}

// discard drops raft's own diagnostics but keeps its panics, which name broken
// invariants.
type discard struct{}

func (discard) Debug(...any)              {}
func (discard) Debugf(string, ...any)     {}
func (discard) Error(...any)              {}
func (discard) Errorf(string, ...any)     {}
func (discard) Info(...any)               {}
func (discard) Infof(string, ...any)      {}
func (discard) Warning(...any)            {}
func (discard) Warningf(string, ...any)   {}
func (discard) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (discard) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (discard) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (discard) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
