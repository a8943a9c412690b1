package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// arrives starts servers with empty disks whose own configurations alone name them.
func (c *cluster) arrives(ids ...uint64) {
	lead := c.leader()
	for _, id := range ids {
		c.ids = append(c.ids, id)
		c.nodes[id] = &node{c: c, id: id, fs: storage.NewMemFS(), ended: map[int64]ChangeStep{}}
		members := c.members
		c.members = append(slices.Clone(members), Member{ID: id, Addrs: []string{fmt.Sprint("server", id)}})
		c.open(id, lead.loop.applied, lead.loop.node.Term())
		c.members = members
		c.greet(id)
	}
}

// named has the state machines name the first members.
func (c *cluster) named(version int64, members []Member) {
	for _, id := range c.ids {
		c.nodes[id].wanted, c.nodes[id].version = members, version
	}
}

// TestGuests: servers that are no members follow without a vote, at most guestsMax of them;
// none of their acknowledgements commits anything.
func TestGuests(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.named(1, c.members)
	c.step(5)
	lead.say(1)
	c.step(5)
	var ids []uint64
	for id := uint64(4); id < 4+guestsMax+2; id++ {
		ids = append(ids, id)
	}
	c.arrives(ids...)
	c.named(1, c.members)
	c.step(60 + 8*guestsMax)
	if got := lead.loop.Status(); !slices.Equal(got.Guests, ids[:guestsMax]) || len(got.Voters) != 3 ||
		len(got.Observers) > 0 {
		t.Fatalf("the leader's guests are %v of %v; %+v", got.Guests, ids, got)
	}
	c.nodes[4].say(2) // forwards
	c.step(5)
	if applied := c.nodes[4].loop.applied; applied != lead.loop.applied {
		t.Errorf("a guest has applied %d of %d", applied, lead.loop.applied)
	}
	c.crash(2)
	c.crash(3)
	before := lead.loop.applied
	lead.say(3)
	c.step(5)
	if lead.loop.applied != before {
		t.Error("an entry is committed by a leader and its guests alone")
	}
}

// TestWhoAsksToFollow: what a server may say of itself.
func TestWhoAsksToFollow(t *testing.T) {
	m := func(id uint64, addrs ...string) []byte {
		return appendIntroduction(nil, []Member{{ID: id, Addrs: addrs}})
	}
	for want, b := range map[string][]byte{
		"":                  m(4, "a:1", "b:1"),
		"doesn't name its":  m(5, "a:1"),
		"doesn't name its ": m(4),
		"cut short":         m(4, "a:1")[:5],
		" nobody else":      append(m(4, "a:1"), m(5, "b:1")...),
	} {
		if _, err := ReadAnnouncement(4, b); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if m, err := ReadAnnouncement(1, m(1, "a:1")); err != nil || m.ID != 1 {
		t.Errorf("server 1 is %v, %v", m, err)
	}
	var addrs []string
	for range introducedAddrs {
		addrs = append(addrs, strings.Repeat("x", introducedAddr))
	}
	if n := len(m(4, addrs...)); n != AnnouncementMax {
		t.Errorf("the longest announcement has %d bytes, and AnnouncementMax is %d", n, AnnouncementMax)
	}

	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.named(1, c.members)
	c.step(5)
	tells := func(id uint64) { lead.loop.Handle(Event{Kind: EventGuest, From: id, Data: m(id, "x:1")}) }
	for id := uint64(4); id < 4+strangersMax+5; id++ {
		tells(id)
	}
	tells(2)       // a member
	tells(256 + 3) // its sessions would have a member's ids
	if n := len(lead.loop.guests.asked); n != strangersMax || lead.loop.guests.asked[2] != 0 ||
		lead.loop.guests.asked[259] != 0 {
		t.Errorf("%d strangers are noted, want %d", n, strangersMax)
	}
}
