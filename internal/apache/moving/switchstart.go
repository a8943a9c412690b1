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
func (r *switchRun) startAll(ctx context.Context, stderr io.Writer) error {
	own, ok := r.server.Quorum.Members.Find(r.server.Quorum.MyID)
	if !ok {
		own = config.Member{ID: r.server.Quorum.MyID}
	}
	servers := []config.Member{own}
	if r.seed != "" {
		servers = append(servers, r.others()...)
	}
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			cmd := operatorCommand(ctx, r.start, zooidServer(&servers[i]))
			cmd.Stdout, cmd.Stderr = file(stderr), file(stderr)
			if err := cmd.Run(); err != nil {
				errs[i] = fmt.Errorf("start the Zooid server %d: %w", servers[i].ID, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs[1:] { // the started servers may be a majority, which the next step shows
		if err != nil {
			r.says.say(err.Error())
		}
	}
	return errs[0]
}

// askPatience is how long an answer may take: a starting server may accept a connection and never answer on it.
const askPatience = 5 * time.Second

// otherPatience is how long another server may answer in the place of the one that is to serve.
const otherPatience = 10 * time.Second

// startServer starts the Zooid server, or has the operator start it, and waits until it serves the data that was made,
// at the copied zxid or a later one.
func (r *switchRun) startServer(ctx context.Context, zxid int64, stderr io.Writer) (int, error) {
	back := "Don't start Apache's servers now: the way back from here is zooid export (docs/migration.md)."
	switch {
	case r.start == "" && r.seed != "":
		r.says.say(fmt.Sprintf("Last step, which starting Apache again doesn't undo: start the Zooid servers %d now.",
			serverid.MyIDs(voters(r.server))))
	case r.start == "":
		r.says.say("Last step, which starting Apache again doesn't undo: start the Zooid server now.\n    zooid server " +
			terminal.Quoted(r.words[2]))
	default:
		r.says.say("last step, which starting Apache again doesn't undo: " + r.start)
		if err := r.startAll(ctx, stderr); err != nil {
			return switchSilent, fmt.Errorf("%w. Start it by hand: zooid server %s. Its data directory is complete. %s", err,
				terminal.Quoted(r.words[2]), back)
		}
	}
	if own, ok := r.server.Quorum.Members.Find(r.server.Quorum.MyID); r.server.Client.Port < 0 &&
		!r.server.Admin.Enabled && (!ok || own.Client.IsZero()) {
		r.says.say("the server accepts clients over TLS only and has no admin server: check its log to see that it serves")
		return switchDone, nil
	}
	patience := ctx
	if r.start != "" {
		var cancel func()
		patience, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	var other time.Time // since when another server answers
	for {
		err := r.serves(patience, zxid)
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
	r.says.say(fmt.Sprintf("the Zooid server serves. From the order to stop Apache until now it took %.1f s. Make sure that nothing restarts Apache's servers.",
		time.Since(r.stopped).Seconds()))
	switch {
	case r.seed != "":
		r.says.say("Clients' writes are on the disks of a majority of the Zooid servers. Check all of them with zooid status; start those that don't vote, with empty data directories.")
	case r.server.Quorum.Distributed:
		r.says.say("Start the other Zooid servers with empty data directories now, one at a time: each when zooid status shows the previous one.")
	}
	return switchDone, nil
}

// serves returns why the server of the new directory doesn't serve yet.
func (r *switchRun) serves(ctx context.Context, zxid int64) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	s, err := r.program.Ask(ctx, r.server)
	if err != nil {
		return err
	}
	st := &r.server.Storage
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
