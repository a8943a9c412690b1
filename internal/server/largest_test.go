package server

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

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
	for range 2 {
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
	if deposed == sets {
		t.Error("each set of the largest size ended the leader's term")
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
