package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/internal/turns"
	"github.com/zooid-project/zooid/jute"
)

// raftTick is the tick of elections and heartbeats, and electionTicks the election timeout in
// ticks.
const (
	raftTick      = replica.QuorumTick
	electionTicks = 10
)

// A Server is one running Zooid server.
type Server struct {
	opt     Options
	log     *slog.Logger
	replica *replica.Replica
	dir     *storage.Dir
	peer    *peer.Peer
	// toldClients is what the peers were told last; only followListening uses it once the server runs.
	toldClients peer.ClientAddresses
	lineage     uint64       // id of the history that the data directory belongs to
	newID       func() int64 // generates ids for sessions and connections
	auth        *auth.Registry
	// clientLog is for log lines about single clients, limited in rate.
	clientLog *slog.Logger
	slowLog   *slog.Logger // for log lines about slow requests
	started   time.Time
	words     *fourletter.Words
	fatal     chan error
	// spaceRefuse is the free space (bytes) below which clients' writes are refused.
	spaceRefuse uint64

	// spaceFree (bytes), spaceFiles and spaceLevel are what the last look at the disk found;
	// spaceLevel is a storage.SpaceLevel.
	spaceFree, spaceFiles, spaceLevel atomic.Int64

	drains   sync.Mutex // held by Drain and Undrain
	draining atomic.Bool

	// descriptorsMax is how many connections of clients the limit of open files allows.
	descriptorsMax int

	closing    chan struct{}
	membership chan struct{} // capacity 1: there is a membership to save
	listening  chan struct{} // capacity 1: the membership may name other addresses
	recheckNow chan struct{} // capacity 1: clients' credentials are to be checked again
	judged     judged        // owned by recheck
	prejoin    *prejoin      // nil if the server needn't join an ensemble
	meters     *replica.Meters
	auditor    *auditor // nil for none
	secure     secureCounts
	turns      *turns.Turns // of identities
	payerTurns *turns.Turns // of those, and of addresses that answer for several
	flushPool  flushPool
	rest       func(time.Duration) // see clientSocket.Rest
	sends      atomic.Uint64       // number of writes to clients

	once   sync.Once
	closed error
	wg     sync.WaitGroup

	peerPorts []net.Listener // owned by followListening

	mu      sync.Mutex
	ports   []port                  // for clients
	conns   map[net.Conn]netip.Addr // client address of each connection
	overTLS map[net.Conn]bool       // the connections that use TLS
	perHost map[netip.Addr]int
	// newcomers are the connections whose connect request hasn't been taken yet.
	newcomers socket.Newcomers
}

// Open recovers the data directory, starts serving, and returns once client connections are
// accepted. Close stops the server.
func Open(opt Options) (*Server, error) {
	opt = opt.withDefaults()
	if err := checkIDs(opt.Members); err != nil {
		return nil, fmt.Errorf("start server %d: %w", opt.ID, err)
	}
	if opt.MaxFrame > MaxFrameMax {
		return nil, runbook.Errorf("ZD-1102", "open a server that takes requests of %d bytes (jute.maxbuffer): the most is %d",
			opt.MaxFrame, MaxFrameMax)
	}
	s := &Server{
		opt: opt, log: opt.Log, started: time.Now(), fatal: make(chan error, 1), closing: make(chan struct{}),
		membership: make(chan struct{}, 1), recheckNow: make(chan struct{}, 1), listening: make(chan struct{}, 1),
		conns: map[net.Conn]netip.Addr{}, overTLS: map[net.Conn]bool{}, perHost: map[netip.Addr]int{},
		newID: replica.NewIDs(opt.ID, time.Now().UnixMilli()), clientLog: lograte.Limit(opt.Log),
		slowLog: lograte.Limit(opt.Log),
		words:   fourletter.New(opt.FourLetterWords), descriptorsMax: connectionsByDescriptors(openFilesMax(),
			len(opt.Members) > 0),
	}
	s.rest = func(d time.Duration) { s.pause(d) }
	s.auditor = newAuditor(opt.Audit, s.newID(), func(id jute.ID) bool { return s.auth.Vouched(id) })
	s.meters = replica.NewMeters(s.gauges())
	s.turns, s.payerTurns = turns.New(runtime.GOMAXPROCS(0)), turns.New(runtime.GOMAXPROCS(0))
	registry, err := auth.New(opt.Auth)
	if err != nil {
		return nil, runbook.Errorf("ZD-1106", "set up authentication: %w", err)
	}
	opt.Settings.Schemes, opt.Settings.Rules, s.auth = registry.Schemes(), registry.Rules(), registry
	if err := storage.FinishSetAside(opt.DataDir, opt.LogDir); err != nil {
		return nil, err
	}
	if err := newensemble.FinishFounding(opt.DataDir, opt.LogDir); err != nil {
		return nil, err
	}
	defer s.closePrejoin()
	if err := s.recover(opt); err != nil {
		return nil, err
	}
	space := s.lookAtSpace(spaceSeen{})
	_, step := s.lookAtMemory()
	s.peer.Start() // from here on applying an entry may panic, which leaves the replica locked
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	s.tellClients()
	if opt.Membership.Parse != nil {
		s.wg.Add(1)
		go s.saveMembership()
	}
	if opt.Membership.Listening != nil {
		s.wg.Add(1)
		go s.followListening()
	}
	if len(opt.RootACL) > 0 {
		s.wg.Add(1)
		go s.closeRoot()
	}
	if opt.FsyncStall > 0 {
		s.wg.Add(1)
		go s.watchStall()
	}
	s.wg.Add(4)
	go s.timers()
	go s.reaper()
	if opt.RecheckInterval > 0 {
		s.wg.Add(1)
		go s.recheck()
	}
	go s.watchMemory(step)
	go s.watchSpace(space)
	return s, nil
}

// recover opens the data directory, and the quorum, without starting it, on the state that the
// directory holds.
func (s *Server) recover(opt Options) error {
	listener, err := listenForPeers(opt)
	if err != nil {
		return err
	}
	if err := s.recoverWith(opt, listener); err != nil {
		if listener != nil {
			socket.CloseListener(listener)
		}
		return err
	}
	if listener != nil {
		s.peerPorts = []net.Listener{listener}
	}
	return nil
}

func (s *Server) recoverWith(opt Options, listener net.Listener) error {
	var err error
	if listener != nil {
		if opt.PeerTLS.Keys, err = peer.OpenKeyring(opt.LogDir, opt.PeerSecrets); err != nil {
			return runbook.Errorf("ZD-1203", "%w", err)
		}
	}
	// While it finds out how to begin, nobody else may write to the directory, as zooid migrate switch does.
	finding, err := lockData(opt)
	if err != nil {
		return err
	}
	defer func() { finding.Close() }()
	begin, err := s.beginning(opt, listener)
	if err != nil {
		return err
	}
	if begin.Founding != nil {
		reachedAt(&opt, begin.Address)
	}
	limits := spaceLimits(opt)
	s.spaceRefuse = uint64(limits.RefuseBytes)
	open := func() (err error) {
		if err := finding.Close(); err != nil {
			return err
		}
		s.dir, err = storage.Open(storage.Options{
			Dir: opt.DataDir, LogDir: opt.LogDir, ClusterID: begin.Cluster, CacheSize: cacheSize(opt), Space: limits,
			OnSync: s.synced, Wait: func() bool { return s.pause(roomPause) },
		})
		if err != nil {
			return fmt.Errorf("open the data directory %s: %w", dirsOf(opt), err)
		}
		return nil
	}
	began, treeOptions := s.now(), s.treeOptions(begin.Cluster, &opt)
	early := treeload.Begin(opt.DataDir, treeOptions)
	defer func() { early.GiveUp() }()
	if err := open(); err != nil {
		return err
	}
	dir := s.dir
	s.reportRecovery(dir.Recovered())
	s.reportCopying()
	founding, err := howFounded(begin, dir)
	if err != nil {
		dir.Close()
		return err
	}
	options := s.replicaOptions(opt, dir, treeOptions)
	if founding == nil && listener != nil && begin.JoinedAfter == 0 && !alone(opt) {
		found, again, err := s.found(opt, listener, dir, options, treeOptions)
		if err != nil {
			dir.Close()
			return err
		}
		if again {
			begin, founding = found, found.Founding
			reachedAt(&opt, begin.Address)
			if err := open(); err != nil {
				return err
			}
			dir = s.dir
			treeOptions = s.treeOptions(begin.Cluster, &opt)
			options = s.replicaOptions(opt, dir, treeOptions)
			early.GiveUp()
			early = treeload.Begin(opt.DataDir, treeOptions)
		}
	} else if err := adopt(dir, opt.ID, options, treeOptions); err != nil {
		dir.Close()
		return err
	}
	if err := s.dropOrder(); err != nil {
		dir.Close()
		return err
	}
	cluster, members := begin.Cluster, membersOf(opt)
	options.Began = began
	if options.Tree, err = treeload.Newest(dir, treeOptions, early); err != nil {
		dir.Close()
		return err
	}
	applied := options.Tree.LastIndex()
	s.lineage = cluster
	opt.Log.Info("the data directory is read", "lineage", fmt.Sprintf("%016x", cluster))
	s.replica = replica.New(options)
	s.peer, err = peer.Open(peer.Options{
		ID: opt.ID, Dir: dir, Cluster: cluster, State: s.replica, Applied: applied, Members: members, Listener: listener,
		Secure: opt.PeerTLS, Founding: founding,
		JoinedAfter: begin.JoinedAfter, JoinedTerm: begin.JoinedTerm, OnJoined: s.joined, Joined: begin.Joined,
		Tick: raftTick, ElectionTicks: electionTicks, SnapshotsKept: opt.SnapshotsKept, RunningOnly: opt.RunningOnly,
		Log: opt.Log, Fatal: s.fail,
	})
	if err != nil {
		dir.Close()
	}
	return err
}

// treeOptions returns the options of this server's trees.
func (s *Server) treeOptions(cluster uint64, o *Options) tree.Options {
	t := treeload.Options(cluster, o.Membership.Change, o.Settings.FeatureLevel)
	t.Changing, t.FindRule = s.auditor.changing(), s.findRule
	return t
}

// replicaOptions returns the replica's options: a part of the server's settings, and access to the
// outside world.
func (s *Server) replicaOptions(o Options, dir *storage.Dir, treeOptions tree.Options) replica.Options {
	login := o.SASL
	login.Required = slices.Contains(o.Auth.EnforceSchemes, "sasl")
	observe := o.observe
	if s.auditor != nil {
		observe = s.observed
	}
	return replica.Options{
		ID: o.ID, Servers: len(o.Members),
		Membership: replica.Membership{Text: o.Membership.Text, Parse: o.Membership.Parse, Own: ownMembers(o)},
		Serving:    o.Serving, Settings: o.Settings, Auth: s.auth, SASL: login, Log: o.Log, ClientLog: s.clientLog,
		Meters: s.meters,
		Restore: func(meta storage.Meta, snap *storage.Snapshot) (*tree.Tree, error) {
			return treeload.Tree(meta, snap, treeOptions)
		},
		Now: s.now, Wall: func() int64 { return time.Now().UnixMilli() }, Secret: newPasswd, Passwd: o.SessionPasswd,
		Kick: func() { s.peer.Kick() },
		Vet:  s.vetReconfig, MembershipChanged: s.noteMembership, Observe: observe, Answered: s.auditor.answers(),
		Panicked: func(e quorum.Entry, cause any, about string) error {
			return quorum.Panicked(dir, e, cause, "zooid "+o.Version+", "+about)
		},
	}
}

// cacheSize returns how many bytes of the log are kept in memory. They serve followers that lag, so
// a standalone server needs next to none.
func cacheSize(opt Options) int {
	if len(opt.Members) <= 1 {
		return cacheBytesAlone
	}
	return 0 // the default
}

const cacheBytesAlone = 1 << 20

// howFounded returns the record of the founding that this server took part in, or nil.
func howFounded(b quorum.Beginning, dir *storage.Dir) (*quorum.Founding, error) {
	kept, err := dir.Kept(quorum.FoundingName)
	if err != nil {
		return nil, err
	}
	f, err := quorum.DecodeFounding(kept)
	if err != nil || f == nil || f.Lineage != b.Cluster {
		return nil, err // the record is of another lineage: of a beginning that came to nothing
	}
	return f, nil
}

// membersOf returns the members of the group.
func membersOf(opt Options) []quorum.Member {
	if len(opt.Members) == 0 {
		return []quorum.Member{{ID: opt.ID}}
	}
	return opt.Members
}

// listenForPeers returns the listener on this server's peer port, nil if it has no server lines.
func listenForPeers(opt Options) (net.Listener, error) {
	if len(opt.Members) == 0 {
		return nil, nil
	}
	l, err := opt.binder(net.ListenConfig{}).Listen(opt.PeerListen)
	if err != nil {
		return nil, runbook.Errorf("ZD-1103", "listen for peers on %s: %w (is another server running there? does the server.%d line name this host?)",
			opt.PeerListen, err, opt.ID)
	}
	return l, nil
}

// binder returns what opens the ports of a server that starts.
func (o *Options) binder(config net.ListenConfig) *socket.Binder {
	return &socket.Binder{Config: config, Retries: o.BindRetries, Stop: o.Stop, Waiting: socket.LogWaiting(o.Log)}
}

// fail makes Failed deliver err, after which the server can't go on, for example because its log
// can't be written.
func (s *Server) fail(err error) {
	if storage.NoRoom(err) && s.stopping() {
		s.log.Info("this server stops while a write of the log waits for room; nobody was told that it is safe", "err", err)
		return
	}
	s.meters.Unrecoverable.Inc()
	if stalled := (*StallError)(nil); errors.As(err, &stalled) {
		s.log.Error("the disk of the transaction log hangs; this server stops, so that its clients and its supervisor can act",
			"err", err, "code", "ZD-2005")
	} else if broken := (*storage.FatalError)(nil); errors.As(err, &broken) {
		s.log.Error("the transaction log can't be written; this server stops, and finds out at its next start what is on the disk",
			"err", err, "code", "ZD-2001")
	} else {
		s.log.Error("this server can't go on and stops", "err", err, "code", "ZD-2003")
	}
	select {
	case s.fatal <- err:
	default:
	}
}

// Failed delivers the error after which the server must be closed, if there is one.
func (s *Server) Failed() <-chan error { return s.fatal }

// Replica returns the server's copy of the service.
func (s *Server) Replica() *replica.Replica { return s.replica }

// now returns the time of a monotonic clock in ns.
func (s *Server) now() int64 { return int64(time.Since(s.started)) }

// newPasswd returns a session password that can't be guessed.
func newPasswd() []byte {
	p := make([]byte, jute.PasswdSize)
	rand.Read(p) // never fails (crypto/rand)
	return p
}

// Addrs returns the addresses on which clients are accepted, those without TLS first.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addrs []net.Addr
	for _, l := range s.ports {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

func (s *Server) listen() error {
	for _, addr := range s.opt.Listen {
		if err := s.listenOn(addr, acceptingClients[false], false); err != nil {
			return err
		}
	}
	for _, addr := range s.opt.Secure.Listen {
		if err := s.listenOn(addr, acceptingClients[true], true); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) listenOn(addr, what string, secure bool) error {
	l := s.prejoinListener(addr)
	if l == nil {
		var err error
		if l, err = s.listenForClients(addr, s.opt.BindRetries); err != nil {
			return err
		}
	}
	s.log.Info(what, "address", l.Addr().String())
	s.acceptOn(port{l, secure}, port{})
	return nil
}

// acceptingClients is the log message about a client port; the key says whether the port is for
// TLS.
var acceptingClients = map[bool]string{false: "accepting clients", true: "accepting clients over TLS"}

func (s *Server) listenForClients(addr string, retries int) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	if s.opt.TCPKeepAlive {
		// -1 leaves the value to the system.
		config.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1}
	}
	binder := s.opt.binder(config)
	binder.Retries = retries
	l, err := binder.Listen(addr)
	if err != nil {
		return nil, runbook.Errorf("ZD-1104", "listen for clients on %s: %w (is another server running there?)", addr, err)
	}
	if s.opt.Backlog > 0 {
		socket.SetBacklog(l, s.opt.Backlog)
	}
	return l, nil
}

// accept takes connections until the listener is closed.
func (s *Server) accept(l net.Listener, secure bool) {
	defer s.wg.Done()
	for nc := range socket.Accepted(l, s.closing, func(err error) {
		s.clientLog.Error("a client could not be accepted; raise the limit of open files if this persists", "err", err, "code", "ZD-4003")
	}) {
		why := "connections begin faster than those of its address may (limits.address)"
		if s.replica.MayConnect(addressID(nc.RemoteAddr().String())) {
			why = s.admit(nc)
		}
		if why != "" {
			s.refuse("a client connection was refused", nc, why)
			continue
		}
		s.wg.Add(1)
		go s.serve(nc, secure)
	}
}

// refuse closes a connection that may not stay.
func (s *Server) refuse(what string, nc net.Conn, why string) {
	s.clientLog.Warn(what, "client", nc.RemoteAddr().String(), "why", why, "code", "ZD-4004")
	s.meters.ConnectionRejected.Inc()
	s.auditor.turnedAway(nc.RemoteAddr().String(), why)
	nc.Close()
}

// admit registers a connection, or returns the reason why there is one too many. If places are short, a connection
// whose connect request hasn't come makes room, so that those who send nothing keep nobody out.
func (s *Server) admit(nc net.Conn) string {
	out, why := s.enter(nc)
	if out != nil {
		s.refuse("a client connection that hasn't sent its connect request was closed to make room for others", out, why)
		why = ""
	}
	return why
}

// enter registers a connection. If there are too many, why says so, and out is the one that makes room, or nil if none
// can.
func (s *Server) enter(nc net.Conn) (out net.Conn, why string) {
	host := hostOf(nc.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return nil, "the server is stopping"
	default:
	}
	if n := s.opt.MaxClientConnections; n > 0 && s.perHost[host] >= n {
		return nil, fmt.Sprintf("there are %d connections from %s, the most allowed (maxClientCnxns)", n, host)
	}
	if n := s.descriptorsMax; n > 0 && len(s.conns) >= n {
		why = fmt.Sprintf("there are %d connections, as many as the limit of open files leaves room for (ulimit -n)", n)
	} else if n := s.opt.MaxConnections; n > 0 && len(s.conns) >= n {
		why = fmt.Sprintf("there are %d connections, the most allowed (maxCnxns)", n)
	}
	if why != "" {
		if out = s.newcomers.First(); out == nil {
			return nil, why
		}
		s.leave(out)
	}
	s.conns[nc] = host
	s.perHost[host]++
	s.newcomers.Add(nc)
	return out, why
}

// known notes that a connection's connect request has been taken.
func (s *Server) known(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newcomers.Remove(socket.Below(nc))
}

func (s *Server) forget(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(socket.Below(nc))
}

// leave removes a connection unless it is removed already. mu is held.
func (s *Server) leave(nc net.Conn) {
	host, ok := s.conns[nc]
	if !ok {
		return
	}
	delete(s.conns, nc)
	delete(s.overTLS, nc)
	s.newcomers.Remove(nc)
	if s.perHost[host]--; s.perHost[host] == 0 {
		delete(s.perHost, host)
	}
}

// timers does what depends on time: it ends silent sessions and, once a tick, expires identities,
// closes connections with overdue requests, and checks that there is a quorum and that the leader
// answers.
func (s *Server) timers() {
	defer s.wg.Done()
	tick, expire := time.NewTicker(s.opt.Tick), time.NewTicker(s.opt.ExpireInterval())
	defer tick.Stop()
	defer expire.Stop()
	last := s.now() / 1e6
	for {
		select {
		case <-s.closing:
			return
		case <-expire.C:
			now := s.now() / 1e6
			s.replica.Expire(now, last)
			last = now
		case <-tick.C:
			now := s.now() / 1e6
			s.replica.ExpireIdentities(time.Now().UnixNano())
			s.replica.EndOverdue(s.now())
			s.replica.CheckQuorum(now, s.opt.Patience.Milliseconds())
			unanswered := time.Duration(s.peer.Status().Unanswered) * raftTick
			s.replica.CheckReach(unanswered.Milliseconds(), s.opt.Patience.Milliseconds())
		}
	}
}

// reaper removes containers and znodes whose time to live is over, at no more than ReapPerMinute.
func (s *Server) reaper() {
	defer s.wg.Done()
	neverUsed := s.opt.ReapNeverUsed.Milliseconds()
	space := time.Minute / time.Duration(s.opt.ReapPerMinute)
	for s.pause(s.opt.ReapInterval) {
		var cursor uint32
		for first := true; first || cursor != 0; first = false {
			var paths []string
			paths, cursor = s.replica.Reapable(cursor, neverUsed)
			for _, path := range paths {
				s.replica.Reap(path, neverUsed)
				if !s.pause(space) {
					return
				}
			}
		}
	}
}

// stopping reports whether Close was called.
func (s *Server) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// pause waits, and reports false if the server is stopping.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}
