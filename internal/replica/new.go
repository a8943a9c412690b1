package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// Options holds a Replica's state, its settings, and its access to the outside world. Settings
// that are zero get defaults where zero would be useless.
type Options struct {
	ID uint64 // of the server
	// Servers is how many servers the ensemble was started with; 0 for a standalone server.
	Servers    int
	Membership Membership

	Serving

	Settings  tree.Settings // replicated
	Auth      *auth.Registry
	SASL      SASLOptions
	Log       *slog.Logger
	ClientLog *slog.Logger // for lines about single clients; if nil, Log, within limits
	Meters    *Meters      // nil for meters of its own

	Tree  *tree.Tree // from the newest snapshot, or a new one; owned by the replica from now on
	Began int64      // value of Now when the loading of Tree began
	// Load returns the tree in a snapshot that a peer sent.
	Load func(meta storage.Meta, snap *storage.Snapshot) (*tree.Tree, error)

	// Panicked returns the error of an Apply that has panicked at an entry; about describes the state
	// and the entry.
	Panicked func(e quorum.Entry, cause any, about string) error

	Now    func() int64  // a monotonic clock, ns
	Wall   func() int64  // the clock that stamps batches, ms since 1970
	Secret func() []byte // jute.PasswdSize random bytes
	// Passwd returns a new session's password, of jute.PasswdSize bytes; if nil, Secret is used.
	Passwd func(session int64) []byte
	// LargeRequest is the size (bytes) from which on a request takes turns with those of other connections; 0 means
	// proposals.LargeRequestMin.
	LargeRequest int
	// Forwarded bounds the bytes that are under way to the leader, at most proposals.ForwardedMax, which 0 means.
	Forwarded int
	Kick      func() // tells the quorum that requests or syncs wait; must not block
	// Vet, if not nil, returns the code to append to a reconfig request; it may block.
	Vet func(body []byte) jute.Code
	// MembershipChanged, if not nil, is called after the membership was read; it must
	// not block.
	MembershipChanged func()
	// Observe, if not nil, sees each evaluated request before its client does. It is called with the
	// replica locked: it must not call the replica.
	Observe func(*tree.Result)
	// Answered, if not nil, sees each request that is not a write, and each refused one, with the code of its answer.
	// tree.OpAttach is a connect request with a wrong session password. For that and for a login by SASL, body is nil.
	// Answered is called with the client or the replica locked: it must call neither.
	Answered func(c *Client, op jute.Op, body []byte, code jute.Code, how Became)
}

// Serving holds the settings for serving clients, passed unchanged from a server's configuration to
// the replica. Settings that replicas must agree on are in tree.Settings. The comments name the key
// of zoo.cfg or the system property.
type Serving struct {
	Tick              time.Duration // tickTime
	SessionTimeoutMin time.Duration // minSessionTimeout
	SessionTimeoutMax time.Duration // maxSessionTimeout
	MaxFrame          int           // largest request, bytes (jute.maxbuffer)
	MaxOutstanding    int           // unanswered requests of all clients (globalOutstandingLimit)

	// ReadOnlyMode makes a server that is cut off from its ensemble serve read-only the clients
	// that ask for it (readonlymode.enabled).
	ReadOnlyMode bool
	// LocalSessions makes sessions of an ensemble local to their server until they write
	// (localSessionsEnabled). Local sessions may not own ephemeral znodes; with LocalSessionsUpgrading
	// (localSessionsUpgradingEnabled) they become global when they create one.
	LocalSessions, LocalSessionsUpgrading bool

	Limits [limit.Scopes]limit.Set // limits of clients (limits.connection, …), where the tree has none

	SlowRequest time.Duration // a request that takes this long is logged (log.slowRequestMs); 0 for never

	SnapCount int   // changes between snapshots (snapCount)
	SnapBytes int64 // log bytes that force a snapshot (snapSizeLimitInKb)
}

// ExpireInterval is the time between two calls of Replica.Expire, for servers with these settings.
func (s Serving) ExpireInterval() time.Duration {
	return max(s.Tick/expiry.BucketsPerTick, time.Millisecond)
}

// WithDefaults returns s with defaults for the settings that would be useless at zero or less.
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

// positive returns v if it is greater than zero, else otherwise.
func positive[T cmp.Ordered](v, otherwise T) T {
	if zero := *new(T); v > zero {
		return v
	}
	return otherwise
}

// Membership tells a replica how to read the text of /zookeeper/config and of reconfig requests.
type Membership struct {
	// Text is the membership that a new ensemble begins with, in the form of
	// /zookeeper/config, without its version.
	Text string
	// Parse returns the servers of a membership text. Its result must depend on its argument alone.
	Parse func(text string) ([]quorum.Member, error)
	// Own, if not nil, returns Text, with the parts that mean nothing on other machines, such as a
	// wildcard in this server's own line, replaced by those of a staged membership. Its result must
	// depend on its arguments alone.
	Own func(text, staged string) string
}

// Defaults of the settings that would be useless at zero.
const (
	TickDefault        = 3 * time.Second
	OutstandingDefault = 1000
	SnapCountDefault   = 100_000
	SnapBytesDefault   = 4 << 30
)

// withDefaults returns o with defaults for its zero settings.
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
		outside: outside{
			limits: limits{
				timeoutMin: int32(o.SessionTimeoutMin.Milliseconds()), timeoutMax: int32(o.SessionTimeoutMax.Milliseconds()),
				frameMax: o.MaxFrame,
			},
			auth: o.Auth, sasl: o.SASL, meters: o.Meters, log: o.Log, clientLog: o.ClientLog,
			slow: o.SlowRequest.Nanoseconds(), slowLog: lograte.Limit(o.Log), policyLog: lograte.Limit(o.Log),
			now: o.Now, wall: o.Wall, secret: o.Secret, passwd: o.Passwd, kick: o.Kick, observe: o.Observe,
			seeAnswer: o.Answered, settings: o.Settings, load: o.Load, membership: o.Membership,
			membershipChanged: o.MembershipChanged, vet: o.Vet, alone: o.Servers == 0,
			readOnlyMode: o.ReadOnlyMode && o.Servers > 1,
		},
		state:    state{clients: map[int64]*Client{}},
		progress: progress{began: o.Now(), replaying: true},
		expiry:   expiry.New(o.ExpireInterval().Milliseconds(), o.Now()/1e6), locals: newLocals(&o, o.Now()/1e6),
		broken: breakdown{report: o.Panicked}, hearing: newHearing(),
		counts: sessionCounts{owners: map[int64]sessionOwners{}}, watches: watches{table: watch.New()},
	}
	r.proposals = proposals.New(proposals.Options{
		Now: o.Now, Dropped: o.Meters.droppedStale, LargeFrom: o.LargeRequest, Forwarded: o.Forwarded,
		Settled: func(requests, bytes int64) { r.unanswered.add(-requests, -bytes) },
	})
	r.assemble()
	r.use(o.Tree)
	r.snapshots.count, r.snapshots.bytes = int64(o.SnapCount), o.SnapBytes
	r.levels.note()
	r.limiter.own, r.limiter.changed = o.Limits, true
	r.noteSizes()
	r.unanswered.countMax, r.unanswered.now = int64(o.MaxOutstanding), o.Now
	r.unanswered.bound(0)
	r.large = memory.NewBuffers(outputKeepBytes, largeKeptBytes)
	// With this digest recorded, the first entry after the start detects a state that was already wrong.
	r.loop.digests.note(r.tree.LastIndex(), r.tree.Digest())
	return r
}

// assemble gives each part of the replica the parts that it uses.
func (r *Replica) assemble() {
	r.clock.outside, r.clock.state = &r.outside, &r.state
	r.levels.outside, r.levels.state, r.levels.proposals = &r.outside, &r.state, r.proposals
	r.limiter.outside, r.limiter.state, r.limiter.watches = &r.outside, &r.state, &r.watches
	r.progress.outside, r.progress.state = &r.outside, &r.state
	r.stats.outside, r.stats.state = &r.outside, &r.state
	r.freshness.outside, r.freshness.state = &r.outside, &r.state
	r.freshness.hearing, r.freshness.locals = &r.hearing, &r.locals
	r.overload.outside, r.overload.state = &r.outside, &r.state
	r.overload.proposals, r.overload.unanswered = r.proposals, &r.unanswered
	r.logins.outside, r.logins.state, r.logins.stats = &r.outside, &r.state, &r.stats
	r.loop.outside, r.loop.state, r.loop.overload = &r.outside, &r.state, &r.overload
	r.snapshots.outside, r.snapshots.state, r.longestHolds.outside = &r.outside, &r.state, &r.outside
	r.reads = reads{
		outside: &r.outside, state: &r.state, limiter: &r.limiter, levels: &r.levels, watches: &r.watches, memory: &r.memory,
	}
	r.listings = listings{
		outside: &r.outside, state: &r.state, watches: &r.watches, hearing: &r.hearing, expiry: r.expiry, locals: &r.locals,
	}
	r.reaper = reaper{outside: &r.outside, state: &r.state, proposals: r.proposals, clock: &r.clock}
	r.counts.outside, r.counts.state, r.counts.limiter = &r.outside, &r.state, &r.limiter
	r.counts.hearing, r.counts.locals = &r.hearing, &r.locals
	r.locals.outside, r.locals.state, r.locals.hearing = &r.outside, &r.state, &r.hearing
	r.locals.proposals, r.locals.counts, r.locals.global = r.proposals, &r.counts, r.expiry
	r.members.outside, r.members.state, r.members.proposals = &r.outside, &r.state, r.proposals
}
