package audit

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Options say where and how entries are written.
type Options struct {
	File      string // "" means Stderr
	FileBytes int64  // a file that would exceed it is renamed to File.1, File.1 to File.2, and so on
	FilesKept int    // number of renamed files kept
	JSON      bool   // JSON instead of Apache's text
	Stderr    io.Writer
	Log       *slog.Logger // for failures
}

const (
	// queueBytesMax bounds the lines that wait to be written. A busy server writes as much in a second. Further lines
	// are dropped and counted.
	queueBytesMax = 16 << 20
	// complainEvery is the minimum time between two log lines about lost lines.
	complainEvery = time.Minute
)

// A Log writes entries in order on its own goroutine. Its methods may be called concurrently.
type Log struct {
	o   Options
	out sink

	mu            sync.Mutex
	waiting       []byte
	spare         []byte
	writing       int   // bytes of memory of the lines that flush writes
	written, lost int64 // lines
	failures      failures
	told          int64 // lost lines already reported in the log
	closed        bool
	complained    time.Time

	wake    chan struct{} // capacity 1
	closing chan struct{}
	ended   chan struct{}
}

// A sink writes complete lines. It returns the number of bytes written, which is at the end of a line.
type sink interface {
	write(lines []byte) (int, error)
	close() error
}

// Open opens the file, if there is one, and starts the writer.
func Open(o Options) (*Log, error) {
	l := &Log{
		o: o, out: plain{o.Stderr}, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if o.File != "" {
		f := &file{path: o.File, most: o.FileBytes, keep: o.FilesKept}
		if err := f.open(); err != nil {
			return nil, err
		}
		l.out = f
		l.failures = newFailures(o.FileBytes * int64(o.FilesKept+1))
	}
	go l.run()
	return l, nil
}

// Write queues an entry. It doesn't wait for the disk. If there are many failures, it only counts some of them.
func (l *Log) Write(e *Entry) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting) >= queueBytesMax {
		l.lost++
		return
	}
	before := len(l.waiting)
	l.format(e, now)
	if e.failed() && !l.failures.take(e.Source, int64(len(l.waiting)-before), now) {
		l.waiting = l.waiting[:before]
	}
	if counts := l.failures.counts(now, false); counts != nil {
		l.format(counts, now)
	}
	if before == 0 && len(l.waiting) > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// format appends an entry to the waiting lines. The caller holds mu.
func (l *Log) format(e *Entry, now time.Time) {
	if l.o.JSON {
		l.waiting = e.appendJSON(l.waiting, now)
	} else {
		l.waiting = e.appendText(l.waiting, now)
	}
}

// Counts returns the numbers of lines written and lost, and of failures omitted.
func (l *Log) Counts() (written, lost, leftOut int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written, l.lost, l.failures.leftOut
}

// Memory returns the bytes of memory of the lines that wait or are being written, 0 if l is nil.
func (l *Log) Memory() int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(cap(l.waiting) + cap(l.spare) + l.writing)
}

// Close writes the waiting lines and ends the log.
func (l *Log) Close() error {
	l.mu.Lock()
	was := l.closed
	if counts := l.failures.counts(time.Now(), true); counts != nil && !was {
		l.format(counts, time.Now())
	}
	l.closed = true
	l.mu.Unlock()
	if !was {
		close(l.closing)
	}
	<-l.ended
	if was {
		return nil
	}
	return l.out.close()
}

func (l *Log) run() {
	defer close(l.ended)
	defer l.flush()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-l.wake:
		case <-l.closing:
			return
		}
		pause.Reset(gatherFor)
		select {
		case <-pause.C:
		case <-l.closing:
			return
		}
		l.flush()
	}
}

// gatherFor is how long a line may wait, so that several are written together. On a server with many writes, waking the
// writer for each line would cost more than the lines do.
const gatherFor = 5 * time.Millisecond

// spareBytesMax bounds the memory that is kept for reuse.
const spareBytesMax = 1 << 20

// flush writes the waiting lines. It drops lines that can't be written; there may be room again for later ones.
func (l *Log) flush() {
	l.mu.Lock()
	lines := l.waiting
	l.waiting, l.spare, l.writing = l.spare[:0], nil, cap(lines)
	l.mu.Unlock()
	n, err := 0, error(nil)
	if len(lines) > 0 {
		n, err = l.out.write(lines)
	}
	l.mu.Lock()
	l.written += int64(bytes.Count(lines[:n], newline))
	l.lost += int64(bytes.Count(lines[n:], newline))
	l.writing = 0
	if cap(lines) <= spareBytesMax {
		l.spare = lines[:0]
	}
	lost := l.lost
	complains := lost > l.told && time.Since(l.complained) >= complainEvery
	if complains {
		l.told, l.complained = lost, time.Now()
	}
	l.mu.Unlock()
	if complains {
		l.o.Log.Error("lines of the audit log are lost; the server continues", "lost", lost, "file", l.o.File, "err", err,
			"code", "ZD-2040")
	}
}

var newline = []byte{'\n'}

// plain is a sink that can't be rotated.
type plain struct{ w io.Writer }

func (p plain) write(lines []byte) (int, error) {
	n, err := p.w.Write(lines)
	return bytes.LastIndexByte(lines[:n], '\n') + 1, err
}

func (p plain) close() error { return nil }
