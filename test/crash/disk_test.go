package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endPatience is how long a server may go on after its disk began to fail: until
// it writes the next time.
const endPatience = 30 * time.Second

// A diskError is one row of the matrix: what the kernel answers to which system
// call.
type diskError struct {
	name string
	// inject is strace's: call, and what becomes of it.
	call, inject string
	// says is what the server's log must say.
	says string
}

var diskErrors = []diskError{
	{"a failed sync of the log", "fdatasync", "error=EIO", "can't be written"},
	{"a failed write", "pwrite64", "error=EIO", "can't be written"},
	{"a write without room", "pwrite64", "error=ENOSPC", "can't be written"},
	{"a write to a disk that went read-only", "pwrite64", "error=EROFS", "can't be written"},
	{"a lost disk", "fdatasync,pwrite64,fsync,renameat,openat", "error=EIO", "can't be written"},
}

// straced skips the test where system calls can't be made to fail.
func straced(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command("strace", "-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true").CombinedOutput(); err != nil {
		t.Skipf("strace doesn't work here: %v: %s", err, out)
	}
}

// inject makes system calls of a running server fail until the returned function
// is called or the server has ended.
func inject(t *testing.T, s *Server, call, what string) (end func()) {
	t.Helper()
	cmd := exec.Command("strace", "-f", "-p", fmt.Sprint(s.Pid()), "-o", "/dev/null", "-e", "trace="+call, "-e", "inject="+call+":"+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		cmd.Process.Signal(syscall.SIGTERM) // it lets go of the server
		cmd.Wait()
	}
}

// TestDiskErrors makes the disk of a server fail under load: it must end, say
// why, and have everything it acknowledged when it is started again.
func TestDiskErrors(t *testing.T) {
	seed, rng := hurtful(t)
	straced(t)
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers=%d", servers), func(t *testing.T) {
			o := trio(seed, 500)
			o.Servers, o.Pulses = servers, servers > 1
			o.Config = map[string]string{"snapCount": "1000"}
			r := Begin(t, o)
			for range times(0, 1, 10) {
				for i, e := range diskErrors {
					victim := r.leader()
					if i%2 == 1 {
						victim = (victim + 1) % servers
					}
					r.fail(t, victim, e, rng)
				}
			}
			r.undisturbed()
			r.Verdict()
		})
	}
}

// fail makes one server's disk fail once and starts it again.
func (r *Run) fail(t *testing.T, victim int, e diskError, rng *rand.Rand) {
	t.Helper()
	s := r.Servers[victim]
	r.WaitAnswered(100)
	moment(rng, 200*time.Millisecond)
	logged := len(s.Log())
	r.Down(victim)
	fault := time.Now()
	end := inject(t, s, e.call, e.inject+":when=1+")
	code, err := s.Exit(endPatience)
	end()
	if err != nil {
		t.Fatalf("%s: %v; a server may not go on after it", e.name, err)
	}
	said := s.Log()[logged:]
	if code != 1 || !strings.Contains(said, e.says) {
		t.Errorf("%s: the server ended with code %d, want 1 and %q in its log:\n%s", e.name, code, e.says, said)
	}
	gap := time.Duration(0)
	if len(r.Servers) > 1 {
		gap = r.survivors(victim, fault)
	}
	r.Collect(victim)
	restart := r.Restart(victim)
	r.Up(victim)
	t.Logf("%s: ended within %v, longest write over the others %v, restarted in %v", e.name,
		time.Since(fault).Round(time.Millisecond)-restart.Round(time.Millisecond), gap.Round(time.Millisecond), restart.Round(time.Millisecond))
}

// TestDiskErrorsAtStart makes the n-th sync, write or rename of a starting server
// fail, for each n until it starts unharmed often enough.
func TestDiskErrorsAtStart(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	o := trio(seed, 100)
	o.Servers, o.Pulses = 1, false
	o.Config = map[string]string{"snapCount": "1000"}
	r := Begin(t, o)
	s := r.Servers[0]
	refusals := 0
	for _, call := range []string{"fdatasync", "pwrite64", "fsync", "renameat", "unlinkat", "fallocate"} {
		const most, enough = 12, 3
		unharmed := 0
		for n := 1; n <= most && unharmed < enough; n++ {
			r.WaitAnswered(20)
			s.Kill()
			r.Collect(0)
			// -D makes the server our child, not strace.
			s.Wrap = []string{"strace", "-D", "-f", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:error=EIO:when=%d", call, n)}
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
			if code, exitErr := s.Exit(endPatience); exitErr != nil || code != 1 {
				t.Errorf("%s %d: %v; the code is %d (%v), want 1", call, n, err, code, exitErr)
			}
			r.Restart(0)
		}
	}
	t.Logf("%d starts failed on purpose", refusals)
	if refusals == 0 {
		t.Error("no start failed: nothing was shown")
	}
	r.Verdict()
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
	end := inject(t, r.Servers[leader], "fdatasync", "delay_enter=700000")
	time.Sleep(lasting(5*time.Second, time.Minute))
	gap := r.Pulses[(leader+1)%3].Longest(fault, time.Now())
	end()
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

// mountMax is the size of the small file systems below.
const mountMax = 256 << 20

// mounted mounts a small file system for the test, or skips it.
func mounted(t *testing.T, kind string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	var cmd *exec.Cmd
	switch kind {
	case "tmpfs":
		cmd = exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", mountMax), "zooid-crash", dir)
	case "ext4":
		if _, err := exec.LookPath("mkfs.ext4"); err != nil {
			t.Skip("mkfs.ext4 is not installed")
		}
		image := dir + ".img"
		t.Cleanup(func() { os.Remove(image) })
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, mountMax); err != nil {
			t.Fatal(err)
		}
		run(t, "mkfs.ext4", "-q", "-m", "0", image)
		cmd = exec.Command("mount", "-o", "loop", image, dir)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("mount a small %s: %v: %s", kind, err, out)
	}
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}
