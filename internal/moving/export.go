//go:build unix

package moving

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/migrate"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/terminal"
)

const exportHelp = `usage: zooid export -to APACHE_DATADIR [-nodigest] DATADIR [DATALOGDIR]
       zooid export -to APACHE_DATADIR [-nodigest] zoo.cfg

Makes a data directory for Apache ZooKeeper, 3.5 or later, of one of Zooid's: of a
stopped or a running server's, or of a copy of one. zoo.cfg names the directories of its
server. Nothing of them is changed. APACHE_DATADIR must have no version-2.

  -to DIR    Apache's dataDir
  -nodigest  for servers with digest.enabled=false

Every server of an ensemble gets a copy of the result: it has the epochs that Apache
wants. What Apache has no form for is said.

exit code: 0 exported; 1 it can't be; 2 wrong arguments; 4 the data directory is
damaged or incomplete.
`

// Export runs zooid export, which makes a data directory for Apache.
func (p *Program) Export(args []string, stdout, stderr io.Writer) int {
	o := migrate.ExportOptions{Reconfigure: p.Reconfigure}
	flags := flag.NewFlagSet("zooid export", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.To, "to", "", "")
	flags.BoolVar(&o.NoDigest, "nodigest", false, "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, exportHelp)
		return 0
	}
	if err == nil && o.To == "" {
		err = errors.New("-to must name Apache's dataDir. (Files with subtrees are made by: zooid cli export)")
	}
	if err != nil || flags.NArg() < 1 || flags.NArg() > 2 {
		if err != nil {
			fmt.Fprintf(stderr, "zooid export: %v\n\n", err)
		}
		fmt.Fprint(stderr, exportHelp)
		return 2
	}
	if o.Dirs, err = sourceDirs(flags.Args()); err != nil {
		fmt.Fprintln(stderr, "zooid export:", err)
		return 1
	}
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	line := terminal.NewProgress(stderr)
	o.Stage = line.Stage
	began := time.Now()
	done, err := migrate.Export(o)
	line.End()
	if err != nil {
		fmt.Fprintln(stderr, "zooid export:", terminal.Visible(err.Error()))
		if damage, missing := (*storage.DamageError)(nil), (*storage.MissingError)(nil); errors.As(err, &damage) || errors.As(err, &missing) {
			return exitDamaged
		}
		return 1
	}
	tellExported(stdout, done, o.To, time.Since(began))
	return 0
}

// sourceDirs returns the directories in the arguments, or those of the zoo.cfg there.
func sourceDirs(args []string) ([]string, error) {
	if st, err := os.Stat(args[0]); err == nil && st.IsDir() || len(args) == 2 {
		return args, nil
	}
	cfg, err := config.LoadAny(args[0], nil)
	if err != nil {
		return nil, err
	}
	if cfg.Storage.DataLogDir == cfg.Storage.DataDir {
		return []string{cfg.Storage.DataDir}, nil
	}
	return []string{cfg.Storage.DataDir, cfg.Storage.DataLogDir}, nil
}

// tellExported says what was exported.
func tellExported(w io.Writer, done *migrate.Exported, to string, took time.Duration) {
	say := func(format string, args ...any) { fmt.Fprintln(w, terminal.Visible(fmt.Sprintf(format, args...))) }
	if done.Unconfirmed > 0 {
		say("the last %d entries of the log aren't known to be committed; they are exported", done.Unconfirmed)
	}
	if done.Strangers > 0 {
		say("%d sessions have passwords of Zooid's, which Apache refuses: their clients are told that they have expired, and their ephemeral znodes stay until their timeouts", done.Strangers)
	}
	if done.TTLs > 0 {
		say("%d znodes have a TTL: start Apache with -Dzookeeper.extendedTypesEnabled=true, or it deletes them", done.TTLs)
	}
	if len(done.Exhausted) > 0 {
		say("sequence numbers below these znodes are beyond 2147483647, which Apache can't continue: %s", strings.Join(done.Exhausted, " "))
	}
	say("exported %d znodes and %d sessions into %s in %.1f s; zxid %#x, epoch %d, Apache's digest of the tree %#x",
		done.Znodes, done.Sessions, to, took.Seconds(), uint64(done.Zxid), done.Epoch, done.Digest)
}
