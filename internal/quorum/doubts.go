package quorum

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Every entry carries the digest of its leader's state (D16). A server whose own digest
// differs can't tell which of the two states is wrong; it may be the leader's. So it asks
// all voters for the digest of their state after one entry. The digest that a majority of
// the voters has is the right one:
//
//   - A server of the majority continues.
//   - A server whose digest differs from the majority's stops, even if it leads. Its own
//     state is proven wrong: it sets its data aside and joins again.
//   - If digests differ and none has a majority, as with two servers, or if no server
//     answers for doubtTicks while there is a leader, the server stops, and its error
//     advises against removing any data.
//   - A leader in doubt sends no snapshot. Before any leader sends one, it asks the voters
//     that have the same entries (mayGive). The receiver of a snapshot has the sender's
//     digest from then on, so a wrong state could otherwise spread to a majority.
//
// The leader of an earlier term may have been found wrong since. The digests in its
// entries only raise a doubt, as any other digest does.
//
//	digest   index(8) digest(8) kind(1); digestQuestion asks for the receiver's digest
const (
	digestAnswer   = 0
	digestQuestion = 1
	digestSize     = 17

	// doubtTicks is how long a server may be in doubt while there is a leader.
	doubtTicks = 100
	// doubtPauseTicks is the time between two questions about the same entry, and
	// doubtRenewTicks the time after which the questions are about a newer entry.
	doubtPauseTicks = 2
	doubtRenewTicks = 20
	// doubtAnswerTicks is how long a leader waits for answers before it sends a snapshot,
	// and how long a server that finds no majority still answers the others before it stops.
	doubtAnswerTicks = 10
	// givenTicks is how long a leader may send its state without asking again, and how
	// long a question that it asked stays valid.
	givenTicks = 20
	// doubtLevel is the lowest feature level at which servers exchange digests.
	doubtLevel = 2
)

// doubts is a server's doubt about its state.
type doubts struct {
	*view
	levels *levels
	tasks  *tasks

	open    bool
	lasted  uint64              // ticks since the doubt began, while there was a leader
	asked   uint64              // tick of the last question
	since   uint64              // tick of the first question about index
	index   uint64              // the entry that the questions are about
	settled uint64              // entry after which a majority had this server's digest
	votes   map[uint64]uint64   // digests after index, by voter
	asking  map[uint64]digestAt // peers' questions about entries not yet applied here
	giving  giving
}

// giving is the question that a leader asks before it sends its state to others.
type giving struct {
	index   uint64   // entry after which the digest is asked for; 0 if no question is open
	awaited []uint64 // voters that have not answered
	since   uint64   // tick of the question
	until   uint64   // tick until which the state may be sent without another question
}

// digestAt is the digest of the state after the entry at index.
type digestAt struct{ index, digest uint64 }

// A DivergedError says that this server's state differs from the one that a majority of the
// voters has after the same entry. Use errors.As to find it.
type DivergedError struct {
	Index           uint64
	Digest, Theirs  uint64
	Server          uint64
	Agree, Deviates []uint64 // voters whose digest is Theirs, and voters with another digest
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("after log entry %d the state of this server (%d) has the digest %016x; a majority, servers %v, has %016x: the replicas have diverged, and this one is wrong, by a bug or a fault of its machine",
		e.Index, e.Server, e.Digest, e.Agree, e.Theirs)
}

// An UndecidedError says that the servers' states differ and no majority has the same
// state, or that no server answered. Use errors.As to find it.
type UndecidedError struct {
	Index   uint64
	Digests map[uint64]uint64 // by server, of the servers that answered
	Voters  []uint64
}

func (e *UndecidedError) Error() string {
	var have []string
	for _, id := range slices.Sorted(maps.Keys(e.Digests)) {
		have = append(have, fmt.Sprintf("server %d has %016x", id, e.Digests[id]))
	}
	return fmt.Sprintf("the states of the servers have diverged and no majority of the voters %v shows which is right: after log entry %d %s. This server stops, to acknowledge nothing on a wrong state. Remove nothing. Start the servers that are down: they may decide it. Otherwise stop all, keep copies of all data directories, choose the server whose content is right, copy the content of its data directory, and of its log directory if there is one, without myid and server.kept, over the others', and start all",
		e.Voters, e.Index, strings.Join(have, ", "))
}

// A DivergedAloneError says that a sole server's state doesn't match the digests in its
// log. There is no other server to take the right state from. Use errors.As to find it.
type DivergedAloneError struct{ Index, Digest uint64 }

func (e *DivergedAloneError) Error() string {
	return fmt.Sprintf("the state after entry %d is not the one that this server had when it wrote the log (digest %016x then): its newest snapshot, its memory or this version is at fault. Remove nothing. Keep a copy of the data directory, start the server on another machine or with the version that it ran before, and restore a backup if that doesn't help",
		e.Index, e.Digest)
}

// begin opens a doubt: another server's digest differs from this one's.
func (d *doubts) begin() {
	if d.open || d.sole {
		return
	}
	d.open, d.lasted, d.asked, d.since = true, 0, 0, 0
	d.log.Error("this server and another one have different states after the same entry: all voters are asked, and a majority decides",
		"applied", d.applied)
	d.ask()
}

// ask asks the voters for their digest after the entry that this server applied last, or
// again about the entry of the last question if that is recent.
func (d *doubts) ask() {
	if d.since == 0 || d.ticks-d.since >= doubtRenewTicks {
		own, ok := d.state.DigestAt(d.applied)
		if !ok {
			return
		}
		d.since, d.index, d.votes = d.ticks, d.applied, map[uint64]uint64{d.id: own}
	}
	d.asked = d.ticks
	for _, id := range d.conf.GetVoters() {
		if _, answered := d.votes[id]; !answered {
			d.tellDigest(id, d.index, d.votes[d.id], digestQuestion)
		}
	}
	d.judge()
}

// tellDigest sends this server's digest to a peer whose version knows digests.
func (d *doubts) tellDigest(to, index, digest uint64, kind byte) {
	if d.levels.of(to) < doubtLevel {
		return
	}
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, index), digest)
	d.shell.Send(to, FrameDigest, append(b, kind))
}

// heard handles a peer's digest or its question for this server's. A question about an
// entry not yet applied here waits.
func (d *doubts) heard(e Event) {
	if len(e.Data) != digestSize || !contains(d.conf, e.From) {
		return
	}
	index, theirs, kind := binary.BigEndian.Uint64(e.Data), binary.BigEndian.Uint64(e.Data[8:]), e.Data[16]
	if kind == digestQuestion && index > d.applied {
		if d.asking == nil {
			d.asking = map[uint64]digestAt{}
		}
		d.asking[e.From] = digestAt{index, theirs}
		return
	}
	d.compare(e.From, digestAt{index, theirs}, kind == digestQuestion)
}

// compare compares a peer's digest with this server's, after an entry that is applied
// here, and answers the peer if answer is set.
func (d *doubts) compare(from uint64, theirs digestAt, answer bool) {
	own, ok := d.state.DigestAt(theirs.index)
	if ok && answer {
		d.tellDigest(from, theirs.index, own, digestAnswer)
	}
	if !slices.Contains(d.conf.GetVoters(), from) {
		return
	}
	if ok && own != theirs.digest && theirs.index > d.settled {
		d.begin()
	}
	if ok && theirs.index == d.giving.index {
		d.giving.awaited = slices.DeleteFunc(d.giving.awaited, func(id uint64) bool { return id == from })
	}
	if d.open && theirs.index == d.index {
		d.votes[from] = theirs.digest
		d.judge()
	}
}

// mayGive reports whether this leader may send a snapshot of its state. It first asks the
// voters that have all entries applied here whether they have the same state, and waits
// for their answers for at most doubtAnswerTicks.
func (d *doubts) mayGive() bool {
	s := &d.giving
	switch {
	case d.open, d.tasks.underWay():
		return false
	case d.ticks < s.until:
		return true
	case s.index == 0 || d.ticks-s.since > givenTicks: // no question is open, or it is about too old a state
		own, ok := d.state.DigestAt(d.applied)
		if !ok {
			return true // there is no digest to compare
		}
		*s = giving{index: d.applied, since: d.ticks}
		for _, f := range d.node.Followers() {
			if f.Voter && f.Active && f.Match >= d.applied && d.levels.of(f.ID) >= doubtLevel {
				s.awaited = append(s.awaited, f.ID)
				d.tellDigest(f.ID, s.index, own, digestQuestion)
			}
		}
	}
	if len(s.awaited) > 0 && d.ticks-s.since < doubtAnswerTicks {
		return false
	}
	*s = giving{until: d.ticks + givenTicks}
	return true
}

// judge checks whether a majority of the voters has the same digest.
func (d *doubts) judge() {
	voters := d.conf.GetVoters()
	agree := map[uint64][]uint64{}
	known := 0
	for _, id := range voters {
		if digest, ok := d.votes[id]; ok {
			agree[digest] = append(agree[digest], id)
			known++
		}
	}
	own := d.votes[d.id]
	for digest, ids := range agree { // any order: at most one has a majority
		if len(ids) <= len(voters)/2 {
			continue
		}
		d.open = false
		odd := slices.DeleteFunc(slices.Clone(voters),
			func(id uint64) bool { v, ok := d.votes[id]; return !ok || v == digest })
		if digest == own {
			d.settled = d.index
			d.log.Warn("a majority has this server's state, so this server continues",
				"entry", d.index, "servers", ids, "others", odd)
			return
		}
		d.failed = &DivergedError{Index: d.index, Digest: own, Theirs: digest, Server: d.id, Agree: ids, Deviates: odd}
		return
	}
	if known == len(voters) {
		d.lasted = max(d.lasted, doubtTicks-doubtAnswerTicks) // the others get its digest before this server stops
	}
}

// giveUp stops a server whose doubt can't be settled. As long as all servers that answer have its
// state, nothing contradicts that state: the server continues, and keeps asking the others.
func (d *doubts) giveUp() {
	own, others, differ := d.votes[d.id], false, false
	for id, digest := range d.votes { // any order: only whether one differs matters
		if id != d.id {
			others, differ = true, differ || digest != own
		}
	}
	if others && !differ {
		d.lasted = 0
		return
	}
	d.open = false
	d.failed = &UndecidedError{Index: d.index, Digests: d.votes, Voters: slices.Clone(d.conf.GetVoters())}
}

func (d *doubts) tick() {
	for _, id := range slices.Sorted(maps.Keys(d.asking)) {
		if theirs := d.asking[id]; theirs.index <= d.applied {
			delete(d.asking, id)
			d.compare(id, theirs, true)
		}
	}
	if !d.open || d.failed != nil {
		return
	}
	if d.node.Leader() != 0 || d.lasted >= doubtTicks-doubtAnswerTicks {
		d.lasted++
	}
	if d.lasted > doubtTicks {
		d.giveUp()
	} else if d.ticks-d.asked >= doubtPauseTicks {
		d.ask()
	}
}
