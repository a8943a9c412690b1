//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// The exit codes of zooid check.
const (
	checkOK       = 0
	checkViolated = 1 // a promise was broken
	checkUsage    = 2 // the arguments or a file are invalid
)

// checkGCPercent lets the heap grow to five times the live memory before the next collection.
const checkGCPercent = 400

const checkHelp = `usage: zooid check [flags] HISTORY...

Checks the histories that journalling clients recorded against everything that
Zooid promises. The files may also contain dumps of the servers' logs. Several
files that were recorded at the same time on one host are checked as one history.
`

// runCheck reads the histories named in args, checks them and prints the report. It
// returns the exit code: 0 without violations, 1 with some, 2 if it can't tell.
func runCheck(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	apache := flags.String("apache", "", "the servers are Apache's of this `release`, such as 3.8.0: expect what it promises")
	under := flags.String("under", "", "check only znodes at and below this `path`")
	extended := flags.Bool("ttl", false, "the servers accept TTL znodes")
	local := flags.Bool("local-sessions", false, "the servers have localSessionsEnabled=true")
	upgrading := flags.Bool("local-sessions-upgrading", false, "the servers have localSessionsUpgradingEnabled=true, too")
	quiesced := flags.Bool("quiesced", false, "the run ended at rest: every event must have come")
	slack := flags.Duration("expiry-slack", 0, "a session without client must end this long after its timeout; 0 doesn't check")
	delivery := flags.Duration("delivery-max", 0,
		"judge by this when an ended session was answered:\nreplies were recorded at most this long after servers sent them")
	limit := flags.Int("max", 20, "print at most this many violations")
	var help strings.Builder
	help.WriteString(checkHelp)
	flags.SetOutput(&help)
	flags.PrintDefaults()
	if code, done := parseFlags(flags, help.String(), args, stdout, stderr); done {
		return code
	}
	if flags.NArg() == 0 {
		fmt.Fprint(stderr, help.String())
		return checkUsage
	}
	opt := check.Options{}
	if *apache != "" {
		opt = check.Apache(*apache)
	}
	opt.Under, opt.ExtendedTypes, opt.Quiesced, opt.ExpirySlack, opt.ViolationsMax = *under, *extended, *quiesced, *slack,
		max(*limit, 1)
	opt.DeliveryMax = *delivery
	opt.LocalSessions, opt.EphemeralsRefused = *local || *upgrading, *local && !*upgrading
	// Hardly any memory becomes garbage: the histories stay in use until the end.
	defer debug.SetGCPercent(debug.SetGCPercent(checkGCPercent))
	told := terminal.NewProgress(stderr)
	opt.Progress = checking(told)
	began := time.Now()
	h, err := readHistories(flags.Args(), stderr, told)
	if err != nil {
		fmt.Fprintln(stderr, "zooid check:", err)
		return checkUsage
	}
	read := time.Since(began)
	told.Stage("checking")
	r := check.Check(h, opt)
	told.End()
	r.Print(stdout, h)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	fmt.Fprintf(stdout, "memory       %d MiB in all; reading the files took %v\n", mem.Sys>>20,
		read.Round(time.Millisecond))
	if !r.OK() {
		return checkViolated
	}
	return checkOK
}

// checking returns a function that shows the progress of a check.
func checking(line *terminal.Progress) func(done, total int) {
	var began time.Time
	return func(done, total int) {
		if began.IsZero() {
			began = time.Now()
		}
		rate := float64(done) / max(time.Since(began).Seconds(), 1e-3)
		line.Detail("%d of %d, %d %%, %.0f/s", done, total, 100*done/max(total, 1), rate)
	}
}

// readHistories reads and merges the files. A truncated file is checked up to its end: a
// killed client leaves such a file.
func readHistories(names []string, stderr io.Writer, told *terminal.Progress) (*history.History, error) {
	defer told.End()
	var parts []*history.History
	for _, name := range names {
		told.Show("reading " + name)
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		h, err := history.Read(f)
		f.Close()
		switch {
		case errors.Is(err, history.ErrCutShort):
			fmt.Fprintf(stderr, "zooid check: %s: %v; checking the %d events before that, up to %v\n", name, err, len(h.Events),
				lengthOf(h))
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parts = append(parts, h)
	}
	return history.Merge(parts...), nil
}

// lengthOf returns the time of a history's last event.
func lengthOf(h *history.History) time.Duration {
	if len(h.Events) == 0 {
		return 0
	}
	return time.Duration(h.Events[len(h.Events)-1].Time)
}
