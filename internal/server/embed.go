package server

import (
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// What a Server is built around, for whoever brings another clock, network and
// disk: Server is one shell over a Replica, a simulator is another.

// A Replica is one server's copy of the service without sockets, clock and
// goroutines; it is the quorum's state machine. The methods of a
// quorum.StateMachine belong to the quorum's loop, all others but DigestAt to any
// goroutine.
type Replica = replica

// A Client is one client connection of a Replica.
type Client = client

// ReplicaOptions say what a Replica works on. Every function is required but Vet and
// Observe.
type ReplicaOptions struct {
	Options
	Dir     *storage.Dir
	Cluster uint64 // of Dir
	Auth    *auth.Registry
	Now     func() int64  // a monotonic clock, ns
	Wall    func() int64  // the clock that stamps batches, ms since 1970
	Secret  func() []byte // a new session password of jute.PasswdSize bytes
	// Vet, if not nil, returns the code to go with a reconfig request; it may block.
	Vet  func(body []byte) jute.Code
	Kick func() // tells the quorum that requests or syncs wait; must not block
	// Observe, if not nil, sees each evaluated request before its client does. It
	// is called while the replica is held: it may not call it back.
	Observe func(*tree.Result)

	meters *meters    // nil for its own
	early  *earlyTree // nil if none was begun
}

// NewReplica returns the Replica of the newest snapshot in o.Dir, and the index
// of the last log entry in it.
func NewReplica(o ReplicaOptions) (*Replica, uint64, error) {
	opt := o.withDefaults()
	m, began := o.meters, o.Now()
	if m == nil {
		m = newMeters(&metrics.Registry{})
	}
	if o.early != nil {
		began = o.early.began
	}
	treeOptions := treeOptionsOf(&opt, o.Cluster)
	t, meta, err := loadTree(o.Dir, treeOptions, o.early)
	if err != nil {
		return nil, 0, err
	}
	m.startSnapshot.Observe((o.Now() - began) / 1e6)
	r := &replica{
		meters: m, progress: progress{began: o.Now(), replaying: true},
		limits: limits{
			timeoutMin: int32(opt.SessionTimeoutMin.Milliseconds()), timeoutMax: int32(opt.SessionTimeoutMax.Milliseconds()),
			frameMax: opt.MaxFrame,
		},
		auth: o.Auth, sasl: saslRuleOf(&opt), log: opt.Log, clientLog: lograte.Limit(opt.Log), settings: opt.Settings, treeOptions: treeOptions, alone: len(opt.Members) == 0,
		membership: opt.Membership, vet: o.Vet, readOnlyMode: opt.ReadOnlyMode && len(opt.Members) > 1,
		now: o.Now, wall: o.Wall, secret: o.Secret, kick: o.Kick, observe: o.Observe,
		expiry: newExpiry(opt.Tick.Milliseconds(), o.Now()/1e6), locals: newLocals(&opt, o.Now()/1e6),
		broken: breakdown{dir: o.Dir, version: opt.Version}, tree: t, clients: map[int64]*client{}, sessions: map[int64]*client{}, watches: watch.New(),
	}
	r.snapshots.count, r.snapshots.bytes = int64(opt.SnapCount), opt.SnapBytes
	r.noteLevel()
	r.unanswered.countMax, r.unanswered.bytesMax = int64(opt.MaxOutstanding), unansweredTotalMax
	r.digests.note(t.LastIndex(), t.Digest()) // what was wrong before the start is found by the first entry after it
	return r, meta.Index, nil
}

// NewClient returns a client for a connection that was accepted. id is its cnx,
// unique in the cluster and over restarts. wake is called when output waits and
// nobody is flushing it; it is called with the client held, so it may only note
// that TakeOutput is to be called.
func NewClient(id int64, remote string, address jute.ID, wake func()) *Client {
	return newClient(id, remote, address, wake)
}

// Acked makes acked the word on whether the client has all that TakeOutput returned.
func (c *client) Acked(acked func() bool) { c.acked = acked }

// Connect takes c's connect request; newID draws ids for sessions. An error is
// the reason to close the connection at once.
func (r *replica) Connect(c *Client, req *jute.ConnectRequest, newID func() int64) error {
	return r.connect(c, req, newID)
}

// Receive takes what arrived on a connection that is Established, and returns
// how many bytes it used up. It blocks while the connection has more unanswered
// than one may have. After ErrUntold the rest is to be brought again.
func (r *replica) Receive(c *Client, in []byte) (used int, err error) {
	return r.receive(c, in, r.now())
}

// Disconnected forgets a client whose connection is gone.
func (r *replica) Disconnected(c *Client) { r.disconnected(c) }

// Expire proposes the end of every session that is due at now (ms); last is when
// it was called before.
func (r *replica) Expire(now, last int64) { r.expire(now, last) }

// CheckQuorum closes the clients' connections once there has been no leader for
// patience (ms).
func (r *replica) CheckQuorum(now, patience int64) { r.checkQuorum(now, patience) }

// CheckReach does the same once the leader has not answered this server for
// patience; unanswered (ms) is for how long it has not.
func (r *replica) CheckReach(unanswered, patience int64) { r.checkReach(unanswered, patience) }

// Space tells how much room the disk has. Where there is none clients' writes are
// answered jute.ErrThrottledOp, which says that they were not executed; the less
// there is, the sooner a snapshot is due.
func (r *replica) Space(s storage.SpaceState) {
	r.noRoom.Store(s.Level == storage.SpaceRefuse)
	r.snapshots.room.Store(max(s.LogRoom, 1))
}

// Reap proposes the removal of every container and TTL znode that can go.
// neverUsed (ms) is the age at which a container that never had a child goes, 0
// for never.
func (r *replica) Reap(neverUsed int64) {
	var cursor uint32
	for first := true; first || cursor != 0; first = false {
		var paths []string
		paths, cursor = r.reapable(cursor, neverUsed)
		for _, path := range paths {
			r.reap(path, neverUsed)
		}
	}
}

// Position returns the last applied entry's index, the last zxid, and the
// digest of the state.
func (r *replica) Position() (index uint64, zxid int64, digest uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.LastIndex(), r.tree.LastZxid(), r.tree.Digest()
}

// DigestAt returns the digest of the state after one of the last log entries; ok
// is false for an older one. It may not run beside Apply.
func (r *replica) DigestAt(index uint64) (digest uint64, ok bool) {
	at := r.digests.ring[index%digestsKept]
	return at.digest, at.index == index
}

// Established reports whether the connect request was answered.
func (c *client) Established() bool {
	select {
	case <-c.established:
		return true
	default:
		return false
	}
}

// TakeOutput returns the bytes to send, nil if there are none; last says that
// the connection is to be closed then.
func (c *client) TakeOutput() (out []byte, last bool) { return c.takeOutput(nil) }

// NewIDs returns a source of ids for connections and sessions that are unique in
// the cluster, over restarts too, if ms since 1970 grows between them.
func NewIDs(server uint64, ms int64) func() int64 { return idsFrom(server, ms).take }
