//go:build unix

package moving

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/migrate"
	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/internal/terminal"
)

const importHelp = `usage: zooid import [-datalogdir APACHE_LOGDIR] [-todatalogdir LOGDIR] APACHE_DATADIR DATADIR

Makes a data directory of that of an Apache ZooKeeper server, 3.4 to 3.9, which
must be stopped. APACHE_DATADIR is its dataDir, DATADIR the dataDir of the Zooid
server; they may be the same. Apache's files are only read.

All that clients can see is kept: data, Stats, ACLs, the kinds of znodes, quotas,
sessions. Clients go on with their sessions.

  -datalogdir DIR    Apache's dataLogDir, if it has one
  -todatalogdir DIR  the dataLogDir of the Zooid server, if it is to have one
  -emulate353        read TTLs as Apache 3.5.3 wrote them (emulate353TTLNodes)
  -accept-mismatch   import although Apache's own digest of the tree differs

Import the directory of one server of an ensemble, the one with the highest zxid;
the other servers start with empty directories and get everything from it
(docs/migration.md).

exit code: 0 imported; 1 it can't be; 2 wrong arguments; 4 Apache's files are
damaged.
`

// Import runs zooid import, which makes a data directory from an Apache server's.
func Import(args []string, stdout, stderr io.Writer) int {
	var o migrate.ImportOptions
	flags := flag.NewFlagSet("zooid import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Apache.LogDir, "datalogdir", "", "")
	flags.StringVar(&o.LogDir, "todatalogdir", "", "")
	flags.BoolVar(&o.Apache.Emulate353, "emulate353", false, "")
	flags.BoolVar(&o.AcceptMismatch, "accept-mismatch", false, "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, importHelp)
		return 0
	}
	if err != nil || flags.NArg() != 2 {
		if err != nil {
			fmt.Fprintf(stderr, "zooid import: %v\n\n", err)
		}
		fmt.Fprint(stderr, importHelp)
		return 2
	}
	o.Apache.Dir, o.Dir = flags.Arg(0), flags.Arg(1)
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	line := terminal.NewProgress(stderr)
	o.Stage = line.Stage
	o.Apache.Progress = reading(line)
	began := time.Now()
	done, err := migrate.Import(o)
	line.End()
	if err != nil {
		fmt.Fprintln(stderr, "zooid import:", terminal.Visible(err.Error()))
		if damage := (*apachefiles.DamageError)(nil); errors.As(err, &damage) {
			return exitDamaged
		}
		return 1
	}
	tellImported(stdout, done, &o, time.Since(began))
	return 0
}

// exitDamaged is the exit code for a damaged or incomplete directory.
const exitDamaged = 4

// importGCPercent lets the heap grow to several times the live memory: everything that is read
// stays in use until the end.
const importGCPercent = 400

// tellImported prints what was imported.
func tellImported(w io.Writer, done *migrate.Imported, o *migrate.ImportOptions, took time.Duration) {
	say := func(format string, args ...any) { fmt.Fprintln(w, terminal.Visible(fmt.Sprintf(format, args...))) }
	for _, p := range done.Passed {
		say("passed over, as Apache does: %v", p.Why)
	}
	if done.Damage != nil {
		say("%s is damaged behind its last znode: %v. Its znodes are whole, by their checksum; Apache may refuse it. Check the disk",
			done.Snapshot, done.Damage)
	}
	for _, torn := range done.Torn {
		say("%s ends within a record at offset %d, as after a crash; what is behind it isn't read, as Apache does", torn.File,
			torn.Offset)
	}
	for _, g := range done.Gaps {
		say("%s begins with zxid %#x, the log before it ends with %#x: the transactions between them are missing, for Apache too. Compare with another server of the ensemble",
			g.File, uint64(g.Next), uint64(g.After))
	}
	if done.Uncovered != 0 {
		say("the snapshot has transactions up to zxid %#x, the logs end before: a server lost the end of its log. Compare with another server of the ensemble",
			uint64(done.Uncovered))
	}
	if done.Orphans > 0 {
		say("%d ephemeral znodes belong to no session; they are left out, as Apache deletes them when it starts", done.Orphans)
	}
	say("read %s and %d transactions of %d logs", done.Snapshot, done.Transactions, done.Logs)
	digest := fmt.Sprintf("equal to each of the %d that Apache wrote", done.Compared)
	switch {
	case done.Mismatch != nil:
		digest = fmt.Sprintf("other than Apache's %#x at zxid %#x, which -accept-mismatch accepts", done.Mismatch.Apache,
			uint64(done.Mismatch.Zxid))
	case done.Compared == 0:
		digest = "equal in both readings; Apache wrote none to compare with"
	}
	say("imported %d znodes and %d sessions into %s in %.1f s; last zxid %#x, Apache's digest of the tree %#x, %s",
		done.Znodes, done.Sessions, filepath.Clean(o.Dir), took.Seconds(), uint64(done.Zxid), done.Digest, digest)
}

// reading returns a function that shows how far the reading of Apache's files is.
func reading(line *terminal.Progress) func(apachefiles.Progress) {
	return func(at apachefiles.Progress) {
		percent := 100 * at.Read / max(at.Size, 1)
		line.Detail("%s %d %%, %d znodes, %d transactions", filepath.Base(at.File), percent, at.Znodes, at.Transactions)
	}
}
