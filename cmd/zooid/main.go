// Command zooid is all of Zooid in one binary: the server and its tools.
package main

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/cli"
)

// A command is the first word after zooid on the command line.
type command struct {
	name, args, about string
	run               func(args []string, stdout, stderr io.Writer) int
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
	}
	switch args[0] {
	case "help", "-h", "--help":
		usage(stdout)
		return 0
	}
	fmt.Fprintf(stderr, "zooid: there is no command %q\n\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Zooid is a coordination service that speaks Apache ZooKeeper's client protocol.\n\nusage: zooid COMMAND [ARGUMENT]…\n\n")
	width := 0
	for _, c := range commands() {
		width = max(width, utf8.RuneCountInString(c.args))
	}
	for _, c := range commands() { // two spaces before the description: man pages are made of this list
		fmt.Fprintf(w, "  %-10s %-*s  %s\n", c.name, width, c.args, c.about)
	}
	fmt.Fprint(w, "\nzooid COMMAND -h tells more about a command.\n")
}

func runCLI(args []string, stdout, stderr io.Writer) int {
	return cli.Main(args, cli.Streams{In: os.Stdin, Out: stdout, Err: stderr}, versionText())
}
