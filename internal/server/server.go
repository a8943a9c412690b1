package server

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/turns"
)

// raftTick is the tick of elections and heartbeats, and electionTicks the election timeout in ticks.
const (
	raftTick      = replica.QuorumTick
	electionTicks = 10
)

// A Server is one running Zooid server.
//
// A Server is made of parts, each in a file of its own. A part holds its own state, the engine, and the other parts
// that it uses; it never sees the Server. Parts with exported methods are embedded.
type Server struct {
	*engine
	lineage uint64       // id of the history that the data directory belongs to
	newID   func() int64 // generates ids for sessions and connections
	auth    *auth.Registry
	words   *fourletter.Words
	auditor *auditor // nil for none

	*connections
	*clientPorts
	handshakes *handshakes
	requests   *requests
	acceptor   *acceptor

	*failures
	*stalls
	*drain
	*rechecks
	space          diskSpace
	memory         memoryAccount
	memberPorts    memberPorts
	membershipFile membershipFile

	once   sync.Once
	closed error
}

// Open recovers the data directory, starts serving, and returns once client connections are
// accepted. Close stops the server.
func Open(opt Options) (*Server, error) {
	opt = opt.withDefaults()
	if err := checkIDs(opt.Members); err != nil {
		return nil, fmt.Errorf("start server %d: %w", opt.ID, err)
	}
	if opt.MaxFrame > MaxFrameMax {
		return nil, runbook.Errorf("ZD-1102", "open a server that accepts requests of %d bytes (jute.maxbuffer): the maximum is %d",
			opt.MaxFrame, MaxFrameMax)
	}
	registry, err := auth.New(opt.Auth)
	if err != nil {
		return nil, runbook.Errorf("ZD-1106", "set up authentication: %w", err)
	}
	s := newServer(opt, registry)
	if err := newensemble.FinishMoves(opt.DataDir, opt.LogDir); err != nil {
		return nil, err
	}
	defer func() { s.prejoin.close() }()
	if err := s.recover(); err != nil {
		return nil, err
	}
	space := s.space.look(spaceSeen{})
	_, step := s.memory.look()
	s.peer.Start() // from here on applying an entry may panic, which leaves the replica locked
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	s.memberPorts.announce()
	for _, part := range []struct {
		runs bool
		run  func()
	}{
		{opt.Membership.Parse != nil, s.membershipFile.follow},
		{opt.Membership.Listening != nil, s.memberPorts.follow},
		{len(opt.RootACL) > 0, rootACL{s.engine, s.newID}.close},
		{true, s.stalls.watch},
		{opt.RecheckInterval > 0, s.rechecks.run},
		{opt.RecheckInterval > 0, s.rechecks.runCertificates},
		{true, expiries{s.engine}.watch},
		{true, expiries{s.engine}.reap},
		{true, func() { s.memory.watch(step) }},
		{true, func() { s.space.watch(space) }},
	} {
		if part.runs {
			s.wg.Go(part.run)
		}
	}
	return s, nil
}

// newServer returns a server that hasn't recovered yet.
func newServer(opt Options, registry *auth.Registry) *Server {
	e := &engine{
		lifetime: lifetime{started: time.Now(), closing: make(chan struct{})},
		opt:      opt, log: opt.Log, clientLog: lograte.Limit(opt.Log),
	}
	s := &Server{
		engine: e, newID: serverid.NewIDs(opt.ID, time.Now().UnixMilli()), auth: registry,
		words: fourletter.New(opt.FourLetterWords), memory: memoryAccount{e},
		membershipFile: membershipFile{engine: e, changed: newSignal()},
	}
	s.auditor = newAuditor(opt.Audit, s.newID(), registry.VouchedBeside)
	s.connections = newConnections(&e.lifetime, &opt)
	s.handshakes = &handshakes{engine: e, connections: s.connections, auth: registry}
	s.failures = &failures{engine: e, fatal: make(chan error, 1)}
	s.stalls = &stalls{engine: e, failures: s.failures, abandon: s.abandon}
	s.drain = &drain{engine: e, connections: s.connections}
	s.rechecks = &rechecks{engine: e, auth: registry, asked: newSignal(), certifying: newSignal()}
	slow := slowStages{log: lograte.Limit(opt.Log), slow: opt.SlowRequest}
	replies := &replies{engine: e, slow: slow}
	s.requests = &requests{
		engine: e, replies: replies, slow: slow,
		turns: turns.New(runtime.GOMAXPROCS(0)), payerTurns: turns.New(runtime.GOMAXPROCS(0)),
	}
	s.acceptor = &acceptor{
		engine: e, connections: s.connections, handshakes: s.handshakes, requests: s.requests, replies: replies,
		drain: s.drain, stalls: s.stalls, auditor: s.auditor, words: s.words, reports: s, newID: s.newID,
	}
	s.clientPorts = &clientPorts{engine: e, accept: s.acceptor.accept}
	s.memberPorts = memberPorts{engine: e, clients: s.clientPorts, changed: newSignal(), told: map[string]string{}}
	s.space.engine, s.space.clients = e, clientsFile{engine: e, ports: s.clientPorts}
	e.meters = replica.NewMeters(s.gauges())
	return s
}

// recover sets the engine's replica, dir and peer.
func (s *Server) recover() error {
	opening := &start{
		engine: s.engine, opt: s.opt, ports: s.clientPorts, acceptor: s.acceptor, auditor: s.auditor, auth: s.auth,
		changed: []signal{s.membershipFile.changed, s.memberPorts.changed}, fail: s.fail,
	}
	opening.opt.Settings.Schemes, opening.opt.Settings.Rules = s.auth.Schemes(), s.auth.Rules()
	if err := opening.run(); err != nil {
		return err
	}
	s.lineage, s.space.refuse = opening.begin.Cluster, uint64(opening.space.RefuseBytes)
	if opening.listener != nil {
		s.memberPorts.peers = []net.Listener{opening.listener}
	}
	return nil
}

// Close stops accepting connections, closes the existing ones and the log, and waits until everything has stopped.
// Sessions continue at other servers or after a restart. Close is idempotent.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.stop()
		s.clientPorts.close()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.peer.Close()
		}()
		broken := s.stopsBroken(stopped)
		s.connections.closeAll()
		if broken { // the replica may be unlocked only now that the connections are closed
			s.replica.Abandon()
		}
		<-stopped
		s.wg.Wait()
		s.closed = s.dir.Close()
	})
	return s.closed
}

// stopsBroken waits until either the peer has stopped, or applying an entry has panicked, which prevents the peer from
// stopping. It reports whether there was a panic. An entry may panic even after the server began to close.
func (s *Server) stopsBroken(stopped <-chan struct{}) bool {
	look := time.NewTicker(brokenPause)
	defer look.Stop()
	for !s.replica.Broken() {
		select {
		case <-stopped:
			return s.replica.Broken()
		case <-look.C:
		}
	}
	return true
}

const brokenPause = 10 * time.Millisecond // interval at which stopsBroken checks for a panic

// abandon closes all ports and connections without waiting for anything. A process with a thread
// that the disk holds may keep its sockets open for as long as the thread is held.
func (s *Server) abandon() {
	s.clientPorts.close()
	for _, nc := range s.connections.list() {
		go nc.Close()
	}
	s.peer.Abandon()
}

// binder returns the Binder that opens the ports of a starting server.
func (o *Options) binder(config net.ListenConfig) *socket.Binder {
	return &socket.Binder{Config: config, Retries: o.BindRetries, Stop: o.Stop, Waiting: socket.LogWaiting(o.Log)}
}

// Replica returns the server's copy of the service.
func (s *Server) Replica() *replica.Replica { return s.replica }
