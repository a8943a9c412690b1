package crash

import (
	"net"
	"testing"
	"time"
)

// TestFewDescriptors gives three servers few file descriptors and takes as many as
// they let go: by connections to the client ports and to the peer ports that say
// nothing. The servers go on, and so do their clients, while segments and snapshots
// are written.
func TestFewDescriptors(t *testing.T) {
	seed, _ := hurtful(t)
	o := trio(seed, 1000)
	o.Config = map[string]string{"nio.sessionlessCnxnTimeout": "60000", "snapCount": "300"}
	limited := []string{"sh", "-c", `ulimit -n 200; exec "$@"`, "sh"}
	o.Wraps = [][]string{limited, limited, limited}
	r := Begin(t, o)
	r.WaitAnswered(100)
	for range 3 {
		var idle []net.Conn
		for _, s := range r.Servers {
			for range 300 {
				for _, addr := range []string{s.Addr, s.Peer} {
					if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
						idle = append(idle, c)
					}
				}
			}
		}
		t.Logf("%d connections that say nothing", len(idle))
		r.WaitAnswered(1500)
		for _, c := range idle {
			c.Close()
		}
	}
	for _, s := range r.Servers {
		if !s.Running() {
			t.Errorf("server %d has ended", s.ID)
		}
	}
	r.Verdict()
}
