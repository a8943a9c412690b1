package crash

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestSlowLink starts a server that is far behind, at the end of a slow link: while it gets a snapshot, the leader
// writes several newer ones. It goes on from the one it gets, and doesn't get one after another for as long as clients
// write.
func TestSlowLink(t *testing.T) {
	_, rng := hurtful(t)
	e := Start(t, Options{
		Servers: 3, PeerProxies: true,
		Config: map[string]string{"snapCount": "100", "snapSizeLimitInKb": "512", "autopurge.snapRetainCount": "3"},
	})
	at, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	leader, victim := e.Servers[at], e.Servers[(at+1)%3]
	slow := e.Peers[[2]int{at, (at + 1) % 3}]
	c := open(t, leader)
	blob := make([]byte, 64<<10) // random: it doesn't become smaller by compression
	for i := range blob {
		blob[i] = byte(rng.Uint32())
	}
	set := func(n int) {
		if _, err := c.Set(t.Context(), fmt.Sprint("/d", n%128), blob, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	written := func() int { return strings.Count(leader.Log(), "snapshot written") }
	write := func(more int) { // so many snapshots, each after a little more log than makes one due
		for range more {
			from := written()
			for n := range 9 {
				set(n)
			}
			for n := 1; written() == from; n++ {
				if time.Sleep(readyPause); n%100 == 0 {
					set(n)
				}
			}
		}
	}
	for n := range 128 {
		path, all := fmt.Sprint("/d", n), zk.WorldACL(zk.PermAll)
		if _, err := c.Create(t.Context(), path, blob, zk.ModePersistent, all); err != nil {
			t.Fatal(err)
		}
	}
	victim.Kill()
	write(40) // the log is removed by segments, of which the first are of 1, 2, 4, 8, 16 and 32 MiB
	link := Line{BytesPerSecond: 256 << 10}
	slow.Set(Faults{Up: link, Down: link})
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	const took = "took a peer's snapshot"
	for deadline := time.Now().Add(startPatience); !victim.receives(t); time.Sleep(readyPause) {
		if time.Now().After(deadline) {
			t.Fatalf("it gets no snapshot; its log ends:\n%s", victim.LogEnd())
		}
	}
	if write(64); strings.Contains(victim.Log(), took) {
		t.Fatal("it had the snapshot before the leader had written newer ones: nothing is shown")
	}
	slow.Set(Faults{})
	last := leader.zxid()
	for deadline := time.Now().Add(behindPatience); victim.zxid() < last; time.Sleep(readyPause) {
		if time.Now().After(deadline) {
			t.Fatalf("it doesn't catch up; its log ends:\n%s", victim.LogEnd())
		}
	}
	if n := strings.Count(victim.Log(), took); n != 1 {
		t.Errorf("it took %d snapshots", n)
	}
}

// receives reports whether a snapshot that isn't whole is on the server's disk.
func (s *Server) receives(t *testing.T) bool {
	names, err := filepath.Glob(filepath.Join(s.Data(), "snapshot-*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}
