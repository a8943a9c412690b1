package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// lineMembership reads memberships of lines "id address [observer]"; a reconfig
// gives the new lines whole, parted by commas.
func lineMembership(text string) Membership {
	parse := func(text string) (all []Member, err error) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "version=") {
				continue
			}
			var m Member
			var addr, role string
			if n, _ := fmt.Sscan(line, &m.ID, &addr, &role); n < 2 {
				return nil, fmt.Errorf("line %q", line)
			}
			m.Addrs, m.Observer = []string{addr}, role == "observer"
			all = append(all, m)
		}
		return all, nil
	}
	change := func(_ string, req *jute.ReconfigRequest, _ bool) (string, jute.Code) {
		if req.NewMembers == nil {
			return "", jute.ErrBadArguments
		}
		return strings.ReplaceAll(*req.NewMembers, ",", "\n"), jute.OK
	}
	return Membership{Text: text, Parse: parse, Change: change}
}

// cluster is an ensemble that changes in a test.
type cluster struct {
	t       *testing.T
	addrs   map[uint64]string
	dirs    map[uint64]string
	logDirs map[uint64]string // of the servers with an even id, whose log has a directory of its own
	clients map[uint64]string
	servers map[uint64]*Server
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{
		t: t, addrs: map[uint64]string{}, dirs: map[uint64]string{}, logDirs: map[uint64]string{},
		clients: map[uint64]string{}, servers: map[uint64]*Server{},
	}
	t.TempDir() // cleanups run last to first: the servers end before their directories are removed
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Close()
		}
	})
	return c
}

// openAll starts servers beside each other: with empty directories they wait for one
// another.
func (c *cluster) openAll(opts []Options) {
	c.t.Helper()
	for i, s := range openAll(c.t, opts) {
		c.servers[opts[i].ID] = s
	}
}

// lines names ids with their addresses; one above 100 is an observer.
func (c *cluster) lines(ids ...uint64) string {
	var lines []string
	for _, id := range ids {
		if c.addrs[id] == "" {
			c.addrs[id], c.clients[id], c.dirs[id] = freeport.Address(c.t), freeport.Address(c.t), c.t.TempDir()
			if id%2 == 0 {
				c.logDirs[id] = c.t.TempDir()
			}
		}
		role := ""
		if id > 100 {
			role = " observer"
		}
		lines = append(lines, fmt.Sprintf("%d %s%s", id, c.addrs[id], role))
	}
	return strings.Join(lines, "\n")
}

// secretForTests is the secret of ensembles whose servers join before they are added,
// or after they have lost their disk.
var secretForTests = []PeerSecret{SecretOf("the secret of an ensemble in tests")}

// configured returns the options of server id, whose configuration names ids.
func (c *cluster) configured(id uint64, ids ...uint64) Options {
	m := lineMembership(c.lines(ids...))
	members, _ := m.Parse(m.Text)
	return Options{
		ID: id, DataDir: c.dirs[id], LogDir: c.logDirs[id], Listen: []string{c.clients[id]}, PeerListen: c.addrs[id],
		Members: members, Membership: m, PeerSecrets: secretForTests,
		Settings: tree.Settings{ReconfigEnabled: true, SkipACL: true},
	}
}

// startAll runs servers beside each other whose configurations name all of them.
func (c *cluster) startAll(ids ...uint64) {
	c.t.Helper()
	var opts []Options
	for _, id := range ids {
		opts = append(opts, c.configured(id, ids...))
	}
	c.openAll(opts)
}

// start runs server id, whose configuration names ids.
func (c *cluster) start(id uint64, ids ...uint64) {
	c.t.Helper()
	s, err := Open(c.configured(id, ids...))
	if err != nil {
		c.t.Fatalf("start server %d: %v", id, err)
	}
	c.servers[id] = s
}

func (c *cluster) stop(id uint64) {
	c.servers[id].Close()
	delete(c.servers, id)
}

// reconfig asks for the membership ids, again if new servers took too long, and waits
// until raft's status shows it.
func (c *cluster) reconfig(client *rawClient, ids ...uint64) {
	c.t.Helper()
	lines := strings.ReplaceAll(c.lines(ids...), "\n", ",")
	req := jute.ReconfigRequest{NewMembers: &lines, CurConfigID: -1}
	h, _ := client.call(jute.OpReconfig, req.Append)
	for end := time.Now().Add(patience); h.Err == jute.ErrNewConfigNoQuorum && time.Now().Before(end); {
		h, _ = client.call(jute.OpReconfig, req.Append)
	}
	if h.Err != jute.OK {
		c.t.Fatalf("reconfig to %v: %v", ids, h.Err)
	}
	var last quorum.Status
	if !within(func() bool {
		for _, s := range c.servers {
			last = s.peer.Status()
			if last.IsLeader && len(last.Voters)+len(last.Observers) == len(ids) && len(last.Observers) == observers(ids) {
				return true
			}
		}
		return false
	}) {
		c.t.Fatalf("raft never had the membership %v; last seen %+v", ids, last)
	}
}

func observers(ids []uint64) (n int) {
	for _, id := range ids {
		if id > 100 {
			n++
		}
	}
	return n
}

// TestGrowShrinkReplace takes an ensemble from one server to three, five with
// an observer, and back to three others, under writes; then a server loses its
// disk. Nothing acknowledged is lost.
func TestGrowShrinkReplace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(1, 1)
	client := connect(t, c.clients[1], 0, nil)
	written := 0
	write := func(n int) {
		t.Helper()
		for range n {
			h, body := client.call(jute.OpCreate, creating("/n-", nil, jute.ModePersistentSequential))
			var res jute.PathResponse
			res.Decode(jute.NewDecoder(body))
			if want := fmt.Sprintf("/n-%010d", written); h.Err != jute.OK || res.Path != want {
				t.Fatalf("write %d: %v, %q", written, h.Err, res.Path)
			}
			written++
		}
	}
	write(50)
	c.start(2, 1, 2)
	c.start(3, 1, 2, 3)
	c.reconfig(client, 1, 2, 3)
	write(50)
	c.start(4, 1, 2, 3, 4)
	c.start(101, 1, 2, 3, 101)
	c.reconfig(client, 1, 2, 3, 4, 101)
	write(50)
	observer := connect(t, c.clients[101], 0, nil)
	if h, _ := observer.call(jute.OpCreate, creating("/by-observer", nil, 0)); h.Err != jute.OK {
		t.Fatalf("a write through the observer: %v", h.Err)
	}
	written++
	c.reconfig(client, 1, 2, 4)
	write(50)
	c.stop(3)
	c.stop(101)

	c.stop(4)
	entries, _ := os.ReadDir(c.dirs[4])
	for _, e := range entries {
		os.RemoveAll(filepath.Join(c.dirs[4], e.Name()))
	}
	write(10)
	c.start(4, 1, 2, 4)
	anew := connect(t, c.clients[4], 0, nil)
	h, _ := anew.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	if h.Err != jute.OK {
		t.Fatalf("sync on the server that lost its disk: %v", h.Err)
	}
	_, body := anew.call(jute.OpGetAllChildrenNumber, func(b []byte) []byte { return jute.AppendString(b, "/") })
	var count jute.IntResponse
	count.Decode(jute.NewDecoder(body))
	if want := int32(written + 3); count.Value != want {
		t.Errorf("%d znodes on the server that lost its disk, want %d", count.Value, want)
	}
}

// TestReconfigKeepsOrder sends a reconfig and, without waiting, writes and reads behind
// it, while others write: the replies come in order, their zxids don't go back, and
// what stands behind the reconfig sees the membership that it asked for.
func TestReconfigKeepsOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(1, 1)
	client, other := connect(t, c.clients[1], 0, nil), connect(t, c.clients[1], 0, nil)
	c.start(2, 1, 2)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				other.call(jute.OpCreate, creating("/other-", nil, jute.ModePersistentSequential))
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for _, ids := range [][]uint64{{1, 2}, {1}, {1, 2}} {
		lines := strings.ReplaceAll(c.lines(ids...), "\n", ",")
		req := jute.ReconfigRequest{NewMembers: &lines, CurConfigID: -1}
		for end := time.Now().Add(patience); ; {
			get := func(b []byte) []byte { return jute.AppendBool(jute.AppendString(b, "/zookeeper/config"), false) }
			b := client.request(nil, jute.OpReconfig, req.Append)
			b = client.request(b, jute.OpCreate, creating("/mine-", nil, jute.ModePersistentSequential))
			b = client.request(b, jute.OpGetData, get)
			b = client.request(b, jute.OpCreate, creating("/mine-", nil, jute.ModePersistentSequential))
			if _, err := client.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			done, _ := client.reply()
			zxid, xid := done.Zxid, done.Xid
			var config string
			for i := range int32(3) {
				h, body := client.reply()
				if h.Err != jute.OK || h.Xid != xid+1+i || h.Zxid < zxid {
					t.Fatalf("reply %d behind a reconfig answered %v with zxid %#x: %+v", i, done.Err, zxid, h)
				}
				if zxid = h.Zxid; i == 1 {
					config = string(jute.NewDecoder(body).Buffer())
				}
			}
			if done.Err == jute.ErrNewConfigNoQuorum && time.Now().Before(end) {
				continue
			}
			if n := strings.Count(config, c.addrs[2]); done.Err != jute.OK || n != len(ids)-1 {
				t.Fatalf("reconfig to %v: %v; behind it the membership is %q", ids, done.Err, config)
			}
			break
		}
	}
}
