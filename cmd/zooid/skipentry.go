//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/skipentry"
)

const skipEntryHelp = `usage: zooid skip-entry [-yes] [-by NAME] [-entry PLACE] -why REASON zoo.cfg
       zooid skip-entry [-yes] -withdraw zoo.cfg
       zooid skip-entry -list zoo.cfg

Decides that an ensemble continues without a log entry that makes servers panic when they
apply it. Run it on the machine of each server, including observers, while the server is
stopped, with the server's zoo.cfg or its log directory. It shows the report of the entry,
asks for confirmation, and stores the decision next to the log, with NAME (the user by
default) and REASON. Then start all servers. Once all have decided, every server skips the
entry; until then, no server applies anything after it. The changes of that entry are
lost; no other write is.

A server that never got the entry doesn't stop at it and has no report, but the others'
logs name the server as missing. On that server, use -entry with the PLACE that this
command has printed on the others: INDEX:TERM:SHA256.

-withdraw withdraws decisions that not all servers have made. If one server has applied the
entry (its log says ZD-3411), run it on all servers that have decided, while they are
stopped. Then start all with the version that runs on that one, and nothing is lost.

-yes doesn't ask for confirmation. -list shows the decisions and changes nothing.
`

// runSkipEntry records the decision to skip a log entry.
func runSkipEntry(args []string, stdout, stderr io.Writer) int {
	return skipEntry(args, os.Stdin, stdout, stderr)
}

func skipEntry(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("skip-entry", flag.ContinueOnError)
	yes, list, withdraw := flags.Bool("yes", false, ""), flags.Bool("list", false, ""), flags.Bool("withdraw", false, "")
	by, why, entry := flags.String("by", userName(), ""), flags.String("why", "", ""), flags.String("entry", "", "")
	if code, done := parseFlags(flags, skipEntryHelp, args, stdout, stderr); done {
		return code
	}
	decides := !*list && !*withdraw
	if flags.NArg() != 1 || decides && strings.TrimSpace(*why) == "" || !decides && *entry != "" || *list && *withdraw {
		fmt.Fprint(stderr, skipEntryHelp)
		return 2
	}
	var named *storage.Skip
	if *entry != "" {
		if named = new(storage.Skip); !named.ParsePlace(*entry) {
			fmt.Fprintf(stderr, "zooid skip-entry: -entry %q isn't INDEX:TERM:SHA256, as this command prints it on the other servers\n",
				*entry)
			return 2
		}
	}
	dir, err := logDirectory(flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "zooid skip-entry:", errorText(err))
		return 2
	}
	err = skipentry.List(dir, stdout)
	d := skipentry.Decision{LogDir: dir, By: *by, Why: *why, Yes: *yes, Named: named, In: stdin, Out: stdout}
	switch {
	case err != nil:
	case *withdraw:
		err = d.Withdraw()
	case decides:
		err = d.Decide()
	}
	err = errors.Join(err, newensemble.HandOver(dir))
	if err != nil {
		fmt.Fprintln(stderr, "zooid skip-entry:", errorText(err))
		return 1
	}
	return 0
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}
