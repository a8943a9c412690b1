//go:build unix

package moving

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/zooid-project/zooid/internal/apache/proof"
)

// An ownServer is the Zooid server of a try's ZOOCFG: this command makes that server's data itself.
type ownServer struct {
	Config string // the zoo.cfg
	MyID   int64  // -1 for a standalone server without one
	Dir    string // dataDir
}

// own returns the server of this run.
func (r *switchRun) own() *ownServer {
	absolute := func(path string) string {
		if p, err := filepath.Abs(path); err == nil {
			return p
		}
		return path
	}
	return &ownServer{absolute(r.words[2]), r.server.Quorum.MyID, absolute(r.server.Storage.DataDir)}
}

func (s *ownServer) String() string {
	name := "the Zooid server"
	if s.MyID >= 0 {
		name = fmt.Sprintf("the Zooid server %d", s.MyID)
	}
	return fmt.Sprintf("%s, in %s (%s)", name, s.Dir, s.Config)
}

// sameServer returns an error if an unfinished try has made data for another server than this run's. This run would
// not find that data: an undo would leave it, and a release would fail. Servers of one ensemble may be mixed up where
// their directories are on one file system. If the try's data is gone, as with a lost disk, any server will do.
func (r *switchRun) sameServer(before proof.Record) error {
	var plan struct{ Server *ownServer }
	if before.Step == "" || json.Unmarshal(before.Data, &plan) != nil || plan.Server == nil {
		return nil // an older build's record; one that can't be read is reported where it is used
	}
	was := plan.Server
	if was.Dir == r.own().Dir || samePlace(was.Dir, r.own().Dir) {
		return nil
	}
	unreleased, err := proof.FindMark(was.Dir)
	if err != nil {
		return err
	}
	released, err := proof.Released(was.Dir, before.Try)
	if err != nil {
		return err
	}
	if released || unreleased != nil && unreleased.Try == before.Try {
		return fmt.Errorf("an earlier try (%s, %s) was cut short, and its data is that of %v. This run is for %v. Nothing was changed. Give the zoo.cfg of the earlier try, to go on with it or to undo it (-undo)",
			before.Try, before.At.Format(time.DateTime), was, r.own())
	}
	r.says.say(fmt.Sprintf("an earlier try (%s, %s) was for %v, which has nothing of it", before.Try,
		before.At.Format(time.DateTime), was))
	return nil
}

// undoable returns an error if -undo is given and there is nothing to undo. It says what the journal tells about the
// last try, and changes nothing.
func (r *switchRun) undoable() error {
	if !r.undo {
		return nil
	}
	path := filepath.Join(r.words[1], journalName)
	past, err := proof.ReadJournal(path)
	if err != nil || lastStep(past).Step != "" {
		return err
	}
	if len(past) == 0 {
		return fmt.Errorf("no try has begun to stop Apache's servers, as far as %s tells: there is nothing to undo, and nothing was changed. If there was a try, name the directory that it was given",
			path)
	}
	last := past[len(past)-1]
	if last.Step == stepUndone {
		return fmt.Errorf("the last try (%s) was undone already, at %s; nothing was changed. Start Apache's servers, if they don't run: they have all data",
			last.Try, last.At.Format(time.DateTime))
	}
	return fmt.Errorf("the switch (try %s) has succeeded, at %s: Zooid serves the data, and has taken clients' writes since. It can't be undone, and nothing was changed. Don't start Apache's servers: they lack these writes. The way back is zooid migrate back and return, or zooid export (docs/migration.md)",
		last.Try, last.At.Format(time.DateTime))
}

// unlessDone returns err, which says that the directory can't be taken, or why that is so if an earlier try has
// succeeded: its server must not be stopped.
func (r *switchRun) unlessDone(err error) error {
	if len(r.past) == 0 || r.past[len(r.past)-1].Step != stepServe {
		return err
	}
	last := r.past[len(r.past)-1]
	if done, failed := proof.Released(r.server.Storage.DataDir, last.Try); failed != nil || !done {
		return err
	}
	return fmt.Errorf("the switch (try %s) has succeeded already, at %s: %v has the data, and nothing was changed. Leave it running, or start it if it doesn't run. Don't start Apache's servers",
		last.Try, last.At.Format(time.DateTime), r.own())
}
