//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// operatorCommand returns a command given by the operator, with additional environment variables.
func operatorCommand(ctx context.Context, command string, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	return cmd
}

// runFor runs an operator's command for a server, and returns its output.
func runFor(ctx context.Context, command string, patience time.Duration, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, said bytes.Buffer
	cmd := operatorCommand(ctx, command, env)
	cmd.Stdout, cmd.Stderr = &atMost{w: &out, left: saidMax}, &atMost{w: &said, left: saidMax}
	// Background servers started by the command may keep its output open.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), fmt.Errorf("the command failed: %w%s", err, quoted(&said))
	}
	return out.String(), nil
}

// zooidServer returns the environment of a command for a Zooid server.
func zooidServer(m *config.Member) []string {
	env := []string{fmt.Sprintf("ZOOID_ID=%d", m.ID)}
	if len(m.Addrs) > 0 {
		env = append(env, "ZOOID_HOST="+m.Addrs[0].Host)
	}
	return env
}

const digestHelp = `usage: zooid migrate digest [-datalogdir APACHE_LOGDIR | -zoocfg FILE | -without-log] APACHE_DATADIR

Prints, for zooid migrate return, what a stopped Apache ZooKeeper server would load from its files:
the last zxid, the digest of the tree, and the number of znodes and sessions. It only reads Apache's
files.

  -datalogdir DIR  Apache's dataLogDir, if it has one
  -zoocfg FILE     Apache's zoo.cfg, which names dataLogDir; by default, one next to the data
  -without-log     there is no log

exit code: 0 printed; 1 failed; 2 wrong arguments; 4 the files are damaged.
`

// digestFlags are the flags and arguments of zooid migrate digest.
type digestFlags struct{ from apacheDirs }

func (f *digestFlags) register(flags *flags) { f.from.register(flags) }

func (f *digestFlags) arguments(words []string) error {
	if len(words) != 1 {
		return errors.New("name Apache's dataDir")
	}
	f.from.dir = words[0]
	return nil
}

func (f *digestFlags) run(_ context.Context, s cli.Streams) (int, error) {
	const name = "zooid migrate digest:"
	// An observer may have got only a snapshot: return compares with the data that it must have.
	if err := f.from.findLog(s.Err); err != nil {
		fmt.Fprintln(s.Err, name, terminal.Visible(err.Error()))
	}
	dir, logDir := f.from.dir, f.from.logDir
	if found, err := unheld(dir, logDir); found.Held != "" {
		return exitFailed, fmt.Errorf("%w. Stop the server first", err)
	}
	state, report, err := files.Load(files.Options{Dir: dir, LogDir: logDir})
	if err != nil {
		return failure(err), err
	}
	if m := report.Mismatch; m != nil { // found during the replay; only the tree at the end counts
		fmt.Fprintf(s.Err, "%s %s: at zxid %#x Apache's digest of the tree is %#x, but its files have the digest %#x\n", name,
			terminal.Visible(m.Where), uint64(m.Zxid), m.Apache, m.Tree)
	}
	fmt.Fprintln(s.Out,
		digestLine(&back.Done{Zxid: state.Zxid, Digest: state.Digest(), Znodes: state.Len(), Sessions: len(state.Sessions)}))
	return exitDone, nil
}

// digestLine returns the line that zooid migrate digest prints for zooid migrate return.
func digestLine(d *back.Done) string {
	return fmt.Sprintf("zooid digest: zxid %#x, digest %#x, %d znodes, %d sessions", uint64(d.Zxid), d.Digest, d.Znodes,
		d.Sessions)
}
