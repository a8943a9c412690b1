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
	File      string // "" is for Stderr
	FileBytes int64  // a file that would grow beyond it is renamed to File.1, File.1 to File.2 and so on
	FilesKept int    // renamed files that are kept
	JSON      bool   // instead of Apache's text
	Stderr    io.Writer
	Log       *slog.Logger // for what fails
}

const (
	// queueBytesMax bounds the lines that wait to be written: what a busy server writes in a second. What comes while
	// there are as many is lost, and counted.
	queueBytesMax = 16 << 20
	// complainEvery is the least time between two log lines about lines that are lost.
	complainEvery = time.Minute
)

// A Log takes entries and writes them, in order, on a goroutine of its own. Its methods may be called from anywhere.
type Log struct {
	o   Options
	out sink

	mu            sync.Mutex
	waiting       []byte
	spare         []byte
	written, lost int64 // lines
	told          int64 // of lost, those that the log has told of
	closed        bool
	complained    time.Time

	wake    chan struct{} // capacity 1
	closing chan struct{}
	ended   chan struct{}
}

// A sink takes whole lines. It returns how many bytes of them it has written, which are whole lines too.
type sink interface {
	write(lines []byte) (int, error)
	close() error
}

// Open opens the file, if there is to be one, and begins to write.
func Open(o Options) (*Log, error) {
	l := &Log{o: o, out: plain{o.Stderr}, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	if o.File != "" {
		f := &file{path: o.File, most: o.FileBytes, keep: o.FilesKept}
		if err := f.open(); err != nil {
			return nil, err
		}
		l.out = f
	}
	go l.run()
	return l, nil
}

// Write takes an entry. It doesn't wait for the disk.
func (l *Log) Write(e *Entry) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting) >= queueBytesMax {
		l.lost++
		return
	}
	first := len(l.waiting) == 0
	if l.o.JSON {
		l.waiting = e.appendJSON(l.waiting, now)
	} else {
		l.waiting = e.appendText(l.waiting, now)
	}
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Counts returns how many lines were written, and how many were lost.
func (l *Log) Counts() (written, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written, l.lost
}

// Close writes what waits, and ends the log.
func (l *Log) Close() error {
	l.mu.Lock()
	was := l.closed
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

// gatherFor is how long a line may wait for others that are written with it: to wake the writer for each line would
// cost a server that is busy with writes more than the lines do.
const gatherFor = 5 * time.Millisecond

// spareBytesMax is the most memory that is kept for the next lines.
const spareBytesMax = 1 << 20

// flush writes what waits. The lines that can't be written are lost: those that come later may have room again.
func (l *Log) flush() {
	l.mu.Lock()
	lines := l.waiting
	l.waiting, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	n, err := 0, error(nil)
	if len(lines) > 0 {
		n, err = l.out.write(lines)
	}
	l.mu.Lock()
	l.written += int64(bytes.Count(lines[:n], newline))
	l.lost += int64(bytes.Count(lines[n:], newline))
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
		l.o.Log.Error("lines of the audit log are lost; the server goes on", "lost", lost, "file", l.o.File, "err", err, "code", "ZD-2040")
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
