//go:build unix

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
)

const logHelp = `usage: zooid log [-from ZXID] [-to ZXID] [-data] [-json] DATADIR [DATALOGDIR]
       zooid log -snapshot [-data] [-json] DATADIR [DATALOGDIR]
       zooid log -files DATADIR [DATALOGDIR]
       zooid log -repair DATADIR [DATALOGDIR]

Shows the transactions of a data directory, each with its zxid, time, session,
the client's number of the request, operation, path and result, and reports
where a file is damaged. It changes nothing, except with -repair. The server
should be stopped. If it has a dataLogDir, name both directories.

  -from ZXID, -to ZXID  only transactions in this range: 0x200000001
  -snapshot             the znodes and sessions of the newest snapshot instead
  -files                segments, batches, entries and snapshots instead
  -data                 also the data of znodes
  -json                 one JSON object a line; data is in base64
  -repair               remove a batch that a crash has cut short from the log's
                        end, as the server does when it starts; the bytes are
                        kept in a file beside the log

To find the results of requests, it applies the log to the oldest snapshot from
which the log continues. For earlier transactions, it shows the requests only.

exit code: 0 everything is intact; 1 it can't be read, or the list can't be
written; 2 wrong arguments; 4 something is damaged or missing. A batch that a
crash has cut short at the log's end is not damage: no client was told of it.
`

// exitDamaged is the exit code for a directory that is damaged or incomplete.
const exitDamaged = 4

// runLog prints the content of a data directory.
func runLog(args []string, stdout, stderr io.Writer) int {
	o := txnlog.Options{Reconfigure: changeMembers}
	var snapshot, files, repair bool
	flags := flag.NewFlagSet("log", flag.ContinueOnError)
	flags.BoolVar(&snapshot, "snapshot", false, "")
	flags.BoolVar(&files, "files", false, "")
	flags.BoolVar(&repair, "repair", false, "")
	flags.BoolVar(&o.Data, "data", false, "")
	flags.BoolVar(&o.JSON, "json", false, "")
	flags.Func("from", "", func(text string) (err error) { o.From, err = parseZxid(text); return err })
	flags.Func("to", "", func(text string) (err error) { o.To, err = parseZxid(text); return err })
	if code, done := parseFlags(flags, logHelp, args, stdout, stderr); done {
		return code
	}
	o.Dirs = flags.Args()
	ways := 0
	for _, way := range []bool{snapshot, files, repair, o.From != 0 || o.To != 0} {
		if way {
			ways++
		}
	}
	var err error
	if ways > 1 {
		err = errors.New("-snapshot, -files, -repair and a range exclude each other")
	}
	if err == nil && (files || repair) && (o.JSON || o.Data) {
		err = errors.New("-json and -data work only with transactions and snapshots")
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid log: %v\n", err)
	}
	if err != nil || len(o.Dirs) < 1 || len(o.Dirs) > 2 {
		fmt.Fprint(stderr, logHelp)
		return 2
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	switch {
	case snapshot:
		err = txnlog.ShowSnapshot(out, o)
	case files:
		err = storage.Describe(out, storage.OS{}, o.Dirs...)
	case repair:
		err = txnlog.Repair(out, o.Dirs...)
	default:
		err = txnlog.Show(out, o)
	}
	if failed := out.Flush(); failed != nil && (err == nil || errors.Is(err, failed)) {
		fmt.Fprintln(stderr, "zooid log: write the list:", failed)
		return 1
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "zooid log:", errorText(err))
	if is[*storage.DamageError](err) || is[*storage.MissingError](err) {
		return exitDamaged
	}
	return 1
}

// parseZxid parses a zxid as it is printed: 0x and hexadecimal digits.
func parseZxid(text string) (int64, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 63)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q isn't a zxid; write it in the form 0x200000001", text)
	}
	return int64(n), nil
}
