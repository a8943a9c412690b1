//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const tailHelp = `usage: zooid migrate tail -after REQUEST [flags] APACHE_DATADIR

Prints, for zooid migrate switch, the transactions after a zxid in the log of a stopped Apache
ZooKeeper server, and whether the server has really stopped: which processes have its files
open, and whether its ports are closed. Run it on the server's machine, as root or as the
server's user, after the server has been stopped for good. It only reads Apache's files.

  -after REQUEST   $ZK_AFTER, or the value that switch prints: a zxid, the name of the switch,
                   and the server's ports
  -datalogdir DIR  Apache's dataLogDir, if it has one
  -zoocfg FILE     Apache's zoo.cfg, which names dataLogDir; by default, one next to the data
  -without-log     there is no log

exit code: 0 printed; 1 failed; 2 wrong arguments.
`

// tailFlags are the flags and arguments of zooid migrate tail.
type tailFlags struct {
	from  apacheDirs
	after string
	asked proof.Request
}

func (f *tailFlags) register(flags *flags) {
	f.from.register(flags)
	flags.StringVar(&f.after, "after", "", "")
}

func (f *tailFlags) arguments(words []string) (err error) {
	if len(words) != 1 {
		return errors.New("name Apache's dataDir")
	}
	f.from.dir = words[0]
	if f.asked, err = proof.ParseRequest(f.after); err != nil {
		err = fmt.Errorf("-after: %w", err)
	}
	return err
}

func (f *tailFlags) run(_ context.Context, s cli.Streams) (int, error) {
	if terminal.Is(s.Out) {
		return exitUsage, errors.New("the tail is binary: redirect it to a file, or let zooid migrate switch run the command")
	}
	tail, said, err := f.from.tail(f.asked, s.Err)
	if err == nil {
		_, err = io.WriteString(s.Out, said.Line())
	}
	if err == nil {
		err = tail.Write(s.Out)
	}
	if err != nil {
		return exitFailed, err
	}
	fmt.Fprintf(s.Err, "%s: last zxid %#x, epoch %d, %d transactions after %#x\n", f.from.dir, uint64(tail.Last),
		tail.Current, tail.Count, uint64(f.asked.After))
	if open := &said.Files; !open.Known {
		fmt.Fprintf(s.Err, "zooid migrate tail: can't tell whether a process has the server's files open: %s\n",
			terminal.Visible(open.Why))
	}
	return exitDone, nil
}

// tail finds the log's directory, and reads the tail.
func (a *apacheDirs) tail(asked proof.Request, stderr io.Writer) (*files.Tail, *proof.Testimony, error) {
	if err := a.findLog(stderr); err != nil {
		return nil, nil, fmt.Errorf("read the tail of %s: %w", a.dir, err)
	}
	return readTail(a.dir, a.logDir, asked)
}

// findLog finds the log's directory, and prints where it has found it. The error says that there is no log.
func (a *apacheDirs) findLog(stderr io.Writer) error {
	found, err := a.find()
	if found != "" {
		fmt.Fprintln(stderr, terminal.Visible(found))
	}
	if err == nil {
		err = a.logged()
	}
	return err
}

// readTail reads the tail of a stopped server, and looks for signs that the server hasn't stopped: before, and again
// afterwards, since a server that ended only meanwhile has written more.
func readTail(dir, logDir string, asked proof.Request) (*files.Tail, *proof.Testimony, error) {
	if _, err := unheld(dir, logDir); err != nil {
		return nil, nil, fmt.Errorf("read the tail of %s: %w. Stop the server first", dir, err)
	}
	tail, err := files.ReadTail(dir, logDir, asked.After)
	if err != nil {
		return nil, nil, err
	}
	said := &proof.Testimony{
		Try: asked.Try, ID: myID(dir), Last: tail.Last, Ports: proof.ProbeOwn(context.Background(), asked.Ports),
	}
	if said.Files, err = unheld(dir, logDir); err != nil {
		return nil, nil, fmt.Errorf("read the tail of %s: %w. Stop the server first", dir, err)
	}
	for address, port := range said.Ports { // any of them
		if port == proof.Open {
			return nil, nil, fmt.Errorf("read the tail of %s: something listens on the server's port %s. Stop the server first",
				dir, address)
		}
	}
	return tail, said, nil
}

// myID returns the id in a server's directory, nil if it has none.
func myID(dir string) *int64 {
	text, err := os.ReadFile(filepath.Join(dir, "myid"))
	if err != nil {
		return nil
	}
	id, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil
	}
	return &id
}

// unheld returns what is known about processes that have an Apache server's files open. The error names such a process.
func unheld(dir, logDir string) (proof.Files, error) {
	dirs := []string{dir}
	if logDir != "" && filepath.Clean(logDir) != filepath.Clean(dir) {
		dirs = append(dirs, logDir)
	}
	for i, d := range dirs {
		if st, err := os.Stat(filepath.Join(d, files.Version2)); err == nil && st.IsDir() {
			dirs[i] = filepath.Join(d, files.Version2)
		}
	}
	found, err := proof.Holders(dirs...)
	if err == nil && found.Held != "" {
		err = errors.New(found.Held)
	}
	return found, err
}
