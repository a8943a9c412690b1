package server

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/lograte"
)

// TestClientFloodIsNoLogFlood lets a thousand clients fail in their
// handshake: the log tells of some, and how many it doesn't tell of.
func TestClientFloodIsNoLogFlood(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	s := open(t, Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	began := time.Now()
	for range 1000 {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte{0xff, 0xff, 0xff, 0xff})
		c.Read(make([]byte, 1))
		c.Close()
	}
	deadline := time.Now().Add(patience)
	for ; !strings.Contains(out.String(), "linesLeftOut="); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no line tells that lines were left out")
		}
		if c, err := net.Dial("tcp", s.Addrs()[0].String()); err == nil {
			c.Write([]byte{0xff, 0xff, 0xff, 0xff})
			c.Close()
		}
	}
	most := lograte.Burst + int(time.Since(began).Seconds()*lograte.LinesPerSecond) + 50
	if n := strings.Count(out.String(), "\n"); n > most {
		t.Errorf("%d lines for some 1,000 connections; at most %d", n, most)
	}
}

// syncBuffer is a buffer for a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the buffer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
