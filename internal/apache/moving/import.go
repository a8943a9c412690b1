//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const importHelp = `usage: zooid import [flags] APACHE_DATADIR DATADIR

Makes the data directory of a Zooid server from that of a stopped Apache ZooKeeper
server, 3.4 to 3.9. APACHE_DATADIR is Apache's dataDir and DATADIR that of the Zooid
server; they may be the same. Apache's files are only read.

  zooid import /var/lib/zookeeper /var/lib/zooid

Everything that clients can see is kept: data, Stats, ACLs, kinds of znodes, quotas and
sessions. Clients continue their sessions.

  -datalogdir DIR    Apache's dataLogDir, if it has one
  -zoocfg FILE       Apache's zoo.cfg, which names dataLogDir; by default, one next to the data
  -without-log       there is no log, only snapshots, as after zooid export
  -accept-running    import although a process has Apache's files open or zooid migrate follow
                     updates them; what it writes from now on is missing
  -todatalogdir DIR  the dataLogDir of the Zooid server, if it has one
  -emulate353        read TTLs as Apache 3.5.3 wrote them (emulate353TTLNodes)
  -accept-mismatch   import although Apache's own digest of the tree differs

For an ensemble, import the directory of one server, the one with the highest zxid. Start
the other Zooid servers with empty directories; they get everything from the first
(docs/migration.md).

exit code: 0 imported; 1 failed; 2 wrong arguments; 4 Apache's files are damaged.
`

// importFlags are the flags and arguments of zooid import.
type importFlags struct {
	o       apache.ImportOptions
	from    apacheDirs
	running bool
}

func (f *importFlags) register(flags *flags) {
	f.from.register(flags)
	flags.BoolVar(&f.running, "accept-running", false, "")
	flags.StringVar(&f.o.LogDir, "todatalogdir", "", "")
	flags.BoolVar(&f.o.Apache.Emulate353, "emulate353", false, "")
	flags.BoolVar(&f.o.AcceptMismatch, "accept-mismatch", false, "")
}

func (f *importFlags) arguments(words []string) error {
	if len(words) != 2 {
		return errors.New("name Apache's dataDir and the new server's")
	}
	f.from.dir, f.o.Apache.Dir, f.o.Dir = words[0], words[0], words[1]
	return nil
}

func (f *importFlags) run(_ context.Context, s cli.Streams) (int, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	line := terminal.NewProgress(s.Err)
	f.o.Stage, f.o.Apache.Progress = line.Stage, reading(line)
	began := time.Now()
	done, err := importFrom(&f.from, f.running, &f.o, func(format string, args ...any) {
		line.End()
		fmt.Fprintln(s.Out, terminal.Visible(fmt.Sprintf(format, args...)))
	})
	line.End()
	if err != nil {
		return failure(err), err
	}
	tellImported(s.Out, done, &f.o, time.Since(began))
	return exitDone, nil
}

// importFrom imports. It holds the lock of the new directories from the first check to the end. It moves nothing into
// place if something is known to write to Apache's directories, before or after they were read, unless running is set.
func importFrom(from *apacheDirs, running bool, o *apache.ImportOptions,
	say func(format string, args ...any)) (*apache.Imported, error) {
	if samePlace(o.LogDir, o.Dir) {
		o.LogDir = ""
	}
	to := []string{o.Dir}
	if o.LogDir != "" {
		to = append(to, o.LogDir)
	}
	if err := o.Free(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(from.dir); err != nil {
		return nil, fmt.Errorf("read Apache's files: %w", err)
	}
	held, err := proof.Hold(to...)
	if err != nil {
		return nil, fmt.Errorf("import into %s: %w", o.Dir, err)
	}
	defer held.Release()
	found, err := from.find()
	if found != "" {
		say("%s", found)
	}
	if err == nil {
		err = from.logged()
	}
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", from.dir, err)
	}
	o.Apache.LogDir = from.logDir
	told := false
	still := func() error {
		unknown, err := from.writing(slices.ContainsFunc(to, func(dir string) bool { return samePlace(dir, from.base()) }))
		switch {
		case err != nil && !running:
			return fmt.Errorf("import %s: %w. Later writes there would be missing: stop it first, or give -accept-running",
				from.dir, err)
		case told:
		case err != nil:
			say("accepted (-accept-running): anything written to %s from now on will be missing here. %v", from.dir, err)
		case unknown != "":
			say("whether a process still writes to %s isn't known: %s", from.dir, unknown)
		}
		told = told || err != nil || unknown != ""
		return nil
	}
	if err := still(); err != nil {
		return nil, err
	}
	o.Copy = func(string, uint64, bool) error { return still() }
	return apache.Import(*o)
}

// exitDamaged is the exit code for a damaged or incomplete directory.
const exitDamaged = 4

// failure returns the exit code for an error.
func failure(err error) int {
	var apaches *files.DamageError
	var damage *storage.DamageError
	var missing *storage.MissingError
	if errors.As(err, &apaches) || errors.As(err, &damage) || errors.As(err, &missing) {
		return exitDamaged
	}
	return exitFailed
}

// importGCPercent lets the heap grow to several times the live memory: everything that is read
// stays in use until the end.
const importGCPercent = 400

// tellImported prints the result of an import.
func tellImported(w io.Writer, done *apache.Imported, o *apache.ImportOptions, took time.Duration) {
	say := func(format string, args ...any) { fmt.Fprintln(w, terminal.Visible(fmt.Sprintf(format, args...))) }
	for _, p := range done.Passed {
		say("passed over, as Apache does: %v", p.Why)
	}
	if done.Damage != nil {
		say("%s is damaged behind its last znode: %v. By their checksum, its znodes are complete; Apache may refuse it. Check the disk",
			done.Snapshot, done.Damage)
	}
	for _, torn := range done.Torn {
		say("%s ends within a record at offset %d, as after a crash; the rest of the file is ignored, as Apache does",
			torn.File, torn.Offset)
	}
	for _, g := range done.Gaps {
		say("%s begins with zxid %#x, what precedes it ends with %#x: the transactions between them are missing, for Apache too. Compare with another server of the ensemble",
			g.File, uint64(g.Next), uint64(g.After))
	}
	if done.LogsEnd != 0 {
		say("the logs end with zxid %#x, before the snapshot: so it is if the server had just got that snapshot from its leader. If its zoo.cfg has another dataLogDir, or had one, everything since the snapshot is missing here: import again with -datalogdir DIR or -zoocfg FILE",
			uint64(done.LogsEnd))
	}
	if done.Uncovered != 0 {
		say("the snapshot has transactions up to zxid %#x, but the logs end earlier: a server lost the end of its log. Compare with another server of the ensemble",
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
func reading(line *terminal.Progress) func(files.Progress) {
	return func(at files.Progress) {
		percent := 100 * at.Read / max(at.Size, 1)
		line.Detail("%s %d %%, %d znodes, %d transactions", filepath.Base(at.File), percent, at.Znodes, at.Transactions)
	}
}
