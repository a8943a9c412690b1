package crash

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// command runs one of the program's commands, with flags, on a server's zoo.cfg, and returns its exit code and what it
// says.
func (s *Server) command(t *testing.T, name string, flags ...string) (code int, says string) {
	t.Helper()
	cmd := exec.Command(s.program, append(append([]string{name}, flags...), filepath.Join(s.Folder, "zoo.cfg"))...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// enableAdmin starts each server again with an admin server.
func (r *Run) enableAdmin(t *testing.T) {
	t.Helper()
	ports := freeport.Take(t, len(r.Servers))
	for i, s := range r.Servers {
		r.Down(i)
		s.Stop()
		s.enableAdmin(t, ports[i])
		r.Restart(i)
		r.Up(i)
	}
}

// enableAdmin gives a server an admin server, from its next start on.
func (s *Server) enableAdmin(t *testing.T, port int) {
	t.Helper()
	s.change(t, map[string]string{
		"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": fmt.Sprint(port),
	})
}

// status runs zooid status, and returns its exit code and what it says.
func (e *Ensemble) status(t testing.TB) (code int, says string) {
	t.Helper()
	var all []string
	for _, s := range e.Servers {
		all = append(all, s.Addr)
	}
	cmd := exec.Command(e.Servers[0].program, "status", strings.Join(all, ","))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestDrainAndStop takes servers of three out of service under load as an operator does, the leader and others by
// turns: zooid drain, then SIGTERM. Once drained a server doesn't lead and isn't ready, and the others serve.
func TestDrainAndStop(t *testing.T) {
	seed, rng := hurtful(t)
	rounds := times(*roundsFlag, 3, 50)
	r := Begin(t, trio(seed, int64(rounds)*200))
	r.enableAdmin(t)
	var sum pauses
	for range rounds {
		leader := r.leader()
		for _, victim := range []int{leader, (leader + 1 + rng.IntN(2)) % 3} {
			r.WaitAnswered(100)
			moment(rng, 300*time.Millisecond)
			s := r.Servers[victim]
			r.Down(victim)
			fault := time.Now()
			if code, says := s.command(t, "drain"); code != 0 {
				t.Fatalf("zooid drain of server %d ends with code %d: %s", s.ID, code, says)
			}
			if now := r.leader(); now == victim {
				t.Errorf("server %d leads after it was drained", s.ID)
			}
			if code, says := s.command(t, "health"); code != 1 {
				t.Errorf("zooid health of a drained server ends with code %d: %s", code, says)
			}
			r.measure(victim, fault, &sum)
			r.WaitAnswered(100) // drained, it is a member still
			if code := s.Stop(); code != 0 {
				t.Errorf("server %d ended with code %d on SIGTERM", s.ID, code)
			}
			r.measure(victim, time.Now(), &sum)
			r.Restart(victim)
			r.Up(victim)
			for deadline := time.Now().Add(healPatience); ; time.Sleep(readyPause) {
				code, says := s.command(t, "health")
				if code == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("zooid health of a server that is back ends with code %d: %s", code, says)
				}
			}
		}
	}
	t.Logf("%d servers drained and stopped, every second one the leader: over the others %s", 2*rounds, &sum)
	r.undisturbedVerdict()
}

// TestDrainEveryServer drains each of three servers under load, as a tool does that goes through all of them: one after
// the other, and all at once. One is drained, the others refuse, and clients go on. zooid drain -undo ends it. By force
// all are drained, which zooid status says.
func TestDrainEveryServer(t *testing.T) {
	seed, _ := hurtful(t)
	rounds := times(*roundsFlag, 2, 20)
	r := Begin(t, trio(seed, int64(rounds)*400))
	r.enableAdmin(t)
	type ending struct {
		code int
		says string
	}
	for range rounds {
		for _, atOnce := range []bool{false, true} {
			r.WaitAnswered(100)
			r.leader()
			for i := range r.Servers {
				r.Down(i) // any of them may turn its clients away
			}
			ends := make([]ending, len(r.Servers))
			var wg sync.WaitGroup
			for i, s := range r.Servers {
				drain := func() { ends[i].code, ends[i].says = s.command(t, "drain") }
				if atOnce {
					wg.Go(drain)
				} else {
					drain()
				}
			}
			wg.Wait()
			drained := slices.IndexFunc(ends, func(e ending) bool { return e.code == 0 })
			for i, e := range ends {
				if want := fmt.Sprintf("server %d drains", r.Servers[max(drained, 0)].ID); i != drained &&
					(e.code != 1 || !strings.Contains(e.says, want)) {
					t.Fatalf("at once %v: zooid drain of server %d ends with code %d: %s; want a refusal that says %q",
						atOnce, r.Servers[i].ID, e.code, e.says, want)
				}
				want := 0
				if i == drained {
					want = 1
				} else {
					r.Up(i)
				}
				if code, says := r.Servers[i].command(t, "health"); code != want {
					t.Errorf("zooid health of server %d ends with code %d: %s", r.Servers[i].ID, code, says)
				}
			}
			r.WaitAnswered(100)
			if code, says := r.status(t); code != 1 || !strings.Contains(says, "it is drained") {
				t.Errorf("zooid status with a drained server ends with code %d: %s", code, says)
			}
			if code, says := r.Servers[drained].command(t, "drain", "-undo"); code != 0 {
				t.Fatalf("zooid drain -undo ends with code %d: %s", code, says)
			}
			r.Up(drained)
			if code, says := r.status(t); code != 0 {
				t.Errorf("zooid status after the drain was undone ends with code %d: %s", code, says)
			}
		}
	}
	for i, s := range r.Servers {
		r.Down(i)
		if code, says := s.command(t, "drain", "-force", "-why", "a test"); code != 0 {
			t.Fatalf("zooid drain -force of server %d ends with code %d: %s", s.ID, code, says)
		}
	}
	if code, says := r.status(t); code != 2 || !strings.Contains(says, "no server takes clients") {
		t.Errorf("zooid status with all servers drained ends with code %d: %s", code, says)
	}
	for i, s := range r.Servers {
		if code, says := s.command(t, "drain", "-undo"); code != 0 {
			t.Fatalf("zooid drain -undo of server %d ends with code %d: %s", s.ID, code, says)
		}
		r.Up(i)
	}
	r.WaitAnswered(100)
	r.undisturbedVerdict()
}
