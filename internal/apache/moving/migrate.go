//go:build unix

package moving

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tree"
)

const migrateHelp = `usage: zooid migrate compare [flags] A B
       zooid migrate follow [flags] ENSEMBLE DIR
       zooid migrate switch [flags] ENSEMBLE DIR ZOOCFG
       zooid migrate tail -after ZXID APACHE_DATADIR
       zooid migrate seed ZOOCFG
       zooid migrate back [flags] ZOOCFG
       zooid migrate return [flags] -observers ID,… ZOOCFG
       zooid migrate digest APACHE_DATADIR
       zooid migrate shadow -listen ADDRESS [flags] PRIMARY SHADOW

What moves a running ensemble from Apache ZooKeeper to Zooid, and back:

  compare   list what differs between two trees
  follow    keep a copy of what a running Apache ensemble has
  switch    put a Zooid server in the place of that ensemble
  tail      print the end of a stopped Apache server's log, for switch
  seed      make the data directory of another new Zooid server, for switch
  back      keep Apache servers up to date with a Zooid server
  return    put these Apache servers in the place of Zooid
  digest    print the digest of a stopped Apache server's files, for return
  shadow    play the requests of Apache's clients to Zooid too; compare the replies

zooid migrate COMMAND -h tells more about one of them. zooid import and zooid export
move the files of servers that stand still; docs/migration.md has the plan.
`

// A Program is what the commands need from the program they are part of.
type Program struct {
	// Reconfigure evaluates reconfig requests in logs.
	Reconfigure tree.Reconfigure
	// Ask asks whoever answers at the addresses of a configuration what it is, and why it doesn't serve.
	Ask func(context.Context, *config.Config) (proof.Answer, error)
}

// Migrate runs one of the subcommands of zooid migrate.
func (p *Program) Migrate(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, migrateHelp)
		return 2
	}
	switch args[0] {
	case "compare":
		return p.runCompare(args[1:], stdout, stderr)
	case "follow":
		return runFollow(args[1:], stdout, stderr)
	case "switch":
		return p.runSwitch(args[1:], stdout, stderr)
	case "tail":
		return runTail(args[1:], stdout, stderr)
	case "seed":
		return runSeed(args[1:], os.Stdin, stdout, stderr)
	case "back":
		return back.Command(args[1:], p.Reconfigure, p.checkBack, stdout, stderr)
	case "return":
		return p.runReturn(args[1:], stdout, stderr)
	case "digest":
		return runDigest(args[1:], stdout, stderr)
	case "shadow":
		return Shadow(args[1:], stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, migrateHelp)
		return 0
	}
	fmt.Fprintf(stderr, "zooid migrate: there is no command %q\n\n%s", args[0], migrateHelp)
	return 2
}
