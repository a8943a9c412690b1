//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tool/top"
)

const topHelp = `usage: zooid top [-n ROUNDS] [-i 2s] [-k 10] [-bytes] [-json] zoo.cfg
       zooid top [-n ROUNDS] [-i 2s] [-k 10] [-bytes] [-json] [TLS flags] [HOST[:PORT]]

Shows the state of servers, a line for each, and what a server's clients ask for most:
paths, sessions, identities and operations by requests a second, or with -bytes by bytes
a second. With a zoo.cfg, it shows the server on this host. With HOST, it shows the
clients of the server there, whose admin server is at port 8080 unless PORT is given.
Without either, it shows the servers of the profile (-profile) or of ZOOID_SERVER, or
localhost:2181. What clients ask for comes from the admin server
(admin.enableServer=true). The command is the same as top in zooid cli, and has the flags
of zooid cli for TLS and profiles, such as -tls-ca and -profile.

The rates are averages of the last seconds, with more weight on the latest; if there are
many requests, they come from samples. On a terminal it runs until Ctrl-C, otherwise it
shows the rates once. -n sets how often, -i the interval, -k how many of each kind.
Exit codes: 0 shown, 1 the server shows nothing, 2 not reachable or wrong arguments.
`

// runTop shows the servers' activity.
func runTop(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("top", flag.ContinueOnError)
	out := screen.New(stdout, stdout)
	var f top.Flags
	flags.Int64Var(&f.Rounds, "n", 0, "")
	flags.DurationVar(&f.Interval, "i", top.IntervalDefault, "")
	flags.Int64Var(&f.Keys, "k", top.KeysDefault, "")
	flags.BoolVar(&f.Bytes, "bytes", false, "")
	flags.BoolVar(&out.JSON, "json", false, "")
	failed := func(err error) int {
		fmt.Fprintf(stderr, "zooid top: %s\n", terminal.OneLine(err.Error()))
		if errors.Is(err, top.ErrRefused) {
			return exitNotReady
		}
		if _, ok := errors.AsType[*net.OpError](err); ok {
			fmt.Fprintln(stderr, "  hint: is the server running? zooid doctor zoo.cfg examines it; zooid top -h describes which server top asks")
		}
		return exitUnreachable
	}
	var reach cli.Access
	others, err := reach.TakeAll(args)
	if err != nil {
		return failed(err)
	}
	if code, done := parseFlags(flags, topHelp, others, stdout, stderr); done {
		return code
	}
	if flags.NArg() > 1 {
		fmt.Fprint(stderr, topHelp)
		return exitUnreachable
	}
	if err := f.Check(); err != nil {
		return failed(err)
	}
	whom, err := topWhom(flags.Arg(0), &reach)
	if err != nil {
		return failed(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := f.Run(ctx, out, whom); err != nil && ctx.Err() == nil {
		return failed(err)
	}
	return 0
}

// topWhom says whom to ask: the server of a zoo.cfg, the admin server at a host, or the servers that reach names.
func topWhom(arg string, reach *cli.Access) (*top.Whom, error) {
	_, err := os.Stat(arg)
	if arg != "" && (err == nil || strings.HasSuffix(arg, ".cfg")) {
		cfg, err := config.Load(arg, nil)
		if err != nil {
			return nil, err
		}
		s := localServer{cfg, reach}
		if err := s.reach.Reach().Settle(); err != nil {
			return nil, err
		}
		whom := &top.Whom{Word: func(ctx context.Context, _, word string) (string, error) { return s.word(ctx, word) }}
		if at, _, err := s.clientPort(); err == nil {
			whom.Servers = []string{at}
		}
		if !cfg.Admin.Enabled {
			whom.Note = "The admin server reports which requests its clients send most: set admin.enableServer=true and restart it."
			return whom, nil
		}
		whom.Admin = func(ctx context.Context, command string) (int, []byte, error) {
			return s.askAdmin(ctx, http.MethodGet, strings.TrimSuffix(cfg.Admin.CommandURL, "/")+command, "")
		}
		return whom, nil
	}
	servers, err := reach.Servers()
	if err == nil {
		err = reach.Check()
	}
	if err != nil {
		return nil, err
	}
	if arg == "" {
		servers = cmp.Or(servers, serverDefault)
		return &top.Whom{Servers: strings.Split(servers, ","), Word: reach.Reach().Ask}, nil
	}
	admin, err := top.AdminAt(arg, reach.Reach().SecureDial())
	return &top.Whom{Admin: admin}, err
}

// serverDefault is the server that tools ask by default.
const serverDefault = "localhost:2181"
