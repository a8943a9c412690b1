package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// A life is that of a data directory with a log of its own, from its creation over restarts and crashes to its end, in
// steps that are always the same. The script's models say what must be there.
type life struct {
	script
	fs       *faultyFS
	at       string // the step's name
	again    bool   // it is tried again
	incoming Incoming
	kept     [2]string // the kept file's content that was acknowledged, and the one of the step under way
	skips    [2][]uint64

	apart bool            // calls are part of a crash: none of them fails
	cut   func(Call) bool // says that the process is killed at a call
	tears int             // how many bytes are written if that is a write
	dead  bool
}

var errKilled = errors.New("killed")

func newLife(m *MemFS) *life {
	l := &life{fs: newFaultyFS(m)}
	l.options = smallOptions(l.fs, 1)
	l.options.LogDir = "log"
	return l
}

// A lifeStep is one operation. It can be tried again if it has failed.
type lifeStep struct {
	name string
	do   func(l *life) error
}

var lifeSteps = []lifeStep{
	{"open new directories", (*life).open},
	{"append", appends(3, 300)},
	{"keep a file", keep("one")},
	{"keep a file again", keep("two")},
	{"read the kept file", (*life).readKept},
	{"decide to skip an entry", func(l *life) error { return l.skip(7) }},
	{"read the decisions", (*life).readSkips},
	{"report an entry", func(l *life) error { return l.report(true) }},
	{"report the same entry", func(l *life) error { return l.report(false) }},
	{"read the reports", (*life).readReports},
	{"vote", (*life).vote},
	{"append to the next segments", appends(7, 600)},
	{"read entries from the disk", (*life).readEntries},
	{"follow the log", (*life).follow},
	{"walk", (*life).walk},
	{"describe", func(l *life) error { return Describe(io.Discard, l.fs, "data", "log") }},
	{"look for a torn batch", func(l *life) error { _, err := TornTail(l.fs, "log"); return err }},
	{"take a snapshot", (*life).takeSnapshot},
	{"load the snapshot", (*life).load},
	{"append more", appends(3, 600)},
	{"take another snapshot", (*life).takeSnapshot},
	{"give a snapshot up", (*life).giveUp},
	{"purge", purge(1)},
	{"append to a used segment", appends(6, 600)},
	{"look for space", func(l *life) error { _, err := l.dir.SpaceState(); return err }},
	{"take the decision back", (*life).unskip},
	{"receive a part of a snapshot", func(l *life) error { return l.receive(900) }},
	{"receive a part of another one", func(l *life) error { return l.receive(901) }},
	{"install a snapshot", (*life).installVerified},
	{"drop the part", func(l *life) error { l.incoming.Keep(nil); return nil }},
	{"append after the snapshot", appends(4, 600)},
	{"replace entries", (*life).replace},
	{"close", (*life).close},
	{"whose directories", (*life).identity},
	{"lose each IDENTITY", (*life).loseIdentity},
	{"whose log", (*life).identity},
	{"peek at the snapshot", (*life).peek},
	{"examine", (*life).examine},
	{"open again", (*life).open},
	{"append again", appends(2, 400)},
	{"take a third snapshot", (*life).takeSnapshot},
	{"append again and again", appends(2, 400)},
	{"take a fourth snapshot", (*life).takeSnapshot},
	{"vote again", (*life).vote},
	{"append without room", (*life).appendWithoutRoom},
	{"look for space again", func(l *life) error { _, err := l.dir.SpaceState(); return err }},
	{"vote once more", (*life).vote},
	{"lose power in a batch", (*life).tear},
	{"examine a torn batch", (*life).examine},
	{"describe a torn batch", func(l *life) error { return Describe(io.Discard, l.fs, "data", "log") }},
	{"look for the torn batch", func(l *life) error { _, err := TornTail(l.fs, "log"); return err }},
	{"open with a torn batch", (*life).open},
	{"purge snapshots of before", purge(2)},
	{"lose power before the seal", (*life).loseSeal},
	{"open without the seal", (*life).open},
	{"lose power in an installation", func(l *life) error { return l.installHalf(false) }},
	{"undo the installation", (*life).open},
	{"lose power late in an installation", func(l *life) error { return l.installHalf(true) }},
	{"examine a half installation", (*life).examine},
	{"finish the installation", (*life).open},
	{"append behind it", appends(2, 400)},
	{"take a good snapshot", (*life).takeSnapshot},
	{"append behind that", appends(2, 400)},
	{"damage a snapshot", (*life).damageSnapshot},
	{"open with a damaged snapshot", (*life).open},
	{"purge beside a damaged snapshot", purge(1)},
	{"close for good", (*life).close},
}

func (l *life) open() error {
	if l.dir != nil {
		return nil // tried again, because another call of the step failed
	}
	d, err := Open(l.options)
	if err != nil {
		return err
	}
	l.dir = d
	return l.look(func() (diff string) {
		m, diff := l.outcome(d)
		if diff == "" {
			l.now, l.next = m, m
			diff = l.filesDiffer(l.fs)
		}
		return diff
	})
}

// look compares what is there with the models. No call of that fails.
func (l *life) look(differs func() string) error {
	l.apart = true
	defer func() { l.apart = false }()
	if diff := differs(); diff != "" {
		return errors.New(diff)
	}
	return nil
}

func (l *life) close() error {
	if l.dir == nil {
		return nil
	}
	err := l.dir.Close()
	if err == nil {
		l.dir = nil
	}
	return err
}

// filesDiffer says how the kept file and the decisions to skip differ from both states; "" if not at all.
func (l *life) filesDiffer(fs FS) string {
	b, err := KeptBefore(fs, "log", "x")
	if err != nil || !slices.Contains(l.kept[:], string(b)) {
		return fmt.Sprintf("the kept file has %q, %v; want one of %q", b, err, l.kept)
	}
	all, err := Skips(fs, "log", testCluster)
	var have []uint64
	for _, s := range all {
		have = append(have, s.Index)
	}
	if err != nil || !slices.Equal(have, l.skips[0]) && !slices.Equal(have, l.skips[1]) {
		return fmt.Sprintf("entries %v are to be skipped, %v; want one of %v", have, err, l.skips)
	}
	return ""
}

func keep(text string) func(*life) error {
	return func(l *life) error {
		l.kept[1] = text
		err := l.dir.Keep("x", []byte(text))
		if err == nil {
			l.kept[0] = text
		}
		return err
	}
}

func (l *life) readKept() error {
	b, err := l.dir.Kept("x")
	if err == nil && string(b) != l.kept[0] {
		return fmt.Errorf("the kept file has %q, want %q", b, l.kept[0])
	}
	return err
}

func (l *life) skip(index uint64) error {
	l.skips[1] = []uint64{index}
	err := l.dir.KeepSkip(Skip{Index: index, Term: 1, At: time.Unix(1e9, 0).UTC()})
	if err == nil {
		l.skips[0] = l.skips[1]
	}
	return err
}

func (l *life) readSkips() error {
	all, err := l.dir.Skips()
	if err == nil && (len(all) != 1 || all[0].Index != l.skips[0][0]) {
		return fmt.Errorf("decisions: %v, want one about %v", all, l.skips[0])
	}
	return err
}

func (l *life) unskip() error {
	l.skips[1] = nil
	err := l.dir.DropSkip(l.skips[0][0])
	if err == nil {
		l.skips[0] = nil
	}
	return err
}

// report reports an entry; kept says whether that must be news.
func (l *life) report(kept bool) error {
	p, news, err := l.dir.KeepReport(Report{Index: 3, Term: 1, Data: []byte("entry"), Text: "it panics"})
	if err == nil && (news != kept || p != "log/entry-3.report") {
		return fmt.Errorf("reported in %s: %t, want %t", p, news, kept)
	}
	return err
}

func (l *life) readReports() error {
	all, err := Reports(l.fs, "log")
	if err == nil && (len(all) != 1 || all[0].Index != 3 || all[0].Text != "it panics") {
		return fmt.Errorf("reports: %v", all)
	}
	return err
}

// add appends entries with a HardState.
func (l *life) add(hard hardState, entries []*raftpb.Entry) error {
	l.next = l.now.append(hard, entries)
	err := l.dir.Log().Append(hs(hard.term, hard.vote, hard.commit), entries, true)
	if err == nil {
		l.now = l.next
	}
	return err
}

func appends(n, size int) func(*life) error {
	return func(l *life) error {
		for range n {
			hard := l.now.hard
			hard.term, hard.commit = max(hard.term, 1), l.now.last()
			if err := l.add(hard, batch(l.now.last()+1, hard.term, 1, size)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l *life) vote() error {
	hard := l.now.hard
	hard.term, hard.vote = hard.term+1, 2
	return l.add(hard, nil)
}

// replace replaces the last entry in a new term.
func (l *life) replace() error {
	hard := l.now.hard
	hard.term++
	return l.add(hard, batch(l.now.last(), hard.term, 2, 200))
}

func (l *life) readEntries() error {
	first, _ := l.dir.Log().FirstIndex()
	if _, err := l.dir.Log().Entries(first, l.now.last()+1, 1<<40); err != nil {
		return err
	}
	return l.look(func() string { return l.now.differs(l.dir) })
}

func (l *life) follow() error {
	last := uint64(0)
	t := NewTail(l.fs, "log")
	err := t.Read(func(s LogStep) error {
		for _, e := range s.Entries {
			last = e.Index
		}
		return nil
	})
	err = errors.Join(err, t.Close())
	if err == nil && last != l.now.last() {
		return fmt.Errorf("followed to %d, want %d", last, l.now.last())
	}
	return err
}

func (l *life) walk() error {
	last := uint64(0)
	err := Walk(l.fs, []string{"data", "log"}, func(s LogStep) error {
		for _, e := range s.Entries {
			last = e.Index
		}
		return nil
	})
	if err == nil && last != l.now.last() {
		return fmt.Errorf("walked to %d, want %d", last, l.now.last())
	}
	return err
}

func (l *life) takeSnapshot() error {
	at := position{l.now.hard.commit, l.now.term(l.now.hard.commit)}
	content := bytes.Repeat([]byte{byte(at.index)}, 900)
	l.next = l.now.withSnapshot(at, content)
	w, err := l.dir.CreateSnapshot(Meta{Index: at.index, Term: at.term, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		return err
	}
	if err := writeChunks(w, content); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return err
	}
	l.now = l.next
	return nil
}

func (l *life) giveUp() error {
	w, err := l.dir.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		return err
	}
	return errors.Join(w.WriteChunk(make([]byte, 100)), w.Abort())
}

func (l *life) load() error {
	s, err := l.dir.OpenSnapshot(0)
	if err != nil {
		return err
	}
	err = s.Load(func(chunk []byte) ([]byte, error) { return chunk, nil })
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	return l.look(func() string { return l.now.snapshotDiffers(l.dir) })
}

func purge(keep int) func(*life) error {
	return func(l *life) error {
		_, _, err := l.dir.Purge(keep, 0)
		return err
	}
}

// receive begins to receive a snapshot of that size, and keeps the part.
func (l *life) receive(size int64) error {
	p, err := l.incoming.Resume(l.dir, l.now.last()+9, l.now.hard.term+1, size)
	if err != nil {
		return err
	}
	err = p.WriteRaw(make([]byte, 100))
	l.incoming.Keep(p)
	return err
}

// peers returns a snapshot beyond the log's end, as a peer sends it, and the model after its installation.
func (l *life) peers() (raw []byte, hard hardState, err error) {
	at := position{l.now.last() + 5, l.now.hard.term + 1}
	hard = hardState{term: at.term, vote: l.now.hard.vote, commit: at.index}
	content := bytes.Repeat([]byte{7}, 900)
	l.next = l.now.installed(at, hard, content)
	raw, err = peerSnapshot(at, content)
	return raw, hard, err
}

func (l *life) installVerified() error {
	raw, hard, err := l.peers()
	if err != nil {
		return err
	}
	w, err := l.dir.ReceiveSnapshot()
	if err != nil {
		return err
	}
	if err := w.WriteRaw(raw); err != nil {
		return errors.Join(err, w.Abort())
	}
	s, err := w.Verify()
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := l.dir.Install(w, hs(hard.term, hard.vote, hard.commit)); err != nil {
		return errors.Join(err, w.Abort())
	}
	l.now = l.next
	return nil
}

func (l *life) identity() error {
	cluster, err := ReadIdentity(l.fs, "data", "log")
	if err == nil && cluster != testCluster {
		return fmt.Errorf("cluster %#x", cluster)
	}
	return err
}

func (l *life) peek() error {
	s, err := PeekSnapshot(l.fs, "data")
	if err != nil {
		return err
	}
	err = s.Load(func(chunk []byte) ([]byte, error) { return chunk, nil })
	if s.Index != l.now.snap.index && err == nil {
		err = fmt.Errorf("snapshot %d, want %d", s.Index, l.now.snap.index)
	}
	return errors.Join(err, s.Close())
}

func (l *life) examine() error {
	_, err := Examine(l.options)
	return err
}

// crash kills the process at the call that cut names, during do.
func (l *life) crash(cut func(Call) bool, do func() error) error {
	l.apart, l.cut = true, cut
	defer func() { l.apart, l.cut, l.dead = false, nil, false }()
	if err := do(); !errors.Is(err, errKilled) {
		return fmt.Errorf("not killed: %v", err)
	}
	l.fs.Reboot()
	clear(l.fs.files)
	clear(l.fs.locks)
	l.dir, l.incoming = nil, Incoming{}
	return nil
}

// loseIdentity leaves the log without a file that says whose it is, as a crash in the first start does.
func (l *life) loseIdentity() error {
	for _, dir := range []string{"data", "log"} {
		l.fs.Damage(path.Join(dir, identityName), func([]byte) []byte { return nil })
	}
	return nil
}

// appendWithoutRoom appends on a full disk, until the segments that are superfluous have made room for the next ones,
// and the reserve has for the last.
func (l *life) appendWithoutRoom() error {
	l.fs.MemFS.mu.Lock()
	l.fs.Budget = l.fs.usedLocked() + 6*sectorSize // together with the reserve, it's a segment's size
	l.fs.MemFS.mu.Unlock()
	defer func() { l.fs.Budget = 0 }()
	before := l.dir.Log().Stats().Segments
	for l.dir.space.held {
		if err := appends(1, 600)(l); err != nil {
			return err
		}
	}
	if first, _ := l.dir.Log().FirstIndex(); first == 1 || before == 1 {
		return errors.New("there was room")
	}
	return nil
}

// tear cuts a batch off in the middle, beside a snapshot that isn't whole and spares that the disk has no use for.
func (l *life) tear() error {
	l.tears = 700
	defer func() { l.tears = 0 }()
	began := false
	err := l.crash(func(c Call) bool { return began && c.Op == "write" }, func() error {
		if _, err := l.dir.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{}}); err != nil {
			return err
		}
		began = true
		return appends(1, 900)(l)
	})
	for n, sectors := range []int{99, 8, 8} {
		l.fs.Damage(fmt.Sprintf("log/spare-%d", 70+n), func([]byte) []byte { return make([]byte, sectors*sectorSize) })
	}
	return err
}

// loseSeal kills the process when the next segment is durable, and the one before it isn't sealed.
func (l *life) loseSeal() error {
	named := false
	return l.crash(func(c Call) bool {
		named = named || c.Op == "rename" && strings.HasSuffix(c.To, segmentSuffix)
		return named && c.Op == "write"
	}, func() error { return appends(20, 600)(l) })
}

// installHalf kills the process when the segment after an installed snapshot has its name, before the snapshot has its
// one, or late: after it.
func (l *life) installHalf(late bool) error {
	named := false
	err := l.crash(func(c Call) bool {
		if c.Op != "rename" {
			return false
		}
		was := named
		named = named || strings.HasSuffix(c.To, snapshotSuffix)
		return named && (was || !late)
	}, l.installVerified)
	if err == nil && late {
		l.now = l.next
	} else {
		l.next = l.now
	}
	return err
}

// damageSnapshot takes a snapshot, ends, and the snapshot rots.
func (l *life) damageSnapshot() error {
	was := l.now.snap
	l.apart = true
	defer func() { l.apart = false }()
	if err := errors.Join(l.takeSnapshot(), l.close()); err != nil {
		return err
	}
	name := path.Join("data", fmt.Sprintf("%016x%s", l.now.snap.index, snapshotSuffix))
	l.fs.Damage(name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	l.now.snap = was
	l.next = l.now
	return nil
}
