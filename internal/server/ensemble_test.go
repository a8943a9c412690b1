package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

// threeServers starts an ensemble and returns its servers and their options. The
// second one has two directories.
func threeServers(t *testing.T, common Options) (servers []*Server, opts []Options) {
	t.Helper()
	if common.Log == nil {
		var log logLines
		common.Log = log.logger()
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the servers say:\n%s", log.String())
			}
		})
	}
	var members []Member
	for id := range uint64(3) {
		members = append(members, Member{ID: id + 1, Addrs: []string{freeport.Address(t)}})
	}
	opts = make([]Options, len(members))
	for i, m := range members {
		opts[i] = common
		opts[i].ID, opts[i].DataDir, opts[i].Listen, opts[i].Members, opts[i].PeerListen = m.ID, t.TempDir(), []string{
			freeport.Address(t),
		}, members, m.Addrs[0]
		if i == 1 {
			opts[i].LogDir = t.TempDir()
		}
	}
	return openAll(t, opts), opts
}

// openAll starts servers beside each other: with empty directories they wait for one
// another. Who stands in their place at the end of the test is closed.
func openAll(t *testing.T, opts []Options) []*Server {
	t.Helper()
	servers := make([]*Server, len(opts))
	var wg sync.WaitGroup
	for i := range opts {
		wg.Go(func() {
			s, err := Open(opts[i])
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = s
			t.Cleanup(func() { servers[i].Close() })
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return servers
}

// leader waits until one of the servers leads and returns its place.
func leader(t *testing.T, servers []*Server) int {
	t.Helper()
	lead := -1
	eventually(t, "one of the servers leads", func() bool {
		lead = slices.IndexFunc(servers, func(s *Server) bool { return s != nil && s.peer.Status().IsLeader })
		return lead >= 0
	})
	return lead
}

// TestLeaderLossIsInvisible stops the leader under a client of another server:
// the client keeps its connection, its pipelined writes are all answered, in
// order, and each is applied once.
func TestLeaderLossIsInvisible(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	lead := leader(t, servers)
	other := (lead + 1) % 3
	c := connect(t, opts[other].Listen[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/q", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	const writes = 3000
	go func() {
		for i := range writes {
			if i == writes/3 {
				go servers[lead].Close()
			}
			if _, err := c.conn.Write(c.request(nil, jute.OpCreate,
				creating("/q/n-", nil, jute.ModePersistentSequential))); err != nil {
				return
			}
		}
	}()
	for i := range writes {
		h, body := c.reply()
		var res jute.PathResponse
		res.Decode(jute.NewDecoder(body))
		if want := fmt.Sprintf("/q/n-%010d", i); h.Err != jute.OK || res.Path != want {
			t.Fatalf("answer %d: %v, %q; want %q", i, h.Err, res.Path, want)
		}
	}
	if h, _ := c.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/q") }); h.Err != jute.OK {
		t.Errorf("sync: %v", h.Err)
	}
}

// tookSnapshot is in the log of a server that was behind the log that the others keep.
const tookSnapshot = "this server was far behind and took a peer's snapshot"

// outrun creates znodes until none of the servers keeps the log up to an index any more: one that has no more than that
// can't go on without a snapshot. It returns the path of the last znode, and the reply.
func (c *rawClient) outrun(servers []*Server, index uint64) (path string, last jute.ReplyHeader) {
	c.t.Helper()
	const together = 50 // few enough that no reply needs to be read before all are asked for
	keeps := func(s *Server) bool {
		first, err := s.dir.Log().FirstIndex()
		return err != nil || first <= index+1
	}
	n := 0
	eventually(c.t, "the log is shorter", func() bool {
		var b []byte
		for range together {
			n++
			path = fmt.Sprintf("/n%06d", n)
			b = c.request(b, jute.OpCreate, creating(path, make([]byte, 1000), 0))
		}
		if _, err := c.conn.Write(b); err != nil {
			c.t.Fatal(err)
		}
		for range together {
			if last, _ = c.reply(); last.Err != jute.OK {
				c.t.Fatal(last.Err)
			}
		}
		return !slices.ContainsFunc(servers, keeps)
	})
	return path, last
}

// TestLaggingServerCatchesUp stops one server, lets the others go on beyond the
// log they keep, and starts it again: it takes a snapshot and then follows.
func TestLaggingServerCatchesUp(t *testing.T) {
	t.Parallel()
	var log logLines
	servers, opts := threeServers(t, Options{Serving: Serving{SnapCount: 100}, Log: log.logger()})
	lead := leader(t, servers)
	behind := (lead + 1) % 3
	index, _, _ := servers[behind].replica.Position()
	servers[behind].Close()
	others := []*Server{servers[lead], servers[(lead+2)%3]}
	path, last := connect(t, opts[lead].Listen[0], 0, nil).outrun(others, index)
	s, err := Open(opts[behind])
	if err != nil {
		t.Fatal(err)
	}
	servers[behind] = s
	reader := connect(t, opts[behind].Listen[0], 0, nil)
	h, _ := reader.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	if h.Err != jute.OK || h.Zxid < last.Zxid {
		t.Fatalf("sync: %v, zxid 0x%x, want at least 0x%x", h.Err, h.Zxid, last.Zxid)
	}
	if h, _ := reader.call(jute.OpExists, reading(path, false)); h.Err != jute.OK {
		t.Errorf("the last write on the server that was behind: %v", h.Err)
	}
	log.says(t, tookSnapshot)
}
