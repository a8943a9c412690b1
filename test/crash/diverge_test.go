package crash

import (
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/check"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

const divergedSign = "have diverged"

// TestDivergedReplica gives a follower that is down another state than its log
// leads to, as a bug in the tree might. Started, it must serve nobody but end,
// and say how it is rebuilt; done so, it is a member again under its id.
func TestDivergedReplica(t *testing.T) {
	hurtful(t)
	e := Start(t, Options{Servers: 3})
	e.Excuse = divergedSign
	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	at := (leader + 1) % 3
	victim := e.Servers[at]
	write := func(addr, path string) {
		t.Helper()
		c := check.NewClient(check.NewJournal(discard{}), check.ClientOptions{Timeout: sessionTimeout}, addr)
		if err := c.Connect(); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
		call, err := c.Do(jute.OpCreate, q.Append(nil))
		if err == nil && call.Err != jute.OK {
			err = call.Err
		}
		if err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
	write(victim.Addr, "/before")
	if code := victim.Stop(); code != 0 {
		t.Fatalf("it ended with code %d on SIGTERM", code)
	}
	if err := diverge(victim); err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	write(e.Servers[leader].Addr, "/after")
	code, err := victim.Exit(endPatience)
	said := victim.Log()
	if err != nil || code != 1 {
		t.Fatalf("with another state than the others' it ended with code %d (%v) and said:\n%s", code, err, said)
	}
	for _, part := range []string{divergedSign, "remove everything in it but myid", "joins under its id"} {
		if !strings.Contains(said, part) {
			t.Errorf("it doesn't say %q; it said:\n%s", part, victim.LogEnd())
		}
	}
	empty(t, victim)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := victim.Ready(); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"/again", "/and-again"} {
		write(victim.Addr, path)
		write(e.Servers[(at+1+i)%3].Addr, path+"-here")
	}
	if !victim.Running() {
		t.Errorf("rebuilt, it ended and said:\n%s", victim.LogEnd())
	}
}

// diverge makes the state of a server that is down another one, in a snapshot of
// it that is whole: the last batch of requests has done nothing.
func diverge(s *Server) error {
	cluster, err := storage.ReadIdentity(storage.OS{}, s.Data())
	if err != nil {
		return err
	}
	dir, err := storage.Open(storage.Options{Dir: s.Data(), ClusterID: cluster})
	if err != nil {
		return err
	}
	defer dir.Close()
	registry, err := auth.New(auth.Options{})
	if err != nil {
		return err
	}
	state, applied, err := server.NewReplica(server.ReplicaOptions{
		Options: server.Options{ID: uint64(s.ID), Members: make([]server.Member, 3)}, Dir: dir, Cluster: cluster, Auth: registry,
		Now: func() int64 { return 0 }, Wall: func() int64 { return 0 }, Secret: func() []byte { return nil }, Kick: func() {},
	})
	if err != nil {
		return err
	}
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
		meta.ConfState = &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	}
	_, err = quorum.WriteImage(dir, meta, image, nil)
	return err
}
