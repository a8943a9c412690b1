package compat

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Tests of the machinery itself; they need nothing installed.

func TestRegressionsAreWhatOnlyTheReferencePasses(t *testing.T) {
	t.Parallel()
	reference := Results{
		"both": Passed, "broken": Passed, "skipped": Passed, "missing": Passed, "apache's": Failed, "sasl": Skipped,
	}
	subject := Results{
		"both": Passed, "broken": Failed, "skipped": Skipped, "apache's": Failed, "sasl": Failed, "more": Failed,
	}
	if got, want := Regressions(reference, subject), []string{"broken", "missing", "skipped"}; !slices.Equal(got, want) {
		t.Errorf("Regressions = %q, want %q", got, want)
	}
}

func TestTableCountsEachSide(t *testing.T) {
	t.Parallel()
	reference := Results{"a::1": Passed, "a::2": Passed, "b::1": Skipped}
	subject := Results{"a::1": Passed, "a::2": Failed}
	got := Table("A", "Z", reference, subject, func(test string) string { return test[:1] })
	want := `
       A                        Z
group  passed  skipped  failed  passed  skipped  failed
a      2       0        0       1       0        1
b      0       1        0       0       0        1
TOTAL  2       1        0       1       0        2

not passed on both  A        Z
a::2                passed   FAILED
b::1                skipped  absent
`
	trimmed := "\n"
	for line := range strings.Lines(got) {
		trimmed += strings.TrimRight(line, " \n") + "\n"
	}
	if trimmed != want {
		t.Errorf("Table:%s\nwant:%s", trimmed, want)
	}
}

func TestPytestOutputIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	out := `============================= test session starts ==============================
collecting ... collected 11 items

kazoo/tests/test_lock.py::KazooLockTests::test_lock PASSED               [ 12%]
test_lock.py::KazooLockTests::test_many FAILED                           [ 20%]
test_lock.py::TestSemaphore::test_basic PASSED                           [ 30%]
test_lock.py::TestSemaphore::test_basic ERROR                            [ 30%]
test_sasl.py::TestGSSAPI::test_connect SKIPPED (Kerberos support not available.) [ 40%]
test_paths.py::test_join[a b] PASSED                                     [ 50%]
test_lock.py::TestSemaphore::test_cut_off 
=========================== short test summary info ============================
FAILED test_lock.py::KazooLockTests::test_many - AssertionError: assert 1 == 2
`
	want := Results{
		"test_lock::KazooLockTests::test_lock":   Passed,
		"test_lock::KazooLockTests::test_many":   Failed,
		"test_lock::TestSemaphore::test_basic":   Failed,
		"test_sasl::TestGSSAPI::test_connect":    Skipped,
		"test_paths::test_join[a b]":             Passed,
		"test_lock::TestSemaphore::test_cut_off": Failed,
	}
	if got := parsePytest(out); !maps.Equal(got, want) {
		t.Errorf("parsePytest = %v, want %v", got, want)
	}
}

func TestOutcomeOfAGoTest(t *testing.T) {
	t.Parallel()
	const out = `=== RUN   TestA
    --- FAIL: TestA/sub (0.00s)
--- PASS: TestAB (0.00s)
--- SKIP: TestB (0.00s)
--- FAIL: TestC (0.00s)
--- PASS: TestD (1.03s)
=== RUN   TestE
panic: boom
`
	for test, want := range map[string]Outcome{
		"TestA": Failed, "TestB": Skipped, "TestC": Failed, "TestD": Passed, "TestE": Failed,
	} {
		if got := goTestOutcome(out, test); got != want {
			t.Errorf("%s: %v, want %v", test, got, want)
		}
	}
}

func TestNormaliseKeepsRelations(t *testing.T) {
	t.Parallel()
	const transcript = `connected to 127.0.0.1:41234
czxid=0x100000007 mzxid=0x100000009 pzxid=0x0 ctime=1795169804438 owner=0x1000015efd80000 version=1
cZxid = 0x100000009
ctime = Fri Nov 20 10:16:44 UTC 2026
ephemeralOwner = 0x2000015efd80000
WatchedEvent type:NodeCreated path:/a zxid: 4294967303
WatchedEvent type:NodeDeleted path:/a zxid: -1
owner=0x1000015efd80000 ephemeralOwner = 0x0
`
	const want = `connected to ADDRESS
czxid=ZXID1 mzxid=ZXID2 pzxid=0x0 ctime=TIME owner=SESSION1 version=1
cZxid = ZXID2
ctime = TIME
ephemeralOwner = SESSION2
WatchedEvent type:NodeCreated path:/a zxid: ZXID1
WatchedEvent type:NodeDeleted path:/a zxid: -1
owner=SESSION1 ephemeralOwner = 0x0
`
	if got := normalise(transcript); got != want {
		t.Errorf("normalise gave\n%s\nwant\n%s", got, want)
	}
}

// A stand-in for zooid that prints what it's given, an argument to a line.
func TestStandInsTranslateForZooid(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	zooid := filepath.Join(folder, "zooid")
	if err := os.WriteFile(zooid, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		argv []string
		env  []string
		want []string
	}{
		{
			name: "java as kazoo starts it",
			argv: []string{"java", "-cp", "a.jar:b.jar", "-Dfile.encoding=UTF-8", "-Dreadonlymode.enabled=true",
				"-Dzookeeper.log.dir=/l", "-Djava.security.auth.login.config=/d/jaas.conf", "-Dname=two words",
				"org.apache.zookeeper.server.quorum.QuorumPeerMain", "/d/zoo.cfg"},
			want: []string{"server", "/d/zoo.cfg", "-D", "readonlymode.enabled=true",
				"-D", "java.security.auth.login.config=/d/jaas.conf", "-D", "name=two words"},
		},
		{
			name: "zkServer.sh as go-zookeeper starts it",
			argv: []string{"zkServer.sh", "start-foreground", "/d/zoo.cfg"},
			env:  []string{"SERVER_JVMFLAGS=-Da=1 -Db=super:x=="},
			want: []string{"server", "/d/zoo.cfg", "-D", "a=1", "-D", "b=super:x=="},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			logs := t.TempDir()
			env := append(Program{zooid: zooid}.standInEnv(t, logs), test.env...)
			standIn := filepath.Join(standInFolder(t), test.argv[0])
			if out, err := runGroup(t.Context(), folder, env, append([]string{standIn}, test.argv[1:]...)); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			printed, err := filepath.Glob(filepath.Join(logs, "server-*.log"))
			if err != nil || len(printed) != 1 {
				t.Fatalf("logs: %q, %v", printed, err)
			}
			text, err := os.ReadFile(printed[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, test.want) {
				t.Errorf("zooid was given %q, want %q", got, test.want)
			}
		})
	}
}

// fakeSuite has the given outcomes: by program and test, one per attempt, the last one for good.
type fakeSuite struct {
	mu       sync.Mutex
	outcomes map[string][]Outcome
	runs     map[string]int
}

func (f *fakeSuite) run(_ context.Context, p Program, _ int, unit, _ string) (Results, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := p.Name + " " + unit
	outcomes := f.outcomes[key]
	outcome := outcomes[min(f.runs[key], len(outcomes)-1)]
	f.runs[key]++
	if outcome == Absent {
		return nil, errors.New("didn't start")
	}
	return Results{unit: outcome}, nil
}

func TestSuiteRetriesWhatDecides(t *testing.T) {
	t.Parallel()
	fake := &fakeSuite{runs: map[string]int{}, outcomes: map[string][]Outcome{
		"ref good": {Passed}, "sub good": {Passed},
		"ref flaky here": {Passed}, "sub flaky here": {Failed, Absent, Passed},
		"ref flaky there": {Failed, Passed}, "sub flaky there": {Failed},
		"ref bad": {Failed}, "sub bad": {Failed},
		"ref skipped": {Skipped}, "sub skipped": {Skipped},
	}}
	s := suite{units: []string{"good", "flaky here", "flaky there", "bad", "skipped"}, run: fake.run}
	reference, subject := s.runBoth(t.Context(), t, t.TempDir(), Program{Name: "ref"}, Program{Name: "sub"})

	if got, want := Regressions(reference, subject), []string{"flaky there"}; !slices.Equal(got, want) {
		t.Errorf("regressions %q, want %q", got, want)
	}
	wantRuns := map[string]int{
		"ref good": 1, "sub good": 1, "ref skipped": 1, "sub skipped": 1,
		"ref flaky here": 1, "sub flaky here": 3, // until it passed
		"ref flaky there": 2, "sub flaky there": 3, // Apache can, so it counts
		"ref bad": 3, "sub bad": 1, // Apache can't: no matter
	}
	if !reflect.DeepEqual(fake.runs, wantRuns) {
		t.Errorf("runs %v, want %v", fake.runs, wantRuns)
	}
}

func TestShortSuiteAsksTheReferenceWhatFails(t *testing.T) {
	t.Parallel()
	fake := &fakeSuite{runs: map[string]int{}, outcomes: map[string][]Outcome{
		"ref good": {Passed}, "sub good": {Passed},
		"ref regression": {Passed}, "sub regression": {Failed},
		"ref flaky here": {Passed}, "sub flaky here": {Failed, Passed},
		"ref flaky there": {Failed, Passed}, "sub flaky there": {Failed},
		"ref bad": {Failed}, "sub bad": {Failed},
		"ref only here": {Passed}, "sub only here": {Skipped},
		"ref never starts": {Passed}, "sub never starts": {Absent},
	}}
	s := suite{run: fake.run, units: []string{
		"good", "regression", "flaky here", "flaky there", "bad", "only here", "never starts",
	}}
	reference, subject := s.runWhatFails(t.Context(), t, t.TempDir(), Program{Name: "ref"}, Program{Name: "sub"})

	want := []string{"flaky there", "never starts", "only here", "regression"}
	if got := Regressions(reference, subject); !slices.Equal(got, want) {
		t.Errorf("regressions %q, want %q", got, want)
	}
	if fake.runs["ref good"] != 0 || reference["good"] != Passed {
		t.Errorf("a unit that passes ran %d times on the reference, and counts as %s there", fake.runs["ref good"],
			reference["good"])
	}
}

func TestResultsOfAUnit(t *testing.T) {
	t.Parallel()
	r := Results{"lock::A::one": Passed, "lock::A::two": Skipped, "locks::B::one": Passed, "alone": Passed}
	for unit, want := range map[string]bool{"lock": false, "locks": true, "alone": true, "none": false} {
		if got := r.passed(unit); got != want {
			t.Errorf("unit %s passed: %v, want %v", unit, got, want)
		}
	}
}

func TestRunGroupEndsWhatWasStarted(t *testing.T) {
	t.Parallel()
	// The child's child would outlive it by far, and holds the pipe.
	out, err := runGroup(t.Context(), t.TempDir(), nil, []string{"sh", "-c", "sleep 600 & echo $!; exit 3"})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("error %v, want exit status 3", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatalf("output %q: %v", out, err)
	}
	if alive(pid) {
		t.Fatalf("process %d is still there", pid)
	}
}

// alive reports whether a process runs; one that ended and waits to be reaped doesn't.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

func TestReadinessNeedsASession(t *testing.T) {
	t.Parallel()
	session := make([]byte, 4+37)
	session[3] = 37
	session[19] = 1 // the session id's last byte
	closed := make([]byte, 4+16)
	closed[3] = 16
	expired := slices.Clone(session)
	expired[19] = 0
	for name, test := range map[string]struct {
		reply []byte
		ready bool
	}{
		"session":         {slices.Concat(session, closed), true},
		"no session":      {slices.Concat(expired, closed), false},
		"cut off":         {session[:20], false},
		"hangs up":        {nil, false},
		"endless reply":   {[]byte{0x7f, 0xff, 0xff, 0xff}, false},
		"not a ZooKeeper": {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				conn.Write(test.reply)
				conn.(*net.TCPConn).CloseWrite()
				buffer := make([]byte, 1024)
				for { // until the client has gone, so that no reset overtakes the reply
					if _, err := conn.Read(buffer); err != nil {
						conn.Close()
						return
					}
				}
			}()
			if err := answersSession(l.Addr().String(), 10*time.Second); (err == nil) != test.ready {
				t.Errorf("answersSession = %v, want ready: %v", err, test.ready)
			}
		})
	}
}
