package server

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// sizedDisk mounts a tmpfs of some bytes for the test.
func sizedDisk(t *testing.T, size int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mounting takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestSmallDisks sets a few znodes on a real server whose disk, or whose log's disk, is small: many times what fits is
// written, and nothing is refused.
func TestSmallDisks(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short")
	}
	for _, c := range []struct {
		name       string
		disk, data int // bytes; data 0 for one directory
		times      int // what is written, in sizes of the disk
	}{
		{name: "one disk of 48 MB", disk: 48 << 20, times: 20},
		{name: "a log disk of 100 MB", disk: 100 << 20, data: 64 << 20, times: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := Options{DataDir: sizedDisk(t, c.disk), Listen: []string{"127.0.0.1:0"}}
			if c.data > 0 {
				opt.LogDir, opt.DataDir = opt.DataDir, sizedDisk(t, c.data)
			}
			s, err := Open(opt)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			cl := connect(t, s.Addrs()[0].String(), 0, nil)
			for i := range 5 {
				cl.call(jute.OpCreate, creating(fmt.Sprintf("/n%d", i), nil, 0))
			}
			const size, window = 50_000, 8
			data := make([]byte, size)
			for written := 0; written < c.times*c.disk; written += size * window {
				var stream []byte
				for i := range window {
					data[0], data[1] = byte(written), byte(i)
					stream = cl.request(stream, jute.OpSetData, setting(fmt.Sprintf("/n%d", i%5), data))
				}
				sent := make(chan error, 1)
				go func() {
					_, err := cl.conn.Write(stream)
					sent <- err
				}()
				for range window {
					if h, _ := cl.reply(); h.Err != jute.OK {
						state, err := s.dir.SpaceState()
						t.Fatalf("a set after %d MB: %v; the disk: %+v, %v", written>>20, h.Err, state, err)
					}
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			}
			free, _, _ := storage.OS{}.Free(opt.DataDir)
			t.Logf("%d MB free at the end; %+v", free>>20, s.dir.Log().Stats())
		})
	}
}
