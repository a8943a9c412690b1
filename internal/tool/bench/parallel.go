package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
)

// fileReserve is how many files the process needs besides connections.
const fileReserve = 64

// checkFiles returns an error if n connections are too many for this process.
func checkFiles(n int) error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return nil // unknown: try anyway
	}
	if uint64(n)+fileReserve > lim.Cur {
		return fmt.Errorf("open %d connections: this process may have %d open files; raise the limit (ulimit -n) or ask for fewer",
			n, lim.Cur)
	}
	return nil
}

// inParallel calls do for 0 to n-1, several at a time, and returns the first error.
func inParallel(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// dialers is how many connections of a trial are opened at a time if opening them isn't measured.
const dialers = 32

// dialAll opens n connections. On an error it closes those it has opened.
func (t *trial) dialAll(ctx context.Context, n, buffer int) ([]*wire.Conn, error) {
	if err := checkFiles(n); err != nil {
		return nil, err
	}
	conns := make([]*wire.Conn, n)
	err := inParallel(ctx, n, dialers, func(ctx context.Context, i int) (err error) {
		conns[i], err = t.dial(ctx, i, buffer)
		return err
	})
	if err != nil {
		closeAll(conns)
		return nil, err
	}
	return conns, nil
}

// closeAll ends the sessions of all connections that aren't nil.
func closeAll(conns []*wire.Conn) {
	inParallel(context.Background(), len(conns), dialers, func(_ context.Context, i int) error {
		if conns[i] != nil {
			conns[i].Close()
		}
		return nil
	})
}
