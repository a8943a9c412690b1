package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs `zooid bench` with the arguments after that word and returns the exit code: 0, 1 for a failed trial, 2 for
// a wrong command line. It returns when the work is done. An interrupt or SIGTERM ends it early and stops the servers
// that it has started.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	err := dispatch(ctx, args, stdout, stderr)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "zooid bench: %v\n  hint: zooid bench -h tells more\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "zooid bench: interrupted: %v\n", err)
		return exitFailed
	default:
		fmt.Fprintf(stderr, "zooid bench: %v\n", err)
		return exitFailed
	}
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usagef("which scenario?")
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		printHelp(stdout)
		return nil
	case "compare":
		return mainCompare(ctx, args[1:], stdout, stderr)
	case "page":
		return mainPage(ctx, args[1:], stdout, stderr)
	case "floor":
		return mainFloor(ctx, args[1:], stdout, stderr)
	case "workload":
		return mainWorkload(ctx, args[1:], stdout, stderr)
	}
	return mainScenarios(ctx, args, stdout, stderr)
}

// mainScenarios runs the scenarios in args, each with its own defaults and the given flags.
func mainScenarios(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var probe options
	names, err := parseInterleaved(probe.flags("bench"), args)
	if errors.Is(err, flag.ErrHelp) {
		s, err := findScenario(args[0])
		if err != nil {
			printHelp(stdout)
			return nil
		}
		printScenarioHelp(stdout, s)
		return nil
	}
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return usagef("which scenario?")
	}
	p := newProgress(stderr, probe.quiet)
	var results []result
	var o options
	for _, name := range names {
		s, err := findScenario(name)
		if err != nil {
			return err
		}
		if o, _, err = parseOptions(name, append(append([]string(nil), s.defaults...), args...)...); err != nil {
			return err
		}
		r, err := runTrial(ctx, s, o, p)
		p.clear()
		if err != nil {
			return err
		}
		results = append(results, r)
		if o.json {
			if err := r.writeJSON(stdout); err != nil {
				return err
			}
		}
	}
	return o.print(stdout, results)
}

// print writes the results in the form of the flags. JSON lines were already written.
func (o *options) print(w io.Writer, results []result) error {
	switch {
	case o.json:
		return nil
	case o.markdown:
		return resultTable(results).writeMarkdown(w)
	}
	colors := o.colored(w)
	if err := resultTable(results).writeText(w, colors); err != nil {
		return err
	}
	return writeDetails(w, results, colors)
}
