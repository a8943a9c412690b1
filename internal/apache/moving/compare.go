//go:build unix

package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/apache/compare"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

const compareHelp = `usage: zooid migrate compare [flags] A B

Compares two trees and lists the znodes that differ: in their data, ACL or a field of the
Stat, or because only one tree has them. A and B are each a data directory, Apache's or
Zooid's, or the connect string of running servers (zk1:2181,zk2:2181/chroot).

  zooid migrate compare -auth-file super.txt zk1:2181 zooid1:2181

Running servers may change during the comparison. A znode that differs is therefore read
again from both sides, for as long as -patience says, and is reported as different only if
it has stopped changing on both. A znode that keeps changing is reported as changing;
compare again when clients write less. A data directory, or a server of zooid migrate
follow -listen, is a copy of the running servers: it is read again when it has reached the
zxid that they had. If it doesn't reach that zxid, what they have changed since is reported
as newer. /zookeeper/config is different in each ensemble, and is left out.

  -ignore LIST    fields that may differ, such as zxids,times,ephemeralOwner
  -max N          print at most N differences (100); all are counted
  -patience TIME  how long to read znodes that differ again (2s)
  -timeout TIME   how long connecting may take (30s)
  -json           print each difference as a line of JSON

Running servers are reached with the flags of zooid cli for TLS and logins: -tls…, -auth,
-auth-file, -sasl, -sasl-file, -client-configuration. Log in as the superuser, because
compare must be able to read every znode.

exit code: 0 the trees are equal; 1 they differ; 2 wrong arguments, or a tree can't be
read; 3 nothing differs, but some znodes kept changing, are newer or can't be read.
`

// The exit codes of zooid migrate compare.
const (
	compareEqual   = 0
	compareDiffers = 1
	compareFailed  = 2
	compareUnsure  = 3
)

// compareFlags holds the parsed command line.
type compareFlags struct {
	o       compare.Options
	access  cli.Access
	max     int
	timeout time.Duration
	json    bool
	sides   []string

	reconfigure tree.Reconfigure
}

func (f *compareFlags) register(flags *flags) {
	flags.access = &f.access
	flags.Func("ignore", "", func(value string) (err error) {
		f.o.Ignored, err = compare.ParseIgnored(value)
		return err
	})
	flags.IntVar(&f.max, "max", 100, "")
	flags.DurationVar(&f.o.Patience, "patience", 2*time.Second, "")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "")
	flags.BoolVar(&f.json, "json", false, "")
}

func (f *compareFlags) arguments(words []string) error {
	if f.sides = words; len(words) != 2 {
		return errors.New("name two trees")
	}
	return nil
}

func (f *compareFlags) run(ctx context.Context, s cli.Streams) (int, error) {
	line := terminal.NewProgress(s.Err)
	counts, err := f.compare(ctx, s.Out, line)
	line.End()
	if err != nil {
		return compareFailed, err
	}
	return tellCompared(s.Err, counts, f), nil
}

// compare compares the trees and prints the differences.
func (f *compareFlags) compare(ctx context.Context, stdout io.Writer, line *terminal.Progress) (compare.Counts, error) {
	var sources [2]compare.Source
	for i, side := range f.sides {
		source, end, err := f.open(ctx, side, line)
		if err != nil {
			return compare.Counts{}, err
		}
		defer end()
		sources[i] = source
	}
	line.Stage("comparing")
	told := 0
	f.o.Tell = func(d *compare.Difference) error {
		if told++; told > f.max {
			return nil
		}
		line.End()
		return f.print(stdout, d)
	}
	f.o.Progress = func(znodes int) { line.Detail("%d znodes", znodes) }
	return compare.Trees(ctx, sources[0], sources[1], f.o)
}

// open opens a directory or connects to servers.
func (f *compareFlags) open(ctx context.Context, side string,
	line *terminal.Progress) (source compare.Source, end func(), err error) {
	if st, err := os.Stat(side); err == nil && st.IsDir() {
		line.Stage("reading " + side)
		old := debug.SetGCPercent(importGCPercent)
		files, err := compare.OpenFiles(side, f.reconfigure, reading(line))
		debug.SetGCPercent(old)
		return files, func() {}, err
	}
	line.Stage("connecting to " + side)
	o := zk.Options{SessionTimeout: f.timeout, ReadOnly: true}
	f.access.Put(&o)
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := zk.Open(ctx, side, o)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s, which isn't a directory: %w", side, err)
	}
	return compare.OpenLive(c), func() { c.Close() }, nil
}

// differenceLine is a difference as JSON.
type differenceLine struct {
	Path    string          `json:"path"`
	Verdict compare.Verdict `json:"verdict"`
	Fields  []compare.Field `json:"fields,omitempty"`
	Error   string          `json:"error,omitempty"`
}

func (f *compareFlags) print(w io.Writer, d *compare.Difference) error {
	if f.json {
		v := differenceLine{Path: d.Path, Verdict: d.Verdict, Fields: d.Fields}
		if d.Err != nil {
			v.Error = d.Err.Error()
		}
		return json.NewEncoder(w).Encode(v)
	}
	text := fmt.Sprintf("%s: %s", d.Path, d.Verdict)
	for i, field := range d.Fields {
		mark := ", "
		if i == 0 {
			mark = " in "
		}
		text += fmt.Sprintf("%s%s (%s, %s)", mark, field.Name, field.A, field.B)
	}
	if d.Err != nil {
		text += ": " + d.Err.Error()
	}
	_, err := fmt.Fprintln(w, terminal.OneLine(terminal.Visible(text)))
	return err
}

// tellCompared prints the result, and returns the exit code.
func tellCompared(w io.Writer, c compare.Counts, f *compareFlags) int {
	fmt.Fprintf(w, "compared %d znodes: %d equal, %d different, %d changing, %d unreadable\n", c.Compared, c.Equal,
		c.Different, c.Changing, c.Unreadable)
	if all := c.Different + c.Changing + c.Newer + c.Unreadable; all > f.max {
		fmt.Fprintf(w, "printed %d of %d; -max prints more\n", f.max, all)
	}
	if c.Newer > 0 {
		fmt.Fprintf(w, "%d are newer than the copy, which has stopped or is too far behind: compare again when it has caught up\n",
			c.Newer)
	}
	if c.HiddenACLs > 0 {
		fmt.Fprintf(w, "%d ACLs weren't compared, because a server hides parts of them: log in as super\n", c.HiddenACLs)
	}
	switch {
	case c.Different > 0:
		return compareDiffers
	case c.Changing+c.Newer+c.Unreadable+c.HiddenACLs > 0:
		return compareUnsure
	}
	return compareEqual
}
