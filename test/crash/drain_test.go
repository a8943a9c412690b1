package crash

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// command runs one of the program's commands on a server's zoo.cfg, and returns its exit code and what it says.
func (s *Server) command(t *testing.T, name string) (code int, says string) {
	t.Helper()
	cmd := exec.Command(s.program, name, filepath.Join(s.Folder, "zoo.cfg"))
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
	ports := freeport.Take(t, len(r.Servers))
	for i, s := range r.Servers {
		r.Down(i)
		s.Stop()
		s.change(t, map[string]string{
			"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": fmt.Sprint(ports[i]),
		})
		r.Restart(i)
		r.Up(i)
	}
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
