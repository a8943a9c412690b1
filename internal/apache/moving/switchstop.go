//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/apache/switchover"
)

// An ending is the output from the machine of a server that is said to have stopped.
type ending struct {
	tail *files.Tail
	said *proof.Testimony // nil if there was none
}

// request returns the question about a server's end.
func (r *switchRun) request(m *learner.Member, after int64) string {
	return proof.Request{After: after, Try: r.try, Ports: ports(m)}.String()
}

// ports returns the addresses at which a server may listen.
func ports(m *learner.Member) []string { return slices.Concat(m.Election, otherPorts(m)) }

// otherPorts returns the addresses at which a server doesn't always listen.
func otherPorts(m *learner.Member) []string {
	if m.Client == "" {
		return m.Quorum
	}
	return append(slices.Clone(m.Quorum), m.Client)
}

// enoughEvery is the time between two checks whether commands that haven't ended must be waited for.
const enoughEvery = 5 * time.Second

// endings stops the servers of an ensemble, and returns their tails after a zxid. Once enough, if not nil, reports that
// the tails received so far are enough, endings ends the commands that still run.
func (r *switchRun) endings(ctx context.Context, e *follow.Ensemble, after int64,
	enough func(map[int64]ending) bool) (map[int64]ending, error) {
	if r.tails != "" {
		return r.collect(ctx, e, after)
	}
	if err := os.MkdirAll(filepath.Join(r.words[1], tailsName), 0o700); err != nil {
		return nil, err
	}
	type result struct {
		id  int64
		end ending
		err error
	}
	results := make(chan result)
	commands, endCommands := context.WithCancel(ctx)
	defer endCommands()
	for i := range e.Members {
		go func() {
			end, err := r.stopOne(commands, &e.Members[i], after)
			results <- result{e.Members[i].ID, end, err}
		}()
	}
	check := time.NewTicker(enoughEvery)
	defer check.Stop()
	tails := map[int64]ending{}
	for left := len(e.Members); left > 0; {
		select {
		case one := <-results:
			if left--; one.err != nil {
				r.says.say(fmt.Sprintf("stop server %d: %v", one.id, one.err))
				continue
			}
			tails[one.id] = one.end
		case <-check.C:
			if enough != nil && commands.Err() == nil && enough(tails) {
				r.says.say("enough servers have stopped: the other commands are ended, and the switch continues without them (-majority)")
				endCommands()
			}
		}
	}
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	return tails, nil
}

// errInterrupted says that the operator interrupted the switch.
var errInterrupted = errors.New("interrupted")

// stopOne runs the operator's command for one server.
func (r *switchRun) stopOne(ctx context.Context, m *learner.Member, after int64) (ended ending, err error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(m.Quorum[0])
	if err != nil {
		return ended, err
	}
	out, err := os.OpenFile(r.tailOf(m), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return ended, err
	}
	defer out.Close()
	var said bytes.Buffer
	cmd := operatorCommand(ctx, r.stop,
		[]string{fmt.Sprintf("ZK_ID=%d", m.ID), "ZK_HOST=" + host, "ZK_AFTER=" + r.request(m, after)})
	printed := &atMost{w: out, left: printedMax}
	cmd.Stdout = printed
	cmd.Stderr = &atMost{w: &said, left: saidMax}
	err = cmd.Run()
	switch {
	case printed.failed != nil: // the command's own error is only that its output is closed
		return ended, fmt.Errorf("save the command's output next to the copy: %w", printed.failed)
	case err != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w after %v", err, stopTimeout)
		}
		return ended, fmt.Errorf("the command failed: %w%s", err, quoted(&said))
	}
	if ended, err = tailFile(out.Name()); err != nil {
		return ended, fmt.Errorf("read the command's output: %w%s", err, quoted(&said))
	}
	return ended, nil
}

// printedMax is how much of a -stop command's output is kept: enough to show that the tail in it is too large.
const printedMax = files.TailPrefaceMax + files.TailBytesMax + 1<<20

// tailOf returns the file for the output of a server's command: a tail may be larger than memory.
func (r *switchRun) tailOf(m *learner.Member) string {
	return filepath.Join(r.words[1], tailsName, fmt.Sprintf("tail.%d", m.ID))
}

// dropTails removes the files of tailOf, which may be of an earlier try. A file that can't be removed does no harm.
func (r *switchRun) dropTails() {
	dir := filepath.Join(r.words[1], tailsName)
	found, err := os.ReadDir(dir)
	for _, file := range found {
		if strings.HasPrefix(file.Name(), "tail.") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.says.say(fmt.Sprintf("the output of the stop commands stays next to the copy: %v", err))
	}
}

// quoted returns a command's output as the end of a message, or "" if there is none.
func quoted(said *bytes.Buffer) string {
	if text := strings.TrimSpace(said.String()); text != "" {
		return ": " + text
	}
	return ""
}

// saidMax is how much of a command's standard error is shown.
const saidMax = 4 << 10

// atMost passes the first bytes written to it on and drops the rest.
type atMost struct {
	w      io.Writer
	left   int64
	failed error // of w
}

func (a *atMost) Write(p []byte) (int, error) {
	n := min(int64(len(p)), a.left)
	a.left -= n
	if _, err := a.w.Write(p[:n]); err != nil {
		a.failed = err
		return 0, err
	}
	return len(p), nil
}

// collectPoll is the time between two checks for files.
const collectPoll = 100 * time.Millisecond

// collect waits for the files that the operator brings.
func (r *switchRun) collect(ctx context.Context, e *follow.Ensemble, after int64) (map[int64]ending, error) {
	commands := ""
	for i := range e.Members {
		m := &e.Members[i]
		commands += fmt.Sprintf("    zooid migrate tail -after %s /var/lib/zookeeper > tail.%d\n", r.request(m, after), m.ID)
	}
	r.says.say(fmt.Sprintf(`Stop Apache's servers %v now, all of them, so that nothing starts them again:
    systemctl disable --now zookeeper
Then run on the machine of each server, as root or as the server's user, with its dataDir (and -datalogdir, if it has one):
%sand put the files into %s. To undo: start Apache's servers again, and interrupt this command.`,
		ids(e), commands, r.tails))
	tails := map[int64]ending{}
	strange := map[int64]bool{}
	for {
		for i := range e.Members {
			id := e.Members[i].ID
			if tails[id].tail != nil {
				continue
			}
			tail, err := tailFile(filepath.Join(r.tails, fmt.Sprintf("tail.%d", id)))
			switch {
			case err == nil && (tail.said == nil || tail.said.Try != r.try):
				if !strange[id] {
					strange[id] = true
					r.says.say(fmt.Sprintf("%s/tail.%d is from another try and is ignored: after the server has stopped, print it with the command above",
						r.tails, id))
				}
			case err == nil:
				tails[id] = tail
				r.says.say(fmt.Sprintf("the log of server %d ends at zxid %#x", id, uint64(tail.tail.Last)))
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, files.ErrNoTail):
				return nil, err
			}
		}
		if _, err := switchover.Proved(e, tailsIn(tails), r.majority); err == nil {
			return tails, nil
		}
		select {
		case <-ctx.Done():
			return nil, errInterrupted
		case <-time.After(collectPoll):
		}
	}
}

// tailsIn returns the tails of endings.
func tailsIn(all map[int64]ending) map[int64]*files.Tail {
	tails := map[int64]*files.Tail{}
	for id, end := range all {
		tails[id] = end.tail
	}
	return tails
}

// tailFile reads a file with the output of zooid migrate tail.
func tailFile(path string) (ended ending, err error) {
	tail, preface, err := files.OpenTail(path)
	if err != nil {
		return ended, err
	}
	if ended.said, err = proof.FindTestimony(preface); err != nil && !errors.Is(err, proof.ErrNoTestimony) {
		return ending{}, err
	}
	ended.tail = tail
	return ended, nil
}
