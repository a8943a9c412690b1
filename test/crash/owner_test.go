package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnerOnAFullDisk upgrades a server whose disk has no room at all. It can't record whose data directory it holds
// (server.kept), says so, and serves. It records it once there is room, and from then on another server refuses a copy.
func TestOwnerOnAFullDisk(t *testing.T) {
	hurtful(t)
	for _, kind := range []smallDisk{
		{name: "bytes", hog: allBytesOf, everywhere: true},
		{name: "inodes", opts: "nr_inodes=400", hog: filesOf, everywhere: true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			dir, f := kind.mount(t)
			e := layOutOnly(t, Options{Servers: 3, OneDirectory: true, Disk: filepath.Join(dir, "zooid")})
			startThem(t, e.Servers...)
			oneTree(t, nil, e.Servers...)
			full, other := e.Servers[0], e.Servers[1]
			full.Stop()
			owner := filepath.Join(full.LogDir(), "server.kept")
			if err := os.Remove(owner); err != nil {
				t.Fatal(err)
			}
			f.fill(0)
			startThem(t, full)
			full.awaitLog(t, "ZD-3230")
			if _, err := full.Ready(); err != nil {
				t.Fatal(err)
			}
			f.empty()
			full.awaitLog(t, "the data directory says now whose it is")
			if b, err := os.ReadFile(owner); err != nil || !strings.HasSuffix(string(b), "\nserver 1\n") {
				t.Fatalf("%s has %q, %v", owner, b, err)
			}
			full.Stop()
			other.Stop()
			other.copyOf(t, full)
			startThem(t, other)
			if code, err := other.Exit(startPatience); err != nil || code != 1 || !strings.Contains(other.Log(), "ZD-3228") {
				t.Errorf("on a copy it ends with %d, %v:\n%s", code, err, other.LogEnd())
			}
		})
	}
}
