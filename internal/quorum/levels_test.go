package quorum

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// announce tells all servers that their connections are new, and each one's level.
func (c *colony) announce() {
	for _, id := range c.ids {
		c.greet(id)
	}
}

// TestLevelIsWhatAllKnow raises nothing before every member has announced it, on the
// connection that is up.
func TestLevelIsWhatAllKnow(t *testing.T) {
	c := newColony(t, 1, 2, 3)
	for _, id := range c.ids {
		c.bodies[id].level = 2
	}
	lead := c.leader()
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d before anybody announced one", lead.supported)
	}
	other := c.bodies[lead.id%3+1]
	other.level = 1
	c.announce()
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d while server %d knows 1", lead.supported, other.id)
	}
	other.level = 3
	c.announce()
	c.step(2 * levelTicks)
	if lead.supported != 2 {
		t.Fatalf("level %d while all know 2", lead.supported)
	}
	c.cut[[2]uint64{lead.id, other.id}] = true
	lead.level = 3
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d without a connection to server %d", lead.supported, other.id)
	}
}

// TestNewMemberHoldsTheLevel counts a server that is to be a member, too.
func TestNewMemberHoldsTheLevel(t *testing.T) {
	c := newColony(t, 1, 2, 3)
	for _, id := range c.ids {
		c.bodies[id].level = 2
	}
	lead := c.leader()
	c.announce()
	lead.wanted, lead.version = append(c.members[:3:3], Member{ID: 4, Observer: true}), 1
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d without a word from server 4", lead.supported)
	}
}

// TestNothingForOlderServers sends a server nothing of a level that it doesn't know.
func TestNothingForOlderServers(t *testing.T) {
	c := newColony(t, 1, 2, 3)
	for _, id := range c.ids {
		c.bodies[id].level, c.bodies[id].inForce = 2, 2
	}
	lead := c.leader()
	old := c.bodies[lead.id%3+1]
	old.level = 1
	c.announce()
	c.step(2)
	was := len(old.applied)
	lead.say(1)
	c.step(30)
	if len(lead.applied) != 1 || len(old.applied) != was {
		t.Fatalf("%d applied by the leader, %d by the older server", len(lead.applied), len(old.applied)-was)
	}
	old.level = 2
	c.announce()
	c.step(30)
	if len(old.applied) != 1 {
		t.Fatal("upgraded, it still gets nothing")
	}
}

// TestAnnouncements lets a server of the first version, which says nothing of levels
// and reads nothing, and one of this version tell each other what they know.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	a, addrA := running(t, 1, 7)
	a.level = 5
	b, addrB := running(t, 2, 7)
	b.level = 6
	a.setPeer(2, []string{addrB})
	b.setPeer(1, []string{addrA})
	for _, tr := range []*transport{a, b} {
		e := next(t, tr)
		for ; e.Kind != EventLevel; e = next(t, tr) {
			if e.Kind != EventConnected {
				t.Fatalf("event %+v", e)
			}
		}
		if e.Level != 11-tr.level {
			t.Errorf("server %d hears level %d of the other", tr.id, e.Level)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, _, _ = runningSecure(t, 1, Secure{Keys: keyring(t, "")}) // knows no secret yet
	a.setPeer(3, []string{l.Addr().String()})
	first := asFirstVersion(t, l)
	defer first.Close()
	if err := writeAnswer(first, ""); err != nil {
		t.Fatal(err)
	}
	if e := next(t, a); e.Kind != EventConnected || e.From != 3 {
		t.Fatalf("event %+v, want a connection to the server of the first version", e)
	}
	for !a.send(3, FrameForward, []byte("x")) {
		time.Sleep(time.Millisecond)
	}
	if _, err := io.ReadFull(first, make([]byte, 6)); err != nil {
		t.Fatalf("what is sent to a server of the first version: %v", err)
	}
	// A kind of note that doesn't exist yet is passed over.
	first.Write(append(appendFrameHead(nil, 77, 3), "abc"...))
	first.Write(appendLevel(nil, 9))
	if e := next(t, a); e.Kind != EventLevel || e.From != 3 || e.Level != 9 {
		t.Fatalf("event %+v, want level 9 of server 3", e)
	}
}

// asFirstVersion accepts a peer as a server of the first version does, and reads its
// hello.
func asFirstVersion(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		if h, err := readHello(c); err == nil && h.kind == connMessages {
			return c
		}
		c.Close()
	}
}

// TestOlderServerMayNotJoin refuses a server that joins and doesn't know the level in
// force, with a reason that it prints.
func TestOlderServerMayNotJoin(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 7)
	a.inForce.Store(2)
	for level, refused := range map[uint64]bool{0: true, 1: true, 2: false, 3: false} {
		h := hello{connJoin, level, 3, 1}
		c, err := newTransport(3, 0, sharing("a secret"), slog.New(slog.DiscardHandler)).greet(t.Context(), addr, h, false)
		if err == nil {
			c.Close()
		}
		var why *refusedError
		if errors.As(err, &why) != refused {
			t.Errorf("level %d: %v", level, err)
		}
		if refused && !strings.Contains(why.reason, "upgrade server 3") {
			t.Errorf("level %d: the reason %q doesn't say what to do", level, why.reason)
		}
	}
}
