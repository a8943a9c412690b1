package quorum

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file decides how a server that belongs to no ensemble begins: its data directory is
// empty or holds a standalone server's data, and its server lines name other servers
// (docs/decisions/085-founding.md). peer/join.go asks these servers, and describes how.
//
// A server knows about another server only what that server has answered:
//
//	in an ensemble   the server has data of an ensemble in which there may have been an election
//	founded          it has begun an ensemble, which has not elected a leader yet
//	finding out      it belongs to no ensemble, and says in its Claim what it holds
//	nobody listens   the connection was refused by the server's machine, and so it was at its client port, if known
//	serves           the same, but its client port answers: it runs with another configuration, such as without these
//	                 server lines, and holds data
//	no such name     the name service says that the server's name doesn't exist
//	unknown          anything else: no answer, a refused proof, an older version
//
// The rules:
//
//	F1  A server founds an ensemble only if each other voter of its server lines is finding out and
//	    has come to the same result, or has been absent (nobody listens, or no such name) for the
//	    Inquiry's Patience. More than half of the voters take part. The server waits while a voter
//	    is unknown.
//	F2  The voters that take part have the same voters in their server lines. Addresses don't count.
//	F3  If some of them hold data, it is the same data: the same lineage, last entry and digest. Its holders found the
//	    ensemble with it and are the first voters; empty servers join.
//	F4  One server founds: the one with the lowest id among those that hold data, or among all if none does. It draws the
//	    lineage. The others begin with that once it answers that it has founded, and with which servers.
//	F5  By an operator's order, a voter founds with the data that it holds, without waiting for servers that are unknown
//	    or hold other data. It still waits while another voter that is finding out has such an order, except for one
//	    with the same data and a higher id. An order counts until its voter answers otherwise, or nobody listens at the
//	    voter's address: two voters that wait for each other, and then can't reach each other, keep waiting. A voter
//	    follows its order only after a round of questions that it began with the order in its Claim: of two servers that
//	    answer each other, at least one hears of the other's order.
//	F6  An answer that a server has data, belongs to an ensemble, or knows such a server counts until that server
//	    answers otherwise, even if it is down now, this server has restarted, or the server lines no longer name it.
//
// Two ensembles of the same voters can't both elect a leader, even if the rules are evaluated on outdated claims:
// a server begins with one lineage only, and a leader needs a majority of the first voters.

// A Holding identifies the data that a server holds before it belongs to an ensemble. The zero value is that of
// an empty data directory.
type Holding struct {
	Lineage     uint64 // id of the history, which is the data directory's cluster id
	Index, Term uint64 // of the last entry
	Digest      uint64 // of the whole state
	Zxid        int64  // of the last transaction
	Znodes      uint64
}

// String returns the holding in the form that operators see.
func (h Holding) String() string {
	if h == (Holding{}) {
		return "no data"
	}
	return fmt.Sprintf("%d znodes up to zxid %#x, digest %016x, of cluster %016x", h.Znodes, uint64(h.Zxid), h.Digest,
		h.Lineage)
}

// A Claim is what a server says about itself while it finds out how to begin.
type Claim struct {
	Life      uint64   // a number that no other start of a server has
	Members   []Member // its server lines
	Holds     Holding
	JoinsOnly bool   // it must not found an ensemble, only join one
	Ordered   bool   // an operator has ordered it to found an ensemble
	Known     bool   // it knows a server that belongs to an ensemble
	Misses    bool   // a server that it knows to have data doesn't answer it
	Follows   uint64 // id of the server that is to found the ensemble, possibly itself; 0 while something is unknown
	Level     uint32 // highest feature level that it knows, 0 if it doesn't say
}

// A Founding records how an ensemble was founded.
type Founding struct {
	Lineage uint64
	Term    uint64 // raft's term before the first election
	Base    Holding
	Voters  []uint64  // the first voters, ascending
	With    []Founder // the servers that took part, and begin with this Founding
	Level   uint32    // the highest feature level that all of these know; 0 if one didn't say
}

// A Founder is one start of a server that took part in a founding.
type Founder struct{ ID, Life uint64 }

// An Answer is a server's answer to an Inquiry. One of the fields up to Cluster is set, none if nothing is known.
type Answer struct {
	NobodyListens bool
	Serves        string // the address at which it answers clients, though nobody listens at its peer port; "" for none
	NoSuchName    bool
	Err           error // nothing is known about the server
	Claim         *Claim
	Cluster       uint64    // it has begun: the id of the cluster whose data it has
	Elected       bool      // there may have been an election
	Leader        uint64    // that it follows, 0 if none
	Founding      *Founding // how its ensemble was founded, if it took part in that
	Join          JoinReply // its answer to an empty server's request to join
}

// absent reports whether the server isn't running, according to its machine or the name service.
func (a *Answer) absent() bool { return a.NobodyListens || a.NoSuchName }

// A Beginning is how a server begins.
type Beginning struct {
	Cluster uint64 // of its data directory, never 0
	// Founding, if not nil, says that the server begins a new ensemble with others. Otherwise it joins one.
	Founding *Founding
	// Overtaken says that the others have founded an ensemble without this server, and with a copy of its data. This
	// server's data is to be set aside: with an empty directory the server joins the others.
	Overtaken bool
	// Address, with Founding, is the "host:port" that another server's lines give this server, or "" if none is known. It
	// counts if this server's own line doesn't say where others reach its peer port.
	Address     string
	JoinedAfter uint64 // only an entry beyond this index makes it a member
	JoinedTerm  uint64 // term of the entry at JoinedAfter, 0 if unknown: it takes part in no earlier term
	Joined      Admission
}

// An Inquiry finds out, in rounds of questions, how a server that belongs to no ensemble begins. Only one goroutine at
// a time may use it.
type Inquiry struct {
	Self      uint64
	Life      uint64   // a number that no other start of a server has
	Members   []Member // the server lines
	Holds     Holding
	JoinsOnly bool
	Ordered   bool   // an operator had ordered this server to found before the last Round
	Lineage   uint64 // of the ensemble that this server may found: random, not 0
	Level     uint32 // highest feature level that the server knows
	Patience  Patience
	Heard     []uint64 // what Data returned at the end of the server's last start

	belong  map[uint64]bool    // servers that belonged to an ensemble when they last answered
	held    map[uint64]bool    // servers that held data, or knew one that does, when they last answered
	rivals  map[uint64]bool    // voters that had an order to found when they last answered, and haven't stopped since
	absent  map[uint64]absence // servers that aren't running
	seen    map[uint64]string  // by server: the address that its server lines give this one
	misses  bool               // one of held or belong doesn't answer
	follows uint64
	known   bool
}

// Patience is how long, in ms, a voter that doesn't take part must have been absent: Listens if nobody listens there,
// Name if its name doesn't exist.
type Patience struct{ Listens, Name int64 }

// An absence is how long a server hasn't been running.
type absence struct {
	since  int64 // ms
	noName bool
}

// Claim returns what this server says about itself after the last round.
func (q *Inquiry) Claim() Claim {
	return Claim{
		Life: q.Life, Members: q.Members, Holds: q.Holds, JoinsOnly: q.JoinsOnly, Ordered: q.Ordered, Known: q.known,
		Misses: q.misses, Follows: q.follows, Level: q.Level,
	}
}

// Data returns the servers of F6, by ascending id, named by the server lines or not. A server keeps them (HeardName).
func (q *Inquiry) Data() []uint64 {
	all := maps.Clone(q.held)
	maps.Copy(all, q.belong)
	return slices.Sorted(maps.Keys(all))
}

// Empty reports whether this server's data directory is empty.
func (q *Inquiry) Empty() bool { return q.Holds == Holding{} }

// inquiryRound holds the results of one round of questions.
type inquiryRound struct {
	claims  map[uint64]*Claim  // of voters that are finding out how to begin
	besides map[uint64]Holding // what observers hold that are finding out
	founded []uint64           // servers that have begun, without an election
	open    bool               // something is unknown
	known   bool               // a server that finds out knows of an ensemble
	absent  []string           // the voters that aren't running, and why that is known
	waiting []string
	answers map[uint64]Answer
}

func (r *inquiryRound) wait(id uint64, format string, a ...any) {
	r.waiting = append(r.waiting, fmt.Sprintf("server %d %s", id, fmt.Sprintf(format, a...)))
}

// Round evaluates the other servers' answers, by id, at time now in ms. ordered says that the operator has ordered this
// server to found an ensemble with those that take part: once a Claim has said so, it doesn't wait for unknown servers.
// ok is false while it isn't clear how to begin; waiting then says what is missing.
func (q *Inquiry) Round(now int64, answers map[uint64]Answer, ordered bool) (b Beginning, waiting []string, ok bool) {
	if q.belong == nil {
		q.belong, q.held, q.rivals = map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
		q.absent, q.seen = map[uint64]absence{}, map[uint64]string{}
		for _, id := range q.Heard {
			q.held[id] = true
		}
	}
	r := &inquiryRound{claims: map[uint64]*Claim{}, besides: map[uint64]Holding{}, answers: answers}
	q.misses = false
	ordered, q.Ordered = ordered && q.Ordered, ordered
	q.follows = 0
	for _, m := range q.Members {
		if m.ID == q.Self {
			continue
		}
		a := answers[m.ID]
		if a.Join.Go && q.Empty() {
			return Beginning{
				Cluster: a.Cluster, JoinedAfter: a.Join.Index, JoinedTerm: a.Join.Term, Joined: a.Join.Admission,
			}, nil, true
		}
		if q.TookPart(a.Founding) {
			return q.beginning(a.Founding), nil, true
		}
		q.hear(r, m, a, now)
	}
	if cluster := q.overtaken(answers); cluster != 0 {
		return Beginning{Cluster: cluster, Overtaken: true}, nil, true
	}
	q.known = len(q.belong) > 0
	switch {
	case q.known || r.known:
		if !q.Empty() {
			r.waiting = append(r.waiting, fmt.Sprintf("this server has data of its own (%v), which no ensemble takes over: decide which data to keep. For theirs, set this server's aside (zooid recover -set-aside, here); for its own, stop the others, set theirs aside, and start all",
				q.Holds))
		}
		return b, r.waiting, false
	case len(r.founded) > 0:
		b, ok = q.beginWith(r)
		return b, r.waiting, ok
	}
	return q.found(r, ordered)
}

// hear evaluates the answer of one server.
func (q *Inquiry) hear(r *inquiryRound, m Member, a Answer, now int64) {
	if was, ok := q.absent[m.ID]; ok && (!a.absent() || was.noName != a.NoSuchName) {
		delete(q.absent, m.ID)
	}
	answers := a.Claim != nil || a.Cluster != 0
	if answers {
		delete(q.belong, m.ID)
		delete(q.held, m.ID)
	}
	if answers || a.NobodyListens {
		delete(q.rivals, m.ID)
	}
	switch {
	case a.Join.DuplicateID:
		q.belong[m.ID] = true
		r.wait(m.ID, "says that a server %d is running already: %s", q.Self, SameID)
	case a.Claim != nil:
		q.heardClaim(r, m, a.Claim)
	case answers && !a.Elected:
		r.founded = append(r.founded, m.ID)
	case answers:
		q.belong[m.ID] = true
		if !q.Empty() {
			r.wait(m.ID, "belongs to an ensemble (cluster %016x), which this server's data isn't of", a.Cluster)
		} else if a.Leader != 0 && !isMember(q.Members, a.Leader) {
			r.wait(m.ID, "belongs to an ensemble (cluster %016x) whose leader, server %d, this server's lines don't name, so that it can't be asked: add that line, and start this server again",
				a.Cluster, a.Leader)
		} else if a.Leader != 0 {
			r.wait(m.ID, "belongs to an ensemble (cluster %016x), and its leader, server %d, must let this server in; if it doesn't, its log says why",
				a.Cluster, a.Leader)
		} else {
			r.wait(m.ID, "belongs to an ensemble (cluster %016x) that has no leader: start its other servers; if their data is lost, see 'zooid recover' on server %d",
				a.Cluster, m.ID)
		}
	case a.Serves != "":
		q.held[m.ID], r.open = true, true
		r.wait(m.ID, "serves clients at %s, and doesn't have these server lines: stop it, give it the lines, and start it; if another program answers there, begin without that server by 'zooid found' on one of the others",
			a.Serves)
	case q.belong[m.ID] || q.held[m.ID]:
		r.open, q.misses = true, true
		r.wait(m.ID, "held data, or knew of some, when it last answered (if that is gone for good, stop all voters that wait for it, run 'zooid found' for one of them, never for two, and start them), and doesn't answer now%s",
			because(a.Err))
	case m.Observer:
	case !a.absent():
		r.open = true
		r.wait(m.ID, "has not said what it holds%s", because(a.Err))
	default:
		gone, was := q.absent[m.ID]
		if !was {
			gone = absence{now, a.NoSuchName}
			q.absent[m.ID] = gone
		}
		why, patience := "nobody listens at", q.Patience.Listens
		if gone.noName {
			why, patience = "no such name:", q.Patience.Name
		}
		r.absent = append(r.absent, fmt.Sprintf("server %d isn't running (%s %s)", m.ID, why, strings.Join(m.Addrs, ", ")))
		if now-gone.since < patience {
			r.open = true
			r.waiting = append(r.waiting, r.absent[len(r.absent)-1]+", and may be about to start")
		}
	}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// heardClaim evaluates the claim of a server that is finding out how to begin.
func (q *Inquiry) heardClaim(r *inquiryRound, m Member, c *Claim) {
	if c.Holds != (Holding{}) || c.Known || c.Misses {
		q.held[m.ID] = true
	}
	if c.Ordered && !m.Observer {
		q.rivals[m.ID] = true
	}
	for _, seen := range c.Members {
		if seen.ID == q.Self && len(seen.Addrs) > 0 {
			q.seen[m.ID] = seen.Addrs[0]
		}
	}
	switch theirs, ours := voterIDs(c.Members), voterIDs(q.Members); {
	case c.Known:
		r.known = true
		r.wait(m.ID, "belongs to no ensemble either, and knows a server that does")
	case m.Observer:
		r.besides[m.ID] = c.Holds
	case !slices.Equal(theirs, ours):
		r.open = true
		r.wait(m.ID, "has other voters in its server lines (%v) than this server (%v)", theirs, ours)
	default:
		r.claims[m.ID] = c
	}
}

// voterIDs returns the ids of the voters among members, ascending.
func voterIDs(members []Member) (ids []uint64) {
	for _, m := range members {
		if !m.Observer {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TookPart reports whether this start of the server took part in f, which may be nil. If so, the server still holds
// exactly what the ensemble was founded with. It may then begin with the others, even if they have elected a leader
// meanwhile.
func (q *Inquiry) TookPart(f *Founding) bool {
	return f != nil && f.Base.same(q.Holds) && slices.Contains(f.With, Founder{q.Self, q.Life})
}

// overtaken returns the cluster of the others' ensemble if that ensemble has elected a leader and began with a copy of
// this server's data: this server loses nothing by joining it with an empty directory. overtaken returns 0 if there is
// no such ensemble, or if the others are in different ones.
func (q *Inquiry) overtaken(answers map[uint64]Answer) (cluster uint64) {
	same := false
	for _, a := range answers { // any order: all must agree
		switch {
		case a.Cluster == 0:
			continue
		case !a.Elected || cluster != 0 && cluster != a.Cluster:
			return 0
		}
		cluster = a.Cluster
		same = same || a.Founding != nil && a.Founding.Base.same(q.Holds)
	}
	if !same || q.Empty() {
		return 0
	}
	return cluster
}

// beginWith begins with a server that has founded an ensemble without this one, if all voters answer and none holds
// more than what that ensemble was founded with: then nothing can have been acknowledged. If several servers have
// founded ensembles, because the first was down meanwhile, the one with the lowest id counts.
func (q *Inquiry) beginWith(r *inquiryRound) (b Beginning, ok bool) {
	id := slices.Min(r.founded)
	f := r.answers[id].Founding
	switch {
	case f == nil || !slices.Contains(f.Voters, q.Self) || !f.Base.same(q.Holds):
		r.wait(id, "has founded an ensemble (cluster %016x) without this server, which joins once that has a leader",
			r.answers[id].Cluster)
	default:
		missing := q.disagree(r, f)
		if len(missing) == 0 {
			return q.beginning(f), true
		}
		r.wait(id, "has founded an ensemble (cluster %016x) without this server, which can't know when: it takes part once servers %v answer and hold no other data. If one of these is lost permanently, stop server %d, run 'zooid recover -new-ensemble' there, and start it: this server joins",
			r.answers[id].Cluster, missing, id)
	}
	return b, false
}

// disagree returns the other voters that stand in the way of f. A voter doesn't if it holds no data or the data that f
// was founded with, or if it has begun with that data in f or in another ensemble of the same voters: only one of these
// ensembles can elect a leader.
func (q *Inquiry) disagree(r *inquiryRound, f *Founding) (ids []uint64) {
	for _, id := range voterIDs(q.Members) {
		a, c := r.answers[id], r.claims[id]
		switch {
		case id == q.Self:
		case c != nil && (c.Holds.same(f.Base) || c.Holds == Holding{}):
		case slices.Contains(r.founded, id) && (a.Cluster == f.Lineage || f.rivals(a.Founding)):
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

// rivals reports whether f and g, which may be nil, were founded with the same data and the same voters.
func (f *Founding) rivals(g *Founding) bool {
	return g != nil && f.Base.same(g.Base) && slices.Equal(f.Voters, g.Voters)
}

// same reports whether two holdings are copies of the same data.
func (h Holding) same(o Holding) bool {
	h.Znodes, o.Znodes = 0, 0
	return h == o
}

// found founds an ensemble if this server is the founder and all others agree.
func (q *Inquiry) found(r *inquiryRound, ordered bool) (b Beginning, waiting []string, ok bool) {
	own := q.Claim()
	voters := voterIDs(q.Members)
	votes := slices.Contains(voters, q.Self)
	if votes {
		r.claims[q.Self] = &own
	}
	if q.JoinsOnly {
		r.waiting = append(r.waiting, "this server must not found an ensemble, only join one: its data was set aside for that, or db.autocreate=false and there is no file initialize; 'zooid found' permits it")
	}
	if !votes && !q.Empty() {
		r.open = true
		r.waiting = append(r.waiting,
			fmt.Sprintf("this server has data of its own (%v), and isn't a voter in its server lines", q.Holds))
	}
	data, differ := r.data(q.Self)
	if differ != "" {
		r.open = true
		r.waiting = append(r.waiting, differ)
	}
	for _, id := range q.Data() {
		if data == (Holding{}) && (id == q.Self || !isMember(q.Members, id)) {
			r.open, q.misses = true, true
			r.wait(id, "held data, or knew of some, when it last answered, and isn't named by the server lines any more: start it with these lines, or, if its data doesn't count, run 'zooid found' for one of the voters that wait, never for two")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.besides)) {
		if h := r.besides[id]; h != (Holding{}) && !h.same(data) {
			r.open = true
			r.wait(id, "is an observer and has data (%v), which no ensemble begins with: set it aside (zooid recover -set-aside, there), or make that server a voter in all server lines",
				h)
		}
	}
	founder := r.founder()
	if !r.open {
		q.follows = founder
	}
	if ordered && votes && !q.rivalled(r) {
		return q.beginning(q.founding(r, voters, q.Holds, true)), nil, true
	}
	if r.open || founder == 0 {
		return b, r.waiting, false
	}
	if founder != q.Self {
		r.wait(founder, "is to found the ensemble, with this server among others")
		return b, r.waiting, false
	}
	part := 0
	for _, id := range slices.Sorted(maps.Keys(r.claims)) {
		c := r.claims[id]
		if id != q.Self && c.Follows != q.Self {
			r.wait(id, "has not found out yet that this server is to found the ensemble")
			r.open = true
		}
		if !c.JoinsOnly || data != (Holding{}) {
			part++
		}
	}
	if part <= len(voters)/2 {
		r.waiting = append(r.waiting,
			fmt.Sprintf("%d of %d voters are here, and an ensemble needs more than half", part, len(voters)))
		if len(r.absent) > 0 {
			r.waiting = append(r.waiting, strings.Join(r.absent, ", ")+": start more, or correct their addresses in the server lines")
		}
		r.open = true
	}
	if r.open {
		return b, r.waiting, false
	}
	return q.beginning(q.founding(r, voters, data, false)), nil, true
}

// rivalled reports whether another server's order to found forbids to follow this server's own.
func (q *Inquiry) rivalled(r *inquiryRound) (yes bool) {
	for _, id := range slices.Sorted(maps.Keys(q.rivals)) {
		if c := r.claims[id]; id > q.Self && c != nil && c.Holds.same(q.Holds) {
			continue // it waits for this server, and begins with it
		}
		yes = true
		r.wait(id, "has an order to found an ensemble, too, as server %d has: stop the one whose data doesn't count, and set that aside ('zooid recover -set-aside', there)",
			q.Self)
	}
	return yes
}

// data returns the data that the servers hold. If there is more than one history, differ says which server has which.
func (r *inquiryRound) data(self uint64) (data Holding, differ string) {
	var texts []string
	newest, same := uint64(0), true
	for _, id := range slices.Sorted(maps.Keys(r.claims)) {
		c := r.claims[id]
		if c.Holds == (Holding{}) {
			continue
		}
		if newest == 0 {
			data = c.Holds
		}
		same = same && c.Holds.same(data)
		if newest == 0 || r.claims[newest].Holds.Zxid < c.Holds.Zxid {
			newest = id
		}
		texts = append(texts, fmt.Sprintf("server %d has %v", id, c.Holds))
	}
	if same {
		return data, ""
	}
	return data, fmt.Sprintf("the servers hold different data, and which counts only an operator knows: %s; server %d has the latest zxid. Set the data of the others aside ('zooid recover -set-aside'), or run 'zooid found' on the one whose data counts (this is server %d)",
		strings.Join(texts, "; "), newest, self)
}

// founder returns the server that is to found the ensemble, 0 if there is none.
func (r *inquiryRound) founder() (id uint64) {
	for _, wantData := range []bool{true, false} {
		for _, id := range slices.Sorted(maps.Keys(r.claims)) {
			if c := r.claims[id]; !c.JoinsOnly && (c.Holds != Holding{}) == wantData {
				return id
			}
		}
	}
	return 0
}

// founding returns the record of the ensemble that this server founds with data. The first voters are those that hold
// the data; an ensemble that begins empty has all voters, or on an operator's order those that take part.
func (q *Inquiry) founding(r *inquiryRound, voters []uint64, data Holding, ordered bool) *Founding {
	f := &Founding{Lineage: q.Lineage, Base: data, Term: max(data.Term, bootstrapTerm), Level: q.Level}
	for id, c := range r.claims { // any order: they are sorted below
		if c.Holds.same(data) && (!c.JoinsOnly || id == q.Self) {
			f.With = append(f.With, Founder{id, c.Life})
			f.Voters = append(f.Voters, id)
			f.Level = min(f.Level, c.Level)
		}
	}
	slices.SortFunc(f.With, func(a, b Founder) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(f.Voters)
	if data == (Holding{}) && !ordered {
		f.Voters = voters
	}
	return f
}

// beginning returns the Beginning with f.
func (q *Inquiry) beginning(f *Founding) Beginning {
	b := Beginning{Cluster: f.Lineage, Founding: f}
	if ids := slices.Sorted(maps.Keys(q.seen)); len(ids) > 0 {
		b.Address = q.seen[ids[0]]
	}
	return b
}

// Overtaken reports whether the answers of the other servers say that they have founded an ensemble other than f, and
// elected a leader, while this server, which founded f, was down. That ensemble holds the data that f was founded with,
// if any. An elected leader alone is not enough: a name may lead to a stranger. While another server belongs to f, most
// of f's voters must have left it for the same ensemble.
func (f *Founding) Overtaken(answers map[uint64]Answer) bool {
	var another uint64
	own, left := false, 0
	for id, a := range answers { // any order: they are compared and counted
		switch {
		case a.Cluster == f.Lineage:
			own = true
		case !a.Elected || f.Base != Holding{} && (a.Founding == nil || !a.Founding.Base.same(f.Base)):
		case another != 0 && a.Cluster != another:
			return false
		default:
			another = a.Cluster
			if slices.Contains(f.Voters, id) {
				left++
			}
		}
	}
	return another != 0 && (!own || left > len(f.Voters)/2)
}
