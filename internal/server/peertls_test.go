package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/jute"
)

// overTLS is mutual TLS between servers from the test stores.
func overTLS(t *testing.T) PeerTLS {
	t.Helper()
	port, err := keystore.NewPort(keystore.Options{Keys: store("server.jks"), Trust: store("trust.jks")})
	if err != nil {
		t.Fatal(err)
	}
	return PeerTLS{
		Server: port.Config(), Client: func(host string) *tls.Config { return port.Dialled(host, true) },
		Verify: port.VerifyPeer,
	}
}

// snapshotWrites are so many writes of 100 KB that the first of them leave the log
// once there are snapshots.
const snapshotWrites = 150

// TestEnsembleOverTLS: servers with empty directories find each other, agree, lose
// a leader, and bring one that is far behind up to date by a snapshot, all of it
// over mutual TLS.
func TestEnsembleOverTLS(t *testing.T) {
	t.Parallel()
	var log logLines
	servers, opts := threeServers(t,
		Options{
			Serving: Serving{SnapCount: 20}, SnapshotsKept: 1, PeerTLS: overTLS(t),
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
	lead := leader(t, servers)
	behind := (lead + 1) % 3
	servers[behind].Close()
	c := connect(t, opts[lead].Listen[0], 0, nil)
	var last jute.ReplyHeader
	for i := range snapshotWrites {
		last, _ = c.call(jute.OpCreate, creating(fmt.Sprintf("/n%04d", i), make([]byte, 100_000), 0))
	}
	if last.Err != jute.OK {
		t.Fatal(last.Err)
	}
	s, err := Open(opts[behind])
	if err != nil {
		t.Fatal(err)
	}
	servers[behind] = s
	other := (lead + 2) % 3
	for _, i := range []int{behind, other} {
		reader := connect(t, opts[i].Listen[0], 0, nil)
		if h, _ := reader.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK ||
			h.Zxid < last.Zxid {
			t.Fatalf("sync: %v, zxid 0x%x, want at least 0x%x", h.Err, h.Zxid, last.Zxid)
		}
		if h, _ := reader.call(jute.OpExists, reading(fmt.Sprintf("/n%04d", snapshotWrites-1), false)); h.Err != jute.OK {
			t.Errorf("the last write: %v", h.Err)
		}
	}
	if !strings.Contains(log.String(), "a snapshot was sent to a peer") {
		t.Error("no snapshot went over TLS")
	}
	servers[lead].Close()
	w := connect(t, opts[other].Listen[0], 0, nil)
	if h, _ := w.call(jute.OpCreate, creating("/after", nil, 0)); h.Err != jute.OK {
		t.Errorf("a write after the leader was lost: %v", h.Err)
	}
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu  sync.Mutex
	buf strings.Builder
}

// Write appends to the log.
func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns the log so far.
func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestPeersAreRechecked: servers check each other's certificates again, from either end of a connection. Connections of
// certificates that are accepted stay, others are closed, and come back once they are accepted again.
func TestPeersAreRechecked(t *testing.T) {
	t.Parallel()
	port, err := keystore.NewPort(keystore.Options{Keys: store("server.jks"), Trust: store("trust.jks")})
	if err != nil {
		t.Fatal(err)
	}
	var log logLines
	var withdrawn atomic.Bool
	var checked [2]atomic.Int32 // accepted, dialled
	secure := overTLS(t)
	secure.Check = func(shown []*x509.Certificate, dialled bool) error {
		if err := port.CheckPeer(shown, dialled); err != nil {
			t.Errorf("dialled: %t: %v", dialled, err)
		}
		if dialled {
			checked[1].Add(1)
		} else {
			checked[0].Add(1)
		}
		if withdrawn.Load() {
			return errors.New("it was withdrawn")
		}
		return nil
	}
	servers, opts := threeServers(t,
		Options{PeerTLS: secure, RecheckInterval: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
	lead := leader(t, servers)
	servers[lead].Recheck()
	eventually(t, "both ends are checked", func() bool { return checked[0].Load() > 0 && checked[1].Load() > 0 })
	const closed = "a peer's certificate is no longer accepted"
	if strings.Contains(log.String(), closed) {
		t.Error("a connection was closed whose certificate is accepted")
	}
	withdrawn.Store(true)
	servers[lead].Recheck()
	eventually(t, "connections are closed", func() bool { return strings.Contains(log.String(), closed) })
	withdrawn.Store(false)
	lead = leader(t, servers)
	c := connect(t, opts[lead].Listen[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/after", nil, 0)); h.Err != jute.OK {
		t.Errorf("a write after all is accepted again: %v", h.Err)
	}
}
