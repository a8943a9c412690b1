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
)

// ended is how a run of tests ended.
type ended struct {
	failed bool
	late   bool // its time was up, or it turned in circles
}

func (e ended) died() bool { return e.failed || e.late }

// run runs tests in a process of their own while a mutant is made; the number 0 is none. The process stops at the first
// test that fails. With no time limit of package testing's the runtime notices when all goroutines wait for ever.
func (p *loaded) run(
	ctx context.Context, binary, dir string, id int, limit time.Duration, tests []*test, args ...string,
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
	spin := bound(c.Process.Pid, limit)
	err = c.Wait()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it has started
	// The runtime turns the signal of the limit into a failure, so the time tells. It is read by another clock.
	used := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return ended{failed: err != nil, late: ctx.Err() != nil || err != nil && spin > 0 && used > spin*9/10}
}

// try runs the tests that reach a mutant, the fastest together and first, until one fails.
func (p *loaded) try(ctx context.Context, binary, dir string, m *mutant, tests []*test) (e ended) {
	for len(tests) > 0 && !e.died() {
		var batch []*test
		var took time.Duration
		for len(tests) > 0 && (len(batch) == 0 || took+tests[0].took < batchMax) {
			batch = append(batch, tests[0])
			took += tests[0].took
			tests = tests[1:]
		}
		e = p.run(ctx, binary, dir, m.id, slack+slower*took, batch)
	}
	return e
}

// batchMax is how long tests take that run in one process: a process takes a few milliseconds to start.
const batchMax = 200 * time.Millisecond
