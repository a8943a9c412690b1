//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// parseFlags reads the command line of the command that flags are named after, before its other arguments. If done, the
// caller exits with code: the help was asked for, or the command line is wrong and stderr says why.
func parseFlags(flags *flag.FlagSet, help string, args []string, stdout, stderr io.Writer) (code int, done bool) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return 0, true
	case err != nil:
		fmt.Fprintf(stderr, "zooid %s: %v\n", flags.Name(), err)
		fmt.Fprint(stderr, help) // by itself: see synopsis
		return 2, true
	}
	return 0, false
}

// given reports whether a flag is on the command line.
func given(flags *flag.FlagSet, name string) (is bool) {
	flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}
