package quorum

import (
	"encoding/binary"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A server that lost its disk may have voted and acknowledged entries, and no longer
// knows it. It joins anew under its id, by rule M3, which
// docs/decisions/008-lost-disks.md proves:
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
//   - The leader that takes a life out ignores what former lives of the server said:
//     they acknowledged a log that is gone.
//
// The server's role makes no difference: an observer may have been a voter before, or
// may become one with the next entry.
type lost struct {
	out    map[uint64]departure // by server: the departure of the life taken out last
	tried  map[uint64]attempt   // by server: this leader's last proposal to take a life out
	former map[uint64]uint64    // by server with a known address: connections up to this number are of former lives
	// admitted holds the servers that have sent this leader a leader check (leadercheck.go). A
	// server that joins does so only once it may vote.
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

// join answers the request of a server with an empty data directory to join.
func (l *Loop) join(e Event) {
	if !l.node.IsLeader() {
		e.Join <- JoinReply{}
		return
	}
	if max(e.Level, LevelFirst) < l.levels.inForce {
		e.Join <- JoinReply{} // its version is too old; the transport has told it so
		return
	}
	if out, ok := l.lost.out[e.From]; ok && out.life == e.Life && (e.Life != 0 || l.ticks-out.tick < namelessTicks) {
		e.Join <- JoinReply{Go: true, Index: out.index, Term: out.term}
		return
	}
	member := contains(l.conf, e.From)
	switch {
	case member && l.o.Shell.Connected(e.From):
		// Two servers use the same id. The running one keeps its place.
		e.Join <- JoinReply{DuplicateID: true}
	case (member || e.Known) && !e.Empty:
		e.Join <- JoinReply{Ask: true}
	default:
		e.Join <- JoinReply{}
		l.takeOut(e)
	}
}

// takeOut proposes to take a life of a server out of the membership. If the server
// isn't a member, the entry changes nothing; but once it is committed, this leader's
// membership is known to be the current one.
func (l *Loop) takeOut(e Event) {
	if len(l.lost.tried) >= lostMax {
		clear(l.lost.tried)
	}
	remove := []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, e.From)}
	tried, again := l.lost.tried[e.From]
	if len(l.conf.GetVotersOutgoing()) > 0 || !l.leavesVoter(remove) ||
		again && tried.life == e.Life && l.ticks-tried.tick < takeOutTicks {
		return
	}
	l.lost.tried[e.From] = attempt{e.Life, l.ticks}
	if e.Known { // connections are only accepted from servers with a known address
		l.lost.former[e.From] = max(l.lost.former[e.From], e.Conn)
	}
	if contains(l.conf, e.From) {
		l.log.Warn("a member's data directory is empty: the member gives up its vote, joins, and gets the vote back once it has caught up",
			"server", e.From)
	}
	life := binary.BigEndian.AppendUint32(nil, e.Life)
	if err := l.node.ProposeConfChange(&pb.ConfChangeV2{Changes: remove, Context: life}); err != nil {
		l.log.Warn("a server that lost its data could not be removed; it will be tried again", "server", e.From, "err", err)
	}
}

// left records which life an entry took out, if it took one out.
func (l *Loop) left(e *pb.Entry) {
	id, life, ok := takenOut(e)
	if !ok {
		return
	}
	if len(l.lost.out) >= lostMax {
		clear(l.lost.out)
	}
	delete(l.lost.admitted, id)
	l.departures.note(id, Departure{Index: e.GetIndex(), Term: e.GetTerm()})
	l.lost.out[id] = departure{life: life, index: e.GetIndex(), term: e.GetTerm(), tick: l.ticks}
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
// part in elections sends. Only a leader records it.
func (l *Loop) noteAdmitted(from uint64, m *pb.Message) {
	if !l.node.IsLeader() || l.lost.admitted[from] || !asksLeaderCheck(m) {
		return
	}
	if len(l.lost.admitted) >= lostMax {
		clear(l.lost.admitted)
	}
	l.lost.admitted[from] = true
	if l.change != nil {
		l.reconcile()
	}
}

// isAdmitted reports whether a server's vote can count: it votes already, or it has said
// that it takes part in elections. A server that lost its disk has no vote before it has
// applied the entry that let it in again, whatever the membership says (see joining).
func (l *Loop) isAdmitted(id uint64) bool {
	return l.lost.admitted[id] || slices.Contains(l.conf.GetVoters(), id)
}

// isFormer reports whether an event came on a connection that a former life of its
// sender made.
func (l *Loop) isFormer(e Event) bool {
	return e.Conn != 0 && e.Conn <= l.lost.former[e.From]
}

// beginJoining makes it durable that a server that joins takes part in no term
// before the one in which it was taken out.
func (l *Loop) beginJoining() error {
	if l.o.JoinedAfter == 0 || l.hard.GetTerm() >= l.o.JoinedTerm {
		return nil
	}
	l.hard = pb.HardState{Term: &l.o.JoinedTerm, Vote: new(uint64), Commit: l.hard.Commit}
	if err := l.disk.Append(&pb.HardState{Term: l.hard.Term, Vote: l.hard.Vote, Commit: l.hard.Commit}, nil,
		true); err != nil {
		return fmt.Errorf("write the term in which this server joins: %w", err)
	}
	return nil
}

// keepCommit makes the commit index of entries durable before they are applied, if one
// of them changes the membership. The log alone doesn't tell a restarted server whose
// votes count. If it forgot that a server got a vote, it could go on waiting for the vote
// of another server, whose disk is lost meanwhile.
func (l *Loop) keepCommit(entries []*pb.Entry) {
	if l.failed != nil || !slices.ContainsFunc(entries, reconfigures) {
		return
	}
	last := max(l.hard.GetCommit(), entries[len(entries)-1].GetIndex())
	l.hard.Commit = &last
	if err := l.disk.Append(&pb.HardState{Term: l.hard.Term, Vote: l.hard.Vote, Commit: &last}, nil, true); err != nil {
		l.failed = err
	}
}

// campaign starts an election, unless this server must not take part in one yet, or its disk is stuck.
func (l *Loop) campaign() error {
	if l.joining() || l.Stuck() {
		return nil
	}
	return l.node.Campaign()
}
