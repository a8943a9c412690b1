package replica

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A View is what a replica reports about itself at one instant. Times are in ms; those of requests
// are from arrival to reply.
type View struct {
	// Serving is false until everything acknowledged before this server started has been applied, and
	// while the server is cut off from its ensemble.
	Serving  bool
	CutOff   bool   // the server has had no leader for too long
	ReadOnly bool   // it is cut off and serves read-only
	Leads    bool   // this server leads
	Leader   uint64 // id of the leader, as far as this server knows; 0 for none
	Term     uint64 // term of that leader
	// LeadingSince is the time, by the replica's clock, at which this server began to
	// lead; 0 if it doesn't.
	LeadingSince int64

	Index         uint64 // of the last log entry applied
	Zxid          int64  // of the last change applied
	Digest        uint64 // digest of the whole replicated state after that change
	Nodes         int    // znodes; the root counts twice, as in Apache
	Ephemerals    int
	DataSize      int   // bytes of paths and data; the root's path counts twice
	Keyed         bool  // the secret of the tree's hashes is in the log
	SinceSnapshot int64 // requests applied since the last snapshot

	FeatureLevel      uint32 // in force
	FeatureLevelKnown uint32 // the highest that this server knows
	Members           string // the membership, as /zookeeper/config has it
	MembersVersion    int64

	Rules auth.Rules // in force
	// RulesWaiting says which server has which rule, for each scheme for which this server, or on a leader a member, has a
	// rule other than the one in force.
	RulesWaiting []string

	GlobalSessions int
	// LocalSessions counts the sessions that began here and are not global, and those of read-only
	// clients. BeginsLocal says that new sessions are local.
	LocalSessions int
	BeginsLocal   bool
	Clients       int // connections that sent a connect request
	Connecting    int // those of Clients whose connect request is unanswered
	Watches       int

	Received    int64 // requests, including four-letter words
	Sent        int64 // replies and notifications
	AuthFailed  int64 // connections that failed to authenticate
	Outstanding int64 // requests without an answer
	Latency     Latency
	Proposals   Sizes // log entries proposed, in bytes; only a leader proposes
	Responses   Sizes

	ClockCorrection int64 // correction that the leader adds to its clock, ms
	NoRoom          bool  // the disk is nearly full: clients' writes are refused

	Memory        memory.Use  // as last added up
	MemoryStep    memory.Step // in force
	MemoryRefused int64       // requests refused because memory is short
}

// Latency is the least, mean and largest time from request to answer in ms, since the last reset.
type Latency struct {
	Min, Max int64
	Avg      float64 // rounded to four decimals
}

// Sizes are the last, least and largest size in bytes, each -1 before the first.
type Sizes struct{ Last, Min, Max int64 }

func (s *sizes) public() Sizes { return Sizes{s.last.Load(), s.least.Load(), s.largest.Load()} }

func (l *latencies) public() Latency {
	const scale = 1e4
	return Latency{Min: l.least(), Max: l.max.Load(), Avg: math.Floor(l.mean()*scale+0.5) / scale}
}

// View returns the replica's current report about itself. It blocks no request.
func (r *Replica) View() View {
	r.watches.mu.Lock()
	watches := r.watches.table.Size()
	r.watches.mu.Unlock()
	r.mu.RLock()
	v := View{
		Serving: r.serving && !r.cutOff, CutOff: r.cutOff, ReadOnly: r.readOnly(),
		Leads: r.leader.IsLeader, Leader: r.leader.Leader, Term: r.leader.Term, LeadingSince: r.progress.leadingSince,
		Index: r.tree.LastIndex(), Zxid: r.tree.LastZxid(), Digest: r.tree.Digest(),
		Nodes: r.tree.NodeCount() + 1, Ephemerals: r.tree.EphemeralsCount(),
		DataSize: r.tree.ApproximateDataSize() + len("/"), Keyed: r.tree.Keyed(), SinceSnapshot: r.snapshots.since,
		GlobalSessions: r.tree.Sessions().Globals(), LocalSessions: r.localSessions(),
		BeginsLocal: r.locals.scope != tree.Global,
		Clients:     len(r.clients), Connecting: r.newcomers.connecting, Watches: watches,
	}
	v.Members, v.MembersVersion = r.tree.Membership().Members()
	v.Rules, v.RulesWaiting = r.tree.Settings().Rules, slices.Clone(r.levels.unmet.list)
	r.mu.RUnlock()
	v.FeatureLevel, v.FeatureLevelKnown = r.levels.Levels()
	v.Received, v.Sent, v.AuthFailed = r.stats.received.Load(), r.stats.sent.Load(), r.stats.authFailed.Load()
	v.Outstanding, v.Latency = r.unanswered.count(), r.stats.latency.public()
	v.Proposals, v.Responses = r.meters.proposed.public(), r.meters.responses.public()
	v.ClockCorrection, v.NoRoom = r.clock.correction.Load(), r.room.none.Load()
	v.Memory, v.MemoryRefused = r.memory.last(), r.memory.refused.Load()
	v.MemoryStep = memory.Step(r.memory.tight.Load())
	return v
}

// Busiest returns the most frequent requests of this server's clients, at most n of each kind.
func (s *stats) Busiest(n int) busiest.Picture { return s.traffic.Picture(s.now(), n) }

// Position returns the index of the last applied entry, the last zxid, and the digest of the state.
func (s *state) Position() (index uint64, zxid int64, digest uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.LastIndex(), s.tree.LastZxid(), s.tree.Digest()
}

// DigestAt returns the digest of the state after one of the last log entries; ok is false for an
// older entry. It must not run concurrently with Apply.
func (l *loop) DigestAt(index uint64) (digest uint64, ok bool) {
	at := l.digests.ring[index%digestsKept]
	return at.digest, at.index == index
}

// Recompute returns the digest of the state as it is maintained, and as recomputed from the whole
// state. It blocks writes meanwhile.
func (s *state) Recompute() (kept, again uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Digest(), s.tree.RecomputeDigest()
}

// Session returns a session of the replicated table.
func (s *state) Session(id int64) (tree.Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Sessions().Get(id)
}

// Digests returns the digests kept for certain zxids, oldest first. Servers of one cluster have the
// same digest at the same zxid.
func (p *progress) Digests() []Digest {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.digests)
}

// Members returns the membership in /zookeeper/config, and its version.
func (s *state) Members() (text string, version int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Membership().Members()
}

// A Connection is what a replica reports about one client connection.
type Connection struct {
	Remote      string // "address:port"
	Interest    int    // Apache's selector bits: 1 reads requests, 4 has output to write
	Outstanding int    // requests without an answer
	Received    int64
	Sent        int64

	// The rest is set for connections with a session, those whose Session isn't 0.
	Session      int64
	LastOp       string // cons's name for it, of about four letters; NA if none since crst, "" if none at all
	Established  time.Time
	Timeout      int32 // ms
	LastHeard    int64 // ms of the replica's clock
	LastCxid     int32 // xid of the last answer; -1 if none since crst, 0 if none at all
	LastZxid     int64 // of the last answer; -1 if none since crst, 0 if none at all
	LastResponse int64 // ms of the replica's clock, 0 for none
	LastLatency  int64 // ms
	Latency      Latency
}

// Bits of Connection.Interest.
const (
	InterestRead  = 1
	InterestWrite = 4
)

// Connections returns the connections that sent a connect request, oldest first.
func (s *state) Connections() []Connection {
	clients := s.connected()
	list := make([]Connection, 0, len(clients))
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range clients {
		list = append(list, c.status())
	}
	return list
}

// connected returns the clients that sent a connect request, oldest first.
func (s *state) connected() []*Client {
	s.mu.RLock()
	list := make([]*Client, 0, len(s.clients))
	for _, c := range s.clients { // any order: sorted below
		list = append(list, c)
	}
	s.mu.RUnlock()
	slices.SortFunc(list, func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// status returns a client's statistics; Replica.mu is held at least for reading.
func (c *Client) status() Connection {
	c.mu.Lock()
	outstanding, interest := c.unanswered.len(), 0
	if outstanding < unansweredMax && !c.out.full() {
		interest |= InterestRead
	}
	if len(c.out.frames) > 0 {
		interest |= InterestWrite
	}
	c.mu.Unlock()
	st := &c.stats
	return Connection{
		Remote: c.remote, Interest: interest, Outstanding: outstanding,
		Received: st.received.Load(), Sent: st.sent.Load(),
		Session: c.session, LastOp: shortName(jute.Op(st.lastOp.Load())), Established: c.Since, Timeout: c.timeout,
		LastHeard: c.lastHeard.Load(),
		LastCxid:  st.lastXid.Load(), LastZxid: st.lastZxid.Load(), LastResponse: st.lastReply.Load(),
		LastLatency: st.latency.last.Load(), Latency: st.latency.public(),
	}
}

// shortName returns cons's name for an operation, "" for 0.
func shortName(code jute.Op) string {
	switch code {
	case 0:
		return ""
	case jute.OpCreateSession:
		return opCreateSession.short
	}
	return lookup(code).short
}

// ResetStats resets latencies, packet counts, response sizes, counters and summaries.
func (s *stats) ResetStats() {
	s.latency.reset()
	s.received.Store(0)
	s.sent.Store(0)
	s.meters.reset()
}

// ResetConnections resets the statistics of every connection.
func (s *state) ResetConnections() {
	for _, c := range s.connected() {
		c.stats.reset()
	}
}

// CountReceived counts a request that comes from no client of the replica, such as a four-letter
// word. CountSent counts its answer.
func (s *stats) CountReceived() { s.received.Add(1) }

// CountSent counts the answer to a request that CountReceived counted.
func (s *stats) CountSent() { s.sent.Add(1) }

// CountAuthFailed counts a connection that failed to authenticate before its client was known to
// the replica.
func (s *stats) CountAuthFailed() { s.authFailed.Add(1) }

// localSessions returns View.LocalSessions; mu is held at least for reading.
func (r *Replica) localSessions() int {
	return r.readOnlySessions + len(r.locals.sessions) + r.tree.Sessions().Locals(r.locals.server)
}
