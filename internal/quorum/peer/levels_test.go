package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestAnnouncements lets a server of the first version, which says nothing of levels
// and reads nothing, and one of this version tell each other what they know.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	a, addrA := running(t, 1, 7)
	a.level, a.rules = 5, []byte("rules of 1")
	b, addrB := running(t, 2, 7)
	b.level, b.rules = 6, []byte("rules of 2")
	a.setPeer(2, []string{addrB})
	b.setPeer(1, []string{addrA})
	for _, tr := range []*transport{a, b} {
		e := next(t, tr)
		for ; e.Kind != quorum.EventLevel; e = next(t, tr) {
			if e.Kind != quorum.EventConnected {
				t.Fatalf("event %+v", e)
			}
		}
		if e.Level != 11-tr.level {
			t.Errorf("server %d hears level %d of the other", tr.id, e.Level)
		}
		if e := next(t, tr); e.Kind != quorum.EventRules || e.From != 3-tr.id ||
			string(e.Data) != fmt.Sprint("rules of ", e.From) {
			t.Errorf("server %d hears %+v, want the rules of the other", tr.id, e)
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
	if e := next(t, a); e.Kind != quorum.EventConnected || e.From != 3 {
		t.Fatalf("event %+v, want a connection to the server of the first version", e)
	}
	for !a.send(3, quorum.FrameForward, []byte("x")) {
		time.Sleep(time.Millisecond)
	}
	if _, err := io.ReadFull(first, make([]byte, 6)); err != nil {
		t.Fatalf("what is sent to a server of the first version: %v", err)
	}
	// A kind of note that doesn't exist yet is passed over.
	first.Write(append(appendFrameHead(nil, 77, 3), "abc"...))
	first.Write(appendLevel(nil, 9))
	if e := next(t, a); e.Kind != quorum.EventLevel || e.From != 3 || e.Level != 9 {
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
		c.SetDeadline(time.Now().Add(patience))
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
