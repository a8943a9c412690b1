package peer

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestChangeAdmitsNewServersOnly tells a server of its members, as a Loop does while one is
// added: that one may be given the ensemble's secret, and no other may.
func TestChangeAdmitsNewServersOnly(t *testing.T) {
	tr := newTransport(2, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
	defer tr.close()
	for _, n := range []uint64{3, 3, 4, 4} {
		var members []quorum.Member // nobody is there
		for id := range n {
			members = append(members, quorum.Member{ID: id + 1})
		}
		tr.setMembers(members)
		tr.addPeers([]quorum.Member{{ID: 9}})
	}
	for id, want := range map[uint64]bool{1: false, 2: false, 3: false, 4: true, 9: false} {
		if tr.keys.Admits(id) != want {
			t.Errorf("server %d may be given the secret: %t", id, !want)
		}
	}
}

// TestDroppedPeerIsNotDialled: a peer that was dropped is dialled no more, and again once it is added again.
func TestDroppedPeerIsNotDialled(t *testing.T) {
	tr := newTransport(2, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
	defer tr.close()
	dials := make(chan string, 1000)
	tr.dial = func(_ ctx, addr string) (net.Conn, error) {
		dials <- addr
		return nil, errors.New("nobody is there")
	}
	third := []quorum.Member{{ID: 3, Addrs: []string{"third:1"}}}
	tr.addPeers(third)
	<-dials
	tr.dropPeer(3)
	for end := time.Now().Add(patience); tr.remote(3) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the peer is still known")
		}
	}
	for len(dials) > 0 {
		<-dials
	}
	tr.addPeers([]quorum.Member{{ID: 4, Addrs: []string{"fourth:1"}}})
	for range 5 { // a peer's dials come several times a second
		if addr := <-dials; addr != "fourth:1" {
			t.Fatalf("%s is dialled after it was dropped", addr)
		}
	}
	tr.addPeers(third)
	for addr := range dials {
		if addr == "third:1" {
			break
		}
	}
}
