package replica

import (
	"runtime"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// snapshotRule says when the next snapshot is due.
type snapshotRule struct {
	count int64 // changes since the last one, at least
	bytes int64 // log bytes that force one
	last  int64 // bytes of the last one
	since int64 // changes since then
	began int64 // now (ns) when the one under way began

	// room is how many bytes the log may take before the disk is full, 0 if that is
	// not known. Any goroutine.
	room atomic.Int64
	// asked says that somebody wants one now. Any goroutine.
	asked atomic.Bool
}

const (
	// snapshotRoomShare of the log's room at most lies between two snapshots: the log
	// is kept from the oldest of several snapshots on, and grows while one is written.
	snapshotRoomShare = 10
	// snapshotTreeShare of the last snapshot must lie between two, however short room
	// is: a large tree on a small disk would be written all the time.
	snapshotTreeShare = 4
	// snapshotBytesMin of the log are always waited for.
	snapshotBytesMin = 256 << 10
)

// forced returns the bytes of the log that force a snapshot.
func (rule *snapshotRule) forced() int64 {
	room := rule.room.Load()
	if room == 0 {
		return rule.bytes
	}
	return min(rule.bytes, max((room-rule.last)/snapshotRoomShare, rule.last/snapshotTreeShare, snapshotBytesMin))
}

// Space tells how much room the disk has. Where there is none clients' writes are
// answered jute.ErrThrottledOp, which says that they were not executed; the less
// there is, the sooner a snapshot is due.
func (r *Replica) Space(s storage.SpaceState) {
	r.noRoom.Store(s.Level == storage.SpaceRefuse)
	r.snapshots.room.Store(max(s.LogRoom, 1))
}

// SnapshotDue asks for a snapshot once snapCount changes were applied, but not
// before the log has grown by half a snapshot: with a large tree and a high rate
// of changes the server would do nothing else. A log that takes much of the room on
// its disk asks for one too, and RequestSnapshot.
func (r *Replica) SnapshotDue(logBytes int64) bool {
	rule := &r.snapshots
	return rule.asked.Swap(false) || logBytes >= rule.forced() || rule.since >= rule.count && logBytes >= rule.last/2
}

// RequestSnapshot makes the next SnapshotDue say yes.
func (r *Replica) RequestSnapshot() { r.snapshots.asked.Store(true) }

// Snapshot begins an image of the tree as it is now.
func (r *Replica) Snapshot() quorum.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshots.since, r.snapshots.began = 0, r.now()
	return &image{
		r: r, img: r.tree.BeginSnapshot(),
		meta: storage.Meta{
			Index: r.tree.LastIndex(), Term: r.tree.LastTerm(), Zxid: r.tree.LastZxid(), Digest: r.tree.Digest(),
			FeatureLevel: uint32(r.tree.Settings().FeatureLevel), BodyFormat: tree.BodyFormat,
		},
	}
}

// SnapshotDone remembers the size of the last snapshot.
func (r *Replica) SnapshotDone(_ storage.Meta, bytes int64) {
	r.snapshots.last = bytes
	r.meters.snapshot.Observe((r.now() - r.snapshots.began) / 1e6)
}

// image reads the tree's image chunk by chunk, letting writes in between.
type image struct {
	r    *Replica
	img  *tree.Image
	meta storage.Meta
}

func (i *image) Describe() storage.Meta { return i.meta }

func (i *image) Next(dst []byte) ([]byte, bool) {
	i.r.mu.RLock()
	defer i.r.mu.RUnlock()
	defer runtime.KeepAlive(i.img) // the tree may have been replaced meanwhile
	return i.img.Next(dst)
}

func (i *image) Close() {
	i.r.mu.Lock()
	defer i.r.mu.Unlock()
	i.img.Close()
}
