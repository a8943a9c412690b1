package server

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A Member is one server of the ensemble, as configured.
type Member = quorum.Member

// DivergedError is delivered by Failed if a majority proved this server's state wrong.
type DivergedError = quorum.DivergedError

// FormerLifeError is delivered by Failed if the server's data is of a life that the ensemble has taken out: an older
// disk was put back after the server had joined with an empty one.
type FormerLifeError = quorum.FormerLifeError

// DivergedAloneError and UndecidedError are delivered by Failed if no majority can tell which state is right.
type (
	DivergedAloneError = quorum.DivergedAloneError
	UndecidedError     = quorum.UndecidedError
)

// ErrOvertaken is delivered by Failed, or wrapped by Open's error, if the other servers have founded an ensemble
// without this one. They have all that this server holds, and it can join them with an empty data directory.
var ErrOvertaken = peer.ErrOvertaken

// CopiedError is wrapped by Open's error if the data directory is a copy of another server's.
type CopiedError = peer.CopiedError

// ErrDuplicateID is wrapped by the error that Failed delivers if another server runs with this server's id.
var ErrDuplicateID = peer.ErrDuplicateID

// PanicError is delivered by Failed if applying an entry panicked. The process should then exit
// without calling Close, which waits for connections to end.
type PanicError = quorum.PanicError

// ShownEnsemble is what the conf four-letter word prints about an ensemble.
type ShownEnsemble = fourletter.ShownEnsemble

// Serving holds the settings for serving clients.
type Serving = replica.Serving

// SASLOptions are the settings of logins by SASL.
type SASLOptions = replica.SASLOptions

// PeerTLS says how servers use TLS among themselves; the zero value means no TLS.
type PeerTLS = peer.Secure

// A PeerSecret is a secret by which the servers of an ensemble prove that they belong to it.
type PeerSecret = peer.Secret

// Options are a Server's settings, read once by the caller. The comments name
// the key of zoo.cfg or the system property.
type Options struct {
	ID      uint64   // myid; 1 for a standalone server
	DataDir string   // dataDir: snapshots, and the log unless LogDir is set
	LogDir  string   // dataLogDir
	Listen  []string // client addresses, "host:port"; port 0 lets the kernel choose
	Backlog int      // clientPortListenBacklog; 0 or less for the system's default

	// Members are the servers of the ensemble (server.N), including this one; empty for a standalone server.
	Members []Member
	// Clients are the addresses ("host:port") at which the other Members may serve clients, by id, as far as the
	// configuration tells. An empty server founds no ensemble without a member that answers at one of them.
	Clients map[uint64][]string
	// JoinsOnly says that the server must not found an ensemble, only join one: an operator has set
	// its data aside, or an empty data directory isn't trusted (db.autocreate=false).
	JoinsOnly bool
	// Membership says how to read membership texts; the zero value refuses reconfig.
	Membership Membership
	// Stop, if not nil, aborts an Open that waits for peers, or for a name, when the channel is closed.
	Stop <-chan struct{}
	// BindRetries is how often Open tries again, once a second, to listen at a host whose name isn't known yet;
	// negative means forever (electionPortBindRetry).
	BindRetries int
	// PeerListen is the address at which this server listens for its peers.
	PeerListen string
	PeerTLS    PeerTLS // TLS among servers; Open sets its Keys
	// PeerSecrets are the ensemble's secret, followed by others that are also accepted (quorum.secret,
	// quorum.secretFile). If it is empty, the servers agree on a secret.
	PeerSecrets []PeerSecret
	// RunningOnly lets a reconfig give votes only to servers that run and can vote (reconfig.runningOnly); otherwise a
	// server that doesn't run gets one, too, if the others are a majority of the new voters. The leader's setting counts.
	RunningOnly bool
	// Shown is what the conf four-letter word prints about the ensemble; the server doesn't use it otherwise.
	Shown ShownEnsemble
	// Patience is how long clients keep their connection to a server without a leader: their reads are answered, their
	// writes wait. With ReadOnlyMode it is at most 2 s, or a tick if that is longer.
	Patience time.Duration
	// Serving is passed to the replica. MaxFrame is at most MaxFrameMax.
	Serving

	MaxClientConnections int // maxClientCnxns: per client address, 0 for no limit
	MaxConnections       int // maxCnxns: in total, 0 for no limit
	// MemoryLimit is the ceiling of the memory account in bytes (memory.limit), or 0 for none.
	MemoryLimit int64
	// MemoryMost is how much memory (bytes) the process can use before the kernel kills it: close to
	// that, garbage is collected more often. 0 leaves this to the runtime (GOMEMLIMIT).
	MemoryMost int64
	// SessionPasswd returns a new session's password (session.apachePasswords); if nil, passwords are random.
	SessionPasswd func(session int64) []byte
	TCPKeepAlive  bool // clientTcpKeepAlive: the system probes idle connections

	// SessionlessTimeout is how long a connection may take to complete its handshake (nio.sessionlessCnxnTimeout).
	SessionlessTimeout time.Duration
	// WriteTimeout is how long a client may take less than 16 KiB of its waiting output before its connection ends. The
	// time may count from a write up to half of WriteTimeout earlier.
	WriteTimeout time.Duration

	Settings tree.Settings // replicated: extendedTypesEnabled, enforceQuota …
	Auth     auth.Options
	Secure   SecureOptions // TLS on client ports
	SASL     replica.SASLOptions
	// RecheckInterval is the interval at which the server checks whether the credentials of clients
	// are still valid (auth.recheckSeconds); 0 for never.
	RecheckInterval time.Duration
	// RootACL replaces the ACLs of /, /zookeeper and /zookeeper/quota while they let any client
	// change these znodes (security.profile=strict); nil leaves them.
	RootACL []jute.ACL
	// Stores are the key and trust stores in use, which can be reloaded.
	Stores []Stores

	// FourLetterWords are the four-letter words that are answered (4lw.commands.whitelist); "*" means
	// all. srvr is always answered.
	FourLetterWords []string

	SnapshotsKept int           // autopurge.snapRetainCount; storage.KeepAll never purges (autopurge.purgeInterval=0)
	FsyncWarning  time.Duration // fsync.warningthresholdms: a slower flush of the log is logged; 0 logs none
	FsyncStall    time.Duration // fsync.stallSeconds: a longer write of the log ends the server; 0 for never
	ReapInterval  time.Duration // znode.container.checkIntervalMs
	ReapPerMinute int           // znode.container.maxPerMinute
	ReapNeverUsed time.Duration // znode.container.maxNeverUsedIntervalMs, 0 for never
	Audit         *Audit        // nil for none
	Log           *slog.Logger
	Version       string // as the srvr four-letter word prints it

	restoreTimeout time.Duration // 0 for the constant; for tests
	spacePause     time.Duration // least time between two checks of the free space; for tests that set its state

	observe func(*tree.Result) // see replica.Options.Observe; for tests
	// patience is peer.FoundingPatience, unless a test sets it.
	patience quorum.Patience
}

// Stores are the key and trust stores of one port.
type Stores struct {
	Of      string // the port's name: "client port"
	Refresh func() error
	// Ends returns when the first of the certificates that the port presents expires, and the first
	// that it trusts; the zero time if there is none.
	Ends func() (shown, trusted time.Time)
	// Unreadable reports whether the files could not be read at the last check.
	Unreadable func() bool
}

// Limits are the options that can be changed while a Server runs.
type Limits struct {
	MaxClientConnections int                     // maxClientCnxns
	MaxConnections       int                     // maxCnxns
	FourLetterWords      []string                // 4lw.commands.whitelist
	Clients              [limit.Scopes]limit.Set // limits.connection, …
}

// SetLimits puts limits in force for new connections and requests. Existing connections above a limit stay.
func (s *Server) SetLimits(l Limits) {
	s.connections.setLimits(l.MaxClientConnections, l.MaxConnections)
	s.words.Allow(l.FourLetterWords)
	s.replica.SetLimits(l.Clients)
}

// Defaults of the options that would be useless at zero.
const (
	sessionlessTimeoutDefault = 10 * time.Second
	writeTimeoutDefault       = 30 * time.Second
	snapshotsKeptDefault      = 3
	patienceTicks             = 5
	reapIntervalDefault       = time.Minute
	reapPerMinuteDefault      = 10_000
)

// readOnlyPatience is the least time without a leader before a server starts to serve read-only, as
// in Apache: an election takes less.
const readOnlyPatience = 2 * time.Second

// MaxFrameMax is the largest Options.MaxFrame. A request of that size is one message to each follower and one write to
// each disk, and the servers' loops wait for them: at 1 Gbit/s and 100 MB/s that takes 0.3 s, and after 0.5 s of the
// leader's silence the others elect another one.
const MaxFrameMax = 16 << 20

// withDefaults returns o with its zero values replaced by defaults.
func (o Options) withDefaults() Options {
	if o.patience == (quorum.Patience{}) {
		o.patience = peer.FoundingPatience
	}
	o.ID = cmp.Or(o.ID, 1)
	o.Serving = o.Serving.WithDefaults()
	def(&o.SessionlessTimeout, sessionlessTimeoutDefault)
	def(&o.WriteTimeout, writeTimeoutDefault)
	def(&o.restoreTimeout, restoreTimeout)
	def(&o.ReapInterval, reapIntervalDefault)
	def(&o.Patience, patienceTicks*o.Tick)
	if o.ReadOnlyMode {
		o.Patience = min(o.Patience, max(readOnlyPatience, o.Tick))
	}
	def(&o.SnapshotsKept, snapshotsKeptDefault)
	def(&o.ReapPerMinute, reapPerMinuteDefault)
	o.Settings.FeatureLevel = cmp.Or(o.Settings.FeatureLevel, tree.FeatureLevelMax)
	o.LogDir = cmp.Or(o.LogDir, o.DataDir)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// def sets *p to v unless it is set.
func def[T int | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}
