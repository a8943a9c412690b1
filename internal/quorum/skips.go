package quorum

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// An entry that panics when applied stops every server. Operators may decide that the
// ensemble goes on without it (docs/decisions/026): a skipped entry is applied as one
// without data, which only advances the state's position in the log. Either all servers
// must skip the entry or none:
//
//	S1  A decision names an entry by index, term and the SHA-256 of its bytes, and is
//	    durable next to the log before it is announced. A server whose state already
//	    includes the entry announces its decision only if it is agreed.
//	S2  A server skips an entry only if its own decision is marked agreed, and the mark
//	    is durable before the entry is skipped.
//	S3  A server marks its decision agreed when every member in force at the entry,
//	    voters and observers, has announced the same decision, or when one of them says
//	    that it is agreed. Until then the server applies nothing from the entry on.
//	S4  A server that has not reached the entry takes an agreed decision over from a
//	    peer. A leader sends the entry of an agreed decision only to servers that have
//	    announced the decision.
//
// By S2 and S3 a server that skips the entry knows that every member will skip it, at each
// start; by S4, so will members that join later. A server whose snapshot includes the
// entry needs no decision.
//
// The accepting side of a connection announces its decisions in one note, as it does its
// feature level:
//
//	note   (index(8) term(8) sha256(32) agreed(1))*
type skips struct {
	*view

	own      map[uint64]*storage.Skip           // this server's decisions, by index
	told     map[uint64]map[uint64]storage.Skip // by peer and index
	held     []*pb.Message                      // committed entries that wait to be applied
	said     string                             // the missing decisions that were last logged
	warned   map[uint64]bool                    // indexes of entries that were logged as too late to skip
	withheld map[uint64]uint64                  // by peer: tick since when it isn't sent an entry; 0 once that is logged
}

const (
	skipSize = 8 + 8 + len(storage.Hash{}) + 1
	// warnedMax bounds the number of entries in warned.
	warnedMax = 1 << 10
	// withheldTicks is how long the leader waits for a peer to take a decision over before
	// it logs that.
	withheldTicks = 100
)

// open reads this server's decisions and announces them.
func (s *skips) open() error {
	all, err := s.dir.Skips()
	if err != nil {
		return err
	}
	s.own, s.told = map[uint64]*storage.Skip{}, map[uint64]map[uint64]storage.Skip{}
	s.warned, s.withheld = map[uint64]bool{}, map[uint64]uint64{}
	for i := range all {
		s.own[all[i].Index] = &all[i]
	}
	s.announce()
	return nil
}

// announce sends the peers this server's decisions, except those that S1 excludes.
func (s *skips) announce() {
	var b []byte
	for _, index := range slices.Sorted(maps.Keys(s.own)) {
		if own := s.own[index]; own.Agreed || index > s.applied { // else the state includes the entry
			b = appendSkip(b, own)
		}
	}
	if len(b) > 0 {
		s.shell.AnnounceSkips(b)
	}
}

func appendSkip(b []byte, s *storage.Skip) []byte {
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.Index), s.Term)
	b = append(b, s.Hash[:]...)
	if s.Agreed {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseSkips reads a note; ok is false if no server sends such a note.
func parseSkips(b []byte) (all map[uint64]storage.Skip, ok bool) {
	if len(b)%skipSize != 0 || len(b) > storage.SkipsMax*skipSize {
		return nil, false
	}
	all = map[uint64]storage.Skip{}
	for ; len(b) > 0; b = b[skipSize:] {
		s := storage.Skip{
			Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Hash: storage.Hash(b[16 : skipSize-1]),
		}
		switch b[skipSize-1] {
		case 0:
		case 1:
			s.Agreed = true
		default:
			return nil, false
		}
		if _, again := all[s.Index]; again || s.Index == 0 {
			return nil, false
		}
		all[s.Index] = s
	}
	return all, true
}

// heard records a peer's decisions, and takes agreed ones over (S4).
func (s *skips) heard(e Event) {
	all, ok := parseSkips(e.Data)
	if !ok {
		s.log.Warn("a peer's decisions to skip entries can't be decoded", "peer", e.From, "bytes", len(e.Data))
		return
	}
	s.told[e.From] = all
	for _, index := range slices.Sorted(maps.Keys(all)) {
		theirs := all[index]
		own := s.own[index]
		switch {
		case own != nil && (own.Agreed || index > s.applied):
		case index > s.applied && theirs.Agreed:
			s.takeOver(theirs, e.From)
		case index <= s.applied && !theirs.Agreed:
			s.tooLate(&theirs, e.From)
		}
	}
}

// passed says which of the entries that this server has applied a peer waits to skip.
func (s *skips) passed(entries []*pb.Entry) {
	if len(s.told) == 0 || len(entries) == 0 {
		return
	}
	first, last := entries[0].GetIndex(), entries[len(entries)-1].GetIndex()
	for _, peer := range slices.Sorted(maps.Keys(s.told)) {
		for index, theirs := range s.told[peer] { // any order: a line for each
			if !theirs.Agreed && first <= index && index <= last && s.own[index] == nil {
				s.tooLate(&theirs, peer)
			}
		}
	}
}

// tooLate logs that a peer waits to skip an entry that this server has applied.
func (s *skips) tooLate(theirs *storage.Skip, peer uint64) {
	if s.warned[theirs.Index] {
		return
	}
	if len(s.warned) >= warnedMax {
		clear(s.warned)
	}
	s.warned[theirs.Index] = true
	s.log.Error("a peer waits for a decision to skip an entry that this server has applied: it can't be skipped here. Stop the servers that have decided, run 'zooid skip-entry -withdraw' on each, and start all with the version that runs here; or run 'zooid skip-entry' here, which describes another way",
		"peer", peer, "index", theirs.Index, "term", theirs.Term)
}

// takeOver adopts a peer's agreed decision as this server's own (S4).
func (s *skips) takeOver(theirs storage.Skip, from uint64) {
	theirs.From, theirs.At, theirs.By = from, time.UnixMilli(s.state.Clock()).UTC().Truncate(time.Second),
		fmt.Sprintf("server %d", from)
	theirs.Why = "all members have decided it"
	if err := s.dir.KeepSkip(theirs); err != nil {
		s.log.Error("a decision to skip an entry could not be adopted; without it, the entry is not sent to this server",
			"peer", from, "index", theirs.Index, "err", err)
		return
	}
	s.log.Warn("the ensemble skips a log entry by its operators' decision: this server adopts the decision", "peer", from,
		"index", theirs.Index, "term", theirs.Term, "sha256", theirs.Hash.String())
	s.own[theirs.Index] = &theirs
	s.announce()
}

// holds queues the entries of m if one of them has no agreed decision, or if earlier entries
// wait, and reports whether it did. m may be nil.
func (s *skips) holds(m *pb.Message) bool {
	if m == nil || len(s.own) == 0 || len(s.held) == 0 && s.undecided(m.GetEntries()) == len(m.GetEntries()) {
		return false
	}
	s.held = append(s.held, m)
	return true
}

// undecided returns the index in entries of the first one without an agreed decision, or
// len(entries) if there is none.
func (s *skips) undecided(entries []*pb.Entry) int {
	i := slices.IndexFunc(entries, func(e *pb.Entry) bool { own := s.own[e.GetIndex()]; return own != nil && !own.Agreed })
	if i < 0 {
		return len(entries)
	}
	return i
}

// release returns the next held entries to apply, with the responses that become due with them, or nil if the first
// one must still wait. If a snapshot has replaced the entries, only the responses are left.
func (s *skips) release() *pb.Message {
	for len(s.held) > 0 && s.failed == nil {
		m := s.held[0]
		entries := m.GetEntries()
		for len(entries) > 0 && entries[0].GetIndex() <= s.applied { // a snapshot was installed meanwhile
			entries = entries[1:]
		}
		if len(entries) == 0 {
			s.held = s.held[1:]
			return &pb.Message{Responses: m.GetResponses()}
		}
		n := s.undecided(entries)
		if n == 0 {
			if !s.settle(entries[0]) {
				return nil
			}
			continue
		}
		if n == len(entries) {
			s.held = s.held[1:]
			return &pb.Message{Entries: entries, Responses: m.GetResponses()}
		}
		s.held[0] = &pb.Message{Entries: entries[n:], Responses: responsesFrom(m, entries[n].GetIndex(), false)}
		return &pb.Message{Entries: entries[:n], Responses: responsesFrom(m, entries[n].GetIndex(), true)}
	}
	return nil
}

// responsesFrom returns the responses of m for the entries before index, or for the rest.
// Raft must learn which entries were applied, since a server with unapplied changes of
// membership doesn't campaign. And without a leader, a member that lacks the undecided entry
// would never get it.
func responsesFrom(m *pb.Message, index uint64, before bool) (list []*pb.Message) {
	for _, r := range m.GetResponses() {
		entries := r.GetEntries()
		n := slices.IndexFunc(entries, func(e *pb.Entry) bool { return e.GetIndex() >= index })
		if n < 0 {
			n = len(entries)
		}
		if entries = entries[n:]; before {
			entries = r.GetEntries()[:n]
		}
		list = append(list, &pb.Message{Type: r.Type, To: r.To, From: r.From, Term: r.Term, Entries: entries})
	}
	return list
}

// settle checks whether the decision about e, the next entry to apply, is agreed or void.
// It returns false if e has to wait.
func (s *skips) settle(e *pb.Entry) bool {
	own := s.own[e.GetIndex()]
	if !s.fits(own, e) {
		return s.failed == nil
	}
	missing, differ := s.missing(own)
	if len(missing)+len(differ) > 0 {
		said := fmt.Sprint(own.Index, missing, differ)
		if said != s.said {
			s.said = said
			s.log.Warn("nothing is applied from this entry on until all members have decided to skip it: run 'zooid skip-entry' on the servers that are missing, and start them",
				"index", own.Index, "term", own.Term, "sha256", own.Hash.String(), "missing", fmt.Sprint(missing),
				"decidedOtherwise", fmt.Sprint(differ))
		}
		return false
	}
	agreed := *own
	agreed.Agreed = true
	if err := s.dir.KeepSkip(agreed); err != nil {
		s.failed = err
		return false
	}
	*own = agreed
	s.announce()
	return true
}

// missing returns the members that haven't announced a decision about own's entry, and
// those that decided about another entry at that index. If a member says that the decision
// is agreed, it returns none.
func (s *skips) missing(own *storage.Skip) (missing, differ []uint64) {
	members := slices.Concat(s.conf.GetVoters(), s.conf.GetVotersOutgoing(), s.conf.GetLearners(),
		s.conf.GetLearnersNext())
	slices.Sort(members)
	for _, id := range slices.Compact(members) {
		theirs, told := s.told[id][own.Index]
		switch {
		case id == s.id || s.isGuest(id): // a guest that applies the entry finds out that its state is wrong
		case !told:
			missing = append(missing, id)
		case !theirs.SamePlace(own):
			differ = append(differ, id)
		case theirs.Agreed:
			return nil, nil
		}
	}
	return missing, differ
}

// fits reports whether a decision matches the entry at its index in the log. If not, fits
// drops a decision taken over from a peer, and fails the loop for one made here.
func (s *skips) fits(own *storage.Skip, e *pb.Entry) bool {
	if e.GetTerm() == own.Term && !reconfigures(e) && storage.HashEntry(e.GetData()) == own.Hash {
		return true
	}
	err := fmt.Errorf("skip log entry %d: the decision in %s is about an entry of term %d with the SHA-256 %v; in the log is one of term %d with %v. Nothing was applied. Move the file elsewhere, and decide again with 'zooid skip-entry' if applying the entry panics",
		own.Index, s.dir.SkipPath(own.Index), own.Term, own.Hash, e.GetTerm(), storage.HashEntry(e.GetData()))
	if own.From == 0 {
		s.failed = err
		return false
	}
	s.log.Error("a peer's decision to skip an entry is void: the entry is applied", "peer", own.From, "err", err)
	delete(s.own, own.Index)
	if err := s.dir.DropSkip(own.Index); err != nil {
		s.failed = err
	}
	return false
}

// skipped reports whether an entry that is about to be applied is skipped.
func (s *skips) skipped(e *pb.Entry) bool {
	own := s.own[e.GetIndex()]
	if own == nil || !s.fits(own, e) {
		return false
	}
	s.log.Warn("a log entry is skipped, as all members have decided", "index", own.Index, "term", own.Term,
		"sha256", own.Hash.String(), "by", own.By, "at", own.At.Format(time.RFC3339), "why", own.Why)
	return true
}

// withholds reports whether m must not be sent: it carries an entry that is skipped, and
// its receiver hasn't announced the same decision (S4).
func (s *skips) withholds(m *pb.Message) bool {
	if len(s.own) == 0 || m.GetType() != pb.MsgApp {
		return false
	}
	to := m.GetTo()
	for _, e := range m.GetEntries() {
		own := s.own[e.GetIndex()]
		if own == nil || !own.Agreed {
			continue
		}
		if theirs, told := s.told[to][own.Index]; told && theirs.SamePlace(own) {
			continue
		}
		since, again := s.withheld[to]
		switch {
		case !again:
			s.withheld[to] = max(s.ticks, 1)
		case since != 0 && s.ticks-since > withheldTicks:
			s.withheld[to] = 0
			s.log.Warn("a skipped entry is not sent to a server that doesn't confirm that it will skip it: upgrade the server if its version is too old; its data stays as it is",
				"server", to, "index", own.Index)
		}
		return true
	}
	delete(s.withheld, to)
	return false
}
