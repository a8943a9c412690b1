package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

var memoryCaseFlag = flag.Duration("memory-case", 0, "how long TestFullMemory creates znodes; 0 means 15 s, 10 minutes with -long")

const (
	// memoryCaseLimit is what each server's control group has.
	memoryCaseLimit = 256 << 20
	// memoryCaseRefusals is how many creates in a row are refused before znodes are deleted.
	memoryCaseRefusals = 25
	memorySessions     = 50
	memoryWriters      = 4
)

// memoryGroup puts a server into a control group of its own whose memory is bounded: the kernel kills a process that
// needs more. Without such groups the server has its own limit (memory.limit), and its memory is looked at. The same
// holds for data on a tmpfs, whose files count as memory of the group: there the log alone would fill it.
func memoryGroup(t *testing.T, s *Server) (grouped bool) {
	t.Helper()
	const tmpfs = 0x01021994
	var disk syscall.Statfs_t
	if err := syscall.Statfs(t.TempDir(), &disk); err != nil || disk.Type == tmpfs {
		return false
	}
	folder := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("zooid-test-%d-%d", os.Getpid(), s.ID))
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		folder, limit = strings.Replace(folder, "/memory/", "/", 1), "memory.max"
	}
	if os.Mkdir(folder, 0o755) != nil {
		return false
	}
	t.Cleanup(func() {
		s.Kill()
		for range 100 { // until the kernel has seen the process go
			if os.Remove(folder) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("the control group %s is left", folder)
	})
	if os.WriteFile(filepath.Join(folder, limit), []byte(strconv.Itoa(memoryCaseLimit)), 0o600) != nil {
		return false
	}
	s.Wrap = []string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, folder}
	return true
}

// memoryCase counts what happened.
type memoryCase struct {
	taken, refused, rounds, deleted, reads atomic.Int64
	failed                                 atomic.Pointer[error]
}

func (m *memoryCase) fail(err error) { m.failed.CompareAndSwap(nil, &err) }

// TestFullMemory creates znodes without end against the limit of three servers' memory. No server ends, no session is
// lost; creates are refused by an error that says so, while reads, deletes and sessions go on, and are taken again by
// themselves once znodes were deleted.
func TestFullMemory(t *testing.T) {
	hurtful(t)
	took := *memoryCaseFlag
	if took == 0 {
		if took = 15 * time.Second; *long {
			took = 10 * time.Minute
		}
	}
	e := Start(t,
		Options{
			Servers: 3, Config: map[string]string{"snapCount": "20000", "memory.limit": strconv.Itoa(memoryCaseLimit / 2)},
		})
	grouped := true
	var addrs []string
	for _, s := range e.Servers {
		s.Kill()
		grouped = memoryGroup(t, s) && grouped
		addrs = append(addrs, s.Addr)
	}
	if err := e.startAll(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), took+5*time.Minute)
	defer cancel()
	world := zk.WorldACL(zk.PermAll)
	open := func() *zk.Client {
		c, err := zk.Open(ctx, strings.Join(addrs, ","), zk.Options{SessionTimeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var sessions []*zk.Client
	for i := range memorySessions {
		c := open()
		if _, err := c.Create(ctx, fmt.Sprintf("/session-%d", i), nil, zk.ModeEphemeral, world); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c)
	}
	var m memoryCase
	ending, stop := context.WithTimeout(ctx, took)
	defer stop()
	var wg sync.WaitGroup
	for i := range memoryWriters {
		c := open()
		wg.Go(func() { m.write(ctx, ending, c, i) })
	}
	reader := open()
	wg.Go(func() {
		for n := 0; ending.Err() == nil; n++ {
			if _, _, err := reader.Exists(ctx, fmt.Sprintf("/session-%d", n%memorySessions)); err != nil {
				m.fail(fmt.Errorf("a read: %w", err))
				return
			}
			m.reads.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	})
	wg.Wait()
	if err := m.failed.Load(); err != nil {
		t.Error(*err)
	}
	for i, c := range sessions {
		stat, _, err := c.Exists(ctx, fmt.Sprintf("/session-%d", i))
		if err != nil || stat.EphemeralOwner != c.Session().ID {
			t.Errorf("session %d is lost: %+v, %v", i, stat, err)
		}
	}
	for _, s := range e.Servers {
		if !s.Running() {
			t.Errorf("server %d has ended:\n%s", s.ID, s.LogEnd())
		} else if rss := s.Memory(); rss > memoryCaseLimit {
			t.Errorf("server %d takes %d MiB, its limit is %d", s.ID, rss>>20, memoryCaseLimit>>20)
		}
	}
	if m.refused.Load() == 0 || m.rounds.Load() == 0 {
		t.Errorf("%d creates were refused, and taken again %d times: the limit was not reached", m.refused.Load(),
			m.rounds.Load())
	}
	fmt.Printf("\n%s: %v, control groups: %t; %d creates taken, %d refused, taken again after deletes %d times; %d deletes, %d reads, %d sessions kept\n",
		t.Name(), took, grouped, m.taken.Load(), m.refused.Load(), m.rounds.Load(), m.deleted.Load(), m.reads.Load(),
		len(sessions))
}

// write creates znodes until many in a row are refused, deletes two of three, and goes on, until the time is over and
// creates were taken again once.
func (m *memoryCase) write(ctx, ending context.Context, c *zk.Client, writer int) {
	world := zk.WorldACL(zk.PermAll)
	var held []string
	inARow, waits := 0, false
	for n := 0; ctx.Err() == nil && (ending.Err() == nil || m.rounds.Load() == 0); n++ {
		path := fmt.Sprintf("/writer-%d-%d", writer, n)
		_, err := c.Create(ctx, path, make([]byte, 5000+n%20*2000), zk.ModePersistent, world)
		switch {
		case err == nil:
			m.taken.Add(1)
			held, inARow = append(held, path), 0
			if waits {
				waits = false
				m.rounds.Add(1)
			}
			continue
		case !errors.Is(err, zk.ErrThrottledOp):
			m.fail(fmt.Errorf("a create: %w", err))
			return
		}
		m.refused.Add(1)
		if inARow++; inARow < memoryCaseRefusals {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		inARow, waits = 0, true
		var kept []string
		for i, path := range held {
			if i%3 == 0 {
				kept = append(kept, path)
				continue
			}
			if err := c.Delete(ctx, path, -1); err != nil {
				m.fail(fmt.Errorf("a delete: %w", err))
				return
			}
			m.deleted.Add(1)
		}
		held = kept
	}
}
