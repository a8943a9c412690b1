package server

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// granted opens a session and returns the timeout that the server grants, for one that was asked for.
func granted(t *testing.T, addr string, asked time.Duration) time.Duration {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	req := jute.ConnectRequest{
		Timeout: int32(asked.Milliseconds()), Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true,
	}
	if _, err := conn.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		t.Fatal(err)
	}
	frame, err := jute.ReadFrame(conn, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var res jute.ConnectResponse
	res.Decode(jute.NewDecoder(frame))
	return time.Duration(res.Timeout) * time.Millisecond
}

// TestSessionTimeoutsAreBounded: a session gets the timeout that it asks for, within minSessionTimeout and
// maxSessionTimeout, which are 2 and 20 times tickTime if they aren't given.
func TestSessionTimeoutsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serving  Serving
		min, max time.Duration
	}{
		"given": {
			Serving{Tick: time.Second, SessionTimeoutMin: 5 * time.Second, SessionTimeoutMax: 7 * time.Second}, 5 * time.Second,
			7 * time.Second,
		},
		"by the tick": {Serving{Tick: 3 * time.Second}, 6 * time.Second, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			addr := open(t, Options{Serving: c.serving}).Addrs()[0].String()
			connect(t, addr, 0, nil) // it serves now
			within := c.min + 500*time.Millisecond
			for asked, want := range map[time.Duration]time.Duration{
				0: c.min, c.min - 1e6: c.min, within: within, c.max + 1e6: c.max, time.Hour: c.max,
			} {
				if got := granted(t, addr, asked); got != want {
					t.Errorf("asked for %v it grants %v, want %v", asked, got, want)
				}
			}
		})
	}
}

// TestSnapshotsAfterSnapCount: with a small snapCount a few writes lead to a snapshot, and with a large one they don't.
func TestSnapshotsAfterSnapCount(t *testing.T) {
	t.Parallel()
	const writes = 200
	for count, want := range map[int]bool{10: true, 1 << 30: false} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}, Serving: Serving{SnapCount: count}})
			if err != nil {
				t.Fatal(err)
			}
			c := connect(t, s.Addrs()[0].String(), 0, nil)
			for n := range writes {
				if h, _ := c.call(jute.OpCreate, creating("/n"+strconv.Itoa(n), nil, 0)); h.Err != jute.OK {
					t.Fatal(h.Err)
				}
			}
			if err := s.Close(); err != nil { // which waits for a snapshot under way
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.snap"))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(files) > 0; got != want {
				t.Errorf("after %d writes there are the snapshots %q", writes, files)
			}
		})
	}
}
