package crash

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// straced skips the test where system calls can't be made to fail.
func straced(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command("strace",
		"-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true").CombinedOutput(); err != nil {
		t.Skipf("strace doesn't work here: %v: %s", err, out)
	}
}

// TestDiskErrorsAtStart makes the n-th open, read, sync, write or rename of a
// starting server fail, for each n until it starts unharmed often enough: alone,
// and one of three, which without -long gets EIO alone.
func TestDiskErrorsAtStart(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers=%d", servers), func(t *testing.T) {
			o := trio(seed, 100)
			o.Servers, o.Pulses, o.Config = servers, false, busyDisk
			r := Begin(t, o)
			refusals := 0
			for _, errno := range []string{"EIO", "ENOSPC"} {
				if servers == 3 && errno != "EIO" && !*long {
					continue // a start fails in the same way with others
				}
				for _, call := range []string{
					"openat", "pread64", "fdatasync", "pwrite64", "fsync", "renameat", "unlinkat", "fallocate",
				} {
					if (call == "pread64" || call == "unlinkat") && errno != "EIO" {
						continue // reading and removing take no room
					}
					n := r.failStarts(t, call, errno)
					t.Logf("%-10s %-7s %d starts failed", call, errno, n)
					refusals += n
				}
			}
			t.Logf("%d starts failed on purpose", refusals)
			if refusals == 0 {
				t.Error("no start failed: nothing was shown")
			}
			r.Verdict()
		})
	}
}

// failStarts starts the first server again and again, each time with the next
// call failing, and returns how often that kept it from starting.
func (r *Run) failStarts(t *testing.T, call, errno string) (refusals int) {
	t.Helper()
	s := r.Servers[0]
	const most, enough = 12, 3
	unharmed := 0
	for n := 1; n <= most && unharmed < enough; n++ {
		r.WaitAnswered(20)
		s.Kill()
		r.Collect(0)
		// -D makes the server our child, not strace.
		s.Wrap = []string{
			"strace", "-D", "-f", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call,
				errno, n),
		}
		err := s.Start()
		s.Wrap = nil
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Ready(); err == nil {
			s.Kill() // strace goes with it
			r.Collect(0)
			r.Restart(0)
			unharmed++ // strace counts by thread: the next n may hit all the same
			continue
		}
		refusals++
		// 2 says that the configuration can't be read, which is opened, too.
		if code, exitErr := s.Exit(endPatience); exitErr != nil || code != 1 && (code != 2 || call != "openat") {
			t.Errorf("%s %s %d: %v; the code is %d (%v), want 1", call, errno, n, err, code, exitErr)
		}
		r.Restart(0)
	}
	return refusals
}

// TestSlowDisk makes every sync of the leader take long: writes get slow, and
// nobody is disturbed.
func TestSlowDisk(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	r := Begin(t, trio(seed, 200))
	r.WaitAnswered(100)
	leader := r.leader()
	fault := time.Now()
	x := inject(t, r.Servers[leader], "fdatasync", "delay_enter=700000")
	time.Sleep(lasting(5*time.Second, time.Minute))
	gap := r.Pulses[(leader+1)%3].Longest(fault, time.Now())
	x.end()
	healed := time.Now()
	for _, p := range r.Pulses {
		if _, err := p.FirstBeat(healed, healPatience); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("with syncs of 0.7 s on the leader the longest write took %v", gap.Round(time.Millisecond))
	r.undisturbed()
	r.Verdict()
}

// lasting picks a duration: usual, or nightly with -long.
func lasting(usual, nightly time.Duration) time.Duration {
	if *long {
		return nightly
	}
	return usual
}
