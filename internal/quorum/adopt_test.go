package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// aLog returns a data directory whose log has these entries, and a snapshot with that membership, if it isn't nil, of
// the entry at index 2.
func aLog(t *testing.T, fs *storage.MemFS, conf *pb.ConfState, entries ...*pb.Entry) *storage.Dir {
	t.Helper()
	dir, err := storage.Open(storage.Options{
		FS: fs, Dir: testDir, ClusterID: testClusterID, Space: storage.SpaceLimits{ReserveBytes: -1},
		Go: func(f func()) { f() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		hard := &pb.HardState{Term: new(uint64(5)), Vote: new(uint64(1)), Commit: new(uint64(len(entries)))}
		if err := dir.Log().Append(hard, entries, true); err != nil {
			t.Fatal(err)
		}
	}
	if conf != nil {
		w, err := dir.CreateSnapshot(storage.Meta{Index: 2, Term: 1, ConfState: conf})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.WriteChunk([]byte("state")), w.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// makesVoter returns the first entry of a log, which makes a server a voter or something else.
func makesVoter(t *testing.T, typ pb.ConfChangeType, id uint64) *pb.Entry {
	t.Helper()
	data, err := proto.Marshal(&pb.ConfChange{Type: typ.Enum(), NodeId: &id})
	if err != nil {
		t.Fatal(err)
	}
	e := entry(1, 1)
	e.Type, e.Data = pb.EntryConfChange.Enum(), data
	return e
}

// TestSoleLog: the entries of a log whose only voter is, and always was, server 1; nothing of any other log.
func TestSoleLog(t *testing.T) {
	t.Parallel()
	with := func(index uint64, data string) *pb.Entry {
		e := entry(index, 1)
		e.Data = []byte(data)
		return e
	}
	first := makesVoter(t, pb.ConfChangeAddNode, 1)
	later := makesVoter(t, pb.ConfChangeAddNode, 1)
	later.Index = new(uint64(3))
	torn := makesVoter(t, pb.ConfChangeAddNode, 1)
	torn.Data = []byte{0xff}
	alone, two := &pb.ConfState{Voters: []uint64{1}}, &pb.ConfState{Voters: []uint64{1, 2}}
	for _, c := range []struct {
		what    string
		conf    *pb.ConfState
		entries []*pb.Entry
		applied uint64
		skip    *storage.Skip
		want    string // the entries, "no" if it isn't such a log
	}{
		{"an empty log", nil, nil, 0, nil, "no"},
		{"its own", nil, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 0, nil, "1: 2:a 3:b"},
		{"some is applied", nil, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 2, nil, "3:b"},
		{"all is applied", nil, []*pb.Entry{first, with(2, "a")}, 2, nil, ""},
		{"with a snapshot", alone, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 2, nil, "3:b"},
		{"of two", two, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 2, nil, "no"},
		{"with an observer", &pb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}},
			[]*pb.Entry{first, with(2, "a"), with(3, "b")}, 2, nil, "no"},
		{"of another server", nil, []*pb.Entry{makesVoter(t, pb.ConfChangeAddNode, 2), with(2, "a")}, 0, nil, "no"},
		{"of an observer", nil, []*pb.Entry{makesVoter(t, pb.ConfChangeAddLearnerNode, 1), with(2, "a")}, 0, nil, "no"},
		{"a torn entry", nil, []*pb.Entry{torn, with(2, "a")}, 0, nil, "no"},
		{"a later change", nil, []*pb.Entry{first, with(2, "a"), later}, 0, nil, "no"},
		{"a skipped entry", nil, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 0,
			&storage.Skip{Index: 2, Term: 1, Hash: storage.HashEntry([]byte("a"))}, "1: 2: 3:b"},
		{"another entry is skipped", nil, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 0,
			&storage.Skip{Index: 2, Term: 1, Hash: storage.HashEntry([]byte("b"))}, "1: 2:a 3:b"},
		{"one of another term is skipped", nil, []*pb.Entry{first, with(2, "a"), with(3, "b")}, 0,
			&storage.Skip{Index: 2, Term: 2, Hash: storage.HashEntry([]byte("a"))}, "1: 2:a 3:b"},
		{"one at another index is skipped", nil, []*pb.Entry{first, with(2, "a"), with(3, "a")}, 0,
			&storage.Skip{Index: 3, Term: 1, Hash: storage.HashEntry([]byte("a"))}, "1: 2:a 3:"},
	} {
		dir := aLog(t, storage.NewMemFS(), c.conf, c.entries...)
		if c.skip != nil {
			if err := dir.KeepSkip(*c.skip); err != nil {
				t.Fatal(err)
			}
		}
		entries, term, ok, err := SoleLog(dir, 1, c.applied)
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%d:%s", e.Index, e.Data))
			if e.Term != 1 {
				t.Errorf("%s: entry %d has term %d", c.what, e.Index, e.Term)
			}
		}
		text := strings.Join(got, " ")
		if !ok {
			text += "no"
		}
		if text != c.want || err != nil || ok && term != 5 || !ok && term != 0 {
			t.Errorf("%s: %q in term %d, %v; want %q", c.what, text, term, err, c.want)
		}
	}
}

// TestRestart: a new log begins after the image, in a term that was never used, with the vote of a sole voter. A crash
// in between leaves the old log.
func TestRestart(t *testing.T) {
	t.Parallel()
	image := &numberImage{meta: storage.Meta{Index: 10, Term: 6}, chunk: numbers([]uint64{7})}
	for _, voters := range [][]uint64{{1}, {1, 2, 3}} {
		fs := storage.NewMemFS()
		dir := aLog(t, fs, nil, makesVoter(t, pb.ConfChangeAddNode, 1), entry(2, 1))
		if err := Restart(dir, image, voters...); err != nil {
			t.Fatal(err)
		}
		dir = aLog(t, fs.Reboot(), nil)
		hard, conf, err := dir.Log().InitialState()
		vote := uint64(0)
		if len(voters) == 1 {
			vote = 1
		}
		if err != nil || hard.GetTerm() != 6 || hard.GetVote() != vote || hard.GetCommit() != 10 ||
			!slices.Equal(conf.GetVoters(), voters) {
			t.Errorf("with voters %v: %v, %v, %v", voters, hard, conf, err)
		}
		if meta, ok := dir.NewestSnapshot(); !ok || meta.Index != 10 {
			t.Errorf("the snapshot is %+v", meta)
		}
	}
	for _, op := range []string{"create", "write", "rename"} {
		fs := storage.NewMemFS()
		dir := aLog(t, fs, nil, makesVoter(t, pb.ConfChangeAddNode, 1), entry(2, 1))
		fs.Hook = func(c storage.Call) error {
			if string(c.Op) == op {
				return syscall.EIO
			}
			return nil
		}
		if err := Restart(dir, image, 1); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", op, err)
		}
		fs.Hook = nil
		if last, err := aLog(t, fs.Reboot(), nil).Log().LastIndex(); err != nil || last != 2 {
			t.Errorf("%s fails: the log ends at %d, %v", op, last, err)
		}
	}
}
