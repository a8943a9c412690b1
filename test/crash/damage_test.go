package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDamagedLog changes one bit in the log of a follower that is down. The
// follower must start with nothing lost, or refuse and name the file; emptied, it
// takes everything from the others again.
func TestDamagedLog(t *testing.T) {
	seed, rng := hurtful(t)
	rounds := times(0, 6, 200)
	r := Begin(t, trio(seed, int64(rounds)*100))
	r.Excuse = damageSign
	refused := 0
	for range rounds {
		r.WaitAnswered(100)
		victim := (r.leader() + 1 + rng.IntN(2)) % 3
		s := r.Servers[victim]
		r.Down(victim)
		s.Kill()
		r.Collect(victim)
		file := flip(t, s, rng)
		logged := len(s.Log())
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ready(); err != nil {
			refused++
			code, err := s.Exit(endPatience)
			said := s.Log()[logged:]
			if err != nil || code != 1 || !strings.Contains(said, damageSign) || !strings.Contains(said, filepath.Base(file)) {
				t.Errorf("after one bit in %s changed the server ended with code %d (%v) and said:\n%s", file, code, err, said)
			}
			empty(t, s)
			votes := r.votes(s.ID)
			r.Restart(victim)
			// It serves clients before it votes again, and until it does the others
			// can't do without one more.
			for deadline := time.Now().Add(healPatience); r.votes(s.ID) == votes; {
				if time.Now().After(deadline) {
					t.Fatalf("server %d, emptied, got no vote again within %v", s.ID, healPatience)
				}
				time.Sleep(readyPause)
			}
		}
		healed := time.Now()
		if _, err := r.Pulses[victim].FirstBeat(healed, healPatience); err != nil {
			t.Fatal(err)
		}
		r.Up(victim)
	}
	t.Logf("%d bits changed; the server refused to start %d times, and rejoined empty", rounds, refused)
	if refused == 0 {
		t.Error("no damage was noticed: nothing was shown")
	}
	r.undisturbed()
	r.Verdict()
}

// votes counts how often a leader gave a server that had caught up its vote.
func (r *Run) votes(id int) (n int) {
	for _, s := range r.Servers {
		n += strings.Count(s.Log(), fmt.Sprintf("gets a vote\" server=%d", id))
	}
	return n
}

// flip changes one bit in the older half of what a server's newest written log
// segment holds: a later batch proves that it was durable.
func flip(t *testing.T, s *Server, rng *rand.Rand) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.LogDir(), "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log segments in %s (%v)", s.LogDir(), err)
	}
	slices.Sort(files)
	for _, file := range slices.Backward(files) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(b)
		for end > 0 && b[end-1] == 0 {
			end--
		}
		const batches = 16 << 10 // several, whatever their size
		if end < batches {
			continue
		}
		for {
			if at := rng.IntN(end / 2); b[at] != 0 { // zeros may be padding
				b[at] ^= 1 << rng.IntN(8)
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
		}
	}
	t.Fatalf("the log in %s is too short to be damaged", s.LogDir())
	return ""
}

// empty removes a server's data but for its id, as an operator does with a
// damaged copy that the others still hold.
func empty(t *testing.T, s *Server) {
	t.Helper()
	for _, dir := range s.dirs() {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Name() == "myid" {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}
