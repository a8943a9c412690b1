package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/verdict"
)

const divergedSign = "have diverged"

// TestDivergedReplica gives a server that is down another state than its log leads to,
// as a bug in the tree might, and starts it, to follow or to lead. At the next write the
// majority decides: the others go on, that server sets its data aside, takes theirs and
// is a member again under its id, by itself.
func TestDivergedReplica(t *testing.T) {
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			hurtful(t)
			e := Start(t, Options{Servers: 3})
			e.Excuse = divergedSign
			leader, err := e.Leader()
			if err != nil {
				t.Fatal(err)
			}
			at := (leader + 1) % 3
			victim := e.Servers[at]
			write(t, victim.Addr, "/before")
			if code := victim.Stop(); code != 0 {
				t.Fatalf("it ended with code %d on SIGTERM", code)
			}
			if err := diverge(victim, 1, 2, 3); err != nil {
				t.Fatal(err)
			}
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := victim.Ready(); err != nil {
				t.Fatal(err)
			}
			if role == "leader" {
				e.lead(t, at)
			}
			others := []*Server{e.Servers[(at+1)%3], e.Servers[(at+2)%3]}
			pids := []int{others[0].Pid(), others[1].Pid()}
			write(t, others[0].Addr, "/after")
			victim.awaitLog(t, "this server's data is set aside")
			if _, err := victim.Ready(); err != nil {
				t.Fatal(err)
			}
			for i, path := range []string{"/again", "/and-again"} {
				write(t, victim.Addr, path)
				write(t, others[i].Addr, path+"-here")
			}
			if kept, _ := filepath.Glob(filepath.Join(victim.Data(), "aside-*", "*.snap")); len(kept) == 0 {
				t.Error("its data isn't kept")
			}
			var trees []string
			for _, s := range e.Servers {
				trees = append(trees, contents(t, s.Addr))
			}
			if trees[0] != trees[1] || trees[0] != trees[2] || !strings.Contains(trees[0], "/before") {
				verdict.Final(t, verdict.Digest)
				t.Errorf("the servers hold\n%s\n%s\n%s", trees[0], trees[1], trees[2])
			}
			for i, s := range others {
				if !s.Running() || s.Pid() != pids[i] || strings.Contains(s.Log(), "set aside") {
					t.Errorf("server %d, whose state was right, ended or gave it up; it said:\n%s", s.ID, s.LogEnd())
				}
			}
			if !victim.Running() {
				t.Errorf("rebuilt, it ended and said:\n%s", victim.LogEnd())
			}
		})
	}
}

// TestDivergedWithoutMajority gives one of two servers another state: nobody can tell
// which is right, so both stop, and neither is told to remove anything. Brought to one
// content, as the message says, they go on.
func TestDivergedWithoutMajority(t *testing.T) {
	hurtful(t)
	e := Start(t, Options{Servers: 2})
	e.Excuse = divergedSign
	write(t, e.Servers[0].Addr, "/before")
	victim, other := e.Servers[0], e.Servers[1]
	victim.Stop()
	if err := diverge(victim, 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := victim.Ready(); err != nil {
		t.Fatal(err)
	}
	c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Timeout: sessionTimeout}, other.Addr)
	if err := connect(c); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := jute.CreateRequest{Path: "/after", ACL: jute.WorldACL(jute.PermAll)}
	c.Do(jute.OpCreate, q.Append(nil)) // whether it is answered doesn't matter
	for _, s := range e.Servers {
		code, err := s.Exit(endPatience)
		if err != nil || code != 1 {
			t.Fatalf("server %d ended with code %d (%v); its log ends:\n%s", s.ID, code, err, s.LogEnd())
		}
		if said := s.LogEnd(); !strings.Contains(said, "Remove nothing") || strings.Contains(said, "set aside") {
			t.Errorf("server %d said:\n%s", s.ID, said)
		}
	}
	empty(t, victim)
	victim.takeContent(t, other)
	if err := e.startAll(); err != nil {
		t.Fatal(err)
	}
	write(t, victim.Addr, "/again")
	if a, b := contents(t, victim.Addr), contents(t, other.Addr); a != b || !strings.Contains(a, "/before") {
		verdict.Final(t, verdict.Digest)
		t.Errorf("the servers hold\n%s\n%s", a, b)
	}
}

// takeContent copies another server's data, whose log may lie elsewhere, to where this
// one's lies.
func (s *Server) takeContent(t testing.TB, from *Server) {
	t.Helper()
	for _, dir := range []string{from.Data(), from.LogDir()} {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to := []string{s.Data()}
			switch {
			case name == "myid" || name == "server.kept":
				continue
			case name == "IDENTITY":
				to = []string{s.Data(), s.LogDir()}
			case !strings.HasSuffix(name, ".snap"):
				to = []string{s.LogDir()}
			}
			for _, dir := range to {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// lead restarts the others until a given server of three leads, and no client writes
// meanwhile. The leader hands over to the only one left: of equal followers it would
// choose the same each time.
func (e *Ensemble) lead(t testing.TB, at int) {
	t.Helper()
	for range 20 {
		leader, err := e.Leader()
		if err != nil {
			t.Fatal(err)
		}
		if leader == at {
			return
		}
		others := []*Server{e.Servers[3-leader-at], e.Servers[leader]}
		for _, s := range others {
			s.Stop()
		}
		for _, s := range others {
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range others {
			if _, err := s.Ready(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("server %d doesn't lead after 20 restarts of the others", at+1)
}

// write creates a znode. It tries again while the leader changes.
func write(t testing.TB, addr, path string) {
	t.Helper()
	q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
	var err error
	for deadline := time.Now().Add(startPatience); time.Now().Before(deadline); time.Sleep(readyPause) {
		c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Timeout: sessionTimeout}, addr)
		if err = c.Connect(); err != nil {
			continue
		}
		var call *traffic.Call
		call, err = c.Do(jute.OpCreate, q.Append(nil))
		c.Close()
		if err == nil && (call.Err == jute.OK || call.Err == jute.ErrNodeExists) {
			return
		}
	}
	t.Fatalf("create %s: %v", path, err)
}

// contents lists a server's znodes with what their Stats say.
func contents(t testing.TB, addr string) string {
	t.Helper()
	c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Timeout: sessionTimeout}, addr)
	if err := connect(c); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sync := jute.PathRequest{Path: "/"}
	if _, err := c.Do(jute.OpSync, sync.Append(nil)); err != nil {
		t.Fatal(err)
	}
	q := jute.PathWatchRequest{Path: "/"}
	list, err := c.Do(jute.OpGetChildren, q.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	names := jute.NewDecoder(list.Body).Strings()
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		q := jute.PathWatchRequest{Path: "/" + name}
		data, err := c.Do(jute.OpGetData, q.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "/%s %x\n", name, data.Body)
	}
	return text.String()
}

// open opens the data of a server that is down, with the state of its newest snapshot.
func (s *Server) open() (*storage.Dir, *replica.Replica, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, s.Data(), s.LogDir())
	if err != nil {
		return nil, nil, err
	}
	dir, err := storage.Open(storage.Options{Dir: s.Data(), LogDir: s.LogDir(), ClusterID: cluster})
	if err != nil {
		return nil, nil, err
	}
	treeOptions := treeload.Options(cluster, nil, tree.FeatureLevelMax)
	begin, err := treeload.Newest(dir, treeOptions, nil)
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	registry, err := auth.New(auth.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	return dir, replica.New(replica.Options{
		// more than one: alone it would stop where the log tells of another state
		ID: uint64(s.ID), Servers: 3, Auth: registry, Tree: begin,
		Now: func() int64 { return 0 }, Wall: func() int64 { return 0 }, Secret: func() []byte { return nil },
		Kick: func() {},
	}), nil
}

// diverge makes the state of a server that is down another one, in a snapshot of
// it that is whole: the last batch of requests has done nothing. voters are the servers.
func diverge(s *Server, voters ...uint64) error {
	dir, state, err := s.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	applied, _, _ := state.Position()
	hard, conf, err := dir.Log().InitialState()
	if err != nil {
		return err
	}
	list, err := dir.Log().Entries(applied+1, hard.GetCommit()+1, 1<<30)
	if err != nil {
		return err
	}
	var entries []quorum.Entry
	last := -1 // of those with requests
	for _, e := range list {
		entry := quorum.Entry{Term: e.GetTerm(), Index: e.GetIndex()}
		if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
			entry.Data, last = e.GetData(), len(entries)
		}
		entries = append(entries, entry)
	}
	data := entries[last].Data
	records := tree.NewRecords(data[entryHead:])
	entries[last].Data = tree.AppendBatchHeader(append([]byte(nil), data[:entryHead]...), records.Time())
	if err := state.Apply(entries); err != nil {
		return err
	}
	image := state.Snapshot()
	meta := image.Describe()
	if meta.ConfState = conf; len(conf.GetVoters()) == 0 {
		meta.ConfState = &raftpb.ConfState{Voters: voters}
	}
	_, err = quorum.WriteImage(dir, meta, image, nil)
	return err
}
