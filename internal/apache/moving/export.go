//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const exportHelp = `usage: zooid export -to APACHE_DATADIR [-nodigest] DATADIR [DATALOGDIR]
       zooid export -to APACHE_DATADIR [-nodigest] zoo.cfg
       zooid export -to APACHE_DATADIR [-nodigest] SNAPSHOT
       zooid export -to APACHE_DATADIR [-nodigest] [flags] http://HOST:8080

Makes a data directory for Apache ZooKeeper, 3.5 or later, from that of a Zooid server,
which may be running, or from a copy of it. zoo.cfg names the directories of its server.
Nothing in them is changed. APACHE_DATADIR must not contain a version-2.

SNAPSHOT is a backup: a file that the admin server's command snapshot has sent, possibly
compressed by gzip. A URL, http or https, is that of a running server's admin server,
which sends a snapshot of what the server has applied.

  -to DIR    Apache's dataDir
  -nodigest  for servers with digest.enabled=false

With a URL, the flags of zooid cli for identities (-auth, -auth-file) and TLS (-tls…)
apply. The identity needs all permissions on / (the superuser has them). Without a flag,
it is the certificate of -tls-cert, or the client's address.

Give each server of an Apache ensemble a copy of the result, which includes the epoch
files that Apache needs. What Apache can't represent is reported. A failed export leaves
nothing in APACHE_DATADIR.

exit code: 0 exported; 1 failed; 2 wrong arguments; 4 the data directory or the snapshot
is damaged or incomplete.
`

// exportFlags are the flags and arguments of zooid export.
type exportFlags struct {
	o      apache.ExportOptions
	access cli.Access
	words  []string
}

func (f *exportFlags) register(flags *flags) {
	flags.access = &f.access
	flags.StringVar(&f.o.To, "to", "", "")
	flags.BoolVar(&f.o.NoDigest, "nodigest", false, "")
}

func (f *exportFlags) arguments(words []string) error {
	f.words = words
	switch {
	case f.o.To == "":
		return errors.New("-to must name Apache's dataDir. (To export a subtree to a file, use zooid cli export)")
	case len(words) < 1 || len(words) > 2:
		return errors.New("name what to export: a data directory, a zoo.cfg, a snapshot file or the URL of an admin server")
	}
	return nil
}

func (f *exportFlags) run(ctx context.Context, s cli.Streams) (int, error) {
	if err := source(ctx, &f.o, f.words, &f.access); err != nil {
		return exitFailed, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	line := terminal.NewProgress(s.Err)
	f.o.Stage = line.Stage
	f.o.Interrupted = func() error {
		if ctx.Err() != nil {
			return errors.New("interrupted; nothing was exported")
		}
		return nil
	}
	began := time.Now()
	done, err := apache.Export(f.o)
	line.End()
	if err != nil {
		return failure(err), err
	}
	tellExported(s.Out, done, f.o.To, time.Since(began))
	return exitDone, nil
}

// configBytesMax exceeds the size of any zoo.cfg. A larger file counts as a snapshot, and isn't read to find out.
const configBytesMax = 1 << 20

// source sets the source of the export: the directories in the arguments, those of a zoo.cfg, a snapshot file, or a
// server.
func source(ctx context.Context, o *apache.ExportOptions, words []string, reach *cli.Access) error {
	if isURL(words[0]) {
		if len(words) != 1 {
			return errors.New("give one URL: every server has all data")
		}
		s, err := newSnapshotSource(words[0], reach)
		if err != nil {
			return err
		}
		o.Fetch = func(to io.Writer) error { return s.fetch(ctx, to) }
		return nil
	}
	st, err := os.Stat(words[0])
	switch {
	case len(words) == 2 || err == nil && st.IsDir():
		o.Dirs = words
		return nil
	case err != nil:
		return fmt.Errorf("export %s: %w. Want a data directory, a zoo.cfg, a snapshot file, or a server's URL, which begins with http:// or https://",
			words[0], err)
	case st.Mode().IsRegular() && (st.Size() > configBytesMax || !isText(words[0])):
		o.Snapshot = words[0]
		return nil
	}
	cfg, err := config.LoadAny(words[0], nil)
	if err != nil {
		return fmt.Errorf("take %s for a zoo.cfg, since it isn't a Zooid snapshot: %w", words[0], err)
	}
	o.Dirs = []string{cfg.Storage.DataDir}
	if cfg.Storage.DataLogDir != cfg.Storage.DataDir {
		o.Dirs = append(o.Dirs, cfg.Storage.DataLogDir)
	}
	return nil
}

// isText reports whether a file is text, as a zoo.cfg is. A file that can't be read counts as text.
func isText(file string) bool {
	b, err := os.ReadFile(file)
	return err != nil || utf8.Valid(b) && !bytes.ContainsRune(b, 0) && !bytes.HasPrefix(b, []byte("ZOOIDSNP"))
}

// tellExported prints the result of an export.
func tellExported(w io.Writer, done *apache.Exported, to string, took time.Duration) {
	say := func(format string, args ...any) { fmt.Fprintln(w, terminal.Visible(fmt.Sprintf(format, args...))) }
	if done.Unconfirmed > 0 {
		say("the last %d entries of the log may be uncommitted; they are exported", done.Unconfirmed)
	}
	for _, line := range done.NoForm.Lines() {
		say("%s", line)
	}
	say("exported %d znodes and %d sessions into %s in %.1f s; zxid %#x, epoch %d, Apache's digest of the tree %#x",
		done.Znodes, done.Sessions, to, took.Seconds(), uint64(done.Zxid), done.Epoch, done.Digest)
}
