package quorum

import (
	"fmt"
	"testing"
)

// TestAnnouncedRules: a leader's state machine is told what each member has announced on the connection that is up,
// also of a server that is to be a member, and what it hasn't heard is told as that.
func TestAnnouncedRules(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	a, b := c.nodes[lead.id%3+1], c.nodes[(lead.id+1)%3+1]
	if a.id > b.id {
		a, b = b, a
	}
	told := func(when string, want ...Announcement) {
		t.Helper()
		c.step(2 * levelTicks)
		if fmt.Sprint(lead.announced) != fmt.Sprint(want) {
			t.Fatalf("%s: told %v, want %v", when, lead.announced, want)
		}
	}
	told("before anybody announced rules", Announcement{ID: a.id}, Announcement{ID: b.id})
	a.rules = []byte("x")
	c.announce()
	told("from one member", Announcement{a.id, true, []byte("x")}, Announcement{ID: b.id})
	b.rules = []byte{}
	c.announce()
	told("one has none", Announcement{a.id, true, []byte("x")}, Announcement{b.id, true, nil})
	b.rules = []byte("y")
	c.announce()
	told("from both", Announcement{a.id, true, []byte("x")}, Announcement{b.id, true, []byte("y")})
	a.rules = nil
	c.announce()
	told("on a new connection without a word", Announcement{ID: a.id}, Announcement{b.id, true, []byte("y")})
	c.cut[[2]uint64{lead.id, b.id}] = true
	told("without a connection", Announcement{ID: a.id}, Announcement{b.id, false, []byte("y")})
	delete(c.cut, [2]uint64{lead.id, b.id})
	lead.wanted, lead.version = append(c.members[:3:3], Member{ID: 4, Observer: true}), 1
	told("with a server to come", Announcement{ID: a.id}, Announcement{b.id, true, []byte("y")}, Announcement{ID: 4})
}
