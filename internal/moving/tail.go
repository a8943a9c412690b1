//go:build unix

package moving

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/internal/terminal"
)

const tailHelp = `usage: zooid migrate tail -after ZXID [-datalogdir APACHE_LOGDIR] APACHE_DATADIR

Prints what the log of an Apache ZooKeeper server that has stopped holds behind a zxid, for
zooid migrate switch. Run it on the server's machine, once the server has stopped and nothing
starts it again. Apache's files are only read.

exit code: 0 printed; 1 it can't be; 2 wrong arguments.
`

// runTail runs zooid migrate tail, which prints a server's tail.
func runTail(args []string, stdout, stderr io.Writer) int {
	var logDir, after string
	flags := flag.NewFlagSet("zooid migrate tail", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&logDir, "datalogdir", "", "")
	flags.StringVar(&after, "after", "", "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, tailHelp)
		return 0
	}
	zxid, badZxid := strconv.ParseInt(after, 0, 64)
	switch {
	case err != nil:
	case flags.NArg() != 1:
		err = errors.New("name Apache's dataDir")
	case badZxid != nil || zxid < 0:
		err = errors.New("-after: want a zxid as zooid migrate switch prints it, such as 0x500000123")
	case terminal.Is(stdout):
		err = errors.New("the tail isn't for a terminal: send it to a file, or let zooid migrate switch run the command")
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate tail: %v\n\n%s", err, tailHelp)
		return 2
	}
	tail, err := readTail(flags.Arg(0), logDir, zxid)
	if err == nil {
		_, err = stdout.Write(tail.Append(nil))
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid migrate tail:", terminal.Visible(err.Error()))
		return 1
	}
	fmt.Fprintf(stderr, "%s: last zxid %#x, epoch %d, %d transactions behind %#x\n", flags.Arg(0), uint64(tail.Last),
		tail.Current, len(tail.Records), uint64(zxid))
	return 0
}

// readTail reads the tail of a stopped server.
func readTail(dir, logDir string, after int64) (*apachefiles.Tail, error) {
	for _, d := range []string{dir, logDir} {
		if d == "" {
			continue
		}
		if pid := holder("/proc", filepath.Join(d, apachefiles.Version2)); pid != "" {
			return nil, fmt.Errorf("read the tail of %s: the process %s has files open there. Stop the server first", d, pid)
		}
	}
	return apachefiles.ReadTail(dir, logDir, after)
}

// holder returns a process that has a file of a directory open, "" if none is known. Linux shows open files only to
// the process's own user and to root.
func holder(proc, dir string) (pid string) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return ""
	}
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return ""
	}
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, dir+string(filepath.Separator)) {
			pid, _, _ = strings.Cut(strings.TrimPrefix(link, proc+"/"), "/")
			return pid
		}
	}
	return ""
}
