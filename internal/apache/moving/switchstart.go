//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// startAll runs the operator's command for the Zooid server, or with -seed for each Zooid server.
func (f *switchFlags) startAll(ctx context.Context, stderr io.Writer) error {
	own, ok := f.server.Quorum.Members.Find(f.server.Quorum.MyID)
	if !ok {
		own = config.Member{ID: f.server.Quorum.MyID}
	}
	servers := []config.Member{own}
	if f.seed != "" {
		servers = append(servers, f.others()...)
	}
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			cmd := operatorCommand(ctx, f.start, zooidServer(&servers[i]))
			cmd.Stdout, cmd.Stderr = file(stderr), file(stderr)
			if err := cmd.Run(); err != nil {
				errs[i] = fmt.Errorf("start the Zooid server %d: %w", servers[i].ID, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs[1:] { // the started servers may be a majority, as will show in a moment
		if err != nil {
			f.says.say(err.Error())
		}
	}
	return errs[0]
}

// askPatience is how long an answer may take: a connection that a server accepts while it starts may never get one.
const askPatience = 5 * time.Second

// otherPatience is how long another server may answer in the place of the one that is to serve.
const otherPatience = 10 * time.Second

// startServer starts the Zooid server, or has it started, and waits until it serves: with the data that was made, and
// no less than the zxid that was copied.
func (f *switchFlags) startServer(ctx context.Context, zxid int64, stderr io.Writer) (int, error) {
	back := "Don't start Apache's servers now: the way back from here is zooid export (docs/migration.md)."
	switch {
	case f.start == "" && f.seed != "":
		f.says.say(fmt.Sprintf("Last step, which ends the possibility to undo by starting Apache: start the Zooid servers %d now.",
			serverid.MyIDs(voters(f.server))))
	case f.start == "":
		f.says.say("Last step, which ends the possibility to undo by starting Apache: start the Zooid server now.\n    zooid server " +
			terminal.Quoted(f.words[2]))
	default:
		f.says.say("last step, which ends the possibility to undo by starting Apache: " + f.start)
		if err := f.startAll(ctx, stderr); err != nil {
			return switchSilent, fmt.Errorf("%w. Start it by hand: zooid server %s. Its data directory is whole. %s", err,
				terminal.Quoted(f.words[2]), back)
		}
	}
	if own, ok := f.server.Quorum.Members.Find(f.server.Quorum.MyID); f.server.Client.Port < 0 &&
		!f.server.Admin.Enabled && (!ok || own.Client.IsZero()) {
		f.says.say("the server takes clients over TLS alone and has no admin server: see in its log that it serves")
		return switchDone, nil
	}
	patience := ctx
	if f.start != "" {
		var cancel func()
		patience, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	var other time.Time // since when another server answers
	for {
		err := f.serves(patience, zxid)
		if err == nil {
			break
		}
		switch {
		case !errors.Is(err, proof.ErrOther):
			other = time.Time{}
		case other.IsZero():
			other = time.Now()
		case time.Since(other) > otherPatience:
			return switchSilent, fmt.Errorf("the Zooid server doesn't serve: %w. %s", err, back)
		}
		select {
		case <-patience.Done():
			return switchSilent, fmt.Errorf("the Zooid server doesn't serve: %w. %s", err, back)
		case <-time.After(awaitPoll):
		}
	}
	f.says.say(fmt.Sprintf("the Zooid server serves. From the order to stop Apache until now it took %.1f s. See that nothing starts Apache's servers again.",
		time.Since(f.stopped).Seconds()))
	switch {
	case f.seed != "":
		f.says.say("What clients write is on the disks of a majority of the Zooid servers. Look at all of them with zooid status; start those that don't vote, with empty data directories.")
	case f.server.Quorum.Distributed:
		f.says.say("Start the other Zooid servers with empty data directories now, one after the other: each when zooid status shows the one before.")
	}
	return switchDone, nil
}

// serves returns why the server of the directory that was made doesn't serve yet.
func (f *switchFlags) serves(ctx context.Context, zxid int64) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	s, err := f.program.Ask(ctx, f.server)
	if err != nil {
		return err
	}
	st := &f.server.Storage
	lineage, err := storage.ReadIdentity(storage.OS{}, st.DataDir, st.DataLogDir)
	if err != nil {
		return err
	}
	return s.Serves(lineage, zxid, func() (bool, error) {
		lock, err := storage.OS{}.Lock(st.DataDir)
		if err != nil {
			return true, nil
		}
		return false, lock.Close()
	})
}
