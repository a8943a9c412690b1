package server

import (
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

// A Member is one server of the ensemble, as its configuration names it.
type Member = quorum.Member

// DivergedError is what Failed delivers of a server that a majority proved wrong.
type DivergedError = quorum.DivergedError

// DivergedAloneError and UndecidedError are what Failed delivers where no majority can tell
// which state is right.
type (
	DivergedAloneError = quorum.DivergedAloneError
	UndecidedError     = quorum.UndecidedError
)

// ErrDuplicateID is in what Failed delivers of a server under whose id another one runs.
var ErrDuplicateID = peer.ErrDuplicateID

// PanicError is what Failed delivers of a server on which applying an entry panicked. The
// process had best end without Close, which waits for connections to end.
type PanicError = quorum.PanicError

// ShownEnsemble is what the conf word prints of an ensemble.
type ShownEnsemble = fourletter.ShownEnsemble

// Serving is how a server serves its clients.
type Serving = replica.Serving

// SASLOptions are the settings of logins by SASL.
type SASLOptions = replica.SASLOptions

// PeerTLS says how servers talk TLS to each other; the zero value has none.
type PeerTLS = peer.Secure

// A PeerSecret is what the servers of an ensemble prove who they are with.
type PeerSecret = peer.Secret

// Options are a Server's settings, read once by the caller. The comments name
// the key of zoo.cfg or the system property.
type Options struct {
	ID      uint64   // myid; 1 for a standalone server
	DataDir string   // dataDir: snapshots, and the log unless LogDir names another
	LogDir  string   // dataLogDir
	Listen  []string // client addresses, "host:port"; port 0 lets the kernel choose
	Backlog int      // clientPortListenBacklog; 0 or less is the system's

	// Members is the ensemble (server.N), this server included; empty for a
	// server alone.
	Members []Member
	// Membership is how membership texts are read; the zero value refuses reconfig.
	Membership Membership
	// Stop, if not nil, ends an Open that waits for peers when it is closed.
	Stop <-chan struct{}
	// PeerListen is where this server listens for its peers.
	PeerListen string
	PeerTLS    PeerTLS // how servers talk TLS to each other; its Keys are Open's to set
	// PeerSecrets are the ensemble's secret, and others that are accepted beside it
	// (quorum.secret, quorum.secretFile). Without one the servers agree on one.
	PeerSecrets []PeerSecret
	// Shown is what the conf word prints of the ensemble and nothing here uses.
	Shown ShownEnsemble
	// Patience is how long clients keep their connection to a server that has no
	// leader: their reads are answered, their writes wait. With ReadOnlyMode it is
	// at most 2 s, or a tick if that is longer.
	Patience time.Duration
	// Serving is for the replica. MaxFrame is at most MaxFrameMax.
	Serving

	MaxClientConnections int // maxClientCnxns: per client address, 0 for no limit
	MaxConnections       int // maxCnxns: in all, 0 for no limit
	// MemoryLimit is the ceiling of the memory account, in bytes (memory.limit); 0 for
	// none.
	MemoryLimit int64
	// MemoryMost is what the process can have, in bytes, before the kernel ends it: near it garbage is collected more
	// often. 0 leaves that to the runtime (GOMEMLIMIT).
	MemoryMost int64
	// SessionPasswd returns a new session's password (session.apachePasswords); nil draws one at random.
	SessionPasswd func(session int64) []byte
	TCPKeepAlive  bool // clientTcpKeepAlive: the system probes connections on which nothing moves

	// SessionlessTimeout ends connections that don't complete their handshake
	// (nio.sessionlessCnxnTimeout).
	SessionlessTimeout time.Duration
	// WriteTimeout ends connections that take none of their output for so long; the
	// clock may run from an earlier write, for half of it at most.
	WriteTimeout time.Duration

	Settings tree.Settings // replicated: extendedTypesEnabled, enforceQuota …
	Auth     auth.Options
	Secure   SecureOptions // TLS on client ports
	SASL     replica.SASLOptions
	// RecheckInterval is the time between two looks at whether clients are still who they have proved to be
	// (auth.recheckSeconds); 0 for never.
	RecheckInterval time.Duration
	// RootACL replaces the ACLs of / and of what is below /zookeeper as long as they let
	// anybody change these (security.profile=strict); nil leaves them.
	RootACL []jute.ACL
	// Stores are the key and trust stores in use, which can be read again.
	Stores []Stores

	// FourLetterWords are the words answered (4lw.commands.whitelist); "*" is
	// all. srvr always is.
	FourLetterWords []string

	SnapshotsKept int           // autopurge.snapRetainCount; storage.KeepAll never purges (autopurge.purgeInterval=0)
	FsyncWarning  time.Duration // fsync.warningthresholdms: a slower flush of the log is logged; 0 logs none
	ReapInterval  time.Duration // znode.container.checkIntervalMs
	ReapPerMinute int           // znode.container.maxPerMinute
	ReapNeverUsed time.Duration // znode.container.maxNeverUsedIntervalMs, 0 for never
	Audit         *Audit        // nil for none
	Log           *slog.Logger
	Version       string // as the srvr word prints it

	replaceTimeout time.Duration // 0 is the constant; for tests

	observe func(*tree.Result) // see replica.Options.Observe; for tests
}

// Stores are those of one port.
type Stores struct {
	Of      string // names the port: "client port"
	Refresh func() error
	// Ends tells when the first certificate that the port shows ends, and the first that it
	// trusts; the zero time for none.
	Ends func() (shown, trusted time.Time)
}

// Limits are the options that can be changed while a Server runs.
type Limits struct {
	MaxClientConnections int                     // maxClientCnxns
	MaxConnections       int                     // maxCnxns
	FourLetterWords      []string                // 4lw.commands.whitelist
	Clients              [limit.Scopes]limit.Set // limits.connection, …
}

// SetLimits puts limits in force for what comes from now on. Connections that are too many
// stay.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	s.opt.MaxClientConnections, s.opt.MaxConnections = l.MaxClientConnections, l.MaxConnections
	s.mu.Unlock()
	s.words.Allow(l.FourLetterWords)
	s.replica.SetLimits(l.Clients)
}

// Defaults of the options that zero would make useless.
const (
	sessionlessTimeoutDefault = 10 * time.Second
	writeTimeoutDefault       = 30 * time.Second
	snapshotsKeptDefault      = 3
	patienceTicks             = 5
	reapIntervalDefault       = time.Minute
	reapPerMinuteDefault      = 10_000
)

// readOnlyPatience is the least time without a leader before a server begins to
// serve read-only, as in Apache: an election takes less.
const readOnlyPatience = 2 * time.Second

// MaxFrameMax is the largest Options.MaxFrame. A request of that size is one message to
// each follower and one write to each disk, with the servers' loops waiting: at 1 Gbit/s
// and 100 MB/s that takes 0.3 s, and after 0.5 s without a word from the leader the
// others elect another one.
const MaxFrameMax = 16 << 20

// withDefaults returns o with its zero values replaced.
func (o Options) withDefaults() Options {
	def := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	num := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	if o.ID == 0 {
		o.ID = 1
	}
	o.Serving = o.Serving.WithDefaults()
	def(&o.SessionlessTimeout, sessionlessTimeoutDefault)
	def(&o.WriteTimeout, writeTimeoutDefault)
	def(&o.replaceTimeout, replaceTimeout)
	def(&o.ReapInterval, reapIntervalDefault)
	def(&o.Patience, patienceTicks*o.Tick)
	if o.ReadOnlyMode {
		o.Patience = min(o.Patience, max(readOnlyPatience, o.Tick))
	}
	num(&o.SnapshotsKept, snapshotsKeptDefault)
	num(&o.ReapPerMinute, reapPerMinuteDefault)
	if o.Settings.FeatureLevel == 0 {
		o.Settings.FeatureLevel = tree.FeatureLevelMax
	}
	if o.LogDir == "" {
		o.LogDir = o.DataDir
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
