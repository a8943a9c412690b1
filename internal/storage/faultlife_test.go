package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// ignoredFaults are the failing calls that no operation reports, as patterns, and why not.
var ignoredFaults = []struct{ step, op, name, why string }{
	{"*", "close", "reserve", "the file only occupies space"},
	{"*", "close", "spare-*.tmp", "its content is synced, and means nothing"},
	{"*", "close", "IDENTITY", "it was only read"},
	{"*", "close", "*.snap", "it is synced and verified, or was only read"},
	{"*", "close", "snapshot-*.tmp", "it is removed next"},
	{"*", "close", "x.kept", "it was only read"},
	{"*", "close", "entry-*", "it was only read"},
	{"walk", "close", "*.log", "it was only read"},
	{"describe*", "close", "*.log", "it was only read"},
	{"look for*", "close", "*.log", "it was only read"},
	{"whose log", "close", "*.log", "it was only read"},
	{"append without room", "remove", "spare-*.tmp", "it takes no room, and the next start removes it"},
	{"append without room", "remove", "reserve", "it has freed nothing, so there is no room, which is said"},
	{"*installation", "close", "*.log", "nothing in it counts any more"},
	{"purge*", "free", "*", "unless space is known to be short, as much is kept as was asked for"},
	{"purge*", "files", "*", "unless space is known to be short, as much is kept as was asked for"},
	{"receive*", "files", "data", "it is a hint: the transfer fails if there is no room"},
	{"drop the part", "remove", "snapshot-*.tmp", "the next start removes the file"},
	{"open*", "open", "spare-*", "such a spare is removed: it could be too large"},
	{"open*", "size", "spare-*", "such a spare is removed: it could be too large"},
	{"open*", "close", "spare-*", "it was only looked at"},
	{"*", "open", "reserve", "it is made again"},
	{"*", "size", "reserve", "it is made again"},
}

// shortFault is an error of a write of which a part was written.
type shortFault struct{ ShortWrite }

func (e *shortFault) Error() string { return e.Err.Error() }

func (e *shortFault) As(target any) bool {
	short, ok := target.(**ShortWrite)
	if ok {
		*short = &e.ShortWrite
	}
	return ok
}

// TestEveryFaultOfALife lets each single call of a life fail once. The step reports it with the file's name, or the
// table above says why not. Either the log has ended, which holds for all later appends, or the step succeeds when it
// is tried again, and the rest of the life is as without the fault. No file and no lock stays open. What was
// acknowledged is there after the next start, and after a power cut. The short form has one call of each place in the
// code.
func TestEveryFaultOfALife(t *testing.T) {
	t.Parallel()
	plain := newLife(NewMemFS())
	type call struct{ step, place string }
	var calls []call
	plain.fs.fail = plain.counted(func(Call) error {
		calls = append(calls, call{plain.at, placeInCode()})
		return nil
	})
	if r := plain.live(); r.err != nil || r.wrong != "" {
		t.Fatalf("%s: %v %s", r.step, r.err, r.wrong)
	}
	tried, said, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	step, out := "", strings.Builder{}
	for n, c := range calls {
		if testing.Short() && tried[c.place] {
			continue
		}
		tried[c.place] = true
		f := failingLife(n, used)
		if f.wrong != "" {
			t.Errorf("%s: call %d, %s %s: %s", f.step, n, f.call.Op, f.call.Name, f.wrong)
		}
		line := alike(fmt.Sprintf("%s %s: %s\n", f.call.Op, f.call.Name, f.outcome))
		if said[line] {
			continue
		}
		if said[line] = true; c.step != step {
			step = c.step
			fmt.Fprintf(&out, "\n%s\n----\n", step)
		}
		out.WriteString(line)
	}
	if testing.Short() {
		return
	}
	for _, row := range ignoredFaults {
		if !used[row.why] {
			t.Errorf("no call fails that is ignored because %s", row.why)
		}
	}
	golden(t, "faults.txt", strings.TrimPrefix(out.String(), "\n"))
}

// placeInCode names the lines of the package that are being executed, without those of tests.
func placeInCode() string {
	var b strings.Builder
	stack := make([]uintptr, 40)
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/storage.") && !strings.HasSuffix(f.File, "_test.go") {
			fmt.Fprintf(&b, "%s:%d ", path.Base(f.File), f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

var numbersInNames = regexp.MustCompile(`[0-9a-f]{16}|[0-9]+`)

// alike returns a text without the numbers in it: of files, offsets and entries.
func alike(text string) string { return numbersInNames.ReplaceAllString(text, "*") }

// counted returns what is called before each call of a life: it kills the process, or asks fail.
func (l *life) counted(fail func(Call) error) func(Call) error {
	return func(c Call) error {
		if l.dead {
			return errKilled
		}
		if l.cut != nil && l.cut(c) {
			l.dead = true
			return &ShortWrite{N: l.tears, Err: errKilled}
		}
		if l.apart {
			return nil
		}
		return fail(c)
	}
}

// lived is how a life ended: with the first error, if any, of a step.
type lived struct {
	step  string
	err   error
	ended bool // the log, by that error
	wrong string
}

// live runs all steps. One that fails is tried again, unless the log has ended.
func (l *life) live() (r lived) {
	for _, s := range lifeSteps {
		l.at, l.next = s.name, l.now
		l.kept[1], l.skips[1] = l.kept[0], l.skips[0]
		d := l.dir
		err := s.do(l)
		if err == nil {
			continue
		}
		if r.err != nil {
			r.wrong = fmt.Sprintf("%s fails too: %v", s.name, err)
			return r
		}
		r.step, r.err = s.name, err
		if r.ended = d != nil && d.Log().Err() != nil && !errors.Is(d.Log().Err(), ErrClosed); r.ended {
			return r
		}
		if leaks := l.fs.leaks(); l.dir == nil && len(leaks) > 0 {
			r.wrong = fmt.Sprintf("%v stay open", leaks)
			return r
		}
		l.again = true
		if err := s.do(l); err != nil {
			r.wrong = fmt.Sprintf("tried again: %v", err)
			return r
		}
		l.again = false
	}
	if leaks := l.fs.leaks(); len(leaks) > 0 {
		r.wrong = fmt.Sprintf("%v stay open", leaks)
	}
	return r
}

// failed is what comes of one failing call.
type failed struct {
	step    string
	call    Call
	outcome string
	wrong   string
}

func failingLife(n int, used map[string]bool) (f failed) {
	m := NewMemFS()
	l := newLife(m)
	calls := 0
	l.fs.fail = l.counted(func(c Call) error {
		if calls++; calls != n+1 {
			return nil
		}
		f.step, f.call = l.at, c
		var fault error = syscall.EIO
		if c.Op == "write" && n%2 == 0 {
			fault = &shortFault{ShortWrite{N: int(c.Bytes / 2), Err: syscall.EIO}}
		}
		return faulty(c, fault)
	})
	r := l.live()
	f.wrong = r.wrong
	switch {
	case r.err == nil:
		if f.outcome = "ignored: " + ignored(f, used); f.outcome == "ignored: " {
			f.wrong = "nothing is noticed " + f.wrong
		}
		return f
	case NoRoom(r.err) && ignored(f, used) != "":
		f.outcome = "ignored: " + ignored(f, used)
		return f
	case r.ended:
		f.outcome = "ends the log: "
	default:
		f.outcome = "fails: "
	}
	if r.step != f.step {
		f.outcome = "only the next write fails, and " + f.outcome
	}
	f.outcome += strings.ReplaceAll(r.err.Error(), faulty(f.call, syscall.EIO).Error(), "…")
	f.outcome = strings.TrimSuffix(f.outcome, ": the log accepts nothing more; the server must stop")
	if f.wrong == "" {
		f.wrong = l.afterwards(m, f.call, r)
	}
	return f
}

// ignored returns why a failing call is ignored, or "".
func ignored(f failed, used map[string]bool) string {
	for _, row := range ignoredFaults {
		step, _ := path.Match(row.step, f.step)
		if name, _ := path.Match(row.name, path.Base(f.call.Name)); step && name && row.op == f.call.Op {
			used[row.why] = true
			return row.why
		}
	}
	return ""
}

// afterwards says what is wrong with the error of a life, and with what it left on the disk.
func (l *life) afterwards(m *MemFS, c Call, r lived) string {
	fatal := (*FatalError)(nil)
	switch name := path.Base(c.Name); {
	case !errors.Is(r.err, syscall.EIO):
		return "reported as: " + r.err.Error()
	case !strings.Contains(r.err.Error(), name):
		return "the file isn't named: " + r.err.Error()
	case !r.ended:
		return ""
	case !errors.As(l.dir.Log().Err(), &fatal):
		return fmt.Sprintf("the log ended by %v", l.dir.Log().Err())
	case l.dir.Log().Append(nil, nil, true) == nil:
		return "the log accepts more after the failure"
	}
	dice := rand.New(rand.NewPCG(uint64(len(r.step)), 1))
	for range 2 {
		if diff := l.powerCut(m, dice); diff != "" {
			return diff
		}
		if diff := l.filesDiffer(m.CrashClone(dice)); diff != "" {
			return "power cut: " + diff
		}
	}
	if err := l.dir.Close(); err != nil {
		return "close after the failure: " + err.Error()
	}
	if len(l.fs.locks) > 0 {
		return "the locks are held"
	}
	m.Hook = nil
	return l.restart(m, dice)
}

// TestUnreadableIsNotDamaged: a start that can't read a directory says so, and not that it is damaged, which is what
// the runbook tells to restore from a copy. The directory lacks a void segment in the middle of an installation.
func TestUnreadableIsNotDamaged(t *testing.T) {
	t.Parallel()
	l := newLife(NewMemFS())
	l.fs.fail = l.counted(func(Call) error { return nil })
	for _, do := range []func(*life) error{
		(*life).open, appends(9, 600), func(l *life) error { return l.installHalf(true) },
	} {
		if err := do(l); err != nil {
			t.Fatal(err)
		}
	}
	l.fs.Damage("log/"+segmentName(2), func(b []byte) []byte {
		if b == nil {
			t.Error("there is no second segment")
		}
		return nil
	})
	for n := 0; ; n++ {
		m := l.fs.Clone()
		o, calls, failed := l.options, 0, Call{}
		f := newFaultyFS(m)
		f.fail = func(c Call) error {
			if calls++; calls != n+1 || c.Op == "close" || c.Op == "unlock" {
				return nil
			}
			failed = c
			return faulty(c, syscall.EIO)
		}
		o.FS = f
		_, err := Examine(o)
		if damage := (*DamageError)(nil); errors.As(err, &damage) || failed.Op != "" && !errors.Is(err, syscall.EIO) {
			t.Errorf("%s %s fails: %v", failed.Op, failed.Name, err)
		}
		if leaks := f.leaks(); len(leaks) > 0 {
			t.Errorf("%s %s fails: %v stay open", failed.Op, failed.Name, leaks)
		}
		if n >= calls {
			if err != nil || n == 0 {
				t.Errorf("of %d calls none fails: %v", calls, err)
			}
			return
		}
	}
}
