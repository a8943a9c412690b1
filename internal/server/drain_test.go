package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// TestDrain drains the leader: another server leads, the clients that were there are sent
// away with their sessions, and new ones get no session.
func TestDrain(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	lead := leader(t, servers)
	c := connect(t, opts[lead].Listen[0], 0, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := servers[lead].Drain(ctx, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server leads", func() bool { // an election may still be under way
		q := servers[lead].Quorum()
		return !q.IsLeader && q.Leader != 0
	})
	if !servers[lead].Draining() {
		t.Error("it doesn't say that it drains")
	}
	c.conn.SetReadDeadline(time.Now().Add(sessionTimeout * 3 / 4))
	if _, err := c.conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the client that was there reads %v", err)
	}
	if conn, err := net.Dial("tcp", opts[lead].Listen[0]); err != nil {
		t.Error(err)
	} else if handshake(t, conn, 0, nil) != nil {
		t.Error("a new client gets a session of a server that drains")
	}
	if text := wordOf(t, opts[lead].Listen[0], "srvr"); len(text) == 0 {
		t.Error("a server that drains answers no words")
	}
	resumed := connect(t, opts[(lead+1)%3].Listen[0], c.session, c.passwd)
	if h, _ := resumed.call(jute.OpCreate, creating("/drained", nil, 0)); h.Err != jute.OK {
		t.Errorf("a write of the session elsewhere: %v", h.Err)
	}
}

// TestDrainTimeout: a server whose others are gone isn't drained, keeps its clients and serves on. By force it is
// drained as far as that goes: nobody takes over in time. A server alone doesn't begin.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Patience: time.Hour})
	lead := leader(t, servers)
	c := connect(t, opts[lead].Listen[0], 0, nil)
	servers[(lead+1)%3].Close()
	servers[(lead+2)%3].Close()
	eventually(t, "the leader knows that the others are gone", // before that it may grant itself the drain
		func() bool { return servers[lead].peer.Status().Leader == 0 })
	stays := func() {
		t.Helper()
		c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.conn.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("its client reads %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := servers[lead].Drain(ctx, "")
	if refused := (*quorum.DrainRefusedError)(nil); !errors.As(err, &refused) {
		t.Errorf("draining without the others: %v", err)
	}
	if servers[lead].Draining() {
		t.Error("it says that it is drained")
	}
	stays()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := servers[lead].Drain(ctx, "a test"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("draining by force without the others: %v", err)
	}
	stays()
	if err := open(t, Options{}).Drain(t.Context(), ""); !errors.Is(err, quorum.ErrAlone) {
		t.Errorf("draining a server alone: %v", err)
	}
}

// drainAll drains three servers by drain, and checks that one of them is drained, that the others have refused and say
// because of whom, and that clients can connect to them. Then it undoes the drain.
func drainAll(t *testing.T, servers []*Server, opts []Options, drain func() []error) {
	t.Helper()
	drained := -1
	errs := drain()
	for i, err := range errs {
		if err == nil {
			if drained >= 0 {
				t.Fatalf("servers %d and %d are drained", drained+1, i+1)
			}
			drained = i
		}
	}
	if drained < 0 {
		t.Fatalf("none is drained: %v", errs)
	}
	for i, err := range errs {
		refused := (*quorum.DrainRefusedError)(nil)
		says := fmt.Sprintf("server %d drains", drained+1)
		if i != drained && (!errors.As(err, &refused) || !strings.Contains(err.Error(), says)) {
			t.Errorf("server %d: %v", i+1, err)
		}
		if got := servers[i].Draining(); got != (i == drained) {
			t.Errorf("server %d says that it drains: %v", i+1, got)
		}
		text := wordOf(t, opts[i].Listen[0], "srvr")
		if strings.Contains(text, "\nDRAINED;") != (i == drained) {
			t.Errorf("server %d says to srvr: %s", i+1, text)
		}
		if i != drained {
			c := connect(t, opts[i].Listen[0], 0, nil)
			if h, _ := c.call(jute.OpSetData, setting("/", nil)); h.Err != jute.OK {
				t.Errorf("a write of a new client of server %d: %v", i+1, h.Err)
			}
		}
	}
	servers[drained].Undrain()
	eventually(t, "the server takes clients again", func() bool {
		conn, err := net.Dial("tcp", opts[drained].Listen[0])
		return err == nil && handshake(t, conn, 0, nil) != nil
	})
}

// TestDrainAll: of three servers that are drained one after the other, or at once, one is, and the others go on. When
// the drain is undone, the next one can be drained.
func TestDrainAll(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for first := range servers {
		leader(t, servers)
		drainAll(t, servers, opts, func() []error {
			errs := make([]error, len(servers))
			for n := range servers {
				i := (first + n) % len(servers)
				errs[i] = servers[i].Drain(ctx, "")
			}
			return errs
		})
		drainAll(t, servers, opts, func() []error {
			errs := make([]error, len(servers))
			var wg sync.WaitGroup
			for i := range servers {
				wg.Go(func() { errs[i] = servers[i].Drain(ctx, "") })
			}
			wg.Wait()
			return errs
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
