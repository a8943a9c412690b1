package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// baselineMax is how long a test may take that isn't mutated.
	baselineMax = 3 * time.Minute
	// slower and slack are how much longer than that a mutant's tests may take, by the clock: twenty times, and 10 s more.
	// A busy machine must not kill mutants. Those that turn in circles are killed by the time of the processor.
	slower, slack = 20, 10 * time.Second
	// longer is how many times longer the tests may take that the clock has ended once.
	longer = 3
	// spare is how many times more time by the clock than of the processor tests have, at first.
	spare = 4
)

// ended is how a run of tests ended.
type ended struct {
	failed bool // a test failed, or the process died of itself: a test has noticed the mutant
	spun   bool // it used up its processor time: it turned in circles, which is noticed too
	late   bool // its time by the clock was up, which a busy machine does as well
}

// noticed reports whether the mutant was noticed. What the clock alone has ended wasn't.
func (e ended) noticed() bool { return (e.failed || e.spun) && !e.late }

// over reports whether no further tests must run.
func (e ended) over() bool { return e.failed || e.spun || e.late }

// endedBy says how a process ended that failed or not, used that much of the processor of at most spin (0: no bound),
// and was killed or not because its time by the clock was up. The runtime turns the signal of the limit into a
// failure, so the processor time tells.
func endedBy(failed, timeUp bool, used, spin time.Duration) ended {
	switch spun := failed && spin > 0 && used > spin*9/10; {
	case spun:
		return ended{spun: true}
	case timeUp:
		return ended{late: true}
	}
	return ended{failed: failed}
}

// run runs tests in a process of their own while a mutant is made; the number 0 is none. The process stops at the first
// test that fails. Without package testing's time limit the runtime notices when all goroutines wait forever.
func (p *loaded) run(
	ctx context.Context, binary, dir string, id int, limit, spin time.Duration, tests []*test, args ...string,
) ended {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	tmp, err := os.MkdirTemp(dir, "run")
	if err != nil {
		return ended{failed: true}
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args = append(args, "-test.run=^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout=0",
		fmt.Sprintf("-test.short=%v", *short))
	c := exec.CommandContext(ctx, binary, args...)
	c.Dir = p.dir
	c.Env = append(os.Environ(), "TMPDIR="+tmp, "GOMAXPROCS=2", fmt.Sprintf("%s=%d", variable, id))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		return ended{failed: true}
	}
	spin = bound(c.Process.Pid, spin)
	err = c.Wait()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // processes that it has started
	return endedBy(err != nil, ctx.Err() != nil, c.ProcessState.UserTime()+c.ProcessState.SystemTime(), spin)
}

// patiently runs tests once more, with a longer limit, if the clock has ended them.
func patiently(limit time.Duration, run func(limit time.Duration) ended) ended {
	e := run(limit)
	if e.late {
		e = run(longer * limit)
	}
	return e
}

// try runs the tests that reach a mutant, the fastest together and first, until one fails.
func (p *loaded) try(ctx context.Context, binary, dir string, m *mutant, tests []*test) (e ended) {
	for len(tests) > 0 && !e.over() {
		var batch []*test
		var took time.Duration
		for len(tests) > 0 && (len(batch) == 0 || took+tests[0].took < batchMax) {
			batch = append(batch, tests[0])
			took += tests[0].took
			tests = tests[1:]
		}
		most := slack + slower*took
		e = patiently(most, func(limit time.Duration) ended {
			return p.run(ctx, binary, dir, m.id, limit, most/spare, batch)
		})
	}
	return e
}

// batchMax is how long tests take that run in one process: a process takes a few milliseconds to start.
const batchMax = 200 * time.Millisecond
