package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

const testCluster = 0x2001d

// saltSource gives salts from a seed, so that a run can be repeated.
type saltSource struct{ rng *rand.Rand }

func (s saltSource) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.rng.Uint32())
	}
	return len(p), nil
}

// oneOrTwo are smallOptions, for every third seed with a log directory of its own.
func oneOrTwo(fs FS, seed uint64) Options {
	o := smallOptions(fs, seed)
	if seed%3 == 0 {
		o.LogDir = "log"
	}
	return o
}

// smallOptions make segments of 8 sectors, so that a few appends roll, and no goroutines.
func smallOptions(fs FS, seed uint64) Options {
	return Options{
		FS: fs, Dir: "data", ClusterID: testCluster, SegmentSize: 8 * sectorSize, CacheSize: 2 << 10,
		Rand: saltSource{rand.New(rand.NewPCG(seed, 1))}, Go: func(f func()) { f() },
		window: []int64{3 * sectorSize, 0, sectorSize}[seed%3],
		Space:  SpaceLimits{WarnPercent: -1, RefusePercent: -1, RefuseBytes: -1, ReserveBytes: 2 * sectorSize},
	}
}

func mustOpen(t testing.TB, o Options) *Dir {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func hs(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func entry(index, term uint64, data []byte) *raftpb.Entry {
	return (&record{index: index, term: term, data: data}).entry()
}

// batch makes n entries from index on, whose data tells index and term.
func batch(index, term uint64, n, size int) []*raftpb.Entry {
	var list []*raftpb.Entry
	for i := range n {
		data := make([]byte, size)
		for k := range data {
			data[k] = byte(uint64(k) + index + uint64(i) + term*7)
		}
		list = append(list, entry(index+uint64(i), term, data))
	}
	return list
}

// model is the naive truth: what a log must hold.
type model struct {
	base    position
	entries []*raftpb.Entry // from base.index+1 on
	hard    hardState
	snaps   map[uint64][]byte // content by index
	snap    position          // newest
}

func (m model) last() uint64 { return m.base.index + uint64(len(m.entries)) }

func (m model) term(i uint64) uint64 {
	if i <= m.base.index {
		return m.base.term
	}
	return m.entries[i-m.base.index-1].GetTerm()
}

func (m model) append(hard hardState, entries []*raftpb.Entry) model {
	m.hard = hard
	if len(entries) > 0 {
		k := entries[0].GetIndex() - m.base.index - 1
		m.entries = append(m.entries[:k:k], entries...)
	}
	return m
}

func (m model) withSnapshot(at position, content []byte) model {
	snaps := map[uint64][]byte{at.index: content}
	for i, c := range m.snaps {
		snaps[i] = c
	}
	m.snaps, m.snap = snaps, at
	return m
}

func (m model) installed(at position, hard hardState, content []byte) model {
	m = m.withSnapshot(at, content)
	m.base, m.entries, m.hard = at, nil, hard
	return m
}

// differs says how an open directory differs from the model; "" if not at all. The commit index may lag.
func (m model) differs(d *Dir) string {
	l := d.Log()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if last != m.last() {
		return fmt.Sprintf("last index %d, want %d", last, m.last())
	}
	if first > m.snap.index+1 {
		return fmt.Sprintf("first index %d above snapshot %d", first, m.snap.index)
	}
	hard, _, err := l.InitialState()
	if err != nil {
		return err.Error()
	}
	if hard.GetTerm() != m.hard.term || hard.GetVote() != m.hard.vote {
		return fmt.Sprintf("term %d vote %d, want %d %d", hard.GetTerm(), hard.GetVote(), m.hard.term, m.hard.vote)
	}
	if c := hard.GetCommit(); c > max(m.hard.commit, m.snap.index) || c < m.snap.index {
		return fmt.Sprintf("commit %d, want at most %d, at least %d", c, m.hard.commit, m.snap.index)
	}
	snap, _ := l.Snapshot()
	if got := (position{snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm()}); got != m.snap {
		return fmt.Sprintf("snapshot %v, want %v", got, m.snap)
	}
	return m.entriesDiffer(l, max(first, m.base.index+1), last)
}

func (m model) entriesDiffer(l *Log, lo, last uint64) string {
	if lo > last {
		return ""
	}
	got, err := l.Entries(lo, last+1, 1<<40)
	if err != nil {
		return err.Error()
	}
	if uint64(len(got)) != last+1-lo {
		return fmt.Sprintf("%d entries from %d to %d", len(got), lo, last)
	}
	for i, e := range got {
		want := m.entries[lo+uint64(i)-m.base.index-1]
		if e.GetIndex() != want.GetIndex() || e.GetTerm() != want.GetTerm() || e.GetType() != want.GetType() ||
			!bytes.Equal(e.GetData(), want.GetData()) {
			return fmt.Sprintf("entry %d term %d differs from %d term %d", e.GetIndex(), e.GetTerm(), want.GetIndex(),
				want.GetTerm())
		}
		if term, err := l.Term(e.GetIndex()); err != nil || term != want.GetTerm() {
			return fmt.Sprintf("term of %d is %d, %v; want %d", e.GetIndex(), term, err, want.GetTerm())
		}
	}
	return ""
}

// snapshotDiffers loads the newest snapshot and compares its content.
func (m model) snapshotDiffers(d *Dir) string {
	if m.snap.index == 0 {
		return ""
	}
	s, err := d.OpenSnapshot(0)
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	var got []byte
	if err := s.Load(func(chunk []byte) ([]byte, error) { got = append(got, chunk...); return chunk, nil }); err != nil {
		return err.Error()
	}
	if !bytes.Equal(got, m.snaps[m.snap.index]) {
		return fmt.Sprintf("content of snapshot %d differs", m.snap.index)
	}
	return ""
}

// script drives a directory with random operations and keeps the model beside it: now is what was acknowledged,
// next what is if the operation in progress goes through.
type script struct {
	dir       *Dir
	options   Options
	rng       *rand.Rand
	now, next model
	err       error // the first, after which nothing more is done
}

func newScript(o Options, seed uint64) *script {
	return &script{options: o, rng: rand.New(rand.NewPCG(seed, 2))}
}

func (s *script) open() {
	s.dir, s.err = Open(s.options)
	if s.err == nil {
		if diff := s.now.differs(s.dir); diff != "" {
			s.err = errors.New("after a clean restart: " + diff)
		}
	}
}

// run does up to n operations.
func (s *script) run(n int) {
	s.open()
	for i := 0; i < n && s.err == nil; i++ {
		s.step()
		if s.err == nil {
			s.now = s.next
		}
	}
}

func (s *script) step() {
	s.next = s.now
	switch k := s.rng.IntN(40); {
	case k < 24:
		s.appendSome()
	case k < 28: // HardState alone, synced: a vote
		hard := s.now.hard
		hard.term++
		hard.vote = s.rng.Uint64N(3) + 1
		s.next = s.now.append(hard, nil)
		s.err = s.dir.Log().Append(hs(hard.term, hard.vote, hard.commit), nil, true)
	case k < 32: // commit alone, not synced
		hard := s.now.hard
		hard.commit += s.rng.Uint64N(s.now.last() - hard.commit + 1)
		s.next = s.now.append(hard, nil)
		s.err = s.dir.Log().Append(hs(hard.term, hard.vote, hard.commit), nil, false)
	case k < 35:
		s.snapshot()
	case k < 37:
		_, _, s.err = s.dir.Purge(1+s.rng.IntN(2), 0)
	case k < 38:
		s.install()
	default:
		if s.err = s.dir.Close(); s.err == nil {
			s.open()
		}
	}
}

func (s *script) appendSome() {
	m := s.now
	hard := m.hard
	first := m.last() + 1
	if room := m.last() - max(m.hard.commit, m.base.index); room > 0 && s.rng.IntN(4) == 0 {
		first -= 1 + s.rng.Uint64N(room) // conflict: replaces a tail that was not committed
		hard.term++
	}
	hard.term = max(hard.term, 1)
	size := s.rng.IntN(300)
	if s.rng.IntN(20) == 0 {
		size = 6000 // larger than a segment
	}
	entries := batch(first, hard.term, 1+s.rng.IntN(4), size)
	s.next = m.append(hard, entries)
	s.err = s.dir.Log().Append(hs(hard.term, hard.vote, hard.commit), entries, true)
}

func (s *script) snapshot() {
	m := s.now
	if m.hard.commit <= max(m.snap.index, m.base.index) {
		return
	}
	at := position{m.hard.commit, m.term(m.hard.commit)}
	content := s.content(at)
	s.next = m.withSnapshot(at, content)
	w, err := s.dir.CreateSnapshot(Meta{
		Index: at.index, Term: at.term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
	})
	if err != nil {
		s.err = err
		return
	}
	if s.err = writeChunks(w, content); s.err == nil {
		s.err = w.Commit()
	}
}

func (s *script) content(at position) []byte {
	b := make([]byte, s.rng.IntN(1500))
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return binary.LittleEndian.AppendUint64(b, at.index)
}

func writeChunks(w *SnapshotWriter, content []byte) error {
	for len(content) > 0 {
		n := min(len(content), 700)
		if err := w.WriteChunk(content[:n]); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}

// install brings in a snapshot a peer made, from beyond the log's end.
func (s *script) install() {
	m := s.now
	at := position{m.last() + 1 + s.rng.Uint64N(5), m.hard.term + 1}
	hard := hardState{term: at.term, commit: at.index}
	content := s.content(at)
	s.next = m.installed(at, hard, content)
	raw, err := peerSnapshot(at, content)
	if err != nil {
		s.err = err
		return
	}
	w, err := s.dir.ReceiveSnapshot()
	if err != nil {
		s.err = err
		return
	}
	for len(raw) > 0 && s.err == nil {
		n := min(len(raw), 900)
		s.err = w.WriteRaw(raw[:n])
		raw = raw[n:]
	}
	if s.err == nil {
		s.err = s.dir.Install(w, hs(hard.term, hard.vote, hard.commit))
	}
}

// peerSnapshot is the file of a snapshot made on another server.
func peerSnapshot(at position, content []byte) ([]byte, error) {
	d, err := Open(smallOptions(NewMemFS(), at.index))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	w, err := d.CreateSnapshot(Meta{
		Index: at.index, Term: at.term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(writeChunks(w, content), w.finish()); err != nil {
		return nil, err
	}
	raw := make([]byte, w.off)
	if err := readFull(w.file, raw, 0); err != nil {
		return nil, err
	}
	return raw, w.Abort()
}

// fromPeer returns a peer's snapshot of which all bytes have arrived.
func fromPeer(t *testing.T, d *Dir, at position, content string) *SnapshotWriter {
	t.Helper()
	raw, err := peerSnapshot(at, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.ReceiveSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRaw(raw); err != nil {
		t.Fatal(err)
	}
	return w
}
