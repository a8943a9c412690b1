// Command zooid is all of Zooid in one binary: the server and its tools.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// A command is the first word after zooid on the command line.
type command struct {
	name, args, about string
	run               func(args []string, stdout, stderr io.Writer) int
}

func main() {
	flushCoverage()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program. It fails if something printed on stdout couldn't be written, as on a full disk.
func run(args []string, stdout, stderr io.Writer) int {
	out := terminal.NewOutput(stdout)
	code := runCommand(args, out, stderr)
	if err := out.Err(); err != nil && code == 0 {
		fmt.Fprintln(stderr, "zooid: print the result:", err)
		code = 1
	}
	return code
}

func runCommand(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 1 {
			usage(stdout)
			return 0
		}
		switch _, ok := find(args[1]); {
		case ok && args[1] == "cli" && len(args) > 2: // the shell tells about its own commands
			args = append([]string{"cli", "help"}, args[2:]...)
		case ok:
			args = []string{args[1], "-h"}
		default:
			args = args[1:]
		}
	case "-v", "-version", "--version":
		return runVersion(nil, stdout, stderr)
	}
	if c, ok := find(args[0]); ok {
		if len(args) == 2 && slices.Contains([]string{"-h", "-help", "--help"}, args[1]) {
			return c.run([]string{"-h"}, stdout, stdout) // a requested help text is no error
		}
		if c.name != "cli" {
			stderr = synopsis{stderr, c.name}
		}
		return c.run(args[1:], stdout, stderr)
	}
	hint := "zooid help lists the commands"
	if names := nearest(args[0]); len(names) > 0 {
		hint = "did you mean " + strings.Join(names, " or ") + "? " + hint
	}
	fmt.Fprintf(stderr, "zooid: there is no command %.80q\n  hint: %s\n", args[0], hint)
	return 2
}

// A synopsis is where a command writes its errors. Of a help text, which a command writes there when its arguments are
// wrong, it passes on how the command is used, and where the rest is: an error must not be lost above a page of text.
type synopsis struct {
	io.Writer
	command string
}

// Unwrap returns the destination of errors, which may be a terminal.
func (s synopsis) Unwrap() io.Writer { return s.Writer }

func (s synopsis) Write(p []byte) (int, error) {
	usage, _, more := bytes.Cut(p, []byte("\n\n"))
	if !more || !bytes.HasPrefix(p, []byte("usage: zooid ")) {
		return s.Writer.Write(p)
	}
	_, err := fmt.Fprintf(s.Writer, "%s\n  hint: zooid %s -h tells more\n", usage, s.command)
	return len(p), err
}

func find(name string) (command, bool) {
	all := commands()
	at := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if at < 0 {
		return command{}, false
	}
	return all[at], true
}

// nearest returns the names of commands that may have been meant by name, the likeliest first.
func nearest(name string) []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return config.Nearest(name, names)
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
	return cli.Main("cli", args, cli.Streams{In: os.Stdin, Out: stdout, Err: stderr}, versionText())
}
