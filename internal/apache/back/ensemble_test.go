package back

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tree"
)

// TestBesideEnsemble: observers have what an ensemble has acknowledged, whether the server whose log is read leads or
// follows, and though nothing is written after it. At the end a follower's log isn't enough.
func TestBesideEnsemble(t *testing.T) {
	t.Parallel()
	var members []server.Member
	for id := uint64(1); id <= 3; id++ {
		members = append(members, server.Member{ID: id, Addrs: []string{freeport.Address(t)}})
	}
	all := make([]*zooid, len(members))
	var wait sync.WaitGroup
	for i, m := range members {
		all[i] = &zooid{t: t, dir: t.TempDir()}
		o := server.Options{
			ID: m.ID, DataDir: all[i].dir, Listen: []string{freeport.Address(t)}, Members: members, PeerListen: m.Addrs[0],
			Settings: tree.Settings{ExtendedTypes: true, FeatureLevel: tree.FeatureLevelMax},
		}
		wait.Go(func() {
			s, err := server.Open(o)
			if err != nil {
				t.Error(err)
				return
			}
			all[i].server = s
		})
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	stop := sync.OnceFunc(func() {
		for _, z := range all {
			wait.Go(z.stop)
		}
		wait.Wait()
	})
	defer stop()
	mode := func(z *zooid) string {
		a, _ := Asker(z.server.Addrs()[0].String())(t.Context())
		return a.Mode
	}
	var leader, follower *zooid
	await(t, "a leader", func() bool {
		leader, follower = nil, nil
		for _, z := range all {
			switch mode(z) {
			case "leader":
				leader = z
			case "follower":
				follower = z
			}
		}
		return leader != nil && follower != nil
	})
	for i, z := range []*zooid{leader, follower} {
		l := lead(t, z)
		f, end := observe(t, l, t.TempDir(), 7)
		await(t, "the observer", func() bool { return f.Status().Live })
		c := leader.client(10 * time.Second)
		if err := write(t.Context(), c, rand.New(rand.NewPCG(5, uint64(i))), 200); err != nil {
			t.Fatal(err)
		}
		c.Close()
		await(t, "the last of what was acknowledged", func() bool {
			a, err := Asker(leader.server.Addrs()[0].String())(t.Context())
			return err == nil && f.Status().Zxid == a.Zxid && f.Status().Compared > 0
		})
		if s := f.Status(); s.Mismatch != nil || s.Znodes < 10 {
			t.Errorf("%+v", s)
		}
		says := "still answers"
		if z == follower {
			stop()
			says = "only the leader's log"
		}
		l.cancel()
		if <-l.done; l.err == nil || !strings.Contains(l.err.Error(), says) {
			t.Errorf("%+v, %v", l.result, l.err)
		}
		end()
	}
}
