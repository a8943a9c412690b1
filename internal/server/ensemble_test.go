package server

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

// threeServers starts an ensemble and returns its servers and their options. The
// second one has two directories.
func threeServers(t *testing.T, common Options) (servers []*Server, opts []Options) {
	t.Helper()
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
	for range 1000 {
		for i, s := range servers {
			if s != nil && s.peer.Status().IsLeader {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no leader in 10 seconds")
	return 0
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

// TestLaggingServerCatchesUp stops one server, lets the others go on beyond the
// log they keep, and starts it again: it takes a snapshot and then follows.
func TestLaggingServerCatchesUp(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Serving: Serving{SnapCount: 100}})
	lead := leader(t, servers)
	behind := (lead + 1) % 3
	servers[behind].Close()
	c := connect(t, opts[lead].Listen[0], 0, nil)
	var last jute.ReplyHeader
	for i := range 3000 {
		last, _ = c.call(jute.OpCreate, creating(fmt.Sprintf("/n%04d", i), make([]byte, 1000), 0))
	}
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
	if h, _ := reader.call(jute.OpExists, reading("/n2999", false)); h.Err != jute.OK {
		t.Errorf("the last write on the server that was behind: %v", h.Err)
	}
}
