package newensemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

const (
	oldCluster = 0xabc
	members    = "server.1=h1:2888:3888:participant\nserver.2=h2:2888:3888:participant\nserver.3=h3:2888:3888:participant"
	lastEntry  = 9
)

// lay writes a server's directories. The log says of half of its entries that they are
// committed; one behind these names the membership.
func lay(t *testing.T, p Place, term, last uint64) {
	t.Helper()
	d, err := storage.Open(storage.Options{Dir: p.DataDir, LogDir: p.LogDir, ClusterID: oldCluster})
	if err != nil {
		t.Fatal(err)
	}
	var entries []*raftpb.Entry
	for i := range last {
		e := &raftpb.Entry{Term: &term, Index: new(i + 1), Type: raftpb.EntryNormal.Enum()}
		if i == last-2 {
			e.Data = tree.AppendBatchHeader(make([]byte, digestHead), 1000)
			e.Data = tree.AppendRecord(e.Data,
				&tree.Request{Op: tree.OpMembers, Seq: tree.MembersInForce, Body: []byte(members)})
		}
		entries = append(entries, e)
	}
	if err := d.Log().Append(&raftpb.HardState{Term: &term, Vote: new(uint64(1)), Commit: new(last / 2)}, entries,
		true); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func places(t *testing.T) map[string]Place {
	one, data, log := t.TempDir(), t.TempDir(), t.TempDir()
	return map[string]Place{"one directory": {DataDir: one, LogDir: one}, "two": {DataDir: data, LogDir: log}}
}

// TestRenewCutShort has each rename of a recovery fail, as if the power went. A server can't
// start then, or starts with all that it had; run again, the recovery is finished, and the
// old files are all in their folder.
func TestRenewCutShort(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"one directory", "two"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			cut := errors.New("cut short")
			for steps, done := 0, false; !done; steps++ {
				p := places(t)[which]
				lay(t, p, 3, lastEntry)
				s, err := Read(p)
				if err != nil {
					t.Fatal(err)
				}
				act, err := NewAct(ActNew, 1, s, "ann", "two disks are gone", time.UnixMilli(1e12))
				if err != nil {
					t.Fatal(err)
				}
				e, err := beginExchange(p.DataDir, p.LogDir)
				if err != nil {
					t.Fatal(err)
				}
				const cluster = 0xdef
				left := steps
				e.rename = func(from, to string) error {
					if left--; left < 0 {
						return cut
					}
					return os.Rename(from, to)
				}
				err = e.refound(cluster, act, func(d *storage.Dir) error { return s.BeginIn(d, 1) })
				if done = err == nil; !done && !errors.Is(err, cut) {
					t.Fatal(err)
				}
				if !done {
					checkCut(t, p, steps)
				}
				if act, err := Finish(p.DataDir, p.LogDir); err != nil {
					t.Fatalf("after %d renames: %v", steps, err)
				} else if act == nil { // it hadn't begun to count
					continue
				}
				checkRenewed(t, p, cluster, filepath.Join(p.LogDir, act.Aside))
			}
		})
	}
}

// checkCut checks that nobody can start with half of the files.
func checkCut(t *testing.T, p Place, steps int) {
	t.Helper()
	if Begun(p.DataDir, p.LogDir) {
		return // a server refuses to start
	}
	s, err := Read(p)
	if err != nil || s.Cluster != oldCluster || s.LastIndex != lastEntry {
		t.Errorf("after %d renames, with nothing begun: %+v, %v", steps, s, err)
	}
}

func checkRenewed(t *testing.T, p Place, cluster uint64, aside string) {
	t.Helper()
	if Begun(p.DataDir, p.LogDir) {
		t.Error("it is finished and still under way")
	}
	got, err := storage.ReadIdentity(storage.OS{}, p.DataDir, p.LogDir)
	if err != nil || got != cluster {
		t.Fatalf("the new cluster is %x, %v", got, err)
	}
	d, err := storage.Open(storage.Options{Dir: p.DataDir, LogDir: p.LogDir, ClusterID: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, err := treeload.Newest(d, treeload.Options(cluster, nil, tree.FeatureLevelMax), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := n.Membership().Members(); text == "" || n.LastIndex() != lastEntry+termsAhead ||
		n.LastTerm() != 3+termsAhead || n.LastZxid()>>32 < termsAhead {
		t.Errorf("the new state is at entry %d of term %d, zxid %#x, members %q", n.LastIndex(), n.LastTerm(), n.LastZxid(),
			text)
	}
	if meta, _ := d.NewestSnapshot(); len(meta.ConfState.GetVoters()) != 1 || meta.ConfState.GetVoters()[0] != 1 {
		t.Errorf("the voters are %v", meta.ConfState)
	}
	if old, err := storage.Open(storage.Options{
		Dir: filepath.Join(p.DataDir, filepath.Base(aside)), LogDir: aside, ClusterID: oldCluster,
	}); err != nil {
		t.Errorf("the old data isn't whole: %v", err)
	} else if last, _ := old.Log().LastIndex(); old.Close() != nil || last != lastEntry {
		t.Errorf("the old log ends at %d", last)
	}
	if b, err := os.ReadFile(filepath.Join(p.DataDir, RecordName)); err != nil || strings.Count(string(b), "\n") != 1 ||
		!strings.Contains(string(b), `"by":"ann","why":"two disks are gone","oldCluster":"0000000000000abc"`) {
		t.Errorf("the record says %s, %v", b, err)
	}
}

// TestCountVoters: copies of one server's directory are one server's, and observers and strangers have no vote.
func TestCountVoters(t *testing.T) {
	t.Parallel()
	votes := func(server uint64) bool { return server <= 3 }
	for _, c := range []struct {
		of   []uint64
		want int
	}{{nil, 0}, {[]uint64{1}, 1}, {[]uint64{1, 1}, 1}, {[]uint64{1, 2, 1, 2}, 2}, {[]uint64{1, 4}, 1}, {[]uint64{0, 0}, 2},
		{[]uint64{1, 0}, 2}} {
		var all []*Survivor
		for _, server := range c.of {
			all = append(all, &Survivor{Server: server})
		}
		if n := CountVoters(all, votes); n != c.want {
			t.Errorf("directories of %v: %d voters, want %d", c.of, n, c.want)
		}
	}
}

// TestBetter: the log with the highest term has most, then the longest; the state is that of the
// whole log.
func TestBetter(t *testing.T) {
	t.Parallel()
	read := func(term, last uint64) *Survivor {
		dir := t.TempDir()
		p := Place{DataDir: dir, LogDir: dir}
		lay(t, p, term, last)
		s, err := Read(p)
		if err != nil {
			t.Fatal(err)
		}
		if s.Members == "" || s.Committed != last/2 || s.LastTerm != term || s.ClusterID != "0000000000000abc" {
			t.Errorf("it has %+v", s)
		}
		return s
	}
	short, long, later := read(3, 6), read(3, 9), read(4, 5)
	if !long.Better(short) || short.Better(long) || !later.Better(long) || long.Better(later) || long.Better(long) {
		t.Error("the order is another one")
	}
	later.Joining = true
	if !short.Better(later) {
		t.Error("one that was joining is better")
	}
}

// TestRead: what isn't a stopped server's data is refused.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := Place{DataDir: dir, LogDir: dir}
	if _, err := Read(p); err == nil || !strings.Contains(err.Error(), "no data of a server") {
		t.Errorf("an empty directory: %v", err)
	}
	lay(t, p, 3, lastEntry)
	lock, err := storage.OS{}.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(p); err == nil || !strings.Contains(err.Error(), "must be stopped") {
		t.Errorf("one in use: %v", err)
	}
	lock.Close()
	s, err := Read(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{"", " ", strings.Repeat("x", WhyMax+1)} {
		if _, err := NewAct(ActNew, 1, s, "ann", why, time.Now()); err == nil {
			t.Errorf("%d bytes are a reason", len(why))
		}
	}
}
