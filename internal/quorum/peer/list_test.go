package peer

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// A list is the state machine of a group of one: numbers, in the order agreed on.
type list struct {
	mu      sync.Mutex
	waiting []uint64
	applied []uint64
	sick    error         // what Apply returns
	busy    chan struct{} // if not nil, Apply takes until it is closed
	lineage atomic.Uint64 // what Lineage returns
	ticks   atomic.Uint64 // how often the Loop asked for the levels: at each tick, and once more at every fourth
}

func (l *list) say(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, n)
}

func (l *list) has(n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.applied {
		if a == n {
			return true
		}
	}
	return false
}

func (l *list) Batch() (data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.waiting {
		data = binary.BigEndian.AppendUint64(data, n)
	}
	l.waiting = nil
	return data
}

func (l *list) Apply(entries []quorum.Entry) error {
	l.mu.Lock()
	busy := l.busy
	l.mu.Unlock()
	if busy != nil {
		<-busy
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		for data := e.Data; len(data) > 0; data = data[8:] {
			l.applied = append(l.applied, binary.BigEndian.Uint64(data))
		}
	}
	return l.sick
}

func (l *list) Lineage() uint64 { return l.lineage.Load() }

func (l *list) Levels() (inForce, known uint32) {
	l.ticks.Add(1)
	return 1, 1
}

func (l *list) Forward() []byte                              { return nil }
func (l *list) Forwarded([]byte) error                       { return nil }
func (l *list) Resend()                                      {}
func (l *list) Clock() int64                                 { return 0 }
func (l *list) Correct(int64)                                {}
func (l *list) Doubtful() bool                               { return false }
func (l *list) DigestAt(uint64) (uint64, bool)               { return 0, false }
func (l *list) Moment() int64                                { return 0 }
func (l *list) UpToDate(int64)                               {}
func (l *list) Syncs() uint64                                { return 0 }
func (l *list) Synced(uint64)                                {}
func (l *list) Lead(quorum.Leadership)                       {}
func (l *list) Supported(uint32)                             {}
func (l *list) Rules() []byte                                { return nil }
func (l *list) Announced([]quorum.Announcement)              {}
func (l *list) StepChange(int64, quorum.ChangeStep)          {}
func (l *list) Report() []byte                               { return nil }
func (l *list) Reported([]byte)                              {}
func (l *list) SnapshotDue(int64) bool                       { return false }
func (l *list) Snapshot() quorum.Image                       { return empty{} }
func (l *list) SnapshotDone(storage.Meta, int64)             {}
func (l *list) Membership(int64) (*quorum.Membership, int64) { return nil, 0 }
func (l *list) Load(storage.Meta, *storage.Snapshot) (func(), error) {
	return func() {}, nil
}

// empty is the image of a state without anything in it.
type empty struct{}

func (empty) Next(dst []byte) ([]byte, bool) { return dst, false }
func (empty) Describe() storage.Meta         { return storage.Meta{} }
func (empty) Close()                         {}

// disk opens the directory of server 1 on fs.
func disk(t *testing.T, fs *storage.MemFS) *storage.Dir {
	t.Helper()
	dir, err := storage.Open(storage.Options{
		FS: fs, Dir: "/data", ClusterID: 7, SegmentSize: 64 << 10, CacheSize: 1, Rand: rand.NewChaCha8([32]byte{1}),
		Go: func(f func()) { f() }, Space: storage.SpaceLimits{ReserveBytes: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// alone opens a Peer that is a group of its own. What it fails of comes to fatal.
func alone(t *testing.T, dir *storage.Dir, state *list, tick time.Duration) (p *Peer, fatal chan error) {
	t.Helper()
	fatal = make(chan error, 1)
	p, err := Open(Options{
		ID: 1, Dir: dir, Cluster: 7, State: state, Members: []quorum.Member{{ID: 1}}, Tick: tick, ElectionTicks: 10,
		SnapshotsKept: 1, Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { fatal <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, fatal
}
