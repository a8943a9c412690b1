package fourletter

import (
	"time"

	"github.com/zooid-project/zooid/internal/replica"
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
// admin server too. Serving is true on a server that is read-only; while it is false
// most words say nothing else.
type Status struct {
	replica.View
	Version string
	Mode    string
	// PeerState is what an ensemble's server says of its part in it: "leading -
	// broadcast". It is empty for a server alone.
	PeerState   string
	Connections int // clients or not
}

// ConnectionExpiry says when a connection of which nothing is heard is closed.
type ConnectionExpiry struct {
	replica.Connection
	Expires time.Time
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

// A Variable is one line of the envi word.
type Variable struct{ Name, Value string }
