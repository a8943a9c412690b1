package server

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// A start opens the data directory, and the quorum on the directory's state, without starting the quorum: it sets the
// engine's replica, dir and peer.
type start struct {
	*engine
	opt      Options // the engine's, completed on the way
	ports    *clientPorts
	acceptor *acceptor
	auditor  *auditor
	auth     *auth.Registry
	changed  []signal // raised when the membership has changed
	fail     func(error)

	listener net.Listener // for peers; nil if there are no server lines
	// unlock releases the lock on the data directory, which is held while the server finds out how to begin: no other
	// process, such as zooid migrate switch, may write to the directory meanwhile.
	unlock      func() error
	begin       quorum.Beginning
	space       storage.SpaceLimits
	early       *treeload.Early // reads the newest snapshot while the log is recovered
	treeOptions tree.Options
}

// run recovers, or leaves nothing open.
func (s *start) run() (err error) {
	if s.listener, err = listenForPeers(s.opt); err != nil {
		return err
	}
	defer func() {
		if err != nil && s.listener != nil {
			socket.CloseListener(s.listener)
		}
	}()
	if s.listener != nil {
		if s.opt.PeerTLS.Keys, err = peer.OpenKeyring(s.opt.LogDir, s.opt.PeerSecrets); err != nil {
			return runbook.Errorf("ZD-1203", "%w", err)
		}
	}
	if s.unlock, err = lockData(s.opt); err != nil {
		return err
	}
	defer s.unlock()
	if s.begin, err = s.beginning(); err != nil {
		return err
	}
	if s.begin.Founding != nil {
		reachedAt(&s.opt, s.begin.Address)
	}
	s.space = spaceLimits(s.opt)
	began := s.now()
	s.load()
	defer func() { s.early.GiveUp() }()
	if err := s.open(); err != nil {
		return err
	}
	s.reportRecovery(s.dir.Recovered())
	reportCopying(s.opt)
	if err := s.recover(began); err != nil {
		s.dir.Close()
		return err
	}
	return nil
}

// load begins to read the newest snapshot.
func (s *start) load() {
	s.treeOptions = treeload.Options(s.begin.Cluster, s.opt.Membership.Change, s.opt.Settings.FeatureLevel)
	s.treeOptions.Changing, s.treeOptions.FindRule = s.auditor.changing(), findRule(s.log)
	s.early = treeload.Begin(s.opt.DataDir, s.treeOptions)
}

// open opens the data directory.
func (s *start) open() error {
	if err := s.unlock(); err != nil {
		return err
	}
	e := s.engine
	dir, err := storage.Open(storage.Options{
		Dir: s.opt.DataDir, LogDir: s.opt.LogDir, ClusterID: s.begin.Cluster, CacheSize: cacheSize(s.opt), Space: s.space,
		OnSync: e.synced, Wait: func() bool { return e.pause(roomPause) },
	})
	if err != nil {
		return fmt.Errorf("open the data directory %s: %w", dirsOf(s.opt), err)
	}
	s.dir = dir
	return nil
}

// recover makes the replica and the peer from the open data directory.
func (s *start) recover(began int64) error {
	founding, err := howFounded(s.begin, s.dir)
	if err != nil {
		return err
	}
	options := s.replicaOptions()
	if founding == nil && s.listener != nil && s.begin.JoinedAfter == 0 && !alone(s.opt) {
		again, err := s.found(options)
		if err != nil {
			return err
		}
		if again {
			founding = s.begin.Founding
			reachedAt(&s.opt, s.begin.Address)
			if err := s.open(); err != nil {
				return err
			}
			s.early.GiveUp()
			s.load()
			options = s.replicaOptions()
		}
	} else if err := adopt(s.dir, s.opt.ID, options, s.treeOptions); err != nil {
		return err
	}
	if err := s.dropOrder(); err != nil {
		return err
	}
	options.Began = began
	if options.Tree, err = treeload.Newest(s.dir, s.treeOptions, s.early); err != nil {
		return err
	}
	applied := options.Tree.LastIndex()
	s.log.Info("the data directory is read", "lineage", fmt.Sprintf("%016x", s.begin.Cluster))
	s.replica = replica.New(options)
	s.peer, err = peer.Open(peer.Options{
		ID: s.opt.ID, Dir: s.dir, Cluster: s.begin.Cluster, State: s.replica, Applied: applied, Members: membersOf(s.opt),
		Listener: s.listener, Secure: s.opt.PeerTLS, Founding: founding,
		JoinedAfter: s.begin.JoinedAfter, JoinedTerm: s.begin.JoinedTerm, OnJoined: s.engine.joined, Joined: s.begin.Joined,
		Tick: raftTick, ElectionTicks: electionTicks, SnapshotsKept: s.opt.SnapshotsKept, RunningOnly: s.opt.RunningOnly,
		Log: s.log, Fatal: s.fail,
	})
	return err
}

// replicaOptions returns the replica's options: a part of the server's settings, and access to the outside world.
func (s *start) replicaOptions() replica.Options {
	o, e, dir, treeOptions, changed := &s.opt, s.engine, s.dir, s.treeOptions, s.changed
	login := o.SASL
	login.Required = slices.Contains(o.Auth.EnforceSchemes, "sasl")
	return replica.Options{
		ID: o.ID, Servers: len(o.Members),
		Membership: replica.Membership{Text: o.Membership.Text, Parse: o.Membership.Parse, Own: ownMembers(*o)},
		Serving:    o.Serving, Settings: o.Settings, Auth: s.auth, SASL: login, Log: o.Log, ClientLog: e.clientLog,
		Meters: e.meters, Forwarded: partOf(o.MemoryLimit, 32),
		Load: func(meta storage.Meta, snap *storage.Snapshot) (*tree.Tree, error) {
			return treeload.Tree(meta, snap, treeOptions)
		},
		Now: e.now, Wall: func() int64 { return time.Now().UnixMilli() }, Secret: newPasswd, Passwd: o.SessionPasswd,
		Kick: func() { e.peer.Kick() }, Vet: reconfigs{e}.vet,
		MembershipChanged: func() {
			for _, c := range changed {
				c.raise()
			}
		},
		Observe: s.auditor.observing(e, o.observe), Answered: s.auditor.answers(),
		Panicked: func(entry quorum.Entry, cause any, about string) error {
			return quorum.Panicked(dir, entry, cause, "zooid "+e.opt.Version+", "+about)
		},
	}
}

// cacheSize returns how many bytes of the log are kept in memory: they serve followers, which a server alone hasn't.
func cacheSize(opt Options) int {
	if len(opt.Members) <= 1 {
		return cacheBytesAlone
	}
	return min(cmp.Or(partOf(opt.MemoryLimit, 8), cacheBytesMax), cacheBytesMax)
}

const cacheBytesAlone, cacheBytesMax = 1 << 20, 64 << 20

// partOf returns a part of memory.limit (bytes) for what nothing makes less, at least 1 MiB; 0 if there is no limit.
func partOf(limit, part int64) int { return int(min(limit, max(limit/part, 1<<20))) }

// howFounded returns the record of the founding that this server took part in, or nil.
func howFounded(b quorum.Beginning, dir *storage.Dir) (*quorum.Founding, error) {
	kept, err := dir.Kept(quorum.FoundingName)
	if err != nil {
		return nil, err
	}
	f, err := quorum.DecodeFounding(kept)
	if err != nil || f == nil || f.Lineage != b.Cluster {
		return nil, err // the record is of another lineage, from a founding that failed
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

// listenForPeers returns the listener on this server's peer port, or nil if it has no server lines.
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

// newPasswd returns a session password that can't be guessed.
func newPasswd() []byte {
	p := make([]byte, jute.PasswdSize)
	rand.Read(p) // never fails (crypto/rand)
	return p
}

// newClusterID returns a random id for a new cluster, which is never 0.
func newClusterID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

// reportRecovery tells the operator about the traces of the last crash.
func (s *start) reportRecovery(r storage.Recovery) {
	if r.Torn.File != "" {
		s.log.Warn("the last batch of the log was cut short by a crash; it was never acknowledged and is dropped",
			"file", r.Torn.File, "offset", r.Torn.Offset)
	}
	for _, err := range r.DamagedSnapshots {
		s.log.Error("a damaged snapshot was skipped, and an older one is used; check the disk", "err", err)
	}
	if r.NewDataDir {
		s.log.Warn("the data directory was new or empty and the log was not; the log has everything, and this server continues. "+
			"If the data directory's file system is not mounted, stop this server and mount it", "dataDir", s.opt.DataDir,
			"dataLogDir", s.opt.LogDir)
	}
	if r.IdentityMissing {
		s.log.Warn("the file IDENTITY is missing; it is written again from the log. If nobody removed it, check the file system",
			"directory", s.opt.LogDir)
	}
	if r.Undone {
		s.log.Warn("a crash interrupted the installation of a peer's snapshot, which is discarded")
	}
}

// lockData locks the data directory as storage.Open does. Open takes a lock of its own, so unlock must be called before
// it. unlock may be called again.
func lockData(opt Options) (unlock func() error, err error) {
	if err := (storage.OS{}).MkdirAll(opt.DataDir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := storage.OS{}.Lock(opt.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the data directory %s: %w", dirsOf(opt), err)
	}
	return sync.OnceValue(lock.Close), nil
}

// findRule returns the function that finds this program's rule of a name for ids in ACLs, or nil. A rule that panics
// does so on every replica, and admits nobody; the first panic in the life of a tree is logged.
func findRule(log *slog.Logger) func(name string) auth.Rule {
	return func(name string) auth.Rule {
		rule := auth.FindRule(name)
		if rule == nil {
			return nil
		}
		var once sync.Once
		return func(id, entry string) (yes bool) {
			defer func() {
				if cause := recover(); cause != nil {
					yes = false
					once.Do(func() {
						log.Error("a rule for ids in ACLs panicked and admits nobody: its provider has a bug", "rule", name,
							"id", fmt.Sprintf("%.80q", id), "entry", fmt.Sprintf("%.80q", entry), "panic", fmt.Sprintf("%.200v", cause),
							"code", "ZD-3142")
					})
				}
			}()
			return rule(id, entry)
		}
	}
}
