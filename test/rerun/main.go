// Command rerun runs go test and runs tests that failed once more, each alone.
//
//	rerun [flags] PACKAGE... [go test's flags, and the tests' own]
//
// Tests of real processes fail now and then because the machine is busy. A test that fails and then passes alone is
// unsteady: rerun passes and names it, with the output of the failure. A test that fails twice fails the run. So does,
// without a second run,
//
//   - a failure that its test has marked by verdict.Final: what the order checker, the ledger of promises or a digest
//     reports; rerun stops the run at once;
//   - a data race, a panic (the package's other tests didn't run), a package that doesn't compile, a failure outside of
//     any test;
//   - a failure in a package that -once names: those whose tests are deterministic;
//   - everything, if more tests fail than -most: then it isn't the machine.
//
// At the time -until rerun stops. Unfinished tests then count as not run, which is no failure: rerun names them. Failed
// tests still get their second run, if it ends within -grace: that no time is left says nothing about a test. With
// -record each result goes into a file, from which `rerun -close FILE` makes the lists at the end of a run: final,
// failed, unsteady, skipped (tests that passed nowhere in the run) and not run.
//
// gotestsum -rerun-fails runs any failure again, whichever check found it, and has no end time; so rerun is built on
// the package that reads test output in gotestsum.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// Exit codes.
const (
	exitFailed = 1 // something failed
	exitUsage  = 2
	exitFinal  = 3 // something failed that is final: nothing else of the run matters
)

// options are the flags before the packages.
type options struct {
	again  bool          // whether to run failed tests again
	most   int           // tests that may fail and be run again
	once   []string      // ends of the paths of packages whose tests are never run again
	until  time.Time     // zero: no end
	grace  time.Duration // the time after until that failed tests have to run again
	record string        // file; "": none
}

func main() {
	var o options
	once := flag.String("once", "", "ends of the paths of `packages` whose failed tests are not run again, with commas")
	until := flag.Int64("until", 0, "stop at this time, in `seconds` since 1970")
	closing := flag.String("close", "", "print the closing lists of this `file` of results, and exit")
	flag.DurationVar(&o.grace, "grace", 0, "run failed tests again until this `duration` after -until")
	flag.BoolVar(&o.again, "again", true, "run failed tests again")
	flag.IntVar(&o.most, "most", 6, "run none again if more than `n` tests fail")
	flag.StringVar(&o.record, "record", "", "append results to this `file`")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: rerun [flags] PACKAGE... [flags of go test]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *closing != "" {
		if err := writeClosing(os.Stdout, *closing); err != nil {
			fail(exitFailed, err)
		}
		return
	}
	packages, flags := split(flag.Args())
	if len(packages) == 0 {
		flag.Usage()
		os.Exit(exitUsage)
	}
	if *until != 0 {
		o.until = time.Unix(*until, 0)
	}
	if *once != "" {
		o.once = strings.Split(*once, ",")
	}
	err := run(o, packages, flags)
	switch {
	case errors.Is(err, errFinal):
		fail(exitFinal, err)
	case err != nil:
		fail(exitFailed, err)
	}
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "rerun:", err)
	os.Exit(code)
}

// split cuts the arguments into packages, which come first, and flags.
func split(args []string) (packages, flags []string) {
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return args[:i], args[i:]
		}
	}
	return args, nil
}
