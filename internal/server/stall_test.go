package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHungLoop: a server whose loop hangs, while no write of its log is under way, says so, and lets its clients go,
// though no stall of the log is to end it. The timer that looks after sessions would do so too, where the replica isn't
// locked: here it is off.
func TestHungLoop(t *testing.T) {
	t.Parallel()
	log := &hangingLog{Handler: slog.DiscardHandler, hung: make(chan bool), goOn: make(chan bool)}
	servers, opts := threeServers(t, Options{ // FsyncStall is 0
		Log: slog.New(log), Serving: Serving{Tick: time.Hour, SessionTimeoutMin: time.Second},
	})
	t.Cleanup(func() { close(log.goOn) })
	clients := make([]*rawClient, len(servers))
	for i := range servers {
		eventually(t, "a server takes a client", func() bool {
			conn, err := net.Dial("tcp", opts[i].Listen[0])
			if err != nil {
				return false
			}
			if clients[i] = handshakeFor(t, conn, 4*time.Second, 0, nil); clients[i] == nil {
				conn.Close()
			}
			return clients[i] != nil
		})
	}
	log.armed.Store(true)
	eventually(t, "a leader's loop hangs", func() bool {
		select {
		case <-log.hung:
			return true
		default:
			servers[leader(t, servers)].peer.TransferLeadership()
			return false
		}
	})
	var hung int
	eventually(t, "a server says that its loop hangs", func() bool {
		hung = slices.IndexFunc(servers, func(s *Server) bool {
			return strings.HasPrefix(s.Stalled(), "its main loop has been stuck for")
		})
		return hung >= 0
	})
	if d := servers[hung].dir.Log().WritingFor(); d != 0 {
		t.Errorf("a write of its log is under way, for %v", d)
	}
	clients[hung].conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := clients[hung].conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its client isn't let go: %v", err)
	}
}

// A hangingLog hangs once it is armed, until goOn is closed, at the first line that only the loop of a leader writes.
type hangingLog struct {
	slog.Handler
	armed      atomic.Bool
	hung, goOn chan bool // hung is closed when it hangs
}

func (l *hangingLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *hangingLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *hangingLog) WithGroup(string) slog.Handler            { return l }
func (l *hangingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "handing leadership over" && l.armed.CompareAndSwap(true, false) {
		close(l.hung)
		<-l.goOn
	}
	return nil
}

// TestStallCount: a write counts as stalled once it was seen to be under way for long enough. Other writes,
// and time in which the process stood still, don't count.
func TestStallCount(t *testing.T) {
	t.Parallel()
	c, now, writing := stallCount{most: 20 * time.Second}, int64(1e12), time.Duration(0)
	look := func(pass, under time.Duration) bool {
		now += int64(pass)
		writing = under
		return c.look(writing, now)
	}
	for range 100 {
		if look(stallLook, time.Millisecond) {
			t.Fatal("short writes count as one")
		}
	}
	look(stallLook, 0)
	looks := 1
	for under := stallLook; !look(stallLook, under); under += stallLook {
		looks++
	}
	if want := int(20*time.Second/stallLook) + 1; looks != want {
		t.Errorf("a write counts as stalled at look %d, want %d", looks, want)
	}
	look(stallLook, 0)
	if look(time.Hour, time.Hour) {
		t.Error("a write counts as stalled because the process stood still for an hour")
	}
	if look(stallLook, time.Millisecond) {
		t.Error("the next write counts as stalled")
	}
}
