package replica

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// diskShell is a server alone on a disk in memory: a quorum.Shell without peers, whose background work is done at the
// end of each step.
type diskShell struct {
	t         testing.TB
	fs        *storage.MemFS
	dir       *storage.Dir
	rep       *Replica
	loop      *quorum.Loop
	later     []func()
	snapshots int
	now       atomic.Int64 // ns
}

func (s *diskShell) Send(uint64, quorum.FrameKind, []byte) bool { return false }
func (s *diskShell) Connected(uint64) bool                      { return false }
func (s *diskShell) Room(uint64) bool                           { return false }
func (s *diskShell) SendSnapshot(uint64, uint64, []byte)        {}
func (s *diskShell) SetPeers([]quorum.Member)                   {}
func (s *diskShell) AddPeers([]quorum.Member)                   {}
func (s *diskShell) DropPeer(uint64)                            {}
func (s *diskShell) AnnounceSkips([]byte)                       {}
func (s *diskShell) Visit([]byte)                               {}
func (s *diskShell) Beside(work func()) func()                  { return work }
func (s *diskShell) Purge(keep int, needed uint64) {
	s.later = append(s.later, func() { quorum.Purge(s.dir, keep, needed, slog.New(slog.DiscardHandler)) })
}

func (s *diskShell) WriteSnapshot(meta storage.Meta, image quorum.Image) {
	s.snapshots++
	s.later = append(s.later, func() {
		n, err := quorum.WriteImage(s.dir, meta, image, nil)
		s.loop.Handle(quorum.Event{Kind: quorum.EventWritten, Meta: meta, Bytes: n, Err: err})
	})
}

// openOnDisk starts a server alone on a disk of some bytes.
func openOnDisk(t testing.TB, fs *storage.MemFS, refuse int64, snapshotsKept int) *diskShell {
	t.Helper()
	dir, err := storage.Open(storage.Options{
		FS: fs, Dir: "/data", ClusterID: 7, CacheSize: 1 << 20, Rand: countingRand{}, Go: func(f func()) { f() },
		Space: storage.SpaceLimits{RefusePercent: -1, RefuseBytes: refuse},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &diskShell{t: t, fs: fs, dir: dir}
	registry, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.rep = New(Options{
		ID: 1, Auth: registry, Kick: func() {}, Tree: tree.New(tree.Options{LevelMax: tree.FeatureLevelMax}),
		Now: func() int64 { return s.now.Load() }, Wall: func() int64 { return s.now.Load() / 1e6 }, Secret: func() []byte {
			return make([]byte, jute.PasswdSize)
		},
	})
	s.loop, err = quorum.NewLoop(quorum.LoopOptions{
		ID: 1, Dir: dir, State: s.rep, Shell: s, Members: []quorum.Member{{ID: 1}}, ElectionTicks: 10,
		SnapshotsKept: snapshotsKept, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type countingRand struct{}

func (countingRand) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i + 1)
	}
	return len(p), nil
}

// step lets a tick pass, and does what a server does about its disk.
func (s *diskShell) step() {
	s.t.Helper()
	s.now.Add(50e6)
	s.loop.Tick()
	for range 3 {
		s.loop.Turn()
	}
	if err := s.loop.Failed(); err != nil {
		s.t.Fatalf("the server ended: %v", err)
	}
	later := s.later
	s.later = nil
	for _, work := range later {
		work()
	}
	state, err := s.dir.SpaceState()
	if err != nil {
		s.t.Fatal(err)
	}
	if state.Short {
		quorum.Purge(s.dir, 3, 0, slog.New(slog.DiscardHandler))
		if state, err = s.dir.SpaceState(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.rep.Space(state, s.loop.Status().Needed)
}

// client connects one.
func (s *diskShell) client() *Client {
	s.t.Helper()
	for range 100 { // it elects itself
		s.step()
	}
	c := NewClient(s.now.Load()+1, "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	if err := s.rep.Connect(c, &jute.ConnectRequest{Timeout: 40000, Passwd: make([]byte, jute.PasswdSize)},
		func() int64 { return s.now.Load() + 2 }); err != nil {
		s.t.Fatal(err)
	}
	for range 100 {
		if s.step(); c.Established() {
			c.TakeOutput(nil)
			return c
		}
	}
	s.t.Fatal("no session")
	return nil
}

// receive hands a client's requests to the replica.
func (s *diskShell) receive(c *Client, in []byte) (int, error) {
	return s.rep.Receive(c, in, s.now.Load())
}

// send hands requests to the replica, which takes all.
func (s *diskShell) send(c *Client, in []byte) {
	s.t.Helper()
	if used, err := s.receive(c, in); err != nil || used != len(in) {
		s.t.Fatalf("%d of %d bytes of requests were taken: %v", used, len(in), err)
	}
}

// A reply is one frame that a client was sent.
type reply struct {
	jute.ReplyHeader
	body []byte
}

// replies steps the server until a client has got n replies.
func (s *diskShell) replies(c *Client, n int) (list []reply) {
	s.t.Helper()
	for range 100 + n {
		s.step()
		if list = append(list, s.repliesNow(c)...); len(list) >= n {
			return list
		}
	}
	s.t.Fatalf("%d of %d replies in %d steps", len(list), n, 100+n)
	return nil
}

// repliesNow returns the replies that a client has got since it was last asked.
func (s *diskShell) repliesNow(c *Client) (list []reply) {
	var out []byte
	for more, _ := c.TakeOutput(nil); more != nil; more, _ = c.TakeOutput(nil) {
		out = append(out, more...)
	}
	for len(out) > 0 { // whole frames
		end := 4 + int(binary.BigEndian.Uint32(out))
		r := reply{body: out[4+jute.ReplyHeaderSize : end]}
		r.Decode(jute.NewDecoder(out[4:end]))
		list, out = append(list, r), out[end:]
	}
	return list
}

// call sends requests at once and returns the codes of their replies.
func (s *diskShell) call(c *Client, encoder *pipeline, op jute.Op, records ...func([]byte) []byte) (codes []jute.Code) {
	s.t.Helper()
	var in []byte
	for _, record := range records {
		in = encoder.request(in, op, record)
	}
	s.send(c, in)
	for _, r := range s.replies(c, len(records)) {
		codes = append(codes, r.Err)
	}
	return codes
}

// refuseShare is the part of a small disk that must stay free, as a server has it.
const refuseShare = 10

// TestSmallDiskForEver sets a few znodes again and again on disks so small that the log of a few seconds would fill
// them: twenty times the disk's size is written, and nothing is refused.
func TestSmallDiskForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short")
	}
	t.Parallel()
	for _, c := range []struct {
		disk uint64
		size int
		kept int
	}{
		{disk: 16 << 20, size: 90_000, kept: 3},
		{disk: 16 << 20, size: 900, kept: 3},
		{disk: 48 << 20, size: 900_000, kept: 100}, // as many snapshots kept as would fill it
	} {
		t.Run(fmt.Sprintf("disk=%d,size=%d,kept=%d", c.disk, c.size, c.kept), func(t *testing.T) {
			t.Parallel()
			fs := storage.NewMemFS()
			fs.Budget = c.disk
			s := openOnDisk(t, fs, int64(c.disk/refuseShare), c.kept)
			cl, encoder := s.client(), &pipeline{}
			for _, code := range s.call(cl, encoder, jute.OpCreate, creating("/n", nil, 0)) {
				if code != jute.OK {
					t.Fatal(code)
				}
			}
			batch := max(min(2<<20/c.size, 500), 1)
			for written, n := uint64(0), 0; written < 20*c.disk; n++ {
				var sets []func([]byte) []byte
				for i := range batch {
					data := make([]byte, c.size)
					data[0], data[1] = byte(n), byte(i)
					sets = append(sets, setting("/n", data))
					written += uint64(c.size)
				}
				for _, code := range s.call(cl, encoder, jute.OpSetData, sets...) {
					if code != jute.OK {
						t.Fatalf("a set after %d MiB on a disk of %d MiB: %v", written>>20, c.disk>>20, code)
					}
				}
			}
			free, _, _ := fs.Free("")
			t.Logf("%d snapshots; %d MiB free at the end", s.snapshots, free>>20)
		})
	}
}

// TestFullDiskMakesRoom fills a disk by other means until writes are refused: the server makes what room it can by
// itself, a snapshot and the log before it removed, though nothing is applied meanwhile.
func TestFullDiskMakesRoom(t *testing.T) {
	t.Parallel()
	const disk = 64 << 20
	fs := storage.NewMemFS()
	fs.Budget = disk
	s := openOnDisk(t, fs, disk/refuseShare, 3)
	s.rep.snapshots.bytes = 1 << 40
	cl, encoder := s.client(), &pipeline{}
	s.call(cl, encoder, jute.OpCreate, creating("/n", nil, 0))
	for range 80 {
		s.rep.snapshots.room.Store(0) // as if the disk were large
		s.call(cl, encoder, jute.OpSetData, setting("/n", make([]byte, 200_000)))
	}
	free, _, _ := fs.Free("")
	fs.Damage("/data/foreign", func([]byte) []byte { return make([]byte, free-disk/refuseShare+1) })
	s.step()
	refused := 0
	for n := 0; ; n++ {
		if s.call(cl, encoder, jute.OpSetData, setting("/n", nil))[0] == jute.OK {
			break
		}
		if refused++; n > 200 {
			t.Fatal("writes are refused for good, though the log outweighs the tree by far")
		}
	}
	if refused == 0 || s.snapshots == 0 {
		t.Errorf("%d writes were refused, %d snapshots written: nothing was shown", refused, s.snapshots)
	}
}

// TestDiskTooSmall: a new server says how much it needs; on a disk of that size it begins.
func TestDiskTooSmall(t *testing.T) {
	t.Parallel()
	open := func(budget uint64) error {
		fs := storage.NewMemFS()
		fs.Budget = budget
		dir, err := storage.Open(storage.Options{FS: fs, Dir: "/data", ClusterID: 7})
		if err == nil {
			err = dir.Close()
		}
		return err
	}
	var have, free, need uint64
	err := open(9 << 20)
	if err == nil {
		t.Fatal("a server began on a disk of 9 MiB")
	}
	if _, scanErr := fmt.Sscanf(err.Error(), "begin a log in /data: its file system has %d bytes, %d of them free, and a new log needs %d:",
		&have, &free, &need); scanErr != nil {
		t.Fatalf("%v (%v)", err, scanErr)
	}
	if err := open(need); err != nil {
		t.Errorf("on a disk of %d bytes, as asked for: %v", need, err)
	}
}
