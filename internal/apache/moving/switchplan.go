//go:build unix

package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
)

// The steps of a switch in its journal, which is next to the copy.
//
//	stop      Apache's servers are told to stop. Undone by starting them
//	make      data is made here and by -seed, and no server starts on it. Undone by removing it
//	release   servers may start on it. The only way back is an export
//	serve     it serves; nothing is left to do
//
// A switch that ends in between leaves stop or make as the last step: the next try checks whether Apache serves again,
// and begins again, or continues with the recorded state.
const (
	stepStop    = "stop"
	stepMake    = "make"
	stepRelease = "release"
	stepServe   = "serve"
	stepUndone  = "undone"
)

// stopPlan holds the data for continuing from step stop.
type stopPlan struct {
	Ensemble follow.Ensemble
	At       int64                 // the zxid that mark has returned
	Before   map[string]proof.Port // the servers' ports before the stop
	Server   *ownServer
}

// releasePlan holds the data for continuing from step release.
type releasePlan struct {
	Zxid    int64 // of the copy
	Stopped time.Time
	Servers []stoppedServer
	Seeded  bool // other servers have the data too
	Server  *ownServer
}

// The files of a switch next to the copy.
const (
	journalName = "switch.journal"
	logName     = "switch.log"   // the command's output
	tailsName   = "switch.tails" // a folder for the tails, as long as they are needed
)

// openJournal opens the journal and the log. before is the step that an earlier try was at, with the data for
// continuing from it; its Step is "" if there is nothing to continue.
func (r *switchRun) openJournal() (before proof.Record, err error) {
	if r.check { // nothing is written next to the copy
		r.past, err = proof.ReadJournal(filepath.Join(r.words[1], journalName))
		return lastStep(r.past), err
	}
	if err := r.says.logTo(filepath.Join(r.words[1], logName)); err != nil {
		return before, err
	}
	if r.journal, r.past, err = proof.OpenJournal(filepath.Join(r.words[1], journalName)); err != nil {
		return before, err
	}
	return lastStep(r.past), nil
}

// lastStep returns the step of a journal to continue from.
func lastStep(records []proof.Record) (before proof.Record) {
	for _, r := range records {
		switch {
		case r.Step == stepServe || r.Step == stepUndone:
			before = proof.Record{}
		case r.Step == stepStop || r.Step == stepRelease:
			before = r
		case r.Step == stepMake: // continues as from stop
			before.Try, before.At = r.Try, r.At
		}
	}
	return before
}

// dropOf removes a try's unreleased data in a directory.
func dropOf(dir string, try proof.Try) error {
	m, err := proof.FindMark(dir)
	if m != nil && m.Try == try {
		_, err = drop(dir)
	}
	return err
}

// drop is proof.Drop, but first removes the order to found an ensemble: a server started on the empty directory would
// carry out the order, and serve an empty tree while Apache serves the data.
func drop(dir string) (dropped bool, err error) {
	if m, err := proof.FindMark(dir); m == nil || err != nil {
		return false, err
	}
	if _, err := newensemble.DropFoundingOrder(dir); err != nil {
		return false, err
	}
	return proof.Drop(dir)
}

// undoPatience is how long the other machines may take to remove the data made there.
const undoPatience = time.Minute

// dropAll removes this try's unreleased data, and says what is left.
func (r *switchRun) dropAll(ctx context.Context, dir string) (left string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	if err := dropOf(dir, r.try); err != nil {
		left = fmt.Sprintf(".\nWhat was made in %s couldn't be removed, but no server starts on it: %v", dir, err)
	}
	if len(r.seeded) == 0 {
		return left
	}
	order := apache.SeedOrder{Do: apache.SeedDrop, Try: string(r.try)}
	if err := r.orderAll(ctx, order, "", droppedLine(r.try)); err != nil {
		left += fmt.Sprintf(".\nThe Zooid servers %d may have unreleased data. They don't start on it, and the next try replaces it; zooid migrate seed -drop removes it: %v",
			r.seeded, err)
	}
	return left
}

// undoLast undoes a try that was cut short.
func (r *switchRun) undoLast(ctx context.Context, before proof.Record, o *apache.ImportOptions) (int, error) {
	switch before.Step {
	case "": // another process has ended the try meanwhile
		return switchRefused, r.undoable()
	case stepRelease:
		return r.undoRelease(ctx, before, o)
	}
	r.try = before.Try
	if r.seed != "" {
		r.seeded = idsOf(r.others())
	}
	r.dropTails()
	left := r.dropAll(ctx, o.Dir)
	if left == "" {
		if err := r.journal.End(r.try, stepUndone); err != nil {
			return switchRefused, err
		}
	}
	r.says.say(fmt.Sprintf("undid the try %s%s. Start Apache's servers again: they have all data", r.try,
		left))
	if left != "" {
		return switchRefused, nil
	}
	return switchDone, nil
}

// undoRelease undoes a try that had begun to release the new servers, if none can have served. Either this server,
// which comes last, isn't released, and fewer than a majority of the others may have been released. Or this server was
// the only one, and hasn't been elected.
func (r *switchRun) undoRelease(ctx context.Context, before proof.Record, o *apache.ImportOptions) (int, error) {
	served := errors.New("the new servers were released and may have served: run the command without -undo to resume it. The way back from here is zooid export (docs/migration.md)")
	var plan releasePlan
	if err := json.Unmarshal(before.Data, &plan); err != nil {
		return switchRefused, fmt.Errorf("read the journal: %w", err)
	}
	r.try = before.Try
	if plan.Seeded && r.seed == "" {
		return switchRefused, errors.New("the try was made with -seed: give it with -undo, too")
	}
	held, err := proof.Hold(o.Dir, o.LogDir)
	if err != nil {
		return switchRefused, errors.Join(err, served)
	}
	defer held.Release()
	if !plan.Seeded {
		err = r.recall(o, plan.Zxid)
	}
	m, findErr := proof.FindMark(o.Dir)
	switch {
	case err != nil || findErr != nil:
		return switchRefused, errors.Join(err, findErr)
	case m == nil || m.Try != r.try:
		return switchRefused, served
	}
	left := ""
	if plan.Seeded {
		errs := r.orderEach(ctx, apache.SeedOrder{Do: apache.SeedDrop, Try: string(r.try)}, "", droppedLine(r.try))
		errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		if 2*len(errs) > len(voters(r.server)) {
			return switchRefused, fmt.Errorf("%w\n%w", errors.Join(errs...), served)
		}
		if err := errors.Join(errs...); err != nil {
			left = fmt.Sprintf(".\nThese servers may be released. They are too few to have served: stop them, and empty their data directories. %v",
				err)
		}
	}
	r.dropTails()
	if err := dropOf(o.Dir, r.try); err != nil {
		return switchRefused, err
	}
	if err := r.journal.End(r.try, stepUndone); err != nil {
		return switchRefused, err
	}
	r.says.say(fmt.Sprintf("undid the try %s%s. Start Apache's servers, if they don't run: they have all data", r.try, left))
	return switchDone, nil
}

// recall takes back the release of the only server that has the data, if that server's log still ends where this
// command has made it end: a server that is elected begins an epoch in its log.
func (r *switchRun) recall(o *apache.ImportOptions, made int64) error {
	if done, err := proof.Released(o.Dir, r.try); !done || err != nil {
		return err
	}
	t, _, err := txnlog.Newest(txnlog.Options{
		Dirs: slices.Compact([]string{o.Dir, o.LogDir}), Reconfigure: r.program.Reconfigure,
	})
	if err != nil {
		return fmt.Errorf("check whether the new server has served: %w", err)
	}
	if t.LastZxid() != made {
		return nil
	}
	return proof.Recall(o.Dir, r.try)
}

// againPatience is how long Apache may take to show that it serves again.
const againPatience = 10 * time.Second

// stillStopped reports whether Apache's servers, which an earlier try has told to stop, still don't serve.
func (r *switchRun) stillStopped(ctx context.Context, copied *follow.Follower, before proof.Record) (bool, error) {
	r.says.say(fmt.Sprintf("an earlier try (%s, %s) was cut short after the order to stop Apache's servers; checking whether they serve again",
		before.Try, before.At.Format(time.DateTime)))
	for end := time.Now().Add(againPatience); time.Now().Before(end); {
		switch s := copied.Status(); {
		case s.Live:
			r.says.say("they do: starting over")
			return false, nil
		case s.Ended != nil:
			return false, fmt.Errorf("nothing was changed: %w", s.Ended)
		}
		select {
		case <-ctx.Done():
			return false, errors.New("interrupted; nothing was changed")
		case <-time.After(awaitPoll):
		}
	}
	return true, nil
}

// goOn continues, as a new try, one that was cut short while Apache's servers were being stopped.
func (r *switchRun) goOn(ctx context.Context, copied *follow.Follower, end func() error, before proof.Record,
	o *apache.ImportOptions, stdin io.Reader, stderr io.Writer) (int, error) {
	s := &stopPlan{}
	if err := json.Unmarshal(before.Data, s); err != nil {
		return switchRefused, fmt.Errorf("read the journal: %w", err)
	}
	r.says.say(fmt.Sprintf("No leader answers. Next: those of Apache's servers %v that still run are stopped, and the switch goes on from there. To undo instead, start them again.",
		ids(&s.Ensemble)))
	if !r.yes {
		r.says.say("Type yes to continue with the switch:")
		if err := agreed(ctx, stdin); err != nil {
			return switchRefused, err
		}
	}
	return r.carryOut(ctx, copied, end, s, o, stderr)
}

// release continues a try that had begun to release the new servers.
func (r *switchRun) release(ctx context.Context, before proof.Record, stderr io.Writer) (int, error) {
	var plan releasePlan
	if err := json.Unmarshal(before.Data, &plan); err != nil {
		return switchRefused, fmt.Errorf("read the journal: %w", err)
	}
	if len(plan.Servers) == 0 { // an older build's record
		plan.Servers = toldToStop(r.past, before.Try)
	}
	if len(plan.Servers) == 0 {
		return switchSilent, errors.New("an earlier try had begun to release the new servers, but the journal doesn't say which of Apache's servers have stopped. If no Zooid server has served, run this command with -undo")
	}
	unseen, err := reopened(ctx, plan.Servers)
	if unseen = r.withoutWord(unseen); err == nil && len(unseen) > 0 {
		err = fmt.Errorf("it isn't known whether Apache's servers %v have been started since: their election ports can't be reached from here. If you know that they haven't, confirm it: -stopped with the ids",
			serverIDs(unseen))
		return switchSilent, fmt.Errorf("an earlier try (%s, %s) had begun to release the new servers, and %w", before.Try,
			before.At.Format(time.DateTime), err)
	}
	if err != nil {
		return switchSilent, fmt.Errorf("an earlier try (%s, %s) had begun to release the new servers, but %w. Two ensembles would serve. If no Zooid server has served, run this command with -undo; otherwise stop Apache's servers again, whose writes since are lost to Zooid, and run this command again",
			before.Try, before.At.Format(time.DateTime), err)
	}
	signal.Ignore(syscall.SIGHUP)
	r.try, r.stopped = before.Try, plan.Stopped
	r.says.say(fmt.Sprintf("an earlier try (%s, %s) had begun to release the new servers: resuming from there", r.try,
		before.At.Format(time.DateTime)))
	return r.releaseAll(ctx, plan.Zxid, stderr)
}

// releaseAll lets the new servers start, and starts them. It can be repeated.
func (r *switchRun) releaseAll(ctx context.Context, zxid int64, stderr io.Writer) (int, error) {
	again := "\nDon't start Apache's servers: a new server may serve already. Run the same command again to resume from here"
	var err error
	if r.seed != "" {
		order := apache.SeedOrder{Do: apache.SeedRelease, Try: string(r.try)}
		err = r.orderAll(ctx, order, "", releasedLine(r.try))
	}
	if err == nil {
		err = proof.Release(r.server.Storage.DataDir, r.try)
	}
	if err == nil && r.held != nil {
		err = r.held.Release()
	}
	if err != nil {
		return switchSilent, fmt.Errorf("%w%s", err, again)
	}
	code, err := r.startServer(ctx, zxid, stderr)
	if err == nil && code == switchDone {
		if err = r.journal.End(r.try, stepServe); err != nil {
			err = fmt.Errorf("the switch is done, but its journal doesn't say so: %w. Run the same command again, to record it",
				err)
		}
	} else if err != nil {
		err = fmt.Errorf("%w\nOr run the same command again to resume from here", err)
	}
	return code, err
}
