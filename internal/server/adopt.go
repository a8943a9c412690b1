package server

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/restore"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// A standalone server grows into an ensemble by a new configuration: it goes on
// with its data, as the only voter at first, and the others, which are empty, join
// it. In its log it is server 1, whatever its id is to be: adopt gives it that, by a
// log that begins anew, with a snapshot of all there is and its id as the voter.

// standaloneID is the id of a server that has no peers.
const standaloneID = 1

// adopt makes a standalone server's data that of server id, if it is not yet. A
// crash on the way leaves it as it was. Data of an ensemble's server is known by
// the membership in it, or by its voters.
func adopt(dir *storage.Dir, id uint64, o replica.Options, treeOptions tree.Options) error {
	if id == standaloneID {
		return nil
	}
	newest, _ := dir.NewestSnapshot()
	entries, term, ok, err := quorum.SoleLog(dir, standaloneID, newest.Index)
	if err != nil || !ok {
		return err
	}
	for _, e := range entries {
		if replica.NamesMembers(e.Data) {
			return nil
		}
	}
	o.Kick, o.Meters = func() {}, nil // it is only passing
	if o.Tree, err = restore.Newest(dir, treeOptions, nil); err != nil {
		return err
	}
	applied := o.Tree.LastIndex()
	r := replica.New(o)
	if text, _ := r.Members(); text != "" {
		return nil
	}
	entries = append(entries, quorum.Entry{Term: term + 1, Index: applied + uint64(len(entries)) + 1})
	if err := r.Apply(entries); err != nil {
		return err
	}
	if err := quorum.Restart(dir, id, r.Snapshot()); err != nil {
		return fmt.Errorf("make the data of a standalone server that of server %d: %w", id, err)
	}
	o.Log.Info("this data directory is a standalone server's; it goes on as that of a server of an ensemble, and the others join it", "server", id)
	return nil
}
