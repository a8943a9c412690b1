package replica

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A View is what a replica tells of itself at one instant. Times are in ms, those of
// requests from arrival to reply, as clients see them.
type View struct {
	// Serving is false until everything acknowledged before this server started
	// is applied, and while it is cut off from its ensemble.
	Serving  bool
	CutOff   bool   // it had no leader for too long
	ReadOnly bool   // it is cut off and serves read-only
	Leads    bool   // this server leads
	Leader   uint64 // id of the server that leads, as far as this one knows; 0 for none
	Term     uint64 // of that server
	// LeadingSince is the time, by the replica's clock, at which this server began to
	// lead; 0 if it doesn't.
	LeadingSince int64

	Index         uint64 // of the last log entry applied
	Zxid          int64  // of the last change applied
	Digest        uint64 // of the whole replicated state then
	Nodes         int    // znodes; the root counts twice, as in Apache
	Ephemerals    int
	DataSize      int   // bytes of paths and data; the root's path counts twice
	Keyed         bool  // the tree's hashes have a secret of the log
	SinceSnapshot int64 // requests applied since the last snapshot

	FeatureLevel      uint32 // in force
	FeatureLevelKnown uint32 // the highest that this server knows
	Members           string // the membership, as /zookeeper/config has it
	MembersVersion    int64

	GlobalSessions int
	// LocalSessions counts those that began here and are not global, and those of
	// read-only clients; BeginsLocal says that new sessions are local.
	LocalSessions int
	BeginsLocal   bool
	Clients       int // connections with a connect request
	Connecting    int // those of Clients whose connect request has no answer yet
	Watches       int

	Received    int64 // requests, and four-letter words
	Sent        int64 // replies and notifications
	AuthFailed  int64 // connections
	Outstanding int64 // requests without an answer
	Latency     Latency
	Proposals   Sizes // log entries proposed, in bytes; only a leader proposes
	Responses   Sizes

	ClockCorrection int64 // what a leader adds to its clock
	NoRoom          bool  // the disk is nearly full: clients' writes are refused

	Memory        memory.Use  // as it was last added up
	MemoryStep    memory.Step // in force
	MemoryRefused int64       // requests refused because memory is short
}

// Latency is the least, mean and largest time of an answer in ms, since the last
// reset.
type Latency struct {
	Min, Max int64
	Avg      float64 // rounded to four decimals
}

// Sizes are the last, least and largest size in bytes, -1 before the first.
type Sizes struct{ Last, Min, Max int64 }

func (s *sizes) public() Sizes { return Sizes{s.last.Load(), s.least.Load(), s.largest.Load()} }

func (l *latencies) public() Latency {
	const scale = 1e4
	return Latency{Min: l.least(), Max: l.max.Load(), Avg: math.Floor(l.mean()*scale+0.5) / scale}
}

// View returns what the replica tells of itself now. It holds up nothing.
func (r *Replica) View() View {
	r.watchMu.Lock()
	watches := r.watches.Size()
	r.watchMu.Unlock()
	r.mu.RLock()
	v := View{
		Serving: r.serving && !r.cutOff, CutOff: r.cutOff, ReadOnly: r.readOnly(),
		Leads: r.leader.IsLeader, Leader: r.leader.Leader, Term: r.leader.Term, LeadingSince: r.progress.leadingSince,
		Index: r.tree.LastIndex(), Zxid: r.tree.LastZxid(), Digest: r.tree.Digest(),
		Nodes: r.tree.NodeCount() + 1, Ephemerals: r.tree.EphemeralsCount(),
		DataSize: r.tree.ApproximateDataSize() + len("/"), Keyed: r.tree.Keyed(), SinceSnapshot: r.snapshots.since,
		GlobalSessions: r.tree.GlobalSessions(), LocalSessions: r.localSessions(), BeginsLocal: r.locals.scope != tree.Global,
		Clients: len(r.clients), Connecting: r.connecting, Watches: watches,
	}
	v.Members, v.MembersVersion = r.tree.Members()
	r.mu.RUnlock()
	v.FeatureLevel, v.FeatureLevelKnown = r.Levels()
	v.Received, v.Sent, v.AuthFailed = r.stats.received.Load(), r.stats.sent.Load(), r.stats.authFailed.Load()
	v.Outstanding, v.Latency = r.unanswered.count(), r.stats.latency.public()
	v.Proposals, v.Responses = r.meters.proposed.public(), r.meters.responses.public()
	v.ClockCorrection, v.NoRoom = r.correction.Load(), r.noRoom.Load()
	v.Memory, v.MemoryRefused = r.memoryUsed(), r.memory.refused.Load()
	v.MemoryStep = memory.Step(r.memory.tight.Load())
	return v
}

// Busiest returns what this server's clients ask for most, n of each kind at most.
func (r *Replica) Busiest(n int) busiest.Picture { return r.traffic.Picture(r.now(), n) }

// Position returns the last applied entry's index, the last zxid, and the
// digest of the state.
func (r *Replica) Position() (index uint64, zxid int64, digest uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.LastIndex(), r.tree.LastZxid(), r.tree.Digest()
}

// DigestAt returns the digest of the state after one of the last log entries; ok
// is false for an older one. It may not run beside Apply.
func (r *Replica) DigestAt(index uint64) (digest uint64, ok bool) {
	at := r.digests.ring[index%digestsKept]
	return at.digest, at.index == index
}

// Recompute returns the digest of the state as it is kept, and as it is computed anew
// of all there is. It holds up writes meanwhile.
func (r *Replica) Recompute() (kept, again uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Digest(), r.tree.RecomputeDigest()
}

// Session returns a session of the replicated table.
func (r *Replica) Session(id int64) (tree.Session, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Session(id)
}

// Digests returns the digests kept of the state at certain zxids, oldest first.
// Servers of one cluster that have the same zxid have the same digest.
func (r *Replica) Digests() []Digest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.progress.digests)
}

// Members returns the membership as /zookeeper/config has it, and its version.
func (r *Replica) Members() (text string, version int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Members()
}

// A Connection is what a replica tells of one client connection.
type Connection struct {
	Remote      string // "address:port"
	Interest    int    // Apache's selector bits: 1 waits for requests, 4 has output to write
	Outstanding int    // requests without an answer
	Received    int64
	Sent        int64

	// The rest is told of connections with a session, those whose Session isn't 0.
	Session      int64
	LastOp       string // in four letters or so; NA before the first answer
	Established  time.Time
	Timeout      int32 // ms
	LastHeard    int64 // ms of the replica's clock
	LastCxid     int32 // xid of the last answer, -1 for none
	LastZxid     int64 // of the last answer, -1 for none
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
func (r *Replica) Connections() []Connection {
	clients := r.connected()
	list := make([]Connection, 0, len(clients))
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, c := range clients {
		list = append(list, c.status())
	}
	return list
}

// connected returns the clients that sent a connect request, oldest first.
func (r *Replica) connected() []*Client {
	r.mu.RLock()
	list := make([]*Client, 0, len(r.clients))
	for _, c := range r.clients { // any order: sorted below
		list = append(list, c)
	}
	r.mu.RUnlock()
	slices.SortFunc(list, func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// status reads a client's statistics; Replica.mu is held at least shared.
func (c *Client) status() Connection {
	c.mu.Lock()
	outstanding, interest := c.unanswered.len(), 0
	if outstanding < unansweredMax && len(c.out) < outputPauseBytes {
		interest |= InterestRead
	}
	if len(c.out) > 0 {
		interest |= InterestWrite
	}
	c.mu.Unlock()
	st := &c.stats
	return Connection{
		Remote: c.remote, Interest: interest, Outstanding: outstanding,
		Received: st.received.Load(), Sent: st.sent.Load(),
		Session: c.session, LastOp: shortName(jute.Op(st.lastOp.Load())), Established: c.Since, Timeout: c.timeout, LastHeard: c.lastHeard.Load(),
		LastCxid: st.lastXid.Load(), LastZxid: st.lastZxid.Load(), LastResponse: st.lastReply.Load(),
		LastLatency: st.latency.last.Load(), Latency: st.latency.public(),
	}
}

// shortName is how cons calls an operation.
func shortName(code jute.Op) string {
	if code == jute.OpCreateSession {
		return opCreateSession.short
	}
	return lookup(code).short
}

// ResetStats begins latencies, packets, response sizes, counters and summaries
// again.
func (r *Replica) ResetStats() {
	r.stats.latency.reset()
	r.stats.received.Store(0)
	r.stats.sent.Store(0)
	r.meters.reset()
}

// ResetConnections begins the statistics of every connection again.
func (r *Replica) ResetConnections() {
	for _, c := range r.connected() {
		c.stats.reset()
	}
}

// CountReceived counts a request that no client of the replica has sent, such as a
// four-letter word, and CountSent its answer.
func (r *Replica) CountReceived() { r.stats.received.Add(1) }

// CountSent counts the answer to a request that CountReceived has counted.
func (r *Replica) CountSent() { r.stats.sent.Add(1) }

// CountAuthFailed counts a connection that failed to prove who its client is before
// it was a client.
func (r *Replica) CountAuthFailed() { r.stats.authFailed.Add(1) }

// localSessions is View.LocalSessions; mu is held at least shared.
func (r *Replica) localSessions() int {
	return r.readOnlySessions + len(r.locals.sessions) + r.tree.LocalSessions(r.locals.server)
}
