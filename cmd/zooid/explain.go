package main

import (
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/tool/pages"
)

const explainHelp = `usage: zooid explain [CODE]…

Prints what the code of an error or warning means, why it happens and what to do:
'zooid explain ZD-2002'. Without a code it lists all of them. The same texts are in
docs/troubleshooting.md.
`

// explainWidth is where lines of an explanation are broken.
const explainWidth = 100

// runExplain prints entries of the runbook. It exits with 2 if there is no such code.
func runExplain(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		for i, s := range runbook.Sections() {
			if i > 0 {
				fmt.Fprintln(stdout)
			}
			fmt.Fprintln(stdout, s.Title)
			for _, e := range s.Entries {
				fmt.Fprintf(stdout, "  %s  %s\n", e.Code, e.Title)
			}
		}
		return 0
	}
	if args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, explainHelp)
		return 0
	}
	code := 0
	for i, arg := range args {
		e, ok := runbook.Find(arg)
		if !ok {
			fmt.Fprintf(stderr, "zooid explain: there is no code %.40q; codes look like ZD-2002, and 'zooid explain' lists them\n",
				arg)
			code = 2
			continue
		}
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		fmt.Fprintf(stdout, "%s: %s.\n\n%s\n\nWhat to do:\n%s\n", e.Code, e.Title,
			runbook.Wrap(e.Cause, explainWidth), runbook.Wrap(e.Do, explainWidth))
	}
	return code
}

// runDocs shows pages of the documentation.
func runDocs(args []string, stdout, stderr io.Writer) int {
	return pages.Main(args, stdout, stderr, runExplain)
}
