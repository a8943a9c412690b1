package differ

import (
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/compat"
)

// TestEveryOperationThroughFailOver plays scripts of every.go on three servers of each kind: half of them on a server
// that follows; then the leader ends, and the others are played on a survivor. Those with a turn are played up to it
// before the leader ends, and afterwards their clients resume their sessions on the other survivor.
func TestEveryOperationThroughFailOver(t *testing.T) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs a real Apache ZooKeeper: see test/compat/README.md")
	}
	options := rich
	options.Config = maps.Clone(options.Config)
	maps.Copy(options.Config, config)
	e := newEveryRun(newVocabulary())
	var sides [2]ensemble
	var wait sync.WaitGroup
	for side, name := range []string{
		named("ZOOID_COMPAT_REFERENCE", compat.Apache39), named("ZOOID_COMPAT_SUBJECT", compat.Zooid),
	} {
		sides[side].servers = compat.StartEnsemble(t, compat.Find(t, name), 3, options)
		e.addrs[side] = sides[side].survivors(t)
	}
	start := time.Now()
	before, across, after := e.shares()
	e.all(t, before)
	type half struct {
		players [2]*player
		seen    [2][]seen
	}
	halves := make([]half, len(across))
	for i, s := range across {
		h := &halves[i]
		h.players = e.players()
		h.seen[0], h.seen[1] = e.part(t, s, h.players, 0, s.turn)
	}
	for side := range sides {
		wait.Go(func() { sides[side].leader.Stop() })
	}
	wait.Wait()
	for side := range sides {
		slices.Reverse(e.addrs[side])
		for _, addr := range e.addrs[side] {
			awaitService(t, addr)
		}
	}
	for i, s := range across {
		h := &halves[i]
		for side, p := range h.players {
			p.move(e.addrs[side][0])
		}
		a, b := e.part(t, s, h.players, s.turn, len(s.steps))
		for _, p := range h.players {
			p.leave()
		}
		e.compareSeen(t, s, append(h.seen[0], a...), append(h.seen[1], b...))
	}
	e.all(t, after)
	e.summary(t, start)
}

// shares divides the scripts; those of single servers are left out.
func (e *everyRun) shares() (before, across, after []scenario) {
	scripts, _ := e.words.every()
	for i, s := range scripts {
		switch {
		case s.single || !strings.Contains(s.name, *onlyEvery):
		case s.turn > 0:
			across = append(across, s)
		case i%2 == 0:
			before = append(before, s)
		default:
			after = append(after, s)
		}
	}
	return before, across, after
}

// ensemble is the servers of one side.
type ensemble struct {
	servers []*compat.Server
	leader  *compat.Server
}

// survivors finds the leader and returns the addresses of the others.
func (e *ensemble) survivors(t *testing.T) (addrs []string) {
	t.Helper()
	for _, s := range e.servers {
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write([]byte("srvr"))
		text, err := io.ReadAll(conn)
		conn.Close()
		if err != nil {
			t.Fatalf("asking %s who leads: %v", s.Addr, err)
		}
		if strings.Contains(string(text), "Mode: leader") {
			e.leader = s
		} else {
			addrs = append(addrs, s.Addr)
		}
	}
	if e.leader == nil || len(addrs) != 2 {
		t.Fatalf("want one leader and two others, got followers at %v", addrs)
	}
	return addrs
}

// awaitService waits until a server opens a session, and closes it.
func awaitService(t *testing.T, addr string) {
	t.Helper()
	const attempts, pause = 600, 100 * time.Millisecond
	for range attempts {
		l, err := dial(addr, "/service")
		if err != nil {
			t.Fatalf("after the fail-over: %v", err)
		}
		request := jute.ConnectRequest{Timeout: everyTimeout, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
		l.write(jute.AppendFrame(nil, request.Append))
		answer, err := l.frame(patience)
		var r jute.ConnectResponse
		if err == nil {
			r.Decode(jute.NewDecoder(answer))
		}
		if r.SessionID != 0 {
			l.write(jute.AppendRequest(nil, 1, jute.OpCloseSession, nil))
			l.next(patience, func([]field) {})
		}
		l.close()
		if r.SessionID != 0 {
			return
		}
		time.Sleep(pause)
	}
	t.Fatalf("%s opens no session after the fail-over", addr)
}

// move closes all connections. The clients resume their sessions on another server when the script has them connect;
// connection 1, which makes the changes, does so at once.
func (p *player) move(addr string) {
	p.addr = addr
	for _, seat := range p.slots {
		if seat.line != nil {
			p.lose(seat)
		}
	}
	p.now = &seen{}
	resume := p.words.step(1, "connect", connectResume, everyTimeout)
	p.perform(&resume)
}
