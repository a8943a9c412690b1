package crash

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/history"
	"github.com/zooid-project/zooid/internal/traffic"
	"github.com/zooid-project/zooid/jute"
)

// A lockHolder is a client that holds an ephemeral znode, as one that holds a lock does, and asks for it
// again and again. It begins on one server, and goes to others if its connection ends.
type lockHolder struct {
	path    string
	timeout time.Duration
	c       *traffic.Client
	stop    chan struct{}
	wg      sync.WaitGroup

	mu       sync.Mutex
	answered time.Time // when it was last told that it holds its znode
	expired  time.Time // when it was told that its session is over
	moves    int
}

// hold makes a client of the first of addrs hold path.
func hold(t *testing.T, j *history.Journal, path string, timeout time.Duration, addrs ...string) *lockHolder {
	t.Helper()
	h := &lockHolder{
		path: path, timeout: timeout, stop: make(chan struct{}),
		c: traffic.NewClient(j, traffic.ClientOptions{Timeout: timeout}, addrs...),
	}
	if err := connect(h.c); err != nil {
		t.Fatal(err)
	}
	q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral}
	if call, err := h.c.Do(jute.OpCreate, q.Append(nil)); err != nil || call.Err != jute.OK {
		t.Fatalf("create %s: %v", path, errors.Join(err, call.Err))
	}
	h.wg.Go(h.run)
	return h
}

// exists asks a client's server for a znode.
func exists(c *traffic.Client, path string) (there bool, err error) {
	q := jute.PathWatchRequest{Path: path}
	call, err := c.Do(jute.OpExists, q.Append(nil))
	return err == nil && call.Err == jute.OK, err
}

func (h *lockHolder) run() {
	for {
		select {
		case <-h.stop:
			return
		case <-time.After(h.timeout / 20):
		}
		there, err := exists(h.c, h.path)
		h.mu.Lock()
		if there {
			h.answered = time.Now()
		}
		h.mu.Unlock()
		for err != nil {
			select {
			case <-h.stop:
				return
			case <-time.After(redialPause):
			}
			h.mu.Lock()
			h.moves++
			h.mu.Unlock()
			if err = h.c.Connect(); errors.Is(err, traffic.ErrExpired) {
				h.mu.Lock()
				h.expired = time.Now()
				h.mu.Unlock()
				return
			}
		}
	}
}

// end stops the holder, and ends its session.
func (h *lockHolder) end() {
	close(h.stop)
	h.wg.Wait()
	if h.expired.IsZero() {
		h.c.Close()
	}
}

// gone looks at a holder's znode through a client of another server until stop is closed, and returns
// when it was found missing, zero if it never was.
func (h *lockHolder) gone(t *testing.T, j *history.Journal, addr string, stop chan struct{}) (at time.Time) {
	c := traffic.NewClient(j, traffic.ClientOptions{Timeout: 30 * time.Second}, addr)
	if err := connect(c); err != nil {
		t.Error(err)
		return at
	}
	defer c.Close()
	for {
		select {
		case <-stop:
			return at
		case <-time.After(20 * time.Millisecond):
		}
		there, err := exists(c, h.path)
		if err != nil {
			connect(c)
		} else if !there && at.IsZero() {
			at = time.Now()
		}
	}
}

// TestHungDisk makes the syncs of a server hang: of a follower, of the leader, and of the leader while
// another server is down. A client of that server keeps its session: the server tells the leader
// that it hears the client, or lets the client go in time. And nobody reads that he holds what another may
// have (X10). The writes of the other servers' clients hardly stop.
func TestHungDisk(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	hangs := []time.Duration{9 * time.Second}
	if *long {
		hangs = []time.Duration{2 * time.Second, 9 * time.Second, 38 * time.Second}
	}
	for _, who := range []string{"follower", "leader", "leader and one down"} {
		t.Run(who, func(t *testing.T) {
			r := Begin(t, trio(seed, 200))
			for range times(0, 1, 20) {
				for _, hang := range hangs {
					r.hang(t, who, hang)
				}
			}
			r.Verdict()
		})
	}
}

// hang makes the disk of a server hang for a while.
func (r *Run) hang(t *testing.T, who string, hang time.Duration) {
	r.WaitAnswered(100)
	leader := r.leader()
	victim, down, other := leader, -1, (leader+1)%3
	switch who {
	case "follower":
		victim, other = (leader+1)%3, (leader+2)%3
	case "leader and one down":
		down = (leader + 2) % 3
		r.Down(down)
		r.Servers[down].Kill()
		r.Collect(down)
		r.WaitAnswered(100)
	}
	r.Down(victim)
	addrs := r.Addrs()
	var holders []*lockHolder
	for i, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		holders = append(holders,
			hold(t, r.journal, fmt.Sprintf("/hold-%d-%d", time.Now().UnixNano(), i), timeout, addrs[victim], addrs[other]))
	}
	if down >= 0 { // the leader must not end sessions of which it heard nothing because its own disk hung
		holders = append(holders, hold(t, r.journal, fmt.Sprintf("/hold-%d-other", time.Now().UnixNano()), 4*time.Second,
			addrs[other]))
	}
	stop, gone := make(chan struct{}), make([]time.Time, len(holders))
	var watching sync.WaitGroup
	for i, h := range holders {
		watching.Go(func() { gone[i] = h.gone(t, r.journal, addrs[other], stop) })
	}
	fault := time.Now()
	x := inject(t, r.Servers[victim], "fdatasync", fmt.Sprintf("delay_enter=%d", hang.Microseconds()))
	time.Sleep(hang)
	gap := r.Pulses[other].Longest(fault, time.Now())
	x.end()
	if !r.Servers[victim].Running() {
		r.Restart(victim)
	}
	if down >= 0 {
		r.Restart(down)
		r.Up(down)
	}
	healed := time.Now()
	for _, p := range r.Pulses {
		if _, err := p.FirstBeat(healed, healPatience); err != nil {
			t.Fatal(err)
		}
	}
	r.Up(victim)
	close(stop)
	watching.Wait()
	for i, h := range holders {
		h.end()
		late := h.answered.Sub(gone[i])
		switch {
		case gone[i].IsZero() && h.expired.IsZero():
			t.Logf("%s, %v: the session of %v was kept, %d connections", who, hang, h.timeout, h.moves+1)
		case gone[i].IsZero():
			t.Errorf("%s, %v: the client of a session of %v was told that it is over, and it isn't", who, hang, h.timeout)
		default:
			t.Errorf("%s, %v: a session of %v was ended", who, hang, h.timeout)
			if late > h.timeout/3 {
				t.Errorf("%s, %v: the client of a session of %v was told for %v after its end that it holds its znode", who, hang,
					h.timeout, late.Round(time.Millisecond))
			}
		}
	}
	t.Logf("%s, %v: the longest write of the other servers' clients took %v", who, hang, gap.Round(time.Millisecond))
	if who != "leader and one down" && gap > 1500*time.Millisecond {
		t.Errorf("%s, %v: writes of the other servers' clients stopped for %v", who, hang, gap.Round(time.Millisecond))
	}
}

// TestHungDiskEndsServer holds the syncs of a standalone server and of a follower for longer than fsync.stallSeconds.
// Meanwhile the server says that it isn't serving and what it waits for. Then it ends with an exit code of its own,
// and its clients go on at another server with their sessions.
func TestHungDiskEndsServer(t *testing.T) {
	hurtful(t)
	straced(t)
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers=%d", servers), func(t *testing.T) {
			e := Start(t, Options{Servers: servers, Config: map[string]string{"fsync.stallSeconds": "6"}})
			e.Excuse = "ZD-2005"
			victim := 0
			if servers > 1 {
				leader, err := e.Leader()
				if err != nil {
					t.Fatal(err)
				}
				victim = (leader + 1) % servers
			}
			s, j := e.Servers[victim], history.NewJournal(discard{})
			addrs := e.Addrs()
			h := hold(t, j, "/hold", sessionTimeout, append(addrs[victim:], addrs[:victim]...)...)
			writes := traffic.NewClient(j, traffic.ClientOptions{Timeout: sessionTimeout}, addrs[(victim+1)%servers])
			if err := connect(writes); err != nil {
				t.Fatal(err)
			}
			x := inject(t, s, "fdatasync", "delay_enter=20000000")
			said, hung := false, false
			for began := time.Now(); !strings.Contains(s.Log(), "the server ended with an error"); {
				if time.Since(began) > startPatience {
					t.Fatalf("the server goes on; its log ends:\n%s", s.LogEnd())
				}
				q := jute.SetDataRequest{Path: "/", Data: []byte("x"), Version: -1}
				writes.Send(jute.OpSetData, q.Append(nil)) // its answer doesn't matter
				srvr, _ := s.Ask("srvr")
				mntr, _ := s.Ask("mntr")
				said = said || strings.Contains(srvr, "not currently serving")
				hung = hung || strings.Contains(mntr, "zk_fsync_in_flight_ms\t4") ||
					strings.Contains(mntr, "zk_fsync_in_flight_ms\t5")
				time.Sleep(100 * time.Millisecond)
			}
			x.cmd.Process.Kill() // it holds the thread, as a disk does, and so the process
			x.cmd.Wait()
			if code, err := s.Exit(endPatience); err != nil || code != 74 {
				t.Errorf("the server ended with code %d (%v), want 74", code, err)
			}
			if !said || !hung || !strings.Contains(s.Log(), "ZD-2005") {
				t.Errorf("srvr said that it doesn't serve: %t; mntr told of the write: %t; the log ends:\n%s", said, hung, s.LogEnd())
			}
			if servers == 1 {
				close(h.stop)
				h.wg.Wait()
				return
			}
			for deadline := time.Now().Add(sessionTimeout); ; time.Sleep(readyPause) {
				h.mu.Lock()
				answered, moved := time.Since(h.answered) < time.Second, h.moves > 0
				h.mu.Unlock()
				if answered && moved {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the client has not found another server")
				}
			}
			h.end()
			if !h.expired.IsZero() {
				t.Error("the client's session ended")
			}
		})
	}
}
