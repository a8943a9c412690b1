package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestReconfigWaitsForStaging: beside a server of an older version the level at which changes
// of membership are staged doesn't come. A reconfig waits for it as long as it is to, and is
// then answered as at the level in force.
func TestReconfigWaitsForStaging(t *testing.T) {
	t.Parallel()
	lines := "1 " + freeport.Address(t) + "\n2 " + freeport.Address(t)
	m := lineMembership(lines)
	members, _ := m.Parse(lines)
	var opts []Options
	for i, level := range []int32{tree.LevelOf(tree.OpChange), tree.LevelOf(tree.OpChange) - 1} {
		opts = append(opts, Options{
			ID: uint64(i + 1), DataDir: t.TempDir(), Listen: []string{freeport.Address(t)}, PeerListen: members[i].Addrs[0],
			Members: members, Membership: m,
			Settings: tree.Settings{ReconfigEnabled: true, SkipACL: true, FeatureLevel: level},
		})
	}
	servers := openAll(t, opts)
	c := connect(t, opts[0].Listen[0], 0, nil)
	eventually(t, "the membership is in the log", func() bool {
		h, body := c.call(jute.OpGetData, reading("/zookeeper/config", false))
		return h.Err == jute.OK && len(jute.NewDecoder(body).Buffer()) > 0
	})
	wanted := lines + " observer"
	req := jute.ReconfigRequest{NewMembers: &wanted, CurConfigID: -1}
	began := time.Now()
	h, _ := c.call(jute.OpReconfig, req.Append)
	if took := time.Since(began); h.Err != jute.OK || took < stagingPatience {
		t.Errorf("the reconfig is answered %v after %v, want %v after %v at least", h.Err, took, jute.OK, stagingPatience)
	}
	if servers[0].replica.InForce(tree.OpChange, nil) {
		t.Error("the level came, though a member doesn't know it")
	}
}
