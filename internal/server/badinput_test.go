package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// says waits until a log holds all parts.
func (l *logLines) says(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !within(func() bool { return strings.Contains(l.String(), part) }) {
			t.Fatalf("the log does not say %q:\n%s", part, l.String())
		}
	}
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// writes reports whether the server at addr takes a write.
func writes(t *testing.T, addr, path string) {
	t.Helper()
	if h, _ := connect(t, addr, 0, nil).call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
		t.Errorf("a write of %s: %v", path, h.Err)
	}
}

// TestPortsInUse: a taken port is an error that names it, and leaves the data
// directory to who starts next.
func TestPortsInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	dir := t.TempDir()
	for _, o := range []Options{
		{DataDir: dir, Listen: []string{addr}},
		{DataDir: dir, ID: 1, Members: []Member{{ID: 1, Addrs: []string{addr}}}, PeerListen: addr,
			Listen: []string{"127.0.0.1:0"}},
		{DataDir: dir, ID: 1, Members: []Member{{ID: 1, Addrs: []string{addr}}}, PeerListen: "192.0.2.1:7",
			Listen: []string{"127.0.0.1:0"}},
	} {
		s, err := Open(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), o.PeerListen) ||
			o.PeerListen == "" && !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(),
			"is another server running there?") {
			t.Errorf("on %s, peers %q: %v", o.Listen, o.PeerListen, err)
		}
	}
	s, err := Open(Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatalf("the data directory is still held: %v", err)
	}
	defer s.Close()
	writes(t, s.Addrs()[0].String(), "/free")
}

// TestDuplicateIDIsKeptOut: a server with an empty data directory and the myid of one that
// runs is not let in, says why, and costs the other nothing.
func TestDuplicateIDIsKeptOut(t *testing.T) {
	t.Parallel()
	var ours, duplicates logLines
	servers, opts := threeServers(t, Options{Log: ours.logger(), PeerSecrets: secretForTests})
	lead := leader(t, servers)
	victim := (lead + 1) % 3
	stop := make(chan struct{})
	duplicate := opts[victim]
	duplicate.LogDir = ""
	duplicate.DataDir, duplicate.Listen, duplicate.PeerListen, duplicate.Stop, duplicate.Log = t.TempDir(), []string{
		freeport.Address(t),
	}, freeport.Address(t), stop, duplicates.logger()
	ended := make(chan error, 1)
	go func() {
		s, err := Open(duplicate)
		if err == nil {
			s.Close()
		}
		ended <- err
	}()
	duplicates.says(t, "two servers have the same myid")
	ours.says(t, "two servers have the same myid")
	writes(t, opts[victim].Listen[0], "/victim")
	if strings.Contains(ours.String(), "has lost its data directory") {
		t.Errorf("the server that runs was taken out:\n%s", ours.String())
	}
	select {
	case err := <-ended:
		t.Errorf("the duplicate did not wait: %v", err)
	default:
	}
	close(stop)
	if err := <-ended; err == nil {
		t.Error("the duplicate was let in")
	}
	if list, err := os.ReadDir(duplicate.DataDir); err != nil || len(list) != 1 || list[0].Name() != "heard.kept" {
		t.Errorf("the duplicate left %v, %v, want what it has heard of the ensemble", list, err)
	}
}

// TestDuplicateIDOnACopyStops: a server on a copy of another one's data directory stops
// when that one answers at the address of both.
func TestDuplicateIDOnACopyStops(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	lead := leader(t, servers)
	victim := (lead + 1) % 3
	writes(t, opts[lead].Listen[0], "/before")
	servers[victim].Close()
	var log logLines
	duplicate := opts[victim]
	duplicate.LogDir = ""
	duplicate.DataDir, duplicate.Listen, duplicate.PeerListen, duplicate.Log = t.TempDir(), []string{freeport.Address(t)},
		freeport.Address(t), log.logger()
	if opts[victim].LogDir != "" {
		duplicate.LogDir = t.TempDir()
		if err := os.CopyFS(duplicate.LogDir, os.DirFS(opts[victim].LogDir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(duplicate.DataDir, os.DirFS(opts[victim].DataDir)); err != nil {
		t.Fatal(err)
	}
	var err error
	if servers[victim], err = Open(opts[victim]); err != nil {
		t.Fatal(err)
	}
	s, err := Open(duplicate)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	select {
	case err = <-s.Failed():
	case <-time.After(patience):
	}
	if !errors.Is(err, peer.ErrDuplicateID) {
		t.Fatalf("the duplicate ended with %v", err)
	}
	log.says(t, "this server can't continue and stops", opts[victim].PeerListen)
	s.Close()
	select {
	case err := <-servers[victim].Failed():
		t.Errorf("the server in its place stopped: %v", err)
	default:
	}
	writes(t, opts[victim].Listen[0], "/after")
}

// TestForeignServer: a server with other data at a configured address waits and says why, and
// the others go on.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	var log logLines
	servers, opts := threeServers(t, Options{Log: log.logger(), PeerSecrets: secretForTests})
	lead := leader(t, servers)
	lost := (lead + 1) % 3
	servers[lost].Close()
	foreign := opts[lost]
	foreign.DataDir, foreign.LogDir, foreign.Members = t.TempDir(), "", nil
	alone, err := Open(foreign) // makes a data directory of a cluster of its own
	if err != nil {
		t.Fatal(err)
	}
	alone.Close()
	stop := make(chan struct{})
	foreign.Members, foreign.Stop = opts[lost].Members, stop
	ended := make(chan error, 1)
	go func() {
		_, err := Open(foreign)
		ended <- err
	}()
	log.says(t, "waits to found or to join", "this server has data of its own", "which no ensemble takes over")
	defer func() {
		close(stop)
		if err := <-ended; err == nil {
			t.Error("the foreign server has begun")
		}
	}()
	for _, i := range []int{lead, (lead + 2) % 3} {
		writes(t, opts[i].Listen[0], fmt.Sprintf("/w%d", i))
	}
}

// TestUnknownName: a server whose name can't be resolved is waited for, and an operator's word lets
// the others begin without it. It is tried again and again, which the log tells.
func TestUnknownName(t *testing.T) {
	t.Parallel()
	var log logLines
	c := newCluster(t)
	c.lines(1, 2)
	members := []Member{
		{ID: 1, Addrs: []string{c.addrs[1]}}, {ID: 2, Addrs: []string{c.addrs[2]}},
		{ID: 3, Addrs: []string{"nowhere.invalid:2888"}},
	}
	ready := make(chan error, 2)
	for id := range uint64(2) {
		go func() {
			s, err := Open(Options{
				ID: id + 1, DataDir: c.dirs[id+1], LogDir: c.logDirs[id+1], Listen: []string{c.clients[id+1]},
				PeerListen: c.addrs[id+1], Members: members, Log: log.logger(),
			})
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			ready <- err
		}()
	}
	log.says(t, "waits to found or to join", "server 3")
	if err := newensemble.OrderFounding(c.dirs[1], "an operator", "server 3 doesn't exist yet"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
	}
	log.says(t, "a peer can't be reached; this server keeps trying", "peer=3", "nowhere.invalid")
	writes(t, c.clients[1], "/two-of-three")
}

// TestConfigurationDiffers: server lines that aren't what the ensemble has decided
// on don't count, which the log tells.
func TestConfigurationDiffers(t *testing.T) {
	t.Parallel()
	var log logLines
	c := newCluster(t)
	for id := range uint64(3) {
		c.lines(id + 1)
	}
	opened := make(chan *Server, 3)
	for id := range uint64(3) {
		o := c.options(id+1, 1, 2, 3)
		go func() {
			s, err := Open(o)
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
	}
	for range 3 {
		if s := <-opened; s != nil {
			c.servers[s.opt.ID] = s
		}
	}
	writes(t, c.clients[1], "/before")
	c.stop(1)
	o := c.options(1, 1, 2)
	o.Log = log.logger()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	c.servers[1] = s
	log.says(t, "the server lines of the configuration differ from the ensemble's membership, which takes effect")
	writes(t, c.clients[1], "/after")
	c.stop(2) // 1 and 3 are a majority of what counts
	writes(t, c.clients[1], "/with-3")
}

// TestRemovedServerSaysSo: a server that a reconfig removes tells that it is no
// member any more.
func TestRemovedServerSaysSo(t *testing.T) {
	t.Parallel()
	var log logLines
	c := newCluster(t)
	var opts []Options
	ids := []uint64{1, 2, 3}
	c.lines(ids...)
	for _, id := range ids {
		o := c.options(id, ids...)
		o.Settings = tree.Settings{ReconfigEnabled: true, SkipACL: true}
		if id == 3 {
			o.Log = log.logger()
		}
		opts = append(opts, o)
	}
	c.openAll(opts)
	client := connect(t, c.clients[1], 0, nil)
	c.reconfig(client, 1, 2)
	log.says(t, "this server isn't a member of the ensemble: it follows without a vote and serves its clients")
	writes(t, c.clients[3], "/after")
}

// options are those of server id, whose configuration names ids.
func (c *cluster) options(id uint64, ids ...uint64) Options {
	m := lineMembership(c.lines(ids...))
	members, _ := m.Parse(m.Text)
	return Options{
		ID: id, DataDir: c.dirs[id], LogDir: c.logDirs[id], Listen: []string{c.clients[id]}, PeerListen: c.addrs[id],
		Members: members, Membership: m,
	}
}
