//go:build unix

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/zooid-project/zooid/internal/tool/cli"
)

const limitsUsage = `usage: zooid limits [FLAG]… list
       zooid limits [FLAG]… get    connection|address|identity|PATH
       zooid limits [FLAG]… set    connection|address|identity|PATH LIMIT=NUMBER…
       zooid limits [FLAG]… delete connection|address|identity|PATH

Shows and sets limits on what clients may use, for all servers of the ensemble at once:
for each connection, each client address, each identity that clients prove, and each
subtree. 0 means no limit. Where nothing is set, each server's configuration applies
(limits.connection, limits.address, limits.identity, limits.path).

  connection  requests, bytes (a second), watches, ephemerals
  address     connects (a second), requests, bytes, watches, ephemerals, sessions
  identity    connections, requests, bytes, watches, ephemerals, sessions
  PATH        requests, bytes, value (bytes of a znode), children, depth

  zooid limits -server zk1:2181 -auth digest:super:PASSWORD set /app requests=5000 children=10000

The flags are those of zooid cli, such as -profile; they may also follow the command.
`

// runLimits runs the shell's limits commands.
func runLimits(args []string, stdout, stderr io.Writer) int {
	return runOfShell("limits", []string{"list", "get", "set", "delete"}, limitsUsage, args, stdout, stderr)
}

// runOfShell runs a command of the shell that has subcommands. The shell's flags may stand before it.
func runOfShell(command string, subcommands []string, usage string, args []string, stdout, stderr io.Writer) int {
	at := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(subcommands, arg) })
	if at < 0 {
		if slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }) {
			fmt.Fprint(stdout, usage)
			return 0
		}
		fmt.Fprint(stderr, usage)
		return 2
	}
	args = slices.Insert(slices.Clone(args), at, command)
	return cli.Main(command, args, cli.Streams{Out: stdout, Err: stderr}, versionText())
}
