package fourletter

import (
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// The modes of a server, by Apache's names.
const (
	ModeStandalone = "standalone"
	ModeLeader     = "leader"
	ModeFollower   = "follower"
	ModeObserver   = "observer"
	ModeReadOnly   = "read-only"
)

// Status is what a server reports about itself in srvr, stat and the admin server. Serving is also true on a read-only
// server; while it is false, most words only answer that.
type Status struct {
	replica.View
	Version string
	Mode    string
	// PeerState is the state of an ensemble's server in the ensemble, such as "leading - broadcast". It is empty for a
	// standalone server.
	PeerState   string
	Connections int // with or without a session
	// Drained says that the server takes no new clients, because it was asked to let others take over.
	Drained bool
}

// Standing is what a server knows about its ensemble. Servers are identified by their myids.
type Standing struct {
	Lineage uint64  // id of the ensemble's history
	Voters  []int64 // the servers whose votes count
	Named   []int64 // the participants that /zookeeper/config names; none while no membership is in force
	Staged  []int64 // the participants that a change under way asks for, which isn't in force yet
	Drained []int64 // the servers known here to be drained: a leader knows them all
	Unheard []int64 // on the leader, the voters from which it has not heard since it leads
	// Clients and SecureClients are the known client addresses of servers, without TLS and with it, by id.
	Clients, SecureClients map[int64]string
	// Foreign are the servers of the same lines that have told this one that they belong to another history, and to which.
	Foreign map[int64]uint64
	// SameID lists ids of which there are two servers, and the refusals between them.
	SameID []string
	Lost   uint64 // index of a log entry that this server has acknowledged and doesn't have, 0 for none
}

// ConnectionExpiry says when a connection is closed if nothing is received from it.
type ConnectionExpiry struct {
	replica.Connection
	Expires time.Time
}

// Configuration holds the values that the conf word prints.
type Configuration struct {
	ClientPort        int
	SecureClientPort  int // -1 means none
	DataDir, LogDir   string
	DataSize, LogSize int64 // bytes of the files in them
	Tick              time.Duration
	MaxClientCnxns    int
	SessionTimeoutMin time.Duration
	SessionTimeoutMax time.Duration
	Backlog           int   // -1 means the system's limit
	ServerID          int64 // 0 for a standalone server

	Ensemble   bool // whether the following fields are set
	Shown      ShownEnsemble
	Observer   bool
	Membership string // as /zookeeper/config has it; "" on a read-only server, which can't know it
}

// ShownEnsemble holds ensemble settings that tools query. They control Apache's protocols, not Zooid's.
type ShownEnsemble struct {
	InitLimit, SyncLimit int // ticks
	// Ports of this server's line, several joined by "|".
	QuorumPorts, ElectionPorts string
}

// A Variable is one line of the envi word.
type Variable struct{ Name, Value string }
