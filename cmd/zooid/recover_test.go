package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// survivorOf writes the directory of a stopped server of three, and its zoo.cfg.
func survivorOf(t *testing.T, peer int, last uint64) (cfg, data string) {
	t.Helper()
	dir := t.TempDir()
	data = filepath.Join(dir, "data")
	servers := "server.1=127.0.0.1:1:2;2181\nserver.2=127.0.0.1:" + strconv.Itoa(peer) +
		":2;2182\nserver.3=127.0.0.1:3:4;2183\n"
	d, err := storage.Open(storage.Options{Dir: data, ClusterID: 0xabc})
	if err != nil {
		t.Fatal(err)
	}
	term := uint64(3)
	var entries []*raftpb.Entry
	for i := range last {
		e := &raftpb.Entry{Term: &term, Index: new(i + 1), Type: raftpb.EntryNormal.Enum()}
		if i == 1 {
			e.Data = tree.AppendRecord(tree.AppendBatchHeader(make([]byte, 16), 1000),
				&tree.Request{Op: tree.OpMembers, Seq: tree.MembersInForce, Body: []byte(servers)})
		}
		entries = append(entries, e)
	}
	if err := d.Log().Append(&raftpb.HardState{Term: &term, Vote: new(uint64(1)), Commit: new(last - 1)}, entries,
		true); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	cfg = filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("initLimit=5\nsyncLimit=2\ndataDir="+data+"\n"+servers), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return cfg, data
}

// TestRecoverCommand: it is refused wherever it may be a mistake, and then changes nothing; the
// old cluster's id, typed or given, has it done.
func TestRecoverCommand(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 1)
	cfg, data := survivorOf(t, ports[0], 6)
	_, more := survivorOf(t, ports[0], 7)
	_, less := survivorOf(t, ports[0], 5)
	const cluster = "0000000000000abc"
	run := func(stdin string, code int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := recoverEnsemble(args, strings.NewReader(stdin), &out, &out); got != code ||
			!strings.Contains(out.String(), says) {
			t.Errorf("recover %q: exit code %d, want %d and %q in\n%s", args, got, code, says, out.String())
		}
	}
	renew := func(args ...string) []string {
		return append([]string{"-new-ensemble", "-why", "disks are gone"}, args...)
	}
	run("", 2, "usage:")
	run("", 0, "usage:", "-h")
	run("", 2, "usage:", "-new-ensemble", cfg) // no reason
	run("", 2, "usage:", "-set-aside", "-new-ensemble", "-why", "x", cfg)
	run("", 0, "The ensemble has 3 voters. Writes that the missing servers acknowledged", cfg)
	run("", 0, more+" has the most data", less, more)
	run("", 0, "Start them, and nothing is lost", cfg, less)
	run("", 0, `"cluster": "`+cluster+`"`, "-json", cfg)
	run("", 1, "no data of a server", t.TempDir())
	run("", 1, "give the server's zoo.cfg first", renew(data)...)
	run("", 1, more+" has more", renew(cfg, more)...)
	run("", 1, "are a majority", renew(cfg, less)...)
	run("", 1, "nothing was changed", renew(cfg)...)
	run("abc\n", 1, "nothing was changed", renew(cfg)...)
	run("", 1, "nothing was changed", renew("-cluster", "0000000000000abd", cfg)...)

	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])))
	if err != nil {
		t.Fatal(err)
	}
	run("", 1, "server 2 answers at", renew("-cluster", cluster, cfg)...)
	socket.CloseListener(l)
	if id, err := storage.ReadIdentity(storage.OS{}, data, data); err != nil || id != 0xabc {
		t.Fatalf("the cluster is %x, %v", id, err)
	}
	run(cluster+"\n", 0, "the new ensemble has the cluster id", renew(cfg)...)
	id, err := storage.ReadIdentity(storage.OS{}, data, data)
	if err != nil || id == 0xabc {
		t.Errorf("the cluster is %x, %v", id, err)
	}
	record, err := os.ReadFile(filepath.Join(data, "RECOVERED"))
	if err != nil || !regexp.MustCompile(`"why":"disks are gone".*"aside":"aside-recovered-`+cluster).Match(record) {
		t.Errorf("the record is %s, %v", record, err)
	}
	// A copy of a server's directory is no other server's.
	first, _ := survivorOf(t, ports[0], 6)
	_, second := survivorOf(t, ports[0], 6)
	for i, dir := range []string{filepath.Dir(first) + "/data", second} {
		kept := "cluster " + cluster + "\nserver " + strconv.Itoa(1+i) + "\n"
		if err := os.WriteFile(filepath.Join(dir, "server.kept"), []byte(kept), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("", 0, "the data of 2 is here", first, second)
	run("", 0, "Writes that the missing servers acknowledged", first, filepath.Dir(first)+"/data")
	run("", 0, `"server": 2`, "-json", second)
	// Another survivor is emptied, and its data kept.
	other, otherData := survivorOf(t, ports[0], 6)
	run("", 0, "start this server once the new ensemble runs", "-set-aside", "-cluster", cluster, "-why", "it joins",
		other)
	if storage.InUse(otherData) {
		t.Error("the other survivor still has its data")
	}
}

// A moment is an answer of the operator, before which something happens.
type moment struct {
	io.Reader
	before func()
}

func (m *moment) Read(b []byte) (int, error) {
	m.before()
	return m.Reader.Read(b)
}

// TestRecoverWhileItAsks: a server can't start on the data while the operator is asked, because what it then
// acknowledged would be moved away. If another server comes back in the meantime, no new ensemble is made.
func TestRecoverWhileItAsks(t *testing.T) {
	t.Parallel()
	const cluster = "0000000000000abc"
	ports := freeport.Take(t, 1)
	for _, what := range []string{"-new-ensemble", "-set-aside"} {
		cfg, data := survivorOf(t, ports[0], 6)
		var asked bool
		var out bytes.Buffer
		code := recoverEnsemble([]string{what, "-why", "x", cfg}, &moment{strings.NewReader(cluster + "\n"), func() {
			asked = true
			d, err := storage.Open(storage.Options{Dir: data, ClusterID: 0xabc})
			if err == nil {
				t.Errorf("%s: a server can start while it asks", what)
				d.Close()
			}
		}}, &out, &out)
		if code != 0 || !asked {
			t.Errorf("%s: exit code %d, asked %t\n%s", what, code, asked, out.String())
		}
	}
	cfg, data := survivorOf(t, ports[0], 6)
	var l net.Listener
	var out bytes.Buffer
	comesBack := &moment{strings.NewReader(cluster + "\n"), func() {
		var err error
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))); err != nil {
			t.Fatal(err)
		}
	}}
	code := recoverEnsemble([]string{"-new-ensemble", "-why", "x", cfg}, comesBack, &out, &out)
	socket.CloseListener(l)
	if id, err := storage.ReadIdentity(storage.OS{}, data, data); code != 1 || id != 0xabc || err != nil ||
		!strings.Contains(out.String(), "server 2 answers at") {
		t.Errorf("exit code %d, cluster %x, %v\n%s", code, id, err, out.String())
	}
}

// TestRecoverAgain: -set-aside after an interrupted -new-ensemble doesn't say that it did what it was asked for, and a
// second -set-aside says that it is done.
func TestRecoverAgain(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 1)
	cfg, data := survivorOf(t, ports[0], 6)
	run := func(code int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := recoverEnsemble(append(args, "-why", "x", cfg), strings.NewReader(""), &out, &out); got != code ||
			!strings.Contains(out.String(), says) {
			t.Errorf("recover %q: exit code %d, want %d and %q in\n%s", args, got, code, says, out.String())
		}
	}
	moving := filepath.Join(data, "recover-moving") // what -new-ensemble leaves when it is killed near its end
	act := `{"what":"` + newensemble.ActNew + `","aside":"aside-x","newCluster":"0000000000000def"}`
	err := errors.Join(os.Mkdir(moving, 0o700), os.WriteFile(filepath.Join(moving, "ACT"), []byte(act), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	run(1, "run the command again with -cluster 0000000000000def", "-set-aside", "-cluster", "0000000000000abc")
	if !storage.InUse(data) {
		t.Error("the data was set aside")
	}
	for range 2 {
		run(0, "start this server once the new ensemble runs", "-set-aside", "-cluster", "0000000000000abc")
	}
}

// TestOrderedByMistake: a server of an ensemble gets no order to found one, and an order that was given goes with the
// data that is set aside: else the server would found an empty ensemble as soon as the others are silent.
func TestOrderedByMistake(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 1)
	cfg, data := survivorOf(t, ports[0], 6)
	found := func() (int, string) {
		var out bytes.Buffer
		return runFound([]string{"-why", "nobody leads", cfg}, &out, &out), out.String()
	}
	if code, text := found(); code != 0 || !newensemble.FoundingOrdered(data) {
		t.Errorf("data of no ensemble: exit code %d, ordered %t\n%s", code, newensemble.FoundingOrdered(data), text)
	}
	var out bytes.Buffer
	code := recoverEnsemble([]string{"-set-aside", "-cluster", "0000000000000abc", "-why", "it joins", cfg},
		strings.NewReader(""), &out, &out)
	if code != 0 || newensemble.FoundingOrdered(data) || !strings.Contains(out.String(), "is dropped") {
		t.Errorf("set aside: exit code %d, still ordered %t\n%s", code, newensemble.FoundingOrdered(data), out.String())
	}
	if code, text := found(); code != 0 || !newensemble.FoundingOrdered(data) {
		t.Errorf("no data: exit code %d, ordered %t\n%s", code, newensemble.FoundingOrdered(data), text)
	}

	cfg, data = survivorOf(t, ports[0], 6)
	d, err := storage.Open(storage.Options{Dir: data, ClusterID: 0xabc})
	if err == nil {
		err = errors.Join(d.Keep("server", []byte("cluster 0000000000000abc\nserver 1\n")), d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	code, text := found()
	if code != 1 || newensemble.FoundingOrdered(data) || !strings.Contains(text, "nothing was ordered") {
		t.Errorf("data of an ensemble: exit code %d, ordered %t\n%s", code, newensemble.FoundingOrdered(data), text)
	}
}
