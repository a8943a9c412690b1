package server

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/restore"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// A standalone server becomes part of an ensemble when it gets a new configuration: it keeps its
// data and is the only voter at first, and the other servers, which are empty, join it. In the log
// of a standalone server its id is 1, whatever id the configuration gives it. adopt changes that:
// it begins a new log, with a snapshot of the whole state, and with the new id as the voter.

// standaloneID is the id that a server without peers has in its log.
const standaloneID = 1

// adopt turns a standalone server's data into that of server id, unless it already is. After a
// crash on the way the data is unchanged. Data of a server of an ensemble is recognized by the
// membership in it, or by its voters.
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
	o.Kick, o.Meters = func() {}, nil // this replica is only temporary
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
	o.Log.Info("this data directory is a standalone server's; it goes on as that of a server of an ensemble, and the others join it",
		"server", id)
	return nil
}
