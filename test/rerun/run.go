package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// endPatience is the time that go test and its children have to end after SIGTERM.
const endPatience = 10 * time.Second

var (
	errFinal  = errors.New("the failure is final: a second run can't excuse it")
	errFailed = errors.New("tests failed")
)

// run runs the tests and those that fail once more.
func run(o options, packages, flags []string) (bad error) {
	results := &record{file: o.record}
	if !o.until.IsZero() && !time.Now().Before(o.until) {
		return results.write(notRun(packages, flags, nil)...)
	}
	first, err := goTest(o, packages, flags)
	if err != nil {
		return err
	}
	err = results.write(first.results()...)
	if first.cut {
		err = errors.Join(err, results.write(notRun(packages, flags, first)...))
	}
	if err != nil {
		return err
	}
	failed := first.failedRoots()
	if why := o.whyNotAgain(first, failed); why != nil {
		outcome := resultFailed
		if errors.Is(why, errFinal) {
			outcome = resultFinal
		}
		for _, f := range failed {
			err = errors.Join(err, results.write(f.result(outcome)))
		}
		for _, name := range first.broken {
			err = errors.Join(err, results.write(result{Package: name, Result: resultFailed}))
		}
		return errors.Join(why, err)
	}
	for _, f := range failed {
		outcome, why := f.again(o, flags)
		if err := errors.Join(why, results.write(f.result(outcome))); err != nil {
			bad = errors.Join(bad, err)
		}
		if errors.Is(bad, errFinal) {
			break
		}
	}
	return bad
}

// again runs a failed test alone and returns the result. The error is nil if it is unsteady.
func (f failure) again(o options, flags []string) (outcome string, err error) {
	name := f.pkg + " " + f.root
	if !o.until.IsZero() {
		o.until = o.until.Add(o.grace)
	}
	if !o.until.IsZero() && !time.Now().Before(o.until) {
		return resultFailed, fmt.Errorf("%s failed, and no time is left to run it again", name)
	}
	fmt.Printf("\n=== AGAIN %s, alone\n", name)
	e, err := goTest(o, []string{f.pkg}, append(slices.Clone(flags), "-count=1", "-run", "^"+f.root+"$"))
	switch {
	case err != nil:
		return resultFailed, err
	case e.final != "":
		return resultFinal, fmt.Errorf("%s: %w", e.final, errFinal)
	case e.cut:
		return resultFailed, fmt.Errorf("%s failed, and the time ended while it ran again", name)
	case !e.ok || !e.passed[name]:
		return resultFailed, fmt.Errorf("%s failed twice", name)
	}
	return resultUnsteady, nil
}

// whyNotAgain returns nil if each failed test may be run again, or if none failed.
func (o *options) whyNotAgain(first *execution, failed []failure) error {
	if first.ok && len(failed) == 0 {
		return nil
	}
	if first.final != "" {
		return fmt.Errorf("%s: %w", first.final, errFinal)
	}
	if first.HasDataRace() {
		return fmt.Errorf("a data race: %w", errFinal)
	}
	if first.HasPanic() {
		return fmt.Errorf("a panic: %w, and others of the package did not run", errFailed)
	}
	if len(first.broken) > 0 {
		return fmt.Errorf("%s: %w outside of any test", strings.Join(first.broken, ", "), errFailed)
	}
	if len(failed) == 0 && !first.cut {
		return fmt.Errorf("go test: %w, and names none", errFailed)
	}
	if len(failed) == 0 {
		return nil
	}
	if !o.again || len(failed) > o.most {
		return fmt.Errorf("%w: %d, none was run again", errFailed, len(failed))
	}
	for _, f := range failed {
		if slices.ContainsFunc(o.once, func(end string) bool { return strings.HasSuffix(f.pkg, "/"+end) }) {
			return fmt.Errorf("%w: %s, whose tests are not run again", errFailed, f.pkg)
		}
	}
	return nil
}

// goTest runs go test, shows its output, and returns the result. The error says that it could not be run.
func goTest(o options, packages, flags []string) (*execution, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	interrupted := ctx
	if !o.until.IsZero() {
		ctx, stop = context.WithDeadline(ctx, o.until)
		defer stop()
	}
	args := append(append([]string{"test", "-json"}, packages...), flags...)
	cmd := exec.CommandContext(ctx, goCommand(), args...)
	// What a test started is in the same group, and ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = endPatience
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := newExecution(slices.Contains(flags, "-v"), stop)
	// A pipe that a stray child holds open would be read forever.
	over := make(chan struct{})
	go func() {
		select {
		case <-over:
		case <-ctx.Done():
			select {
			case <-over:
			case <-time.After(endPatience):
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
		}
	}()
	e.Execution, err = testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, Handler: e, Stop: stop, IgnoreNonJSONOutputLines: true,
	})
	close(over)
	stopped := ctx.Err()
	waited := cmd.Wait()
	e.ok = waited == nil
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the rest of the group, if any
	if err != nil {
		return nil, fmt.Errorf("read the output of go test: %w", err)
	}
	if e.final == "" && interrupted.Err() != nil {
		return nil, errors.New("interrupted")
	}
	e.cut = stopped != nil && e.final == ""
	var exit *exec.ExitError
	if waited != nil && !errors.As(waited, &exit) && stopped == nil {
		return nil, waited
	}
	return e, nil
}

// goCommand is the go command, which $GO names as in the Makefile.
func goCommand() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}
