package floor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// pieceSize is how much space a log gets at a time: blocks that belong to the file before they are written, but are
	// new to the disk, as in most logs.
	pieceSize = 64 << 20
	// sizeMax is the size at which a log starts over.
	sizeMax = 1 << 30
)

// batchLog is one file for all writes. They are made durable in batches of all that arrived while the last batch was
// being written.
type batchLog struct {
	durable atomic.Uint64 // everything before this position is on disk

	f      *os.File
	filled bool  // the file was filled in advance, and keeps its size
	size   int64 // of the file
	offset int64 // in it, of the next batch

	mu     sync.Mutex
	ready  *sync.Cond // batch isn't empty, or closed is set
	batch  []byte     // data not yet written
	owners []*client  // clients that wait for batch, each once
	end    uint64     // position after batch
	closed bool
}

// openLog creates the file. A filled file is written once in advance and then overwritten again and again: blocks that
// were written before cost a disk half as much as new ones.
func openLog(path string, filled bool) (*batchLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("make the floor's log: %w", err)
	}
	l := &batchLog{f: f, filled: filled}
	l.ready = sync.NewCond(&l.mu)
	if filled {
		err = l.fill()
	} else {
		err = l.grow()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make room for the floor's log: %w", err)
	}
	return l, nil
}

// fill writes the file's only piece.
func (l *batchLog) fill() error {
	block := make([]byte, 1<<20)
	for ; l.size < pieceSize; l.size += int64(len(block)) {
		if _, err := l.f.Write(block); err != nil {
			return err
		}
	}
	return l.f.Sync()
}

// grow extends the file by a piece.
func (l *batchLog) grow() error {
	l.size += pieceSize
	return makeRoom(l.f, l.size)
}

// append adds one request to the next batch. It returns the position that must be durable before its reply. owner is
// woken then.
func (l *batchLog) append(p []byte, owner *client) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch = append(l.batch, p...)
	if n := len(l.owners); n == 0 || l.owners[n-1] != owner && !slices.Contains(l.owners, owner) {
		l.owners = append(l.owners, owner)
	}
	l.end++
	l.ready.Signal()
	return l.end
}

// syncLoop writes batch after batch until ctx ends, or the disk fails.
func (l *batchLog) syncLoop(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.ready.Signal()
	})
	defer stop()
	var batch []byte
	var owners []*client
	for {
		l.mu.Lock()
		for len(l.batch) == 0 && !l.closed {
			l.ready.Wait()
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

func (l *batchLog) write(batch []byte) error {
	if l.offset+int64(len(batch)) > l.size {
		if l.filled || l.size >= sizeMax {
			l.offset = 0
		} else if err := l.grow(); err != nil {
			return err
		}
	}
	if _, err := l.f.WriteAt(batch, l.offset); err != nil {
		return err
	}
	l.offset += int64(len(batch))
	return syncData(l.f)
}

// forget removes a client that has disconnected.
func (l *batchLog) forget(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = slices.DeleteFunc(l.owners, func(o *client) bool { return o == c })
}

func (l *batchLog) close() { l.f.Close() }
