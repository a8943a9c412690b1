package quorum

import (
	"encoding/binary"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A server that lost its disk no longer knows how it voted and what it acknowledged. It
// joins again under its id, by rule M3, which docs/decisions/008-lost-disks.md proves:
//
//   - Each start with an empty data directory is a life of its own, with a number.
//   - A leader takes a life out by an entry that removes the server from raft's
//     membership and names the life. It does so only when the server's own address
//     says that it is empty and in that life. So a server that merely restarts keeps
//     its vote, even if another server asks in its name.
//   - The server starts once the leader that it asks has applied that entry and has
//     told it the entry's index and term. It takes part in no earlier term. It
//     neither votes nor campaigns before it has applied a later entry that makes it a
//     member, whatever older entries and snapshots say.
//   - The leader that takes a life out ignores messages from the server's former lives:
//     they acknowledged a log that is gone.
//
// The server's role makes no difference: an observer may have been a voter before, or
// may become one with the next entry.
type lostDisks struct {
	*view
	levels     *levels
	departures *departures

	out    map[uint64]departure // by server: the departure of the life taken out last
	tried  map[uint64]attempt   // by server: this leader's last proposal to take a life out
	former map[uint64]uint64    // by server with a known address: connections up to this number are of former lives
	// admitted holds the servers that have sent this leader a leader check (leadercheck.go). A
	// joining server does so only once it may vote.
	admitted map[uint64]bool
}

// A departure describes the entry that took a life out.
type departure struct {
	life        uint32
	index, term uint64
	tick        uint64 // when this server applied the entry
}

// An attempt is a proposal to take a life out.
type attempt struct {
	life uint32
	tick uint64
}

const (
	// takeOutTicks is the pause between two proposals to take the same life out. An entry
	// is committed sooner, unless it is lost.
	takeOutTicks = 20
	// namelessTicks is how long a departure is valid for a life without a number. The
	// lives of a server of the first version have none.
	namelessTicks = 40
	// lostMax bounds the number of servers that are remembered for having asked.
	lostMax = 1 << 10
)

// join answers the request to join of a server with an empty data directory.
func (d *lostDisks) join(e Event) {
	if !d.node.IsLeader() {
		e.Join <- JoinReply{}
		return
	}
	if max(e.Level, LevelFirst) < d.levels.inForce {
		e.Join <- JoinReply{} // its version is too old, as the transport has told it
		return
	}
	if out, ok := d.out[e.From]; ok && out.life == e.Life && (e.Life != 0 || d.ticks-out.tick < namelessTicks) {
		e.Join <- JoinReply{Go: true, Index: out.index, Term: out.term}
		return
	}
	member := contains(d.conf, e.From)
	switch {
	case member && d.shell.Connected(e.From):
		// Two servers use the same id. The running one keeps its place.
		e.Join <- JoinReply{DuplicateID: true}
	case (member || e.Known) && !e.Empty:
		e.Join <- JoinReply{Ask: true}
	default:
		e.Join <- JoinReply{}
		d.takeOut(e)
	}
}

// takeOut proposes to take a life of a server out of the membership. If the server
// isn't a member, the entry changes nothing; but once it is committed, this leader's
// membership is known to be the current one.
func (d *lostDisks) takeOut(e Event) {
	if len(d.tried) >= lostMax {
		clear(d.tried)
	}
	remove := []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, e.From)}
	tried, again := d.tried[e.From]
	if len(d.conf.GetVotersOutgoing()) > 0 || !d.leavesVoter(remove) ||
		again && tried.life == e.Life && d.ticks-tried.tick < takeOutTicks {
		return
	}
	d.tried[e.From] = attempt{e.Life, d.ticks}
	if e.Known { // connections are only accepted from servers with a known address
		d.former[e.From] = max(d.former[e.From], e.Conn)
	}
	if contains(d.conf, e.From) {
		d.log.Warn("a member's data directory is empty: the member gives up its vote, joins, and gets the vote back once it has caught up",
			"server", e.From)
	}
	life := binary.BigEndian.AppendUint32(nil, e.Life)
	if err := d.node.ProposeConfChange(&pb.ConfChangeV2{Changes: remove, Context: life}); err != nil {
		d.log.Warn("a server that lost its data could not be removed; it will be tried again", "server", e.From, "err", err)
	}
}

// left records which life an entry took out, if any.
func (d *lostDisks) left(e *pb.Entry) {
	id, life, ok := takenOut(e)
	if !ok {
		return
	}
	if len(d.out) >= lostMax {
		clear(d.out)
	}
	delete(d.admitted, id)
	d.departures.note(id, Departure{Index: e.GetIndex(), Term: e.GetTerm()})
	d.out[id] = departure{life: life, index: e.GetIndex(), term: e.GetTerm(), tick: d.ticks}
}

// takenOut returns the server and the life that an entry takes out; ok is false if it takes
// none out.
func takenOut(e *pb.Entry) (id uint64, life uint32, ok bool) {
	cc := &pb.ConfChangeV2{}
	if e.GetType() != pb.EntryConfChangeV2 || proto.Unmarshal(e.GetData(), cc) != nil {
		return 0, 0, false
	}
	if len(cc.GetContext()) != 4 || len(cc.GetChanges()) != 1 || cc.GetChanges()[0].GetType() != pb.ConfChangeRemoveNode {
		return 0, 0, false
	}
	return cc.GetChanges()[0].GetNodeId(), binary.BigEndian.Uint32(cc.GetContext()), true
}

// noteAdmitted records a peer as admitted if m is a message that only a server that takes
// part in elections sends, and reports whether it wasn't admitted before. Only a leader
// records that.
func (d *lostDisks) noteAdmitted(from uint64, m *pb.Message) (news bool) {
	if !d.node.IsLeader() || d.admitted[from] || !asksLeaderCheck(m) {
		return false
	}
	if len(d.admitted) >= lostMax {
		clear(d.admitted)
	}
	d.admitted[from] = true
	return true
}

// isAdmitted reports whether a server's vote can count: the server votes already, or has
// said that it takes part in elections. A server that lost its disk has no vote before it
// has applied the entry that let it in again, whatever the membership says (see joining).
func (d *lostDisks) isAdmitted(id uint64) bool {
	return d.admitted[id] || slices.Contains(d.conf.GetVoters(), id)
}

// isFormer reports whether an event came on a connection that a former life of its
// sender made.
func (d *lostDisks) isFormer(e Event) bool {
	return e.Conn != 0 && e.Conn <= d.former[e.From]
}
