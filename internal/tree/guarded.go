package tree

import (
	"strings"

	"github.com/zooid-project/zooid/internal/policy"
)

// A guarded path is the path of a znode with special rules. The table below holds everything that the operations know
// about such paths. create checks whether the client may create the znode and whether the znode accepts the data, set
// checks the data, and delete checks whether the client may delete the znode. The operations of a multi make the same
// checks. setACL, and set for valid data, depend only on the znode's ACL: superusers create these znodes, and may use
// the ACL to grant others access. Quotas apply as for other paths.
type guarded struct {
	path    string
	lasting bool // it always exists, and can't be deleted, as in Apache
	// rules says that the data apply to every client, so only superusers may create the znode, from feature level 2 on,
	// and delete it, from levelReserved on.
	rules bool
	// pieces says that superusers keep private data there. From levelReserved on, only they may create or delete it.
	pieces bool
	// parses reports whether the znode accepts the data, from feature level 2 on; nil accepts any data.
	parses func(data []byte) bool
}

// guardedPaths are the guarded paths. A change that affects what replicas compute needs a new feature level.
var guardedPaths = [...]guarded{
	{path: "/", lasting: true},
	{path: pathZookeeper, lasting: true},
	{path: pathQuota, lasting: true},
	{path: pathConfig, lasting: true},
	{path: pathLimits, rules: true},
	{path: policy.Path, rules: true, parses: isPolicy},
	{path: RestorePath, pieces: true},
}

// unguarded is the guard of all other paths.
var unguarded guarded

// guardOf returns the special rules of a path. Every write calls it. All guarded paths but "/" begin with
// pathZookeeper, so other paths aren't looked up in the table.
func guardOf(path string) *guarded {
	if len(path) > 1 && !strings.HasPrefix(path, pathZookeeper) {
		return &unguarded
	}
	for i := range guardedPaths {
		if guardedPaths[i].path == path {
			return &guardedPaths[i]
		}
	}
	return &unguarded
}

func isPolicy(data []byte) bool {
	_, err := policy.Parse(data)
	return err == nil
}

// levelReserved is the lowest feature level at which only superusers may delete znodes that only they may create, and
// may create the znode below which restores are stored. By default the parent of these znodes is open to every client.
const levelReserved = 3

// reserved reports whether only superusers may create or delete a path, at the feature level in force.
func (s *Settings) reserved(path string) bool {
	g := guardOf(path)
	return s.FeatureLevel >= levelReserved && (g.rules || g.pieces)
}

// takes reports whether a guarded path accepts the data.
func (s *Settings) takes(path string, data []byte) bool {
	parses := guardOf(path).parses
	return parses == nil || !s.policies() || parses(data)
}
