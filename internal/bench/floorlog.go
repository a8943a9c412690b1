package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// floorLogSize is the size of the floor's log, written over from the start when
// it is full. It is written once beforehand: appending to blocks that were
// written already costs a disk half of what new ones do, and a floor must not
// be slower than a server that knows.
const floorLogSize = 64 << 20

// floorLog is one file to which all writes go, made durable in batches:
// whatever came in while the last batch was being written.
type floorLog struct {
	durable atomic.Uint64 // position up to which all is on disk

	f      *os.File
	offset int64 // in the file, of the next batch

	mu     sync.Mutex
	filled *sync.Cond   // batch isn't empty, or closed
	batch  []byte       // not yet written
	owners []*floorConn // who wait for batch, each once
	end    uint64       // position after batch
	closed bool
}

// openFloorLog makes the file and writes it full.
func openFloorLog(path string) (*floorLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("make the floor's log: %w", err)
	}
	block := make([]byte, 1<<20)
	for n := 0; n < floorLogSize && err == nil; n += len(block) {
		_, err = f.Write(block)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("fill the floor's log: %w", err)
	}
	l := &floorLog{f: f}
	l.filled = sync.NewCond(&l.mu)
	return l, nil
}

// append adds one request to the next batch and returns the position that must
// be durable before its reply; owner is woken then.
func (l *floorLog) append(p []byte, owner *floorConn) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch = append(l.batch, p...)
	if n := len(l.owners); n == 0 || l.owners[n-1] != owner && !slices.Contains(l.owners, owner) {
		l.owners = append(l.owners, owner)
	}
	l.end++
	l.filled.Signal()
	return l.end
}

// syncLoop writes batch after batch until ctx ends, or the disk fails.
func (l *floorLog) syncLoop(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.filled.Signal()
	})
	defer stop()
	var batch []byte
	var owners []*floorConn
	for {
		l.mu.Lock()
		for len(l.batch) == 0 && !l.closed {
			l.filled.Wait()
		}
		if l.closed {
			l.mu.Unlock()
			return context.Cause(ctx)
		}
		batch, l.batch = l.batch, batch[:0]
		owners, l.owners = l.owners, owners[:0]
		end := l.end
		l.mu.Unlock()
		if err := l.write(batch); err != nil {
			return fmt.Errorf("write the floor's log: %w", err)
		}
		l.durable.Store(end)
		for _, c := range owners {
			c.wake(end)
		}
	}
}

func (l *floorLog) write(batch []byte) error {
	if l.offset+int64(len(batch)) > floorLogSize {
		l.offset = 0
	}
	if _, err := l.f.WriteAt(batch, l.offset); err != nil {
		return err
	}
	l.offset += int64(len(batch))
	return syncData(l.f)
}

// forget drops a client that is gone.
func (l *floorLog) forget(c *floorConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = slices.DeleteFunc(l.owners, func(o *floorConn) bool { return o == c })
}

func (l *floorLog) close() { l.f.Close() }
