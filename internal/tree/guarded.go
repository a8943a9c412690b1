package tree

import "github.com/zooid-project/zooid/internal/policy"

// A guarded path is one whose znode isn't like any other. All that the operations know of such paths
// is in the table below: create asks who may create it and what data it takes, set what data it
// takes, delete whether it ever goes and who may delete it; each operation of a multi asks as it
// does alone. setACL, and set beyond the form of the data, ask the znode's ACL: superusers, who
// create these znodes, may leave them to others by it. Quotas apply to these paths as to others.
type guarded struct {
	path    string
	lasting bool // nobody deletes it, as in Apache, and it is always there
	// rules says that it applies to everybody, so only superusers may create it, from feature level 2
	// on, and delete it, from levelReserved on.
	rules bool
	// pieces says that superusers keep there what isn't for others; only they may create or delete it,
	// from levelReserved on.
	pieces bool
	// parses reports whether it may have the data, from feature level 2 on; nil for any data.
	parses func(data []byte) bool
}

// guardedPaths are those paths. A change of what the replicas compute by it needs a feature level.
var guardedPaths = [...]guarded{
	{path: "/", lasting: true},
	{path: pathZookeeper, lasting: true},
	{path: pathQuota, lasting: true},
	{path: pathConfig, lasting: true},
	{path: pathLimits, rules: true},
	{path: policy.Path, rules: true, parses: isPolicy},
	{path: RestorePath, pieces: true},
}

// unguarded is what all other paths are.
var unguarded guarded

// guardOf returns what is particular about a path.
func guardOf(path string) *guarded {
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

// special reports whether a path can't be deleted.
func special(path string) bool { return guardOf(path).lasting }

// ruledBySuper reports whether only superusers may create a path, because what it holds applies to
// everybody.
func ruledBySuper(path string) bool { return guardOf(path).rules }

// levelReserved is the feature level from which on only superusers may delete what only they may
// create, and create what restores are stored below. The parent of all of it is open to everybody
// by default.
const levelReserved = 3

// reserved reports whether only superusers may create or delete a path, at the feature level in
// force.
func (t *Tree) reserved(path string) bool {
	g := guardOf(path)
	return t.settings.FeatureLevel >= levelReserved && (g.rules || g.pieces)
}

// takes reports whether a guarded path may have the data.
func (t *Tree) takes(path string, data []byte) bool {
	parses := guardOf(path).parses
	return parses == nil || !t.policies() || parses(data)
}
