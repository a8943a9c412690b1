package server

import (
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

// threeMembers starts one server, adds two others, and returns them with a client of the first.
func threeMembers(t *testing.T) (*cluster, *rawClient) {
	t.Helper()
	c := newCluster(t)
	c.start(1, 1)
	first := connect(t, c.clients[1], 0, nil)
	c.start(2, 1, 2)
	c.start(3, 1, 2, 3)
	c.reconfig(first, 1, 2, 3)
	return c, first
}

// TestServerFollowsBeforeItIsAdded starts a fourth server whose own configuration alone
// names it: it serves reads and forwards writes without a vote, and a reconfig gives it one.
func TestServerFollowsBeforeItIsAdded(t *testing.T) {
	t.Parallel()
	c, first := threeMembers(t)
	if h, _ := first.call(jute.OpCreate, creating("/before", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	c.start(4, 1, 2, 3, 4)
	guest := connect(t, c.clients[4], 0, nil) // it serves
	if h, _ := guest.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	exists := func(b []byte) []byte { return (&jute.PathWatchRequest{Path: "/before"}).Append(b) }
	if h, _ := guest.call(jute.OpExists, exists); h.Err != jute.OK {
		t.Fatalf("what was there before it: %v", h.Err)
	}
	if h, _ := guest.call(jute.OpCreate, creating("/by-guest", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	c.guests(4)
	if text, _ := c.servers[4].replica.Members(); slices.Contains(ids(t, c, text), 4) {
		t.Fatalf("/zookeeper/config names it: %q", text)
	}
	if mode := c.servers[4].Status().Mode; mode != fourletter.ModeFollower {
		t.Errorf("its mode is %q", mode)
	}
	c.reconfig(first, 1, 2, 3, 4)
	if h, _ := guest.call(jute.OpCreate, creating("/by-member", nil, 0)); h.Err != jute.OK {
		t.Fatalf("the session that it served before: %v", h.Err)
	}
	// Its vote counts: of the other three one alone comes back.
	c.stop(2)
	c.stop(3)
	c.start(3, 1, 2, 3)
	writes(t, c.clients[4], "/voted")
}

// TestRemovedServerGoesOn removes a follower and then the leader under live sessions,
// which go on, and adds the first again.
func TestRemovedServerGoesOn(t *testing.T) {
	t.Parallel()
	c, first := threeMembers(t)
	removed := connect(t, c.clients[3], 0, nil)
	create := func(client *rawClient, path string) {
		t.Helper()
		if h, _ := client.call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
			t.Fatalf("%s: %v", path, h.Err)
		}
	}
	create(removed, "/a")
	c.reconfig(first, 1, 2)
	create(removed, "/b")
	c.guests(3)
	c.stop(3)
	c.start(3, 1, 2, 3) // what its file names is an old membership
	again := connect(t, c.clients[3], 0, nil)
	create(again, "/c")
	c.reconfig(first, 1, 2, 3)
	c.reconfig(first, 2, 3) // 1 may lead
	create(first, "/d")
	c.guests(1)
	create(again, "/e")
}

// TestDuplicateIDOfAGuest: a second server under a guest's id, at another address, and one under
// a member's, are refused.
func TestDuplicateIDOfAGuest(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(1, 1)
	c.start(4, 1, 4)
	connect(t, c.clients[4], 0, nil)
	c.guests(4)
	duplicate := newCluster(t)
	duplicate.lines(1, 4)
	duplicate.addrs[1] = c.addrs[1]
	duplicate.addrs[4] = freeport.Address(t)
	ended := make(chan struct{})
	m := lineMembership(duplicate.lines(1, 4))
	members, _ := m.Parse(m.Text)
	go func() {
		defer close(ended)
		stop := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(stop) })
		if s, err := Open(Options{
			ID: 4, DataDir: duplicate.dirs[4], Listen: []string{duplicate.clients[4]}, PeerListen: duplicate.addrs[4],
			Members: members, Membership: m, PeerSecrets: secretForTests, Stop: stop,
		}); err == nil {
			defer s.Close()
			if s.Status().Serving {
				t.Error("a second server 4 serves")
			}
		}
	}()
	<-ended
	writes(t, c.clients[4], "/first")
	c.guests(4)
}

// guests waits until the leader's guests are some servers.
func (c *cluster) guests(ids ...uint64) {
	c.t.Helper()
	var last []uint64
	if !within(func() bool {
		for _, s := range c.servers {
			if st := s.peer.Status(); st.IsLeader {
				if last = st.Guests; slices.Equal(last, ids) {
					return true
				}
			}
		}
		return false
	}) {
		c.t.Fatalf("the guests are %v, want %v", last, ids)
	}
}

func ids(t *testing.T, c *cluster, text string) (all []uint64) {
	t.Helper()
	members, err := lineMembership("").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		all = append(all, m.ID)
	}
	return all
}
