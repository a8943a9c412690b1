//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
)

const foundHelp = `usage: zooid found -why REASON [-by NAME] zoo.cfg

Orders the server of zoo.cfg to found its ensemble. Run it on that server's machine when
the server waits because it can't decide by itself: a server of its lines doesn't answer,
or some of them have different data. The server then begins without those that don't
answer, with the data that it has, or with an empty tree if it has none. Servers that
take part and have the same data begin with it. The others join when they come; the data of
a server that differs has to be set aside first (zooid recover -set-aside).

Never run this for two servers: that makes two ensembles, unless the two reach each other;
then they wait for one of them to be stopped. A server that knows of an ensemble joins it in
spite of the order; one that belongs to an ensemble gets no order. The order stays until the
server begins, or until a server of an ensemble answers it (ZD-3213); REASON and NAME are
recorded in the file RECOVERED in the data directory.
`

// runFound orders a server to found its ensemble.
func runFound(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("found", flag.ContinueOnError)
	why, by := flags.String("why", "", ""), flags.String("by", "", "")
	if code, done := parseFlags(flags, foundHelp, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() != 1 || *why == "" {
		fmt.Fprint(stderr, foundHelp)
		return 2
	}
	cfg, err := config.LoadAny(flags.Arg(0), nil)
	if err != nil {
		fmt.Fprintln(stderr, "zooid found:", errorText(err))
		return 2
	}
	if u, err := user.Current(); err == nil && *by == "" {
		*by = u.Username
	}
	if _, err := os.Stat(cfg.Storage.DataDir); err != nil {
		fmt.Fprintln(stderr, "zooid found:", errorText(fmt.Errorf("order a server to found its ensemble: %w", err)))
		return 1
	}
	member, err := newensemble.InEnsemble(cfg.Storage.DataDir, cfg.Storage.DataLogDir)
	if err == nil && member {
		err = fmt.Errorf("%s belongs to a server of an ensemble, which founds none: nothing was ordered. If the ensemble has no quorum, start its other servers; if a majority of their disks is lost for good, use zooid recover",
			cfg.Storage.DataDir)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid found:", errorText(err))
		return 1
	}
	if err := newensemble.OrderFounding(cfg.Storage.DataDir, *by, *why); err != nil {
		fmt.Fprintln(stderr, "zooid found:", errorText(err))
		return 1
	}
	fmt.Fprintf(stdout, "the server founds its ensemble when it next waits to join one; start it if it doesn't run. Its log records what it does\n")
	return 0
}
