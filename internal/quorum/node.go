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
	// MessageSizeMax is the target size of an append message. The loop that commits
	// entries also reads, encodes and queues those for a follower that is behind. The
	// messages are small so that the other followers wait for one message only.
	MessageSizeMax = 256 << 10
	// inflightMessagesMax bounds the appends sent to one follower and not yet
	// acknowledged.
	inflightMessagesMax = 256
	// inflightBytesMax bounds the total size of these appends. A follower that is far behind
	// gets that much at once when it begins to catch up. With 64 MiB the leader then
	// committed nothing for seconds; with 4 MiB its throughput fell by a quarter. 1 MiB
	// allows 10 MB/s at a round-trip time of 100 ms.
	inflightBytesMax = 1 << 20
	// uncommittedBytesMax bounds what a leader has proposed and not applied. Nothing overtakes anything in the log. Later
	// requests wait among the proposals, where urgent and small ones pass others, and where waiting counts as overload.
	// It is several times what a follower is sent, so throughput doesn't suffer; 4 MiB doubled the p99 of 384 clients'
	// writes of 20 KB.
	uncommittedBytesMax = 8 << 20
	// committedBytesMax bounds the entries handed out to be applied and not yet applied.
	committedBytesMax = 16 << 20
)

// NodeOptions configures a Node.
type NodeOptions struct {
	ID            uint64       // this server's id, not 0
	ElectionTicks int          // ticks without a leader before an election
	Storage       raft.Storage // the durable log
	Applied       uint64       // index of the last entry the state machine holds
	Logger        raft.Logger  // nil discards raft's log lines
}

// A Node is one member of the group as a pure state machine. It is not safe for
// concurrent use.
type Node struct {
	raw    *raft.RawNode
	leader uint64
	state  raft.StateType
	term   uint64
	heard  []uint64 // on a leader: servers heard from within the election timeout, as of the last tick
}

// Effects holds what one turn of a Node asks its shell to do. The next turn reuses Send.
type Effects struct {
	// Send holds messages to peers, to be sent in order; each may be lost.
	Send []*pb.Message
	// Append, if not nil, is to be written. Once it is durable, its Responses go to
	// Node.Step (those addressed to this node) or to peers.
	Append *pb.Message
	// Apply, if not nil, holds committed entries to apply in order; the Responses
	// go to Node.Step afterwards.
	Apply *pb.Message
	// Reads holds answers to ReadIndex: once Index is applied, the read is safe.
	Reads []raft.ReadState
	// LeaderChanged says that Leader, IsLeader or Term differ from the last turn.
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

// Tick advances the node's clock by one tick. Once per election timeout raft forgets which
// servers it has heard from. Tick remembers them until the next tick; by then live servers
// have answered.
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

// Step handles a message from a peer or a response to a local write. A message from
// a server that isn't a member is dropped without an error.
func (n *Node) Step(m *pb.Message) error {
	err := n.raw.Step(m)
	if errors.Is(err, raft.ErrStepPeerNotFound) || errors.Is(err, raft.ErrProposalDropped) {
		return nil
	}
	return err
}

// Campaign starts an election without waiting for the election timeout. It is for
// the only voter of a group, and for a follower that learned that its leader is gone.
func (n *Node) Campaign() error { return n.raw.Campaign() }

// Propose appends a batch to the log if this node leads; raft.ErrProposalDropped
// says that it was not accepted.
func (n *Node) Propose(batch []byte) error { return n.raw.Propose(batch) }

// ReadIndex asks for an index that is at least that of every write acknowledged
// before this call. The answer is in a later turn's Effects, with ctx, or never comes
// if leadership is lost. A ctx must not be used twice.
func (n *Node) ReadIndex(ctx []byte) { n.raw.ReadIndex(ctx) }

// TransferLeadership asks another voter to lead in place of this server.
func (n *Node) TransferLeadership(to uint64) { n.raw.TransferLeader(to) }

// Transferring reports whether this leader waits for another server to take over. It
// accepts no proposals meanwhile.
func (n *Node) Transferring() bool { return n.raw.BasicStatus().LeadTransferee != 0 }

// ForgetLeader makes a follower ready to vote before the election timeout. It is
// for a follower that has reason to think that its leader is gone.
func (n *Node) ForgetLeader() {
	// ForgetLeader only fails if leases are used, and they aren't.
	_ = n.raw.ForgetLeader()
}

// ReportUnreachable tells raft that messages to a peer are lost.
func (n *Node) ReportUnreachable(id uint64) { n.raw.ReportUnreachable(id) }

// ReportSnapshot tells raft whether a snapshot was sent to a peer.
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

// Turn moves what raft wants done into ef, and reports whether there is anything to do.
func (n *Node) Turn(ef *Effects) bool {
	*ef = Effects{Send: ef.Send[:0]}
	if !n.raw.HasReady() {
		return false
	}
	rd := n.raw.Ready()
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			ef.Append = m // raft returns at most one
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
