//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/internal/migrate/follow"
	"github.com/zooid-project/zooid/internal/migrate/learner"
	"github.com/zooid-project/zooid/internal/migrate/switchover"
)

// tailsOf stops the servers of an ensemble, and returns their tails after a zxid.
func (f *switchFlags) tailsOf(ctx context.Context, e *follow.Ensemble,
	after int64) (map[int64]*apachefiles.Tail, error) {
	if f.tails != "" {
		return f.collect(ctx, e, after)
	}
	var mu sync.Mutex
	tails := map[int64]*apachefiles.Tail{}
	var wg sync.WaitGroup
	for i := range e.Members {
		wg.Add(1)
		go func() {
			defer wg.Done()
			m := &e.Members[i]
			tail, err := f.stopOne(ctx, m, after)
			if err != nil {
				f.says.say(fmt.Sprintf("stop server %d: %v", m.ID, err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tails[m.ID] = tail
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	return tails, nil
}

// errInterrupted says that the operator interrupted the switch.
var errInterrupted = errors.New("interrupted")

// stopOne runs the operator's command for one server.
func (f *switchFlags) stopOne(ctx context.Context, m *learner.Member, after int64) (*apachefiles.Tail, error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(m.Quorum[0])
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", f.stop)
	cmd.Env = append(os.Environ(), fmt.Sprintf("ZK_ID=%d", m.ID), "ZK_HOST="+host,
		fmt.Sprintf("ZK_AFTER=%#x", uint64(after)))
	cmd.Stdout, cmd.Stderr = &atMost{b: &out, left: apachefiles.TailBytesMax}, &atMost{b: &said, left: saidMax}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the command failed: %w: %s", err, strings.TrimSpace(said.String()))
	}
	tail, err := apachefiles.ParseTail(&out)
	if err != nil {
		return nil, fmt.Errorf("what the command has printed: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return tail, nil
}

// saidMax is how much of a command's standard error is shown.
const saidMax = 4 << 10

// atMost keeps the first bytes written to it and drops the rest.
type atMost struct {
	b    *bytes.Buffer
	left int
}

func (w *atMost) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.b.Write(p[:n])
	w.left -= n
	return len(p), nil
}

// collectPoll is the time between two checks for files.
const collectPoll = 100 * time.Millisecond

// collect waits for the files that the operator brings.
func (f *switchFlags) collect(ctx context.Context, e *follow.Ensemble,
	after int64) (map[int64]*apachefiles.Tail, error) {
	f.says.say(fmt.Sprintf(`Stop Apache's servers %v now, all of them, so that nothing starts them again:
    systemctl disable --now zookeeper
Then run on the machine of each server, with its id for ID and its dataDir (and -datalogdir, if it has one):
    zooid migrate tail -after %#x /var/lib/zookeeper > tail.ID
and put the files into %s. To undo: start Apache's servers again, and interrupt this command.`, ids(e), uint64(after),
		f.tails))
	tails := map[int64]*apachefiles.Tail{}
	for {
		for i := range e.Members {
			id := e.Members[i].ID
			if tails[id] != nil {
				continue
			}
			tail, err := tailFile(filepath.Join(f.tails, fmt.Sprintf("tail.%d", id)))
			switch {
			case err == nil:
				tails[id] = tail
				f.says.say(fmt.Sprintf("server %d has stopped at zxid %#x", id, uint64(tail.Last)))
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, apachefiles.ErrNoTail):
				return nil, err
			}
		}
		if _, err := switchover.Proved(e, tails, f.majority); err == nil {
			return tails, nil
		}
		select {
		case <-ctx.Done():
			return nil, errInterrupted
		case <-time.After(collectPoll):
		}
	}
}

func tailFile(path string) (*apachefiles.Tail, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return apachefiles.ParseTail(file)
}
