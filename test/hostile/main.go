// Command hostile attacks running servers as a hostile or faulty client or peer
// would. It knows the protocol: most of its requests are well formed but extreme. All its
// actions are derived from a seed.
//
//	go run ./test/hostile -list
//	go run ./test/hostile -attack operations -clients 127.0.0.1:2181 -seed 7 -for 30s
//
// The tests of this package start servers, let honest clients work, run the
// attacks against the servers in a separate process, and judge what happened to
// the servers and the honest clients (judge_test.go, docs/testing.md). If an
// attack itself can tell that a server did something wrong, it says so, and the
// program exits with code 1.
package main

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns the exit code: 1 if a server did something
// wrong, 2 if the arguments are invalid.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.SetOutput(errs)
	var (
		list    = flags.Bool("list", false, "print the attacks and end")
		name    = flags.String("attack", "", "the attack to run")
		clients = flags.String("clients", "", "client addresses of the servers, separated by commas")
		peers   = flags.String("peers", "", "peer addresses of the servers, in the order of their ids from 1 on")
		seed    = flags.Uint64("seed", 1, "of everything random")
		budget  = flags.Duration("for", 10*time.Second, "how long the attack lasts")
		cluster = flags.Uint64("cluster", 0, "the ensemble's id, which an insider knows")
		held    = flags.Int("connections", connectionsAtOnce, "how many connections are held at once by the attack silence")
		rate    = flags.Int("rate", 0, "requests a second of the attack saturation, whatever is answered; 0 for as many as are answered")
		window  = flags.Int("window", saturationWindow, "unanswered requests on each connection of the attack saturation without -rate")
		tell    = flags.Duration("tell", 0, "how often to print what was done so far; 0 for never")
		secret  = flags.String("secret", "", "the ensemble's secret in hexadecimal digits, which an insider knows")
		share   = flags.Float64("busy", 0, "attack nothing, and use so many processors")
	)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *list {
		for _, a := range attacks {
			fmt.Fprintf(out, "%-20s %s\n", a.name, a.about)
		}
		return 0
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := time.AfterFunc(*budget, cancel)
	defer over.Stop()
	if *share > 0 {
		beBusy(ctx, *share)
		return 0
	}
	a := attackNamed(*name)
	key, err := hex.DecodeString(*secret)
	switch {
	case a == nil:
		fmt.Fprintf(errs, "there is no attack %q; -list prints all\n", *name)
		return 2
	case err != nil:
		fmt.Fprintf(errs, "read the secret: %v\n", err)
		return 2
	case *clients == "":
		fmt.Fprintln(errs, "-clients is missing: the addresses of the servers to attack")
		return 2
	}
	f := newField(ctx, *seed, split(*clients), split(*peers))
	f.cluster, f.secret, f.connections = *cluster, key, *held
	f.rate, f.window = *rate, *window
	f.begun = func() {
		fmt.Fprint(out, begunLine)
		over.Reset(*budget)
	}
	var wg sync.WaitGroup
	if *tell > 0 {
		wg.Go(func() { f.tell(out, *tell) })
	}
	err = a.run(f)
	cancel()
	wg.Wait()
	fmt.Fprintln(out, f.counts.String())
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", a.name, err)
		return 1
	}
	return 0
}

// begunLine tells the judge that an attack has prepared itself, and begins.
const begunLine = "prepared\n"

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
