package replica

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// A Replica is one server's copy of the service: the tree, and the clients
// connected here with what they wait for. It computes; sockets, the clock and
// randomness are its callers' (see Client and ReplicaOptions), so that a simulator can
// hold one as well as a server.
//
// It is the quorum's state machine: the methods of a quorum.StateMachine belong to
// the quorum's loop, all others but DigestAt to any goroutine.
type Replica struct {
	limits    limits
	auth      *auth.Registry
	throttle  auth.Throttle // of failed logins
	expiring  expiring      // identities that end
	sasl      SASLOptions
	log       *slog.Logger
	clientLog *slog.Logger               // for lines about single clients, of which there is a limit
	slowLog   *slog.Logger               // for those about slow requests, which have one of their own
	policyLog *slog.Logger               // for those about what the policy denies
	slow      int64                      // ns from which on a request is slow; 0 for never
	now       func() int64               // a monotonic clock, ns
	wall      func() int64               // the clock that stamps batches, ms since 1970
	secret    func() []byte              // 16 random bytes
	passwd    func(session int64) []byte // of a new session
	kick      func()                     // tells the quorum that the outbox or syncs wait
	// observe, if not nil, sees each evaluated request before its client does.
	observe func(*tree.Result)
	// seeAnswer is Options.Answered.
	seeAnswer func(c *Client, op jute.Op, body []byte, code jute.Code, how Became)

	settings          tree.Settings // this server's, for when it leads
	restore           func(storage.Meta, *storage.Snapshot) (*tree.Tree, error)
	membership        Membership
	membershipChanged func() // may be nil
	vet               func(body []byte) jute.Code
	alone             bool // no ensemble: nothing is ever sent again
	// readOnlyMode says that clients are served read-only while this server is cut off.
	readOnlyMode bool

	outbox     outbox
	syncs      syncs
	unanswered unanswered
	overload   overload
	correction atomic.Int64           // of the leader's clock, ms
	level      atomic.Uint32          // feature level in force
	noRoom     atomic.Bool            // the disk is nearly full: clients' writes are refused
	bounds     atomic.Pointer[bounds] // nil for none
	// znodes and ephemerals are how many the tree has.
	znodes, ephemerals    atomic.Int64
	addresses, identified owners
	memory                memoryAccount
	unread                unreadEvents
	large                 largeBuffers
	stats                 serverStats
	traffic               busiest.Traffic
	meters                *Meters
	broken                breakdown

	// heavy is held, before mu is, by goroutines that do long work in steps. So a goroutine that
	// waits for mu waits for one step of one of them.
	heavy sync.Mutex

	mu       sync.RWMutex
	tree     *tree.Tree
	clients  map[int64]*Client // by cnx, from the connect request on
	sessions map[int64]*Client // by session, those attached here
	// connecting is how many of clients wait for the answer to their connect request.
	connecting       int
	newcomers        newcomers
	readOnlySessions int       // of clients, in no table
	noRoomSessions   int       // that began since the disk was found nearly full
	touched          []*Client // got output during this Apply
	scratch          []int64   // watchers of one event
	row              row       // of events with the same watchers
	expiry           expiry
	locals           locals
	// heardLast are sessions whose connection ended before the leader was told that
	// they were heard. There are none without a leader.
	heardLast     []int64
	leader        quorum.Leadership
	ownBounds     [limit.Scopes]limit.Set // of this server's configuration
	boundsChanged bool                    // limits in the tree have, since they were read
	serving       bool                    // something of a leader's term was applied, so no old state is shown
	cutOff        bool                    // no leader for too long: clients are refused

	leaderlessSince int64 // now (ms)

	// Owned by the quorum's loop.
	doubtful  bool // a leader told of another state than this
	proposals proposals
	supported int32 // feature level that all members know, as the leader's loop told
	snapshots snapshotRule
	digests   digests
	batch     []byte       // proposed or forwarded last; its memory serves again
	writes    namespaceRun // guarded by mu
	answers   answers      // guarded by mu; empty between Applies
	progress  progress     // guarded by mu

	watchMu sync.Mutex
	watches *watch.Table
}

// limits are the settings that bound clients.
type limits struct {
	timeoutMin, timeoutMax int32 // session timeout, ms
	frameMax               int   // jute.maxbuffer
}
