package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/storage"
)

// An engine holds what all parts of a server use: the options, the logs and metrics, the lifetime, and the replica, the
// data directory and the peer, which are set once the data directory is recovered. After that no field is replaced.
type engine struct {
	lifetime
	opt Options
	log *slog.Logger
	// clientLog is for log lines about single clients, limited in rate.
	clientLog *slog.Logger
	meters    *replica.Meters
	replica   *replica.Replica
	dir       *storage.Dir
	peer      *peer.Peer
}

// serving reports whether the server serves its clients now, at least read-only.
func (e *engine) serving() bool {
	v := e.replica.View()
	return v.Serving || v.ReadOnly
}

// A lifetime is a server's clock and its end, and counts the goroutines that Close waits for.
type lifetime struct {
	started time.Time
	closing chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex // held while closing is closed, and while begin adds a goroutine
}

// now returns the time of a monotonic clock in ns.
func (l *lifetime) now() int64 { return int64(time.Since(l.started)) }

// begin runs f on a goroutine of its own, unless the server is stopping, and reports whether it does.
func (l *lifetime) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping() {
		return false
	}
	l.wg.Go(f)
	return true
}

// stop begins the end. From then on only running goroutines may begin others, by wg.
func (l *lifetime) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.closing)
}

// stopping reports whether Close was called.
func (l *lifetime) stopping() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// pause waits, and reports false if the server is stopping.
func (l *lifetime) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.closing:
		return false
	}
}

// A signal wakes one goroutine. Several signals sent before the goroutine wakes count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
