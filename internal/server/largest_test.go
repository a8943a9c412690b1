package server

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// writesOf returns how long the machine takes to write a value to several files at once.
func writesOf(t *testing.T, value []byte, files int) time.Duration {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "value"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all.Go(func() {
			if _, err := f.Write(value); err != nil {
				t.Error(err)
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// TestLargestRequests runs three servers at the largest jute.maxbuffer: requests of
// that size are accepted by each of them and wedge none, the snapshot that holds them
// can be written, and a server that starts again has them. A larger request ends its
// connection, and a larger limit keeps a server from starting.
func TestLargestRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 400 MB")
	}
	servers, opts := threeServers(t, Options{Serving: Serving{MaxFrame: MaxFrameMax, SnapCount: 2}})
	const path = "/largest"
	c := connect(t, opts[0].Listen[0], 0, nil)
	c.call(jute.OpCreate, creating(path, nil, 0))
	value := make([]byte, MaxFrameMax-jute.RequestHeaderSize-len(setting(path, nil)(nil)))
	rand.NewChaCha8([32]byte{}).Read(value)
	deposed, sets := 0, 0
	term := servers[0].Status().Zxid >> 32
	// Twice at each server, and more often if a busy machine lets none of them be quick enough.
	for end := time.Now().Add(patience); sets < 2*len(servers) || deposed == sets && time.Now().Before(end); {
		for at := range servers {
			c := connect(t, opts[at].Listen[0], 0, nil)
			value[0]++
			if h, _ := c.call(jute.OpSetData, setting(path, value)); h.Err != jute.OK {
				t.Fatalf("set of %d bytes at server %d: %v", len(value), at+1, h.Err)
			} else if h.Zxid>>32 != term {
				term = h.Zxid >> 32
				deposed++
			}
			sets++
			c.conn.Close()
		}
	}
	t.Logf("%d of %d sets ended a term", deposed, sets)
	if took := writesOf(t, value, len(servers)); deposed == sets && took < electionTicks*raftTick {
		t.Errorf("each set of the largest size ended the leader's term, though as many bytes are on the disk in %v", took)
	}
	c = connect(t, opts[1].Listen[0], 0, nil)
	c.conn.Write(c.request(nil, jute.OpSetData, setting(path, append(value, 0))))
	if !c.ends() {
		t.Error("a request larger than the limit doesn't end its connection")
	}
	caughtUp(t, opts)
	for i := range servers {
		eventually(t, "a snapshot that holds the value", func() bool {
			names, _ := filepath.Glob(filepath.Join(opts[i].DataDir, "*.snap"))
			for _, name := range names {
				if info, err := os.Stat(name); err == nil && info.Size() > int64(len(value)) {
					return true
				}
			}
			return false
		})
		var err error
		servers[i].Close()
		if servers[i], err = Open(opts[i]); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp(t, opts)
	for i := range servers {
		reader := connect(t, opts[i].Listen[0], 0, nil)
		if _, err := reader.conn.Write(reader.request(nil, jute.OpGetData, reading(path, false))); err != nil {
			t.Fatal(err)
		}
		if got, err := jute.ReadFrame(reader.conn, nil, MaxFrameMax+1<<10); err != nil || !bytes.Contains(got, value) {
			t.Errorf("server %d has another value: %v", i+1, err)
		}
		select {
		case err := <-servers[i].Failed():
			t.Errorf("server %d failed: %v", i+1, err)
		default:
		}
	}
	if s, err := Open(Options{
		DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Serving: Serving{MaxFrame: MaxFrameMax + 1},
	}); err == nil {
		s.Close()
		t.Error("a server takes a larger limit")
	}
}
