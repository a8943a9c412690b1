package crash

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

var (
	hungRounds = flag.Int("hung.rounds", 0, "rounds of TestHungDisk, each with hangs of 2, 9 and 38 s; 0 means a hang of 9 s, with -long one round")
	hungApache = flag.Bool("hung.apache", false, "TestHungDisk on Apache ZooKeeper 3.9.5, which test/compat/install.sh fetches: nothing is judged")
)

const (
	// stallAfter is the default of fsync.stallSeconds.
	stallAfter = 20 * time.Second
	// stallCode is the exit code of a server whose disk has hung for longer than that.
	stallCode = 74
	// hungStopMax is for how long the writes of other servers' clients may stop while a server's disk hangs.
	hungStopMax = 1500 * time.Millisecond
	// hungDelivery is what a busy machine may need to deliver and record a reply.
	hungDelivery = 500 * time.Millisecond
)

// hungTimeouts are the session timeouts of clients that hold locks.
var hungTimeouts = []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second}

// hungCases are whose disk hangs.
var hungCases = []string{"follower", "leader", "leader and one down"}

// TestHungDisk makes the syncs of a server hang: of a follower, of the leader, and of the leader while another server
// is down. Clients of all servers hold locks, and others wait for them. No session ends: the server tells the leader
// that it hears its clients, or lets them go in time. If one did, its client must not be told for long that it
// holds its lock (X10). The writes of the other servers' clients hardly stop. A server whose disk hangs for longer
// than fsync.stallSeconds ends with a code that says so, and its clients go on elsewhere with their sessions.
func TestHungDisk(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	hangs := []time.Duration{9 * time.Second}
	if *long || *hungRounds > 0 {
		hangs = []time.Duration{2 * time.Second, 9 * time.Second, 38 * time.Second}
	}
	for _, who := range hungCases {
		t.Run(who, func(t *testing.T) {
			var sums hungSums
			for range max(1, *hungRounds) {
				r := beginHung(t, seed)
				var all []*hungResult
				for _, hang := range hangs {
					all = append(all, r.hang(t, who, hang))
				}
				if *hungApache {
					r.endApache(t)
				} else {
					r.Verdict()
				}
				r.judgeLocks(t, all, !*hungApache)
				sums.add(all)
			}
			t.Logf("in all:\n%s", &sums)
		})
	}
}

// beginHung starts three servers whose disks can hang, with clients.
func beginHung(t *testing.T, seed uint64) *Run {
	t.Helper()
	if *hungApache {
		return beginApache(t)
	}
	o := trio(seed, 200)
	o.Pause, o.DeliveryMax = 10*time.Millisecond, hungDelivery
	o.Expiring = *long || *hungRounds > 0 // sessions of clients that use only the server whose disk hangs for 38 s
	return Begin(t, o)
}

// A hungResult is what one hang did.
type hungResult struct {
	who     string
	hang    time.Duration
	stopped time.Duration // the longest time in which a client of another server got no write answered
	ended   int           // exit code of a server that ended itself, 0 if none did
	locks   []*lock
}

// hang makes the disk of a server hang for a while.
func (r *Run) hang(t *testing.T, who string, hang time.Duration) *hungResult {
	t.Helper()
	res := &hungResult{who: who, hang: hang}
	leader := r.leader()
	victim, down, others := leader, -1, []int{(leader + 1) % 3, (leader + 2) % 3}
	switch who {
	case "follower":
		victim, others[0] = others[0], leader
	case "leader and one down":
		down, others = others[1], others[:1]
		r.Down(down)
		r.Servers[down].Kill()
		r.collect(down)
	}
	r.amongLocks(t, res, victim, others, func() (healed time.Time) {
		x := inject(t, r.Servers[victim], "fdatasync,fsync", fmt.Sprintf("delay_enter=%d", hang.Microseconds()))
		time.Sleep(hang)
		ends := hang > stallAfter && !*hungApache
		if ends {
			x.kill()
		} else {
			x.end()
			if !x.began() {
				t.Errorf("%s, %v: no sync hung, so nothing was shown", who, hang)
			}
		}
		healed = time.Now()
		if ends {
			code, err := r.Servers[victim].Exit(endPatience)
			if res.ended = code; err != nil || code != stallCode {
				t.Errorf("%s, %v: the server ended with code %d (%v), want %d", who, hang, code, err, stallCode)
			}
			r.collect(victim)
			r.Restart(victim)
		}
		if down >= 0 {
			r.Restart(down)
			r.Up(down)
		}
		return healed
	})
	if who != "leader and one down" && res.stopped > hungStopMax && !*hungApache {
		t.Errorf("%s, %v: writes of the other servers' clients stopped for %v", who, hang, res.stopped.Round(time.Millisecond))
	}
	return res
}

// amongLocks has clients of a server and of others hold locks while a fault of that server comes and goes, and notes
// what became of the locks, and for how long the writes of the others' clients stopped.
func (r *Run) amongLocks(t *testing.T, res *hungResult, victim int, others []int, fault func() (healed time.Time)) {
	t.Helper()
	began := time.Now()
	for _, i := range append([]int{victim}, others...) {
		if _, err := r.Pulses[i].FirstBeat(began, healPatience); err != nil {
			t.Fatal(err)
		}
		r.Down(i)
	}
	for _, home := range append([]int{victim}, others...) {
		for _, timeout := range hungTimeouts {
			res.locks = append(res.locks, r.takeLock(t, home, others[0], timeout))
		}
	}
	from := time.Now()
	healed := fault()
	for _, p := range r.Pulses {
		if _, err := p.FirstBeat(healed, healPatience); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range res.locks {
		l.settle(t, healed)
	}
	for _, l := range res.locks {
		l.rival.end()
	}
	for _, l := range res.locks {
		l.holder.end()
	}
	for _, i := range append([]int{victim}, others...) {
		r.Up(i)
	}
	for _, i := range others {
		res.stopped = max(res.stopped, r.Pulses[i].Silent(from, healed))
	}
}

// collect reads the log of a server that has ended, if it is one of Zooid's.
func (r *Run) collect(server int) {
	if r.collectors != nil {
		r.Collect(server)
	}
}

// judgeLocks reads in the history who held what, and judges it unless the servers are Apache's.
func (r *Run) judgeLocks(t *testing.T, all []*hungResult, judged bool) {
	t.Helper()
	if err := r.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(r.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	held := readLocks(h)
	for _, res := range all {
		for _, l := range res.locks {
			if l.heldRecord = *held[l.path]; !l.lost() {
				continue
			}
			tell := t.Logf
			if judged {
				tell = t.Errorf
			}
			tell("%s, %v: the session of %v of a client of server %d was ended; two clients held its lock for %v, at most %v is allowed",
				res.who, res.hang, l.timeout, l.home+1, l.both.Round(time.Millisecond), l.bound())
		}
		t.Logf("%s", res)
	}
}

// TestHungDiskEndsServer holds the syncs of a standalone server and of a follower for longer than fsync.stallSeconds.
// Meanwhile the server says that it isn't serving and what it waits for, as zooid health and zooid status do. Then it
// ends with an exit code of its own, and its clients go on at another server with their sessions.
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
			if servers > 1 { // zooid health asks the admin server for /readyz; without one, the client port for srvr
				s.Stop()
				s.enableAdmin(t, freeport.Take(t, 1)[0])
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Ready(); err != nil {
					t.Fatal(err)
				}
			}
			if code, says := s.command(t, "health"); code != 0 {
				t.Errorf("zooid health before the hang ends with code %d: %s", code, says)
			}
			addrs := e.Addrs()
			h := hold(t, j, "/hold", sessionTimeout, append(addrs[victim:], addrs[:victim]...)...)
			writes := traffic.NewClient(j, traffic.ClientOptions{Timeout: sessionTimeout}, addrs[(victim+1)%servers])
			if err := connect(writes); err != nil {
				t.Fatal(err)
			}
			x := inject(t, s, "fdatasync", "delay_enter=20000000")
			said, hung, unready, degraded := false, false, "", ""
			for began := time.Now(); !strings.Contains(s.Log(), "the server ended with an error"); {
				if time.Since(began) > startPatience {
					t.Fatalf("the server goes on; its log ends:\n%s", s.LogEnd())
				}
				q := jute.SetDataRequest{Path: "/", Data: []byte("x"), Version: -1}
				writes.Send(jute.OpSetData, q.Append(nil)) // its answer doesn't matter
				srvr, _ := s.Ask("srvr")
				mntr, _ := s.Ask("mntr")
				said = said || strings.Contains(srvr, "not currently serving")
				ms, told := figure(mntr, "fsync_in_flight_ms")
				hung = hung || told && ms >= 4000
				if code, says := s.command(t, "health"); code == 1 && (servers == 1 || strings.Contains(says, "the disk hangs")) {
					unready = says
				}
				if code, says := e.status(t); code != 0 && strings.Contains(says, "its log's disk hangs") {
					degraded = says
				}
				time.Sleep(100 * time.Millisecond)
			}
			x.kill()
			if code, err := s.Exit(endPatience); err != nil || code != stallCode {
				t.Errorf("the server ended with code %d (%v), want %d", code, err, stallCode)
			}
			if !said || !hung || !strings.Contains(s.Log(), "ZD-2005") {
				t.Errorf("srvr said that it doesn't serve: %t; mntr told of the write: %t; the log ends:\n%s", said, hung, s.LogEnd())
			}
			if unready == "" || degraded == "" {
				t.Errorf("zooid health said that the server is not ready: %q; and zooid status that the disk hangs: %q",
					unready, degraded)
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
