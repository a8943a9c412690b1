package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// panicAt panics when the request that makes a znode has been evaluated and nothing was
// told of it yet.
func panicAt(path string) func(*tree.Result) {
	return func(res *tree.Result) {
		if res.Op == jute.OpCreate && res.Err == jute.OK && res.Path == path {
			panic("planted: " + path)
		}
	}
}

// breaksDown waits until a server ends with a panic at an entry, and closes it.
func breaksDown(t *testing.T, s *Server) *PanicError {
	t.Helper()
	select {
	case err := <-s.Failed():
		var e *PanicError
		if !errors.As(err, &e) {
			t.Fatalf("the server ended with %v", err)
		}
		s.Close()
		return e
	case <-time.After(patience):
		t.Fatal("the server goes on")
	}
	return nil
}

// TestPanicInApply: a panic while an entry is applied ends the server and shows nobody
// its state; the report and the entry lie beside the log, and the next start ends the
// same way without another report.
func TestPanicInApply(t *testing.T) {
	t.Parallel()
	for _, logDir := range []string{"", t.TempDir()} {
		opt := Options{
			DataDir: t.TempDir(), LogDir: logDir, Listen: []string{"127.0.0.1:0"}, Version: "0.0-test",
			observe: panicAt(`/bad"`),
		}
		s, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		reader := connect(t, s.Addrs()[0].String(), 0, nil)
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		if h, _ := c.call(jute.OpCreate, creating("/good", nil, 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		b := c.request(nil, jute.OpCreate, creating("/before", nil, 0))
		b = c.request(b, jute.OpCreate, creating(`/bad"`, []byte("secret"), 0))
		b = c.request(b, jute.OpCreate, creating("/after", nil, 0))
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		e := breaksDown(t, s)
		reader.conn.Write(reader.request(nil, jute.OpExists, reading(`/bad"`, false)))
		if !reader.ends() {
			t.Error("a client was told something after the panic")
		}
		first := checkReport(t, e)

		if s, err = Open(opt); err != nil {
			t.Fatal(err)
		}
		again := breaksDown(t, s)
		if *again != *e {
			t.Errorf("the next start ended with\n%v\nthe first one with\n%v", again, e)
		}
		if now := checkReport(t, again); now != first {
			t.Errorf("the report was written anew:\n%s", now)
		}
	}
}

// TestPanicWhileClosing: an entry panics after Close has begun, while a client waits to read.
// The replica stays locked; Close ends all the same.
func TestPanicWhileClosing(t *testing.T) {
	t.Parallel()
	applies, closing := make(chan struct{}), make(chan struct{})
	panics := panicAt("/bad")
	s, err := Open(Options{DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Version: "0.0-test",
		observe: func(res *tree.Result) {
			if res.Op == jute.OpCreate && res.Path == "/bad" {
				close(applies)
				<-closing
				time.Sleep(300 * time.Millisecond) // until Close has looked whether a panic was before it
			}
			panics(res)
		}})
	if err != nil {
		t.Fatal(err)
	}
	reader := connect(t, s.Addrs()[0].String(), 0, nil)
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	if _, err := c.conn.Write(c.request(nil, jute.OpCreate, creating("/bad", nil, 0))); err != nil {
		t.Fatal(err)
	}
	<-applies
	if _, err := reader.conn.Write(reader.request(nil, jute.OpExists, reading("/bad", false))); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	<-s.closing
	close(closing)
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("the server doesn't close")
	}
	if !reader.ends() {
		t.Error("a client was told something after the panic")
	}
}

// checkReport holds a report against the error that names it and returns its text.
func checkReport(t *testing.T, e *PanicError) string {
	t.Helper()
	b, err := os.ReadFile(e.Report)
	if err != nil {
		t.Fatal(err)
	}
	r, err := storage.ParseReport(b)
	if err != nil {
		t.Fatal(err)
	}
	if r.Index != e.Index || r.Term != e.Term || r.Hash.String() != e.Hash {
		t.Errorf("the report is of entry %d of term %d, %v; the error of %d, %d, %s", r.Index, r.Term, r.Hash, e.Index, e.Term,
			e.Hash)
	}
	for _, part := range []string{
		"planted: /bad", "0.0-test", `-> `, `path "/bad\"", data of 6 bytes`, "breakdown_test.go",
	} {
		if !strings.Contains(r.Text, part) {
			t.Errorf("the report doesn't say %q:\n%s", part, r.Text)
		}
	}
	if strings.Contains(r.Text, "secret") {
		t.Errorf("the report shows data:\n%q", r.Text)
	}
	raw, err := os.ReadFile(strings.TrimSuffix(e.Report, ".report") + ".raw")
	if err != nil || storage.HashEntry(raw) != r.Hash || !bytes.Contains(raw, []byte("secret")) {
		t.Errorf("the entry beside the report: %d bytes, %v", len(raw), err)
	}
	if all, err := filepath.Glob(filepath.Join(filepath.Dir(e.Report), "entry-*")); err != nil || len(all) != 2 {
		t.Errorf("beside the log lie %v, %v", all, err)
	}
	return r.Text
}

// decides decides for a server that is closed what its report is about to be skipped.
func decides(t *testing.T, opt Options) {
	t.Helper()
	dir := opt.LogDir
	if dir == "" {
		dir = opt.DataDir
	}
	all, err := storage.Reports(storage.OS{}, dir)
	if err != nil || len(all) != 1 {
		t.Fatalf("reports in %s: %v, %v", dir, all, err)
	}
	skip := storage.Skip{
		Cluster: all[0].Cluster, Index: all[0].Index, Term: all[0].Term, Hash: all[0].Hash, By: "ann", Why: "test",
		At: time.Now(),
	}
	if err := storage.WriteSkip(storage.OS{}, dir, skip); err != nil {
		t.Fatal(err)
	}
}

// sameState waits until servers have the same state.
func sameState(t *testing.T, servers []*Server) {
	t.Helper()
	eventually(t, "the servers have one state", func() bool {
		index, _, digest := servers[0].replica.Position()
		same := true
		for _, s := range servers[1:] {
			i, _, d := s.replica.Position()
			if i == index && d != digest {
				t.Fatalf("after entry %d two servers have the digests %x and %x", i, digest, d)
			}
			same = same && i == index
		}
		return same
	})
}

// TestSkipEntry: an ensemble stops at an entry that panics. Two decisions don't start it,
// three do: sessions live on, what came before and comes later is there, restarts skip
// the entry again, and a server without its disk takes the decision over with the log, and
// needs none with a snapshot.
func TestSkipEntry(t *testing.T) {
	t.Parallel()
	var log logLines
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	col := newCluster(t) // for its addresses
	m := lineMembership(col.lines(1, 2, 3))
	members, _ := m.Parse(m.Text)
	var opts []Options
	for id := range uint64(3) {
		id++
		opts = append(opts, Options{
			ID: id, DataDir: col.dirs[id], LogDir: col.logDirs[id], Listen: []string{col.clients[id]}, PeerListen: col.addrs[id],
			Members: members, Membership: m,
			Log: log.logger(), PeerSecrets: secretForTests, Serving: Serving{SnapCount: 1000}, SnapshotsKept: 1,
			observe: panicAt("/bad"),
		})
	}
	servers := openAll(t, opts)
	lead := leader(t, servers)
	owner := connect(t, opts[lead].Listen[0], 0, nil)
	owner.call(jute.OpCreate, creating("/mine", nil, jute.ModeEphemeral))
	owner.conn.Close()
	c := connect(t, opts[lead].Listen[0], 0, nil)
	if _, err := c.conn.Write(c.request(nil, jute.OpCreate, creating("/bad", nil, 0))); err != nil {
		t.Fatal(err)
	}
	breaksDown(t, servers[lead])
	// Of the two others one leads and stops; the last may not hear that the entry is agreed on.
	second := -1
	eventually(t, "another server stops", func() bool {
		for i, s := range servers {
			if i != lead && s.replica.Broken() {
				second = i
			}
		}
		return second >= 0
	})
	breaksDown(t, servers[second])
	third := 3 - lead - second
	servers[third].Close()

	start := func(i int) {
		t.Helper()
		var err error
		if servers[i], err = Open(opts[i]); err != nil {
			t.Fatal(err)
		}
	}
	decides(t, opts[lead])
	decides(t, opts[second])
	start(lead)
	start(second)
	start(third)
	breaksDown(t, servers[third])
	for _, i := range []int{lead, second} {
		if index, _, _ := servers[i].replica.Position(); index >= skipIndex(t, opts[i]) {
			t.Fatalf("server %d did not wait for the third decision", i+1)
		}
	}
	decides(t, opts[third])
	start(third)

	writes(t, opts[third].Listen[0], "/after")
	again := connect(t, opts[lead].Listen[0], owner.session, owner.passwd)
	if again.session != owner.session {
		t.Error("the session is over")
	}
	h, _ := again.call(jute.OpExists, reading("/mine", false))
	bad, _ := again.call(jute.OpExists, reading("/bad", false))
	if h.Err != jute.OK || bad.Err != jute.ErrNoNode {
		t.Errorf("the session's znode: %v; that of the entry: %v", h.Err, bad.Err)
	}
	log.says(t, "nothing is applied from this entry on", "missing=[")
	log.says(t, "a log entry is skipped, as all members have decided", "by=ann")
	sameState(t, servers)

	for i := range servers { // one after the other
		servers[i].Close()
		start(i)
	}
	writes(t, opts[lead].Listen[0], "/later")
	sameState(t, servers)

	for _, way := range []string{"log", "snapshot"} {
		if way == "snapshot" {
			connect(t, opts[lead].Listen[0], 0, nil).outrun(servers, 1)
		}
		servers[third].Close()
		opts[third].DataDir, opts[third].LogDir = t.TempDir(), ""
		start(third)
		writes(t, opts[third].Listen[0], "/"+way)
		sameState(t, servers)
		skips, err := storage.Skips(storage.OS{}, opts[third].DataDir, 0)
		if err != nil || way == "log" && (len(skips) != 1 || !skips[0].Agreed) {
			t.Errorf("joined by its %s it has %+v, %v", way, skips, err)
		}
	}
}

// skipIndex returns the index of the entry that a server has decided to skip.
func skipIndex(t *testing.T, opt Options) uint64 {
	t.Helper()
	dir := opt.LogDir
	if dir == "" {
		dir = opt.DataDir
	}
	all, err := storage.Skips(storage.OS{}, dir, 0)
	if err != nil || len(all) != 1 {
		t.Fatalf("decisions in %s: %v, %v", dir, all, err)
	}
	return all[0].Index
}
