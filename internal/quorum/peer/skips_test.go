package peer

import (
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestSkipsAreAnnounced: what a server announces reaches a peer that is connected, and
// one that connects later.
func TestSkipsAreAnnounced(t *testing.T) {
	t.Parallel()
	a, addrA := running(t, 1, 7)
	b, addrB := running(t, 2, 7)
	b.setPeer(1, []string{addrA})
	heard := func(want string) {
		t.Helper()
		for e := next(t, b); e.Kind != quorum.EventSkips || string(e.Data) != want; e = next(t, b) {
		}
	}
	a.setPeer(2, []string{addrB})
	for e := next(t, b); e.Kind != quorum.EventConnected; e = next(t, b) {
	}
	a.announceSkips([]byte("first"))
	heard("first")
	a.announceSkips([]byte("second"))
	heard("second")
	third, addr3 := running(t, 3, 7)
	a.setPeer(3, []string{addr3})
	third.setPeer(1, []string{addrA})
	for e := next(t, third); e.Kind != quorum.EventSkips || string(e.Data) != "second"; e = next(t, third) {
	}
}
