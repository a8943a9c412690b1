package replica

import (
	"log/slog"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// A Replica is one server's copy of the service: the tree, and the clients connected here with
// their unanswered requests. It only computes. Its callers supply sockets, the clock and randomness
// (see Client and Options), so that a simulator can run one as well as a server.
//
// A Replica is made of parts. Each is a type that holds its own state and the parts that it uses, and says what guards
// it. The exported methods of the parts are the replica's.
//
// A Replica is the quorum's state machine: only the quorum's loop may call the methods of
// quorum.StateMachine, but any goroutine may call all others except DigestAt.
type Replica struct {
	outside
	state
	clock
	levels
	members
	limiter
	stats
	progress
	freshness
	overload
	logins
	loop
	listings
	snapshots
	reaper
	rooms
	longestHolds

	proposals  *proposals.Queue
	syncs      syncs
	unanswered unanswered
	room       diskRoom
	memory     memoryAccount
	reads      reads
	unread     unreadEvents
	large      *memory.Buffers // large output buffers
	broken     breakdown
	watches    watches

	// heavy is held by goroutines that do long work in steps; it is locked before mu. So a goroutine
	// that waits for mu waits for at most one step of one of them.
	heavy heavyLock

	// Guarded by mu.
	hearing          hearing
	newcomers        newcomers
	counts           sessionCounts
	readOnlySessions int   // sessions of read-only clients, which are in no table
	appliedAt        int64 // when the last Apply ended
	deafSince        int64 // now (ms) since when this leader couldn't hear its servers, 0 if it can
	telling          telling
	expiry           *expiry.Queue
	locals           locals
	serving          bool  // an entry of a leader's term was applied, so no old state is shown
	cutOff           bool  // no leader for too long: clients are refused
	leaderlessSince  int64 // now (ms)
}

// outside holds a replica's settings and its access to the outside world. It doesn't change.
type outside struct {
	limits    limits
	auth      *auth.Registry
	sasl      SASLOptions
	meters    *Meters
	log       *slog.Logger
	clientLog *slog.Logger               // for log lines about single clients, limited in rate
	slowLog   *slog.Logger               // for log lines about slow requests, with a limit of its own
	policyLog *slog.Logger               // for log lines about denials by the policy
	slow      int64                      // ns from which a request counts as slow; 0 for never
	now       func() int64               // a monotonic clock, ns
	wall      func() int64               // the clock that stamps batches, ms since 1970
	secret    func() []byte              // 16 random bytes
	passwd    func(session int64) []byte // of a new session
	kick      func()                     // tells the quorum that the proposals or syncs wait
	// observe, if not nil, sees each evaluated request before its client does.
	observe func(*tree.Result)
	// seeAnswer is Options.Answered.
	seeAnswer func(c *Client, op jute.Op, body []byte, code jute.Code, how Became)

	settings          tree.Settings // settings of this server, for when it leads
	load              func(storage.Meta, *storage.Snapshot) (*tree.Tree, error)
	membership        Membership
	membershipChanged func() // may be nil
	vet               func(body []byte) jute.Code
	alone             bool // standalone: nothing is ever sent again
	// readOnlyMode says that clients are served read-only while this server is cut off.
	readOnlyMode bool
}

// loop is the part that the quorum's loop owns.
type loop struct {
	*outside
	*state
	overload *overload

	doubtful bool // the leader reported a digest that differs from this server's
	proposed proposed
	digests  digests
	batch    []byte // the entry last proposed or forwarded; its memory is reused
}

// state is shared by all parts of a replica: the replicated state, the leader, and the connected clients. Readers share
// mu; writers, such as Apply, hold it exclusively.
type state struct {
	mu      replicaLock
	tree    *tree.Tree
	leader  quorum.Leadership
	clients map[int64]*Client // by cnx, from the connect request on
}

// watches are the watches of the clients connected here.
type watches struct {
	mu    partLock
	table *watch.Table
}

// limits are the settings that bound clients.
type limits struct {
	timeoutMin, timeoutMax int32 // session timeout, ms
	frameMax               int   // jute.maxbuffer
}
