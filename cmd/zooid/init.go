//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/setup"
)

const initHelp = `usage: zooid init [-dir DIRECTORY] [-tls] [-client-port PORT] [-at PATH]
                  [-servers HOST,…] [HOST[:PORT[:PORT]]…]
       zooid init -add ID [-dir DIRECTORY] [-client-port PORT] [-at PATH] HOST[:PORT[:PORT]]

Writes the files of new servers, each server's into DIRECTORY/ID: a zoo.cfg with
comments, and for an ensemble the file myid in the data directory and the file secret, by
which the servers prove who they are to each other. Without a host, it configures one
standalone server for this machine. Copy each folder to its server and run 'zooid server
zoo.cfg' there. It never overwrites a file.

  -dir DIRECTORY     where to write; the default is zooid-ensemble
  -servers HOST,…    the servers, instead of arguments. The ports are those of the quorum
                     and of elections; the defaults are 2888 and 3888
  -tls               use mutual TLS for clients and servers. Each server gets server.pem, a
                     key with its certificate, and ca.pem; DIRECTORY/client has a client's,
                     and DIRECTORY/ca the authority's own key: keep it away from all servers
  -client-port PORT  the client port; the default is 2181, or 2281 with -tls
  -at PATH           where each server will find its folder, such as /etc/zooid; without it
                     it is found beside zoo.cfg, wherever that is
  -add ID            write the folder of one more server for the ensemble in DIRECTORY, with
                     the others' secret and lines, and add it to DIRECTORY/client/profile
`

// dirDefault is the directory that init writes to by default.
const dirDefault = "zooid-ensemble"

// runInit writes the files that new servers start from.
func runInit(args []string, stdout, stderr io.Writer) int {
	o := setup.Options{Now: time.Now()}
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	flags.StringVar(&o.Dir, "dir", dirDefault, "")
	flags.IntVar(&o.ClientPort, "client-port", 0, "")
	flags.BoolVar(&o.TLS, "tls", false, "")
	flags.StringVar(&o.At, "at", "", "")
	servers := flags.String("servers", "", "")
	add := flags.Int("add", 0, "")
	if code, done := parseFlags(flags, initHelp, args, stdout, stderr); done {
		return code
	}
	if o.Hosts = flags.Args(); *servers != "" {
		if len(o.Hosts) > 0 {
			fmt.Fprint(stderr, initHelp)
			return 2
		}
		o.Hosts = strings.Split(*servers, ",")
	}
	if given(flags, "add") {
		return addServer(o, *add, given(flags, "tls"), stdout, stderr)
	}
	folders, err := setup.Write(o)
	if err != nil {
		fmt.Fprintln(stderr, "zooid init:", errorText(err))
		return 1
	}
	for _, folder := range folders {
		fmt.Fprintln(stdout, "wrote", folder)
	}
	if o.TLS {
		adviseNames(&o, stdout)
		fmt.Fprintf(stdout, "as the superuser: ZOOID_CONFIG=%s zooid cli -profile %s\n",
			setup.ProfileFile(o.Dir), setup.ProfileName)
	}
	if len(o.Hosts) == 0 && o.At == "" {
		fmt.Fprintf(stdout, "start it: zooid server %s\n", filepath.Join(folders[0], "zoo.cfg"))
		return 0
	}
	fmt.Fprintln(stdout, "copy each server's folder to its machine, readable by its user only, and run in it:\n  zooid doctor zoo.cfg && zooid server zoo.cfg")
	return 0
}

// adviseNames says which servers Java's clients may refuse.
func adviseNames(o *setup.Options, stdout io.Writer) {
	if addresses := o.Addresses(); len(addresses) > 0 {
		fmt.Fprintf(stdout, "give host names instead of %s if DNS has them: Java's clients look up the name of an address,\nand refuse a certificate without it\n",
			strings.Join(addresses, ", "))
	}
}

// addServer writes the files of one more server, and says how the ensemble takes it in.
func addServer(o setup.Options, id int, tls bool, stdout, stderr io.Writer) int {
	if tls {
		fmt.Fprintln(stderr, "zooid init: -tls can't be used with -add: the other servers' lines already determine whether servers use TLS")
		return 2
	}
	a, err := setup.Add(o, id)
	if err != nil {
		fmt.Fprintln(stderr, "zooid init:", errorText(err))
		return 1
	}
	shell := "zooid cli -server " + a.Others + " -auth SCHEME:CREDENTIAL"
	if a.TLS {
		adviseNames(&o, stdout)
		shell = fmt.Sprintf("ZOOID_CONFIG=%s zooid cli -profile %s", setup.ProfileFile(o.Dir), setup.ProfileName)
	}
	fmt.Fprintf(stdout, `wrote %s
1. copy it to its machine, readable by its user only; make your changes of the others' zoo.cfg in it, too
2. run in it: zooid doctor zoo.cfg && zooid server zoo.cfg; it follows without a vote
3. give it a vote, as the superuser (the servers need reconfigEnabled=true):
   %s reconfig -add '%s'
4. add it to the servers that clients know
`, a.Folder, shell, a.Line)
	return 0
}
