package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/tree"
)

// Servers of two versions in one ensemble: the older version knows only the
// first feature level and announces none. Operators upgrade the servers one by
// one, each by a restart, among the other faults. At the end all are upgraded,
// and the highest level must be in force everywhere.

// levelFirst is the feature level that the older version knows.
const levelFirst = 1

// drawVersions makes some servers of a plan older ones and adds their upgrades
// to its faults.
func (p *Plan) drawVersions(r *rand.Rand) {
	if !chance(r, 40) {
		return
	}
	for id := 1; id <= p.Servers+p.Spare; id++ {
		if chance(r, 25) {
			continue
		}
		p.Old = append(p.Old, id)
		if chance(r, 80) {
			p.Faults = append(p.Faults,
				Fault{At: between(r, 2*second, p.End), Kind: Upgrade, Server: id, Other: id, Arg: int64(r.IntN(2))})
		}
	}
	p.sortFaults()
}

func (p *Plan) sortFaults() {
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// upgrade acts as an operator: the server is stopped, in good order or not, and
// started with the newer version.
func (s *host) upgrade(orderly bool) {
	s.level = tree.FeatureLevelMax
	if orderly {
		s.restart()
	} else {
		s.kill(restartPause)
	}
}

// upgradeAll upgrades the servers that still run the older version.
func (w *World) upgradeAll() {
	for _, s := range w.servers {
		if s.level < tree.FeatureLevelMax || s.life != nil && s.life.level < tree.FeatureLevelMax {
			s.level = tree.FeatureLevelMax
			s.end(false)
			s.disk.reboot()
		}
	}
}

// outdated reports whether a process runs a version that doesn't know the level in force:
// the leader sends it nothing until it is upgraded (docs/decisions/011). Such a server may
// be made an observer, which a change of membership doesn't wait for.
func (w *World) outdated(l *life) bool {
	return slices.ContainsFunc(w.servers, func(s *host) bool {
		if s.life == nil || s.life.rep == nil {
			return false
		}
		inForce, _ := s.life.rep.Levels()
		return inForce > uint32(l.level)
	})
}

// levelsBehind names a member at which the highest level isn't in force, or returns 0.
func (w *World) levelsBehind() uint64 {
	for _, s := range w.members() {
		if inForce, _ := s.life.rep.Levels(); inForce != tree.FeatureLevelMax {
			return s.id
		}
	}
	return 0
}
