package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/jute"
)

// runFake runs one scenario on a server with the flags, the least binding first.
func runFake(t *testing.T, s *fakeServer, name string, flags ...string) (result, error) {
	t.Helper()
	sc, err := findScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	args := append(append([]string(nil), sc.defaults...), "-servers", s.addr, "-conns", "3", "-depth", "4", "-size", "10")
	o, _, err := parseOptions(name, append(args, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return runTrial(context.Background(), sc, o, nil)
}

// TestScenarioDoesWhatItSays counts each scenario's requests at the server, and checks that nothing is left behind.
func TestScenarioDoesWhatItSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario string
		flags    string
		ops      int64
		op       jute.Op
		count    int // requests with op that the server saw
	}{
		{"get", "-ops 500 -keys 20", 500, jute.OpGetData, 500},
		{"set", "-ops 500 -keys 20", 500, jute.OpSetData, 500},
		{"mixed", "-ops 500 -keys 20 -reads 0", 500, jute.OpSetData, 500},
		{"mixed", "-ops 500 -keys 20 -reads 100", 500, jute.OpGetData, 500},
		{"create", "-ops 77", 77, jute.OpCreate, 77 + 1},
		{"delete", "-keys 123", 123, jute.OpDelete, 123 + 1},
		{"multi", "-ops 50 -keys 20", 50, jute.OpMulti, 50},
		{"children", "-ops 50 -keys 20", 50, jute.OpGetChildren, 50 + 1},
		{"load", "-keys 321", 321, jute.OpCreate, 321 + 1 + 1}, // the znode to work below, and one directory
		{"get", "-ops 1 -keys 1 -depth 16", 1, jute.OpGetData, 1},
		{"watch", "-keys 5 -ops 4 -warm 0s", 5 * 4, jute.OpSetData, 4},
		{"sessions", "-keys 20 -time 20ms", 20, jute.OpCloseSession, 20 + 2}, // and those that made and removed the znode
		{"storm", "-keys 20 -watches 3", 20, jute.OpSetWatches, 40},
		{"get", "-ops 200 -keys 20 -rate 5000", 200, jute.OpGetData, 200},
	} {
		t.Run(tt.scenario+" "+tt.flags, func(t *testing.T) {
			t.Parallel()
			s := startFake(t)
			r, err := runFake(t, s, tt.scenario, strings.Fields(tt.flags)...)
			if err != nil {
				t.Fatal(err)
			}
			if r.Ops != tt.ops || r.errorCount() != 0 {
				t.Errorf("%d operations, errors %v; want %d without", r.Ops, r.Errors, tt.ops)
			}
			if n := s.count(tt.op); n != tt.count {
				t.Errorf("the server saw %d x %v, want %d", n, tt.op, tt.count)
			}
			if left := s.left(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if r.Scenario != tt.scenario || r.Max <= 0 || r.P50 > r.Max || r.Seconds <= 0 || r.PerSec <= 0 {
				t.Errorf("implausible: %+v", r)
			}
		})
	}
}

func TestTimedTrialEndsByItself(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	r, err := runFake(t, s, "mixed", "-time", "2s", "-warm", "100ms", "-keys", "10", "-reads", "50")
	if err != nil || r.Ops == 0 || r.errorCount() > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, ok := r.figure("write_p99_ms"); !ok {
		t.Errorf("a mixed load tells reads from writes: %v", r.Extra)
	}
	if seen := s.count(jute.OpGetData) + s.count(jute.OpSetData); int64(seen) <= r.Ops {
		t.Errorf("%d operations measured of %d; those of the warm-up must not count", r.Ops, seen)
	}
}

func TestErrorsAreCountedByCode(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.refuse = func(op jute.Op, _ string, n int) jute.Code {
			switch {
			case op == jute.OpGetData && n%10 == 0:
				return jute.ErrNoNode
			case op == jute.OpGetData && n%25 == 1:
				return jute.ErrNoAuth
			}
			return jute.OK
		}
	})
	r, err := runFake(t, s, "get", "-ops", "500", "-keys", "5")
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 500 || r.Errors["NoNode"] != 50 || r.Errors["NoAuth"] != 20 || r.errorCount() != 70 {
		t.Errorf("%d operations, errors %v", r.Ops, r.Errors)
	}
}

// TestMultiErrorsAreFoundInTheBody: the header of a failed multi says OK.
func TestMultiErrorsAreFoundInTheBody(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.refuse = func(op jute.Op, _ string, n int) jute.Code {
			if op == jute.OpSetData && n%5 == 0 {
				return jute.ErrBadVersion
			}
			return jute.OK
		}
	})
	r, err := runFake(t, s, "multi", "-ops", "50", "-keys", "5", "-batch", "3")
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 50 || r.Errors["BadVersion"] != 10 || r.errorCount() != 10 {
		t.Errorf("%d operations, errors %v", r.Ops, r.Errors)
	}
}

func TestPreparingRefusesErrors(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.refuse = func(op jute.Op, p string, n int) jute.Code {
			if op == jute.OpCreate && n == 7 {
				return jute.ErrQuotaExceeded
			}
			return jute.OK
		}
	})
	_, err := runFake(t, s, "get", "-ops", "1", "-keys", "20")
	if err == nil || !strings.Contains(err.Error(), "1 of 20 creates failed: map[Quota has exceeded:1]") {
		t.Errorf("error %v", err)
	}
}

// TestTurnedAway: a server that limits how fast connections begin closes some before it has answered. They are opened
// again.
func TestTurnedAway(t *testing.T) {
	s := startFake(t, func(s *fakeServer) { s.hurried = func(n int) bool { return n%3 == 2 } })
	r, err := runFake(t, s, "sessions", "-keys", "30", "-time", "1ms")
	if err != nil || r.Ops != 30 {
		t.Errorf("%d sessions, %v", r.Ops, err)
	}
}

func TestLostConnectionEndsTheTrial(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.cut = func(op jute.Op, n int) bool { return op == jute.OpGetData && n == 100 }
	})
	_, err := runFake(t, s, "get", "-ops", "5000", "-keys", "5")
	if err == nil || !strings.Contains(err.Error(), "get: connection ") || !strings.Contains(err.Error(), s.addr) {
		t.Errorf("error %v", err)
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInterruptClearsAway interrupts a process in the midst of its work.
func TestInterruptClearsAway(t *testing.T) {
	t.Parallel()
	working := make(chan struct{})
	s := startFake(t, func(s *fakeServer) {
		s.refuse = func(op jute.Op, _ string, n int) jute.Code {
			if op == jute.OpGetData && n == 100 {
				close(working)
			}
			return jute.OK
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var diag bytes.Buffer
	cmd := exec.Command(self, "bench", "get", "-servers", s.addr, "-conns", "2", "-keys", "10", "-time", "1h")
	cmd.Stderr = &diag
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-working
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed ||
		!strings.HasPrefix(diag.String(), "zooid bench: interrupted: get: ") {
		t.Errorf("%v: %s", cmd.ProcessState, &diag)
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStormCountsExpiredSessions(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.forget = func(id int64) bool { return id%5 == 0 }
	})
	r, err := runFake(t, s, "storm", "-keys", "20", "-watches", "2")
	if err != nil {
		t.Fatal(err)
	}
	expired := r.Extra["expired"]
	if r.Ops+int64(expired) != 20 || expired < 3 || r.Errors["Session expired"] != int64(expired) {
		t.Errorf("%d back, errors %v, %v", r.Ops, r.Errors, r.Extra)
	}
	if s.takenUp() != int(r.Ops) {
		t.Errorf("%d sessions taken up again, want %d", s.takenUp(), r.Ops)
	}
}

// TestWatchEnds: a refused change, a watcher that is cut off, and an end from outside all end the wait for the other
// watchers.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	sc, err := findScenario("watch")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		wrap func(s *fakeServer, cancel context.CancelFunc)
		want error
	}{
		{"refused", func(s *fakeServer, _ context.CancelFunc) {
			s.refuse = func(op jute.Op, _ string, _ int) jute.Code {
				if op == jute.OpSetData {
					return jute.ErrNoAuth
				}
				return jute.OK
			}
		}, jute.ErrNoAuth},
		{"cut", func(s *fakeServer, _ context.CancelFunc) {
			s.cut = func(op jute.Op, n int) bool { return op == jute.OpGetData && n == 30 }
		}, io.EOF},
		{"cancelled", func(s *fakeServer, cancel context.CancelFunc) {
			s.refuse = func(op jute.Op, _ string, n int) jute.Code {
				if op == jute.OpSetData && n == 3 {
					cancel()
				}
				return jute.OK
			}
		}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := startFake(t, func(s *fakeServer) { tt.wrap(s, cancel) })
			o, _, err := parseOptions("watch", "-servers", s.addr, "-keys", "7", "-time", "1h", "-warm", "0s")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := runTrial(ctx, sc, o, nil); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestFailoverWritersComeBack cuts a connection now and then; each writer continues with its session.
func TestFailoverWritersComeBack(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.cut = func(op jute.Op, n int) bool { return op == jute.OpSetData && n%5 == 0 && n <= 20 }
	})
	r, err := runFake(t, s, "failover", "-time", "300ms", "-warm", "0s")
	if err != nil {
		t.Fatal(err)
	}
	seen := s.count(jute.OpSetData)
	cuts := min(seen/5, 4)
	if r.Extra["disconnects"] != float64(cuts) || r.Errors["connection lost"] != int64(cuts) || s.takenUp() != cuts ||
		r.Ops != int64(seen-cuts) {
		t.Errorf("%d writes seen with %d cuts, %d sessions resumed: %+v", seen, cuts, s.takenUp(), r)
	}
}

func TestReadyWaitsForARead(t *testing.T) {
	t.Parallel()
	s := startFake(t, func(s *fakeServer) {
		s.refuse = func(op jute.Op, _ string, n int) jute.Code {
			if op == jute.OpGetData && n < 3 {
				return jute.ErrConnectionLoss
			}
			return jute.OK
		}
	})
	if _, err := runFake(t, s, "ready"); err != nil || s.count(jute.OpGetData) != 3 {
		t.Errorf("%v after %d reads", err, s.count(jute.OpGetData))
	}
}

// floorCommand starts this test binary as a floor.
func floorCommand(t *testing.T) string {
	t.Helper()
	spec, err := floorSpec()
	if err != nil {
		t.Fatal(err)
	}
	return spec.Command
}

// TestStartedServer runs on a process of its own: the floor, which also must
// keep the order of replies when reads and writes mix.
func TestStartedServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct{ scenario, flags string }{
		{"mixed", "-ops 5000 -keys 10 -reads 50"},
		{"multi", "-ops 50 -keys 10"},
		{"restart", "-keys 100"},
		{"idle", "-warm 0s -time 20ms"},
		{"watch", "-keys 50 -ops 5 -warm 0s"},
		{"flat-znodes", "-keys 2000 -conns 2 -warm 1ms -time 20ms"},
	} {
		sc, err := findScenario(tt.scenario)
		if err != nil {
			t.Fatal(err)
		}
		args := append(append([]string(nil), sc.defaults...), strings.Fields(tt.flags)...)
		o, _, err := parseOptions(tt.scenario, append(args, "-start", floorCommand(t), "-dir", dir)...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := runTrial(context.Background(), sc, o, nil)
		if err != nil || r.errorCount() > 0 || r.Seconds <= 0 || r.ServerRSS <= 0 {
			t.Errorf("%s: %+v, %v", tt.scenario, r, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestServerThatEndsIsReported(t *testing.T) {
	t.Parallel()
	_, err := servers.Start(context.Background(), servers.Spec{Name: "x", Command: "echo no heap for port {port}; exit 3"},
		t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "no heap for port ") {
		t.Errorf("error %v", err)
	}
}
