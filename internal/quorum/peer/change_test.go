package peer

import (
	"log/slog"
	"testing"

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
		if tr.keys.admits(id) != want {
			t.Errorf("server %d may be given the secret: %t", id, !want)
		}
	}
}
