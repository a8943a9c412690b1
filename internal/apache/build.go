package apache

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/tree"
)

// The term and index of the snapshot with which the log of an imported directory begins.
const (
	importTerm  = 2
	importIndex = 1
)

// configPath is the znode that holds the membership. It names Apache's servers, which aren't Zooid's, so it is empty in
// an imported tree, as on a standalone server.
const configPath = "/zookeeper/config"

// build returns the tree of an Apache state. epoch is the highest that the Apache server had accepted.
func build(s *files.State, epoch int64, emulate353 bool, o tree.Options) (*tree.Tree, error) {
	return buildOf(s, epoch, emulate353, o, true)
}

// Snapshot returns the tree of a single Apache snapshot file, without sessions and ephemerals. It is for inspection
// only: a fuzzy snapshot is a state that never existed.
func Snapshot(path string, emulate353 bool, o tree.Options) (*tree.Tree, error) {
	s, err := files.ReadSnapshot(path)
	if err != nil {
		return nil, err
	}
	return buildOf(s, 0, emulate353, o, false)
}

// buildOf is build, optionally without sessions and their znodes.
func buildOf(s *files.State, epoch int64, emulate353 bool, o tree.Options, sessions bool) (*tree.Tree, error) {
	b := tree.NewBuilder(o)
	if !sessions {
		s.Sessions = nil
	}
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		if err := b.AddSession(id, s.Sessions[id], files.Passwd(id)); err != nil {
			return nil, err
		}
	}
	err := s.Znodes(func(z *files.Znode) error {
		f, err := foreign(s, z, emulate353)
		if err != nil {
			return fmt.Errorf("%s: %w", z.Path, err)
		}
		if z.Path == "" {
			z.Place = tree.RootPlace
			b.Root(&f)
			return nil
		}
		if f.Owner != 0 && !sessions {
			return nil
		}
		f.Parent = z.Parent().Place
		if z.Place, err = b.Add(&f); err != nil {
			return fmt.Errorf("%s: %w", z.Path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.Finish(importTerm, importIndex, max(s.Zxid, epoch<<32), s.Time)
}

// errLarge is the error for data that is too large for a Zooid snapshot.
var errLarge = errors.New("its data exceeds the limit for a znode")

// foreign converts a znode to the tree's form.
func foreign(s *files.State, z *files.Znode, emulate353 bool) (f tree.Foreign, err error) {
	if len(z.Data) > files.DataBytesMax {
		return f, fmt.Errorf("%w: %d bytes of at most %d. Shrink it on the running Apache server", errLarge, len(z.Data),
			files.DataBytesMax)
	}
	st := &z.Stat
	owner := s.Owner(z, emulate353)
	_, f.Name = files.SplitPath(z.Path)
	f.Data, f.ACL = z.Data, z.ACL.List
	f.Czxid, f.Mzxid, f.Pzxid, f.Ctime, f.Mtime = st.Czxid, st.Mzxid, st.Pzxid, st.Ctime, st.Mtime
	f.Version, f.Aversion = st.Version, st.Aversion
	f.Created = int64(uint32(st.Cversion)) // Apache's wraps around, the tree's doesn't
	f.Container, f.TTL, f.Owner = owner.Container, owner.TTL, owner.Session
	if z.Path == configPath {
		f.Data = []byte{}
	}
	return f, nil
}

// ApacheDigest computes Apache's digest from a tree.
func ApacheDigest(t *tree.Tree) (digest uint64) {
	t.Znodes(func(z *tree.Foreign) bool {
		st := ApacheStat(z)
		digest += files.NodeDigest(z.Path, z.Data, &st)
		return true
	})
	return digest
}

// ApacheStat returns a znode's Stat as Apache stores it.
func ApacheStat(z *tree.Foreign) files.Stat {
	owner := files.Owner{Container: z.Container, TTL: z.TTL, Session: z.Owner}
	return files.Stat{
		Czxid: z.Czxid, Mzxid: z.Mzxid, Pzxid: z.Pzxid, Ctime: z.Ctime, Mtime: z.Mtime,
		Version: z.Version, Cversion: int32(z.Created), Aversion: z.Aversion, Owner: owner.Stored(),
	}
}
