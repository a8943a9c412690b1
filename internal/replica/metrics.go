package replica

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Meters are the metrics that are counted as events happen. The registry holds them under Apache's names, together with
// the gauges (internal/server/gauges.go), which are read on request, and the names that stay at zero
// (internal/metrics/zero.go). Times are in ms, sizes in bytes.
type Meters struct {
	Registry *metrics.Registry

	Admin *metrics.Admin

	// auth packets of the scheme ensemble whose name is the ensemble's, is a different one, or wasn't checked
	ensembleRight, ensembleWrong, ensembleSkipped *metrics.Counter

	// connections
	connectionRequests, ConnectionRejected, reconnected                     *metrics.Counter
	SessionlessExpired, sessionsExpired, Unrecoverable, looked, timeSetBack *metrics.Counter
	HandshakesFailed, HandshakesExceeded                                    *metrics.Counter // of TLS handshakes
	loginsThrottled                                                         *metrics.Counter // refused without judging
	// connections closed because of the notifications they left unread
	notificationsRefused *metrics.Counter
	identitiesExpired    *metrics.Counter // connections closed because an identity expired
	// connections closed because an identity was withdrawn
	IdentitiesGone *metrics.Counter
	// bytes
	BytesReceived, responseBytes, watchBytes, largeRejected *metrics.Counter
	responses                                               sizes
	// requests
	opTotal, TurnsAwaited *metrics.Counter
	ops                   map[jute.Op]*metrics.Counter
	readLatency           *metrics.Summary // one observation for each batch of reads answered at once
	updateLatency         *metrics.Summary
	proposals, commits    *metrics.Counter // requests, including failed writes
	stale, staleDropped   *metrics.Counter // requests whose client was gone before they were proposed or answered
	batches               *metrics.Summary // requests in one log entry
	proposed              sizes            // log entries
	propagation, agreeing *metrics.Summary // from the leader's stamp to apply, on every server and on the leader
	ttlCreated            *metrics.Counter
	ttlDeleted            *metrics.Counter
	refused               [tree.Limits]*metrics.Counter // by limit
	overQuota             *metrics.CounterSet           // by namespace
	readsIn, writesIn     *metrics.SummarySet           // by namespace; bytes
	// watches: number of watchers notified of one event
	toldCreated, toldDeleted, toldChanged, toldChildren *metrics.Summary
	// the disk
	Fsync, Flush, snapshot       *metrics.Summary
	startSnapshot, startTxnsTime *metrics.Summary
	startTxns, databaseInit      *metrics.Summary
	electionTime, unavailable    *metrics.Summary

	// metrics that Apache doesn't have
	Stages       Stages
	LastFsync    atomic.Int64                     // ns
	ends         [sessionEnds]*metrics.Counter    // of sessions
	leaderLosses map[quorum.Loss]*metrics.Counter // by reason
	exceeded     [limit.Scopes]*metrics.Counter   // limits of clients that were exceeded
	struck       [2]*metrics.Counter              // requests that rules of the policy denied, or would have in a dry run
	overload     [overloads]*metrics.Counter      // by the effect of overload on clients

	roomAwaited     [2]*metrics.Counter
	closedForMemory map[string]*metrics.Counter // connections, by their use of memory
}

// An overloadCost is a way in which overload affects clients.
type overloadCost int

const (
	overdueEnded    overloadCost = iota // connections closed because a request has waited too long
	writesHeld                          // writes held back because their identity exceeds its share of unanswered requests
	sessionsHeld                        // new sessions that couldn't begin at once
	sessionsDropped                     // of sessionsHeld: waited too long, or the client left
	turnsAwaited                        // inputs of connections that waited for their identity's turn
	letGo                               // connections closed because the state of their sessions was unknown
	overloads
)

// sessionEnd says how a session, or a client's claim to one, ended.
type sessionEnd int

const (
	sessionClosed  sessionEnd = iota // by its client
	sessionExpired                   // its client was silent
	sessionMoved                     // its client, or another one with its password, continued it on another connection
	sessionRefused                   // it was already over, the password was wrong, or there was no room for a new one
	sessionEnds
)

// NewMeters registers all metrics except the gauges, which are already in r.
func NewMeters(r *metrics.Registry) *Meters {
	m := &Meters{
		Registry:             r,
		connectionRequests:   r.Counter("connection_request_count"),
		ConnectionRejected:   r.Counter("connection_rejected"),
		reconnected:          r.Counter("connection_revalidate_count"),
		SessionlessExpired:   r.Counter("sessionless_connections_expired"),
		sessionsExpired:      r.Counter("stale_sessions_expired"),
		timeSetBack:          r.Counter("time_set_back_count"),
		Unrecoverable:        r.Counter("unrecoverable_error_count"),
		looked:               r.Counter("looking_count"),
		HandshakesFailed:     r.Counter("unsuccessful_handshake"),
		HandshakesExceeded:   r.Counter("tls_handshake_exceeded"),
		loginsThrottled:      r.Counter("logins_throttled"),
		notificationsRefused: r.Counter("notifications_refused"),
		identitiesExpired:    r.Counter("zooid_identities_expired"),
		IdentitiesGone:       r.Counter("zooid_identities_withdrawn"),
		BytesReceived:        r.Counter("bytes_received_count"),
		responseBytes:        r.Counter("response_bytes"),
		watchBytes:           r.Counter("watch_bytes"),
		largeRejected:        r.Counter("large_requests_rejected"),
		proposals:            r.Counter("proposal_count"),
		commits:              r.Counter("commit_count"),
		stale:                r.Counter("stale_requests"),
		staleDropped:         r.Counter("stale_requests_dropped"),
		ttlCreated:           r.Counter("ttl_node_created_count"),
		ttlDeleted:           r.Counter("ttl_node_deleted_count"),
		opTotal:              r.Counter("op_count_total"),
		ops:                  map[jute.Op]*metrics.Counter{},
	}
	for limit := tree.NoLimit + 1; limit < tree.Limits; limit++ {
		m.refused[limit] = r.Counter(limit.String() + "_refused")
	}
	m.countOps(r)
	m.overQuota = r.CounterSet("quota_exceeded_error_per_namespace")
	m.toldCreated = r.Summary("node_created_watch_count", metrics.Basic)
	m.toldDeleted = r.Summary("node_deleted_watch_count", metrics.Basic)
	m.toldChanged = r.Summary("node_changed_watch_count", metrics.Basic)
	m.toldChildren = r.Summary("node_children_watch_count", metrics.Basic)
	m.Fsync = r.Summary("fsynctime", metrics.Basic)
	m.snapshot = r.Summary("snapshottime", metrics.Basic)
	m.databaseInit = r.Summary("dbinittime", metrics.Basic)
	m.startSnapshot = r.Summary("startup_snap_load_time", metrics.Basic)
	m.startTxns = r.Summary("startup_txns_loaded", metrics.Basic)
	m.startTxnsTime = r.Summary("startup_txns_load_time", metrics.Basic)
	m.electionTime = r.Summary("election_time", metrics.Basic)
	m.unavailable = r.Summary("unavailable_time", metrics.Basic)
	m.batches = r.Summary("sync_processor_batch_size", metrics.Basic)
	m.readLatency = r.Summary("readlatency", metrics.Advanced)
	m.updateLatency = r.Summary("updatelatency", metrics.Advanced)
	m.propagation = r.Summary("propagation_latency", metrics.Advanced)
	m.agreeing = r.Summary("proposal_latency", metrics.Advanced)
	m.Flush = r.Summary("sync_processor_queue_flush_time_ms", metrics.Advanced)
	m.Admin = r.Admin()
	m.ensembleRight, m.ensembleWrong, m.ensembleSkipped = r.Counter("ensemble_auth_success"),
		r.Counter("ensemble_auth_fail"), r.Counter("ensemble_auth_skip")
	m.readsIn = r.SummarySet("read_per_namespace", metrics.Basic)
	m.writesIn = r.SummarySet("write_per_namespace", metrics.Basic)
	r.RegisterZeros()
	m.Stages = newStages(r)
	copy(m.ends[:], r.Counters("zooid_sessions_ended_total", "Sessions that ended, and connections that lost or didn't get theirs.", "how",
		"closed", "expired", "moved", "refused"))
	copy(m.exceeded[:], r.Counters("zooid_limits_exceeded_total", "Requests and connections that were refused or held back by a limit of clients.", "scope",
		limit.Connection.String(), limit.Address.String(), limit.Identity.String(), limit.Path.String()))
	copy(m.struck[:], r.Counters("zooid_policy_denied_total", "What rules of the policy denied, and what those of dry runs would have.", "how", "denied", "dryrun"))
	copy(m.overload[:], r.Counters("zooid_overload_total", "What overload has cost clients.", "what",
		"connections_closed", "writes_held", "sessions_held", "sessions_dropped", "turns_awaited", "let_go"))
	m.closedForMemory = map[string]*metrics.Counter{}
	for i, c := range r.Counters("zooid_memory_closed_total",
		"Connections that were closed because memory was short, by what they used much of it for.", "for", memoryUses[:]...) {
		m.closedForMemory[memoryUses[i]] = c
	}
	copy(m.roomAwaited[:], r.Counters("zooid_memory_awaited_total",
		"Large replies and requests that waited for room in memory.", "for", forReplies, forFrames))
	m.TurnsAwaited = m.overload[turnsAwaited]
	m.leaderLosses = map[quorum.Loss]*metrics.Counter{}
	why := quorum.Losses()
	for i, c := range r.Counters("zooid_raft_leader_changes_total", "Leaders that this server lost, by why.",
		"why", why...) {
		m.leaderLosses[quorum.Loss(why[i])] = c
	}
	m.responses.reset()
	m.proposed.reset()
	return m
}

// countOps registers the counters of the table of operations, ordered by name.
func (m *Meters) countOps(r *metrics.Registry) {
	rows := []*op{&opCreateSession, &opCloseSession}
	for i := range ops {
		if ops[i].counter != "" {
			rows = append(rows, &ops[i])
		}
	}
	slices.SortStableFunc(rows, func(a, b *op) int { return strings.Compare(a.counter, b.counter) })
	var last *metrics.Counter
	for i, row := range rows {
		if i == 0 || row.counter != rows[i-1].counter {
			last = r.Counter("op_count_" + row.counter)
		}
		m.ops[row.code] = last
	}
}

// reset does what srst does, except for the counts in serverStats.
func (m *Meters) reset() {
	m.Registry.Reset()
	m.responses.reset()
	m.proposed.reset()
}

// droppedStale counts n requests that were dropped because their client is gone. Apache has two
// counters because it can be configured not to drop them.
func (m *Meters) droppedStale(n int) {
	m.stale.Add(int64(n))
	m.staleDropped.Add(int64(n))
}

// did counts n requests of one operation.
func (m *Meters) did(op jute.Op, n int64) {
	m.opTotal.Add(n)
	if c := m.ops[op]; c != nil {
		c.Add(n)
	}
}

// told counts an event that is delivered to the given number of watchers.
func (m *Meters) told(typ jute.EventType, watchers int) {
	switch typ {
	case jute.EventNodeCreated:
		m.toldCreated.Observe(int64(watchers))
	case jute.EventNodeDeleted:
		m.toldDeleted.Observe(int64(watchers))
	case jute.EventNodeDataChanged:
		m.toldChanged.Observe(int64(watchers))
	case jute.EventNodeChildrenChanged:
		m.toldChildren.Observe(int64(watchers))
	}
}

// sizes are the last, least and largest size, -1 before the first.
type sizes struct{ last, least, largest atomic.Int64 }

func (s *sizes) reset() {
	s.last.Store(-1)
	s.least.Store(-1)
	s.largest.Store(-1)
}

// observe records several sizes at once. If two observers race, at most one of their extremes is
// lost.
func (s *sizes) observe(last, low, high int64) {
	s.last.Store(last)
	if l := s.least.Load(); l < 0 || low < l {
		s.least.Store(low)
	}
	if high > s.largest.Load() {
		s.largest.Store(high)
	}
}
