//go:build unix

package moving

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const tailHelp = `usage: zooid migrate tail -after REQUEST [flags] APACHE_DATADIR

Prints what the log of an Apache ZooKeeper server that has stopped holds behind a zxid, for
zooid migrate switch, and what is known here about the server's end: who has its files open, and
whether its ports are closed. Run it on the server's machine, as root or as the server's user,
once the server has stopped and nothing starts it again. REQUEST is $ZK_AFTER, or what switch
prints: a zxid, the name of the try, the server's ports. Apache's files are only read.

  -datalogdir DIR  Apache's dataLogDir, if it has one
  -zoocfg FILE     Apache's zoo.cfg, which says what dataLogDir is; a zoo.cfg beside the data is found
  -without-log     there is no log

exit code: 0 printed; 1 it can't be; 2 wrong arguments.
`

// runTail runs zooid migrate tail, which prints a server's tail.
func runTail(args []string, stdout, stderr io.Writer) int {
	var from apacheDirs
	var after string
	flags := flag.NewFlagSet("zooid migrate tail", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	from.register(flags)
	flags.StringVar(&after, "after", "", "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, tailHelp)
		return 0
	}
	asked, badRequest := proof.ParseRequest(after)
	switch {
	case err != nil:
	case flags.NArg() != 1:
		err = errors.New("name Apache's dataDir")
	case badRequest != nil:
		err = fmt.Errorf("-after: %w", badRequest)
	case terminal.Is(stdout):
		err = errors.New("the tail isn't for a terminal: send it to a file, or let zooid migrate switch run the command")
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate tail: %v\n\n%s", err, tailHelp)
		return 2
	}
	tail, said, err := from.tail(flags.Arg(0), asked, stderr)
	if err == nil {
		_, err = io.WriteString(stdout, said.Line())
	}
	if err == nil {
		err = tail.Write(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid migrate tail:", terminal.Visible(err.Error()))
		return 1
	}
	fmt.Fprintf(stderr, "%s: last zxid %#x, epoch %d, %d transactions behind %#x\n", flags.Arg(0), uint64(tail.Last),
		tail.Current, tail.Count, uint64(asked.After))
	if f := &said.Files; !f.Known {
		fmt.Fprintf(stderr, "zooid migrate tail: who has the server's files open isn't known: %s\n", terminal.Visible(f.Why))
	}
	return 0
}

// tail finds the log's directory, and reads the tail.
func (a *apacheDirs) tail(dir string, asked proof.Request,
	stderr io.Writer) (*files.Tail, *proof.Testimony, error) {
	a.dir = dir
	found, err := a.find()
	if found != "" {
		fmt.Fprintln(stderr, terminal.Visible(found))
	}
	if err == nil {
		err = a.logged()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the tail of %s: %w", dir, err)
	}
	return readTail(dir, a.logDir, asked)
}

// readTail reads the tail of a stopped server, and looks for signs that it hasn't stopped: before, and again
// afterwards, as a server that ends meanwhile has written more.
func readTail(dir, logDir string, asked proof.Request) (*files.Tail, *proof.Testimony, error) {
	if _, err := unheld(dir, logDir); err != nil {
		return nil, nil, fmt.Errorf("read the tail of %s: %w. Stop the server first", dir, err)
	}
	tail, err := files.ReadTail(dir, logDir, asked.After)
	if err != nil {
		return nil, nil, err
	}
	said := &proof.Testimony{Try: asked.Try, Last: tail.Last, Ports: proof.Probe(context.Background(), asked.Ports)}
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

// unheld says what is known of who has an Apache server's files open. The error names who has.
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
