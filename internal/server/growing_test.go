package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// alone runs a server without peers on a cluster's folder and port.
func (c *cluster) alone(id uint64, snapCount int) {
	c.t.Helper()
	c.lines(id)
	s, err := Open(Options{
		DataDir: c.dirs[id], LogDir: c.logDirs[id], Listen: []string{c.clients[id]}, Serving: Serving{SnapCount: snapCount},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.servers[id] = s
}

// TestStandaloneGrows gives a standalone server peers by its configuration, under
// whatever id: its data stays, and the others, which are empty, join it. Started again,
// it belongs to the ensemble.
func TestStandaloneGrows(t *testing.T) {
	t.Parallel()
	for _, id := range []uint64{1, 2} {
		for _, snapCount := range []int{0, 10} {
			t.Run(fmt.Sprintf("id=%d,snapCount=%d", id, snapCount), func(t *testing.T) {
				t.Parallel()
				growsFrom(t, id, snapCount)
			})
		}
	}
}

func growsFrom(t *testing.T, id uint64, snapCount int) {
	c := newCluster(t)
	c.alone(id, snapCount)
	client := connect(t, c.clients[id], 0, nil)
	const written = 35
	for n := range written {
		if h, _ := client.call(jute.OpCreate, creating(fmt.Sprintf("/n%d", n), []byte("x"), 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	c.stop(id)
	c.startAll(1, 2, 3)
	c.votes(3)
	for at := range uint64(3) {
		client := connect(t, c.clients[at+1], 0, nil)
		if h, _ := client.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		_, body := client.call(jute.OpGetAllChildrenNumber, func(b []byte) []byte { return jute.AppendString(b, "/") })
		var count jute.IntResponse
		if count.Decode(jute.NewDecoder(body)); count.Value != written+3 { // and /zookeeper, its config and quota
			t.Errorf("%d znodes on server %d, want %d", count.Value, at+1, written+3)
		}
	}
	c.stop(id)
	c.start(id, 1, 2, 3)
	// It can be done without, now.
	c.stop(id)
	client = connect(t, c.clients[id%3+1], 0, nil)
	if h, _ := client.call(jute.OpCreate, creating("/without", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
}

// votes waits until an ensemble has so many voters.
func (c *cluster) votes(n int) {
	c.t.Helper()
	var last quorum.Status
	if !within(func() bool {
		for _, s := range c.servers {
			if last = s.peer.Status(); last.IsLeader && len(last.Voters) == n {
				return true
			}
		}
		return false
	}) {
		c.t.Fatalf("never %d voters; last seen %+v", n, last)
	}
}

// TestEmptyServerTurnsClientsAway: the first server of an ensemble waits for its
// peers with its client port open; it says that it doesn't serve, and the same
// port serves once there are enough.
func TestEmptyServerTurnsClientsAway(t *testing.T) {
	t.Parallel()
	var members []Member
	for id := range uint64(3) {
		members = append(members, Member{ID: id + 1, Addrs: []string{freeport.Address(t)}})
	}
	opened := make(chan *Server, 2)
	ports := []string{freeport.Address(t), freeport.Address(t)}
	open := func(i int) {
		s, err := Open(Options{
			ID: members[i].ID, DataDir: t.TempDir(), Listen: ports[i : i+1], Members: members, PeerListen: members[i].Addrs[0],
			FourLetterWords: []string{"*"},
		})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}
	go open(0)
	ask := func(text string) (answer string) {
		t.Helper()
		eventually(t, "the port is open", func() bool {
			conn, err := net.Dial("tcp", ports[0])
			if err != nil { // it has only just started
				return false
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, text)
			b, _ := io.ReadAll(conn)
			answer = string(b)
			return true
		})
		return answer
	}
	// On a busy machine the word may come after turnAwayPatience.
	const silent = "This ZooKeeper instance is not currently serving requests"
	eventually(t, "srvr says that it doesn't serve", func() bool { return strings.HasPrefix(ask("srvr"), silent) })
	eventually(t, "mntr says what it waits for", func() bool {
		text := ask("mntr")
		return strings.HasPrefix(text, silent) && strings.Contains(text, "\nzk_zooid_waits_for\t")
	})
	eventually(t, "ruok is answered", func() bool { return ask("ruok") == "imok" })
	if got := ask("\x00\x00\x00\x2d"); got != "" {
		t.Errorf("a connect request is answered %q", got)
	}
	go open(1)
	for range 2 {
		if s := <-opened; s != nil {
			t.Cleanup(func() { s.Close() })
		}
	}
	c := connect(t, ports[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/q", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
}
