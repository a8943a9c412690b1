package server

import (
	"cmp"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The modes of a server, in Apache's words.
const (
	ModeStandalone = "standalone"
	ModeLeader     = "leader"
	ModeFollower   = "follower"
	ModeObserver   = "observer"
	ModeReadOnly   = "read-only"
)

// Status is what a server tells of itself: the srvr and stat words print it, the
// admin server too. Times are in ms, as clients see them from arrival to reply.
type Status struct {
	Version string
	Mode    string
	// PeerState is what an ensemble's server says of its part in it: "leading -
	// broadcast". It is empty for a server alone.
	PeerState string
	Leader    uint64 // id of the server that leads, as far as this one knows; 0 for none
	// Serving is false until everything acknowledged before this server started
	// is applied, and when it is cut off from its ensemble; most words say nothing
	// else then.
	Serving     bool
	Latency     Latency
	Received    int64 // requests, and the words themselves
	Sent        int64 // replies and notifications
	Connections int   // clients or not
	Outstanding int64 // requests without an answer
	Zxid        int64 // of the last change applied
	Nodes       int   // znodes; the root counts twice, as in Apache
	Proposals   Sizes // log entries proposed, in bytes; only a leader proposes
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

// Status returns what the server tells of itself now. It holds up nothing.
func (s *Server) Status() Status {
	r := s.replica
	r.mu.RLock()
	serving, leads, zxid, nodes := r.serving && !r.cutOff, r.leader.IsLeader, r.tree.LastZxid(), r.tree.NodeCount()+1
	readOnly, leader := r.readOnly(), r.leader.Leader
	r.mu.RUnlock()
	mode, peerState := s.mode(leads)
	if readOnly {
		serving, mode, peerState = true, ModeReadOnly, ""
	}
	return Status{
		Version: s.opt.Version, Mode: mode, PeerState: peerState, Leader: leader, Serving: serving, Latency: r.stats.latency.public(),
		Received: r.stats.received.Load(), Sent: r.stats.sent.Load(), Connections: s.connCount(),
		Outstanding: r.unanswered.count(), Zxid: zxid, Nodes: nodes, Proposals: s.meters.proposed.public(),
	}
}

// mode returns what this server is in its ensemble, in two of Apache's ways. A
// follower stays one while there is no leader: it keeps its clients.
func (s *Server) mode(leads bool) (mode, peerState string) {
	if len(s.opt.Members) <= 1 {
		return ModeStandalone, ""
	}
	for _, m := range s.opt.Members {
		if m.ID == s.opt.ID && m.Observer {
			return ModeObserver, "observing - broadcast"
		}
	}
	if leads {
		return ModeLeader, "leading - broadcast"
	}
	return ModeFollower, "following - broadcast"
}

func (l *latencies) public() Latency {
	const scale = 1e4
	return Latency{Min: l.least(), Max: l.max.Load(), Avg: math.Floor(l.mean()*scale+0.5) / scale}
}

func (s *Server) connCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// ResetStats is srst: latencies, packets, response sizes, counters and summaries
// begin again.
func (s *Server) ResetStats() {
	stats := &s.replica.stats
	stats.latency.reset()
	stats.received.Store(0)
	stats.sent.Store(0)
	s.meters.reset()
}

// A Connection is what a server tells of one client connection.
type Connection struct {
	Remote      string // as Java prints an address: "127.0.0.1:4711", "[0:0:0:0:0:0:0:1]:4711"
	Interest    int    // Apache's selector bits: 1 waits for requests, 4 has output to write
	Outstanding int    // requests without an answer
	Received    int64
	Sent        int64

	// The rest is told of connections with a session, those whose Session isn't 0.
	Session      int64
	LastOp       string // in four letters or so; NA before the first answer
	Established  time.Time
	Timeout      int32 // ms
	LastCxid     int32 // xid of the last answer, -1 for none
	LastZxid     int64 // of the last answer, -1 for none
	LastResponse int64 // ms of this server's clock, 0 for none
	LastLatency  int64 // ms
	Latency      Latency
}

// Interest bits.
const (
	interestRead  = 1
	interestWrite = 4
)

// Connections returns all connections in the order in which they came, those
// without a connect request yet at the end.
func (s *Server) Connections() []Connection {
	s.mu.Lock()
	waiting := make(map[string]bool, len(s.conns))
	for nc := range s.conns {
		waiting[nc.RemoteAddr().String()] = true
	}
	s.mu.Unlock()
	clients := s.clients()
	list := make([]Connection, 0, len(clients))
	s.replica.mu.RLock()
	for _, c := range clients {
		list = append(list, c.status())
		delete(waiting, c.remote)
	}
	s.replica.mu.RUnlock()
	n := len(list)
	for remote := range waiting {
		list = append(list, Connection{Remote: javaSocket(remote), Interest: interestRead})
	}
	slices.SortFunc(list[n:], func(a, b Connection) int { return strings.Compare(a.Remote, b.Remote) })
	return list
}

// clients returns the connections that sent a connect request, oldest first.
func (s *Server) clients() []*client {
	r := s.replica
	r.mu.RLock()
	list := make([]*client, 0, len(r.clients))
	for _, c := range r.clients {
		list = append(list, c)
	}
	r.mu.RUnlock()
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// status reads a client's statistics; replica.mu is held at least shared.
func (c *client) status() Connection {
	c.mu.Lock()
	outstanding, interest := c.unanswered.len(), 0
	if outstanding < unansweredMax && len(c.out) < outputPauseBytes {
		interest |= interestRead
	}
	if len(c.out) > 0 {
		interest |= interestWrite
	}
	c.mu.Unlock()
	st := &c.stats
	return Connection{
		Remote: javaSocket(c.remote), Interest: interest, Outstanding: outstanding,
		Received: st.received.Load(), Sent: st.sent.Load(),
		Session: c.session, LastOp: shortName(jute.Op(st.lastOp.Load())), Established: c.since, Timeout: c.timeout,
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

// javaSocket writes "host:port" as Java does.
func javaSocket(remote string) string {
	host, port, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	if host = javaAddress(host); strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// ResetConnections is crst: the statistics of every connection begin again.
func (s *Server) ResetConnections() {
	for _, c := range s.clients() {
		c.stats.reset()
	}
}

// Configuration is what the conf word prints.
type Configuration struct {
	ClientPort        int
	SecureClientPort  int // -1: none
	DataDir, LogDir   string
	DataSize, LogSize int64 // bytes of the files in them
	Tick              time.Duration
	MaxClientCnxns    int
	SessionTimeoutMin time.Duration
	SessionTimeoutMax time.Duration
	Backlog           int   // -1: the system's
	ServerID          int64 // 0 for a standalone server

	Ensemble   bool // the rest is there
	Shown      ShownEnsemble
	Observer   bool
	Membership string // as /zookeeper/config has it; "" on a read-only server, which can't know it
}

// ShownEnsemble holds settings of an ensemble that tools ask for and that steer
// Apache's protocols, not these.
type ShownEnsemble struct {
	InitLimit, SyncLimit int // ticks
	// Ports of this server's line, several joined by "|".
	QuorumPorts, ElectionPorts string
}

// Configuration returns the settings in force.
func (s *Server) Configuration() Configuration {
	c := Configuration{
		SecureClientPort: -1, DataDir: s.opt.DataDir, LogDir: s.opt.LogDir, Tick: s.opt.Tick, MaxClientCnxns: s.opt.MaxClientConnections,
		SessionTimeoutMin: s.opt.SessionTimeoutMin, SessionTimeoutMax: s.opt.SessionTimeoutMax, Backlog: s.opt.Backlog,
	}
	if c.Backlog == 0 {
		c.Backlog = -1
	}
	if len(s.opt.Members) > 1 {
		st := s.Status()
		c.ServerID, c.Ensemble, c.Shown, c.Observer = int64(s.opt.ID), true, s.opt.Shown, st.Mode == ModeObserver
		if st.Mode != ModeReadOnly {
			s.replica.mu.RLock()
			c.Membership, _ = s.replica.tree.Members()
			s.replica.mu.RUnlock()
		}
	}
	for _, a := range s.Addrs() {
		if tcp, ok := a.(*net.TCPAddr); ok {
			c.ClientPort = tcp.Port
			break
		}
	}
	c.DataSize, c.LogSize = s.DataSizes()
	return c
}

// DataSizes returns the bytes of all files in the data directory and in that of
// the log, which may be the same.
func (s *Server) DataSizes() (data, log int64) {
	data = folderSize(s.opt.DataDir)
	if s.opt.LogDir == s.opt.DataDir {
		return data, data
	}
	return data, folderSize(s.opt.LogDir)
}

// folderSize adds up the files below dir. Files that go away meanwhile don't
// count.
func folderSize(dir string) int64 {
	var sum int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// Digests returns the digests kept of the state at certain zxids, oldest first.
// Servers of one cluster that have the same zxid have the same digest.
func (s *Server) Digests() []Digest {
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	return slices.Clone(s.replica.progress.digests)
}
