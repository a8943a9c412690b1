package crash

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/zk"
)

// TestServersMoveTheirPorts gives each server of three other ports by reconfig, under load, and then the ports of
// before. Old ports take nobody any more, connections go on, and servers that start anew find each other.
func TestServersMoveTheirPorts(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{Servers: 3, Config: membersConfig})
	c := open(t, e.Servers...)
	defer c.Close()
	awaitLevel(t, presentLevel, e.Servers...)
	acked := make(chan []string, 1)
	stop := make(chan struct{})
	stays := open(t, e.Servers[1]) // its server moves, the connection stays
	defer stays.Close()
	states := stays.States()
	defer states.Close()
	states.Try() // that of now
	go writeUntil(t.Context(), stays, stop, acked)
	ports := freeport.Take(t, 3*portsPerServer)
	before := make([]moved, 3)
	for i, s := range e.Servers {
		own := ports[i*portsPerServer:]
		before[i] = moved{s.Addr, s.Peer, own[2]}
		move(t, c, s, moved{at(own[0]), at(own[1]), own[2]})
	}
	if change, lost := states.Try(); lost {
		t.Errorf("a connection to a server that moved was lost: %+v", change)
	}
	close(stop)
	if n := len(<-acked); n == 0 {
		t.Error("nothing was written meanwhile")
	}
	for _, s := range e.Servers { // each must be found by the others, and find them
		s.Kill()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, e.Servers...)
	defer again.Close()
	for i, s := range e.Servers {
		move(t, again, s, before[i])
	}
	if err := goesOn(t, again); err != nil {
		t.Fatal(err)
	}
}

// TestMoveToTakenPorts: a server goes on at its ports while those that a reconfig names are taken, says so, and moves
// once they are free.
func TestMoveToTakenPorts(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{Servers: 3, Config: membersConfig})
	c := open(t, e.Servers[0])
	defer c.Close()
	awaitLevel(t, presentLevel, e.Servers...)
	s := e.Servers[2]
	ports := freeport.Take(t, 3)
	var taken [2]net.Listener
	for i := range taken {
		l, err := net.Listen("tcp", at(ports[i]))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken[i] = l
	}
	to := moved{at(ports[0]), at(ports[1]), ports[2]}
	change(t, c, zk.Reconfig{Joining: []string{to.line(s)}})
	await(t, "server 3 says that it can't listen at its new ports", func() bool {
		log := s.Log()
		return strings.Contains(log, "for=clients address="+to.client) && strings.Contains(log, "address="+to.peer)
	})
	if _, err := s.Ready(); err != nil {
		t.Fatal(err)
	}
	if !listens(s.Peer) {
		t.Error("it doesn't listen for peers any more")
	}
	for _, l := range taken {
		socket.CloseListener(l)
	}
	await(t, "server 3 moves",
		func() bool { return listens(to.client) && listens(to.peer) && !listens(s.Addr) && !listens(s.Peer) })
	s.Addr, s.Peer = to.client, to.peer
	if _, err := s.Ready(); err != nil {
		t.Fatal(err)
	}
}

// moved is where a server is to listen.
type moved struct {
	client, peer string
	election     int
}

func (m moved) line(s *Server) string {
	return fmt.Sprintf("server.%d=%s:%d:participant;%s", s.ID, m.peer, m.election, m.client)
}

func at(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// move gives a server other ports and waits until it has moved.
func move(t *testing.T, c *zk.Client, s *Server, to moved) {
	t.Helper()
	change(t, c, zk.Reconfig{Joining: []string{to.line(s)}})
	await(t, fmt.Sprintf("server %d moves from %s and %s to %s and %s", s.ID, s.Addr, s.Peer, to.client, to.peer),
		func() bool {
			return listens(to.client) && listens(to.peer) && !listens(s.Addr) && !listens(s.Peer)
		})
	s.Addr, s.Peer = to.client, to.peer
	if _, err := s.Ready(); err != nil {
		t.Fatal(err)
	}
	await(t, "zoo.cfg points to a file with the new ports", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.Folder, "zoo.cfg.dynamic.*"))
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), ";"+to.client) {
				return true
			}
		}
		return false
	})
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, askPatience)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// await waits until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("it never came to be that %s", what)
		}
		time.Sleep(10 * readyPause)
	}
}
