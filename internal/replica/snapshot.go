package replica

import (
	"runtime"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// snapshots says when the next snapshot is due.
type snapshots struct {
	*outside
	*state

	count int64 // changes between two snapshots, at least
	bytes int64 // log bytes that force a snapshot
	last  int64 // size of the last snapshot, bytes
	since int64 // changes since the last snapshot
	began int64 // now (ns) when the snapshot under way, or the last one, began

	// room is how many bytes the log may grow before the disk is full, or 0 if that is not known. Any
	// goroutine may use it.
	room atomic.Int64
	// asked says that a snapshot was requested. Any goroutine may use it.
	asked atomic.Bool
}

const (
	// snapshotRoomShare limits the log between two snapshots to a tenth of the log's room. The log that several snapshots
	// need is kept, and it also grows while a snapshot is written.
	snapshotRoomShare = 10
	// snapshotTreeShare makes the log grow by at least a quarter of the last snapshot before the next
	// one, even if there is little room. Otherwise a server with a large tree and a small disk would
	// write snapshots continually.
	snapshotTreeShare = 4
	// snapshotBytesMin is the least growth of the log between two snapshots.
	snapshotBytesMin = 256 << 10
)

// forced returns how many bytes of log force a snapshot.
func (rule *snapshots) forced() int64 {
	room := rule.room.Load()
	if room == 0 {
		return rule.bytes
	}
	return min(rule.bytes, max((room-rule.last)/snapshotRoomShare, rule.last/snapshotTreeShare, snapshotBytesMin))
}

// A diskRoom says whether the disk has room.
type diskRoom struct {
	none     atomic.Bool // the disk is nearly full: clients' writes are refused
	logWaits atomic.Bool // a write of the log waits for room: no session can begin in it
	needed   atomic.Bool // while a write waits: no majority is known to serve without this server
	sessions int         // sessions begun in the log since the disk became nearly full; Replica.mu guards it
}

// Space tells the replica how much room the disk has. When there is none, clients' writes are answered with
// jute.ErrThrottledOp, which means that they were not executed. The less room there is, the sooner a snapshot is due.
// needed is quorum.Status.Needed: while the log waits for room, new clients are sent to the other servers, unless these
// are known not to serve.
func (r *Replica) Space(s storage.SpaceState, needed bool) {
	r.room.none.Store(s.Level == storage.SpaceRefuse)
	r.room.logWaits.Store(s.Waits)
	r.room.needed.Store(needed)
	r.snapshots.room.Store(max(s.LogRoom, 1))
}

// SnapshotDue reports whether a snapshot is due: once snapCount changes were applied and the log
// has grown by half a snapshot. Without the second condition, a server with a large tree and a high
// rate of changes would do nothing but write snapshots. A snapshot is also due if the log takes
// much of the room on its disk, or after RequestSnapshot.
func (rule *snapshots) SnapshotDue(logBytes int64) bool {
	return rule.asked.Swap(false) || logBytes >= rule.forced() || rule.since >= rule.count && logBytes >= rule.last/2
}

// RequestSnapshot makes the next call of SnapshotDue return true.
func (s *snapshots) RequestSnapshot() { s.asked.Store(true) }

// Snapshot begins an image of the tree as it is now.
func (s *snapshots) Snapshot() quorum.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.began = 0, s.now()
	return &image{
		state: s.state, img: s.tree.BeginSnapshot(),
		meta: storage.Meta{
			Index: s.tree.LastIndex(), Term: s.tree.LastTerm(), Zxid: s.tree.LastZxid(), Digest: s.tree.Digest(),
			FeatureLevel: uint32(s.tree.Settings().FeatureLevel), BodyFormat: tree.BodyFormat,
		},
	}
}

// SnapshotDone remembers the size of the last snapshot.
func (s *snapshots) SnapshotDone(_ storage.Meta, bytes int64) {
	s.last = bytes
	s.meters.snapshot.Observe((s.now() - s.began) / 1e6)
}

// image reads the tree's image chunk by chunk, so that writes can proceed in between.
type image struct {
	*state
	img  *tree.Image
	meta storage.Meta
}

func (i *image) Describe() storage.Meta { return i.meta }

func (i *image) Next(dst []byte) ([]byte, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	defer runtime.KeepAlive(i.img) // the tree may have been replaced meanwhile
	return i.img.Next(dst)
}

func (i *image) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.img.Close()
}
