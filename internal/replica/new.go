package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// Options say what a Replica works on, which settings it has, and what of the
// world it may ask. Zero settings are replaced by defaults, where zero would be useless.
type Options struct {
	ID uint64 // of the server
	// Servers is how many servers the ensemble was started with; 0 for a server alone.
	Servers    int
	Membership Membership

	Serving

	Settings  tree.Settings // replicated
	Auth      *auth.Registry
	SASL      SASLOptions
	Log       *slog.Logger
	ClientLog *slog.Logger // for lines about single clients; nil for Log, within limits
	Meters    *Meters      // nil for its own

	Tree  *tree.Tree // of the newest snapshot, or a new one; the replica's from now on
	Began int64      // by Now, when the loading of Tree began
	// Restore returns the tree in a snapshot that a peer sent.
	Restore func(meta storage.Meta, snap *storage.Snapshot) (*tree.Tree, error)

	// Panicked returns the error of Apply after it has panicked at an entry; about tells
	// of the state and of the entry.
	Panicked func(e quorum.Entry, cause any, about string) error

	Now    func() int64  // a monotonic clock, ns
	Wall   func() int64  // the clock that stamps batches, ms since 1970
	Secret func() []byte // jute.PasswdSize random bytes
	// Passwd returns a new session's password, of jute.PasswdSize bytes; nil for Secret's.
	Passwd func(session int64) []byte
	Kick   func() // tells the quorum that requests or syncs wait; must not block
	// Vet, if not nil, returns the code to go with a reconfig request; it may block.
	Vet func(body []byte) jute.Code
	// MembershipChanged, if not nil, is called after the membership was read; it must
	// not block.
	MembershipChanged func()
	// Observe, if not nil, sees each evaluated request before its client does. It
	// is called while the replica is held: it may not call it back.
	Observe func(*tree.Result)
	// Answered, if not nil, sees each request that is no write, and each that is refused, with
	// its answer's code; of a login by SASL there is no record. It is called while the client
	// is held: it may call back neither.
	Answered func(c *Client, op jute.Op, body []byte, code jute.Code, how Became)
}

// Serving is how a server serves, as its configuration says: one value from there to the
// replica. Settings that replicas must agree on are tree.Settings. The comments name the key
// of zoo.cfg or the system property.
type Serving struct {
	Tick              time.Duration // tickTime
	SessionTimeoutMin time.Duration // minSessionTimeout
	SessionTimeoutMax time.Duration // maxSessionTimeout
	MaxFrame          int           // largest request, bytes (jute.maxbuffer)
	MaxOutstanding    int           // requests without an answer, of all clients (globalOutstandingLimit)

	// ReadOnlyMode makes a server of an ensemble serve read-only, while it is cut off,
	// the clients that ask for it (readonlymode.enabled).
	ReadOnlyMode bool
	// LocalSessions makes sessions of an ensemble local to their server until they
	// write (localSessionsEnabled). They may own no ephemeral znodes; with
	// LocalSessionsUpgrading (localSessionsUpgradingEnabled) they become global when
	// they ask for one.
	LocalSessions, LocalSessionsUpgrading bool

	Limits [limit.Scopes]limit.Set // of clients (limits.connection, …), where the tree has none

	SlowRequest time.Duration // what takes as long is logged (log.slowRequestMs); 0 for nothing

	SnapCount int   // changes between snapshots (snapCount)
	SnapBytes int64 // log bytes that force one (snapSizeLimitInKb)
}

// WithDefaults returns s with those settings replaced that are zero, or less, which would be
// useless.
func (s Serving) WithDefaults() Serving {
	s.Tick = positive(s.Tick, TickDefault)
	s.SessionTimeoutMin = positive(s.SessionTimeoutMin, 2*s.Tick)
	s.SessionTimeoutMax = positive(s.SessionTimeoutMax, 20*s.Tick)
	s.MaxFrame = positive(s.MaxFrame, jute.MaxBufferDefault)
	s.MaxOutstanding = positive(s.MaxOutstanding, OutstandingDefault)
	s.SnapCount = positive(s.SnapCount, SnapCountDefault)
	s.SnapBytes = positive(s.SnapBytes, SnapBytesDefault)
	return s
}

// positive returns v if it is more than zero, else otherwise.
func positive[T cmp.Ordered](v, otherwise T) T {
	if zero := *new(T); v > zero {
		return v
	}
	return otherwise
}

// Membership is how a replica reads what /zookeeper/config and reconfig requests say.
type Membership struct {
	// Text is the membership that a new ensemble begins with, as /zookeeper/config
	// will hold it, without its version.
	Text string
	// Parse returns the servers of a membership text. It is a function of its argument
	// alone.
	Parse func(text string) ([]quorum.Member, error)
}

// Defaults of the settings that zero would make useless.
const (
	TickDefault        = 3 * time.Second
	OutstandingDefault = 1000
	SnapCountDefault   = 100_000
	SnapBytesDefault   = 4 << 30
)

// withDefaults returns o with its zero settings replaced.
func (o Options) withDefaults() Options {
	o.Serving = o.Serving.WithDefaults()
	o.Settings.FeatureLevel = cmp.Or(o.Settings.FeatureLevel, tree.FeatureLevelMax)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ClientLog == nil {
		o.ClientLog = lograte.Limit(o.Log)
	}
	if o.Panicked == nil {
		o.Panicked = func(e quorum.Entry, cause any, about string) error {
			return fmt.Errorf("apply log entry %d of term %d: it panicked: %v; %s", e.Index, e.Term, cause, about)
		}
	}
	if o.Passwd == nil {
		o.Passwd = func(int64) []byte { return o.Secret() }
	}
	if o.Meters == nil {
		o.Meters = NewMeters(&metrics.Registry{})
	}
	return o
}

// New returns a Replica of o.Tree.
func New(o Options) *Replica {
	o = o.withDefaults()
	o.Meters.startSnapshot.Observe((o.Now() - o.Began) / 1e6)
	r := &Replica{
		meters: o.Meters, progress: progress{began: o.Now(), replaying: true},
		limits: limits{
			timeoutMin: int32(o.SessionTimeoutMin.Milliseconds()), timeoutMax: int32(o.SessionTimeoutMax.Milliseconds()),
			frameMax: o.MaxFrame,
		},
		auth: o.Auth, sasl: o.SASL, log: o.Log, clientLog: o.ClientLog, settings: o.Settings, restore: o.Restore, alone: o.Servers == 0,
		membership: o.Membership, membershipChanged: o.MembershipChanged, vet: o.Vet, readOnlyMode: o.ReadOnlyMode && o.Servers > 1,
		now: o.Now, wall: o.Wall, secret: o.Secret, passwd: o.Passwd, kick: o.Kick, observe: o.Observe, seeAnswer: o.Answered,
		expiry: newExpiry(o.Tick.Milliseconds(), o.Now()/1e6), locals: newLocals(&o, o.Now()/1e6),
		broken: breakdown{report: o.Panicked}, clients: map[int64]*Client{}, sessions: map[int64]*Client{}, watches: watch.New(),
	}
	r.outbox.now, r.outbox.dropped = o.Now, o.Meters.droppedStale
	r.slow, r.slowLog, r.policyLog = o.SlowRequest.Nanoseconds(), lograte.Limit(o.Log), lograte.Limit(o.Log)
	r.use(o.Tree)
	r.snapshots.count, r.snapshots.bytes = int64(o.SnapCount), o.SnapBytes
	r.noteLevel()
	r.ownBounds, r.boundsChanged = o.Limits, true
	r.noteSizes()
	r.unanswered.countMax, r.unanswered.bytesMax, r.unanswered.now = int64(o.MaxOutstanding), unansweredTotalMax, o.Now
	// what was wrong before the start is found by the first entry after it
	r.digests.note(r.tree.LastIndex(), r.tree.Digest())
	return r
}
