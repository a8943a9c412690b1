package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// The matrix of disk errors: what fails, how, and on whom.

// A diskFault is a row: which system calls of a server fail, and how.
type diskFault struct {
	what  string
	calls string // strace's names
	errno string
}

// said is what the server's log must hold of each error.
var said = map[string]string{
	"EIO": "input/output error", "ENOSPC": "no space left on device", "EROFS": "read-only file system",
	"EDQUOT": "disk quota exceeded",
}

// noRoom reports whether an error says that there is no room. A quota is used up as a disk is full.
func noRoom(errno string) bool { return errno == "ENOSPC" || errno == "EDQUOT" }

// outlived are the calls after which, without room, a server goes on: they have done nothing, or can be repeated.
var outlived = []string{"pwrite64", "openat", "renameat", "fallocate"}

var diskFaults = []diskFault{
	{"write", "pwrite64", "EIO"},
	{"write", "pwrite64", "ENOSPC"},
	{"write", "pwrite64", "EDQUOT"},
	{"write", "pwrite64", "EROFS"},
	{"sync of a file", "fdatasync", "EIO"},
	{"sync of a file", "fdatasync", "ENOSPC"},
	{"sync of a directory", "fsync", "EIO"},
	{"sync of a directory", "fsync", "ENOSPC"},
	{"open and create", "openat", "EIO"},
	{"open and create", "openat", "ENOSPC"},
	{"open and create", "openat", "EDQUOT"},
	{"rename", "renameat", "EIO"},
	{"rename", "renameat", "ENOSPC"},
	{"rename", "renameat", "EDQUOT"},
	{"allocate", "fallocate", "EIO"},
	{"allocate", "fallocate", "ENOSPC"},
	{"allocate", "fallocate", "EDQUOT"},
	{"remove", "unlinkat", "EIO"},
	{"remove", "unlinkat", "EROFS"},
	{"everything", "fdatasync,pwrite64,fsync,renameat,openat,unlinkat,fallocate", "EIO"},
}

const (
	// endPatience is how long a server may go on after a disk error that it must not
	// survive: until it writes the next time.
	endPatience = time.Minute
	// callPatience is how long a server under load may take until it makes a call
	// again: it writes snapshots, new segments of the log and purges all the time.
	callPatience = time.Minute
	// afterwards is how long a server is watched that outlives an error.
	afterwards = 1500 * time.Millisecond
)

// busyDisk makes a server use most of its disk's calls within seconds, by many
// snapshots.
var busyDisk = map[string]string{"snapCount": "1000"}

// directoryOpened is what a server's log says if strace has hit the opening of a directory that is to be synced. strace
// can't tell it from the creation of a file, and no file system refuses it for lack of room, so a server may end by it.
var directoryOpened = regexp.MustCompile(`sync directory .*: open /`)

// full is what a server's log says when it refuses writes for lack of room.
const full = "the disk is nearly full"

// none is what it says of a file system that shows room and gives none.
const none = "this server can't create the log's next file"

// An injection makes system calls of a running server fail.
type injection struct {
	cmd  *exec.Cmd
	file string
}

// inject begins one; end must be called, the server having ended or not.
func inject(t *testing.T, s *Server, calls, what string) *injection {
	t.Helper()
	x := &injection{file: filepath.Join(t.TempDir(), "strace")}
	x.cmd = exec.Command("strace", "-f", "-p", fmt.Sprint(s.Pid()), "-o", x.file, "-e", "trace="+calls,
		"-e", "inject="+calls+":"+what)
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return x
}

// awaitAttached waits until all threads of the server are traced.
func (x *injection) awaitAttached(t *testing.T, s *Server) {
	t.Helper()
	untraced := func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Pid()))
		return err != nil || len(tasks) == 0 || slices.ContainsFunc(tasks, func(task string) bool {
			b, err := os.ReadFile(task)
			return err == nil && strings.Contains(string(b), "TracerPid:\t0\n")
		})
	}
	for end := time.Now().Add(startPatience); untraced(); time.Sleep(readyPause) {
		if time.Now().After(end) {
			t.Fatalf("server %d isn't traced", s.ID)
		}
	}
}

// count is how many calls have failed.
func (x *injection) count() int {
	b, err := os.ReadFile(x.file)
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "(INJECTED)")
}

// began reports whether any of the calls has begun.
func (x *injection) began() bool {
	b, err := os.ReadFile(x.file)
	return err == nil && strings.Contains(string(b), "sync(")
}

func (x *injection) end() {
	x.cmd.Process.Signal(syscall.SIGTERM) // it lets go of the server
	x.cmd.Wait()
}

// kill ends an injection that holds a thread, as a disk does, and so a process that has begun to end: strace doesn't
// let go of it.
func (x *injection) kill() {
	x.cmd.Process.Kill()
	x.cmd.Wait()
}

// TestDiskErrors goes through the matrix: a server alone, the leader of three, a
// follower. A server whose log is struck must end and say why. One that can go on,
// as without a snapshot, says so and goes on. Nothing acknowledged is lost either
// way, and the others don't stop. Without -long EIO strikes the leader of three and the
// other errors a follower, but for EDQUOT.
func TestDiskErrors(t *testing.T) {
	seed, _ := hurtful(t)
	straced(t)
	var table []string
	for _, servers := range []int{1, 3} {
		for _, rows := range diskRuns() {
			growing := rows[0].calls == "fallocate"
			t.Run(fmt.Sprintf("servers=%d,growing=%v,%s", servers, growing, rows[0].errno), func(t *testing.T) {
				if servers > 1 && growing && rows[0].errno == "EDQUOT" && !*long {
					t.Skip("runs with -long")
				}
				o := trio(seed, 200)
				o.Servers, o.Config, o.Allowed = servers, busyDisk, []jute.Code{jute.ErrThrottledOp}
				if growing {
					o.Config = nil
				}
				o.DiskFills = servers == 1 && slices.ContainsFunc(rows, func(f diskFault) bool { return noRoom(f.errno) })
				r := Begin(t, o)
				for range times(0, 1, 3) {
					table = append(table, r.strikeAll(t, rows)...)
				}
				r.undisturbed()
				r.Verdict()
			})
		}
	}
	slices.Sort(table)
	t.Logf("%d cells:\n%s", len(table), strings.Join(table, "\n"))
}

// diskRuns returns the rows of the matrix, those of each run together. Each row about
// allocating has servers of its own: a log has no snapshots there, so that no segment is used
// again, and each new segment is larger, and is allocated later, than the one before.
func diskRuns() (runs [][]diskFault) {
	var busy []diskFault
	for _, f := range diskFaults {
		if f.calls == "fallocate" {
			runs = append(runs, []diskFault{f})
		} else {
			busy = append(busy, f)
		}
	}
	return append(runs, busy)
}

// strikeAll goes through rows of the matrix once.
func (r *Run) strikeAll(t *testing.T, rows []diskFault) (table []string) {
	t.Helper()
	whom := []string{"leader", "follower"}
	if len(r.Servers) == 1 {
		whom = []string{"alone"}
	}
	for _, f := range rows {
		for _, who := range whom {
			if !*long && who != "alone" && ((who == "leader") != (f.errno == "EIO") || f.errno == "EDQUOT") {
				continue
			}
			victim := r.leader()
			if who == "follower" {
				victim = (victim + 1) % len(r.Servers)
			}
			cell := fmt.Sprintf("%-20s %-7s %-9s %s", f.what, f.errno, who, r.strike(t, victim, f))
			t.Log(cell)
			table = append(table, cell)
		}
	}
	return table
}

// halfInjected is what a call returns (ENOSYS) if strace ends after it has replaced the call's number, and before it
// has put the error in place: the server then meets a fault that isn't the cell's.
const halfInjected = "function not implemented"

// strike does what one cell says to a server, checks what it must do, and starts
// it again. It returns what happened.
func (r *Run) strike(t *testing.T, victim int, f diskFault) string {
	t.Helper()
	s := r.Servers[victim]
	r.WaitAnswered(50)
	for i := range r.Servers {
		r.peek(i)
	}
	logged := len(s.Log())
	r.Down(victim)
	fault := time.Now()
	x := inject(t, s, f.calls, "error="+f.errno)
	for deadline := fault.Add(callPatience); x.count() == 0 && s.Running(); time.Sleep(readyPause) {
		if time.Now().After(deadline) {
			x.end()
			t.Fatalf("%s %s: the server did not call %s within %v: nothing was shown", f.what, f.errno, f.calls, callPatience)
		}
	}
	visible := func() bool {
		text := s.Log()[logged:]
		return strings.Contains(text, said[f.errno]) ||
			noRoom(f.errno) && (strings.Contains(text, full) || strings.Contains(text, none))
	}
	for deadline := time.Now().Add(callPatience); s.Running() && !visible() && time.Now().Before(deadline); {
		time.Sleep(readyPause)
	}
	code, err := s.Exit(afterwards) // what is said first may be the end, or not
	x.end()
	if err != nil {
		code, err = r.endsOrServes(victim)
	}
	ended := err == nil
	failed := x.count()
	text := s.Log()[logged:]
	if failed == 0 {
		t.Errorf("%s %s: the server ended (code %d) though nothing failed:\n%s", f.what, f.errno, code, text)
	}
	if !visible() {
		t.Errorf("%s %s: the server's log doesn't say %q:\n%s", f.what, f.errno, said[f.errno], text)
	}
	if ended && code != 1 {
		t.Errorf("%s %s: the server ended with code %d, want 1:\n%s", f.what, f.errno, code, text)
	}
	if ended && noRoom(f.errno) && slices.Contains(outlived, f.calls) && !directoryOpened.MatchString(text) &&
		!strings.Contains(text, halfInjected) {
		t.Errorf("%s %s: the server ended for lack of room:\n%s", f.what, f.errno, text)
	}
	gap := time.Duration(0)
	if len(r.Servers) > 1 {
		gap = r.survivors(victim, fault)
	}
	what := fmt.Sprintf("ended with code %d after %d failed calls", code, failed)
	if !ended {
		what = fmt.Sprintf("%d calls failed, went on", failed)
		if strings.Contains(text, full) {
			what = fmt.Sprintf("%d calls failed, refused writes until there was room", failed)
		}
		if _, err := r.Pulses[victim].FirstBeat(time.Now(), healPatience); err != nil {
			t.Errorf("%s %s: the server neither ended nor serves: %v; its log says:\n%s", f.what, f.errno, err, text)
		}
		s.Kill()
	}
	r.Collect(victim)
	r.Restart(victim)
	r.Up(victim)
	if len(r.Servers) > 1 {
		what += fmt.Sprintf("; longest write over the others %v", gap.Round(time.Millisecond))
	}
	return what
}

// endsOrServes waits until a server ends, whose code it returns, or answers a write.
func (r *Run) endsOrServes(server int) (code int, err error) {
	from := time.Now()
	for deadline := from.Add(healPatience); time.Now().Before(deadline); {
		if code, err = r.Servers[server].Exit(readyPause); err == nil {
			return code, nil
		}
		if r.Pulses[server].Beats(from, time.Now()) > 0 {
			return code, err
		}
	}
	return code, err
}

// peek reads what a running server's log holds, before it is purged: the process
// stands still meanwhile, so that its folder is as a kill would leave it.
func (r *Run) peek(server int) {
	r.t.Helper()
	s := r.Servers[server]
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	defer s.Signal(syscall.SIGCONT)
	for deadline := time.Now().Add(stopPatience); !s.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("server %d did not stop at SIGSTOP", s.ID)
		}
	}
	r.Collect(server)
}
