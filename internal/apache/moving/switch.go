//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/apache/switchover"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// The exit codes of zooid migrate switch and return.
const (
	switchDone    = 0
	switchRefused = 1
	switchSilent  = 3
)

// A switchRun is a run of zooid migrate switch.
type switchRun struct {
	switchFlags
	program *Program
	try     proof.Try

	server  *config.Config
	held    *proof.Held // the directories of the server, until they are released
	journal *proof.Journal
	past    []proof.Record // of the journal, from before
	says    *sayer
	stopped time.Time // when Apache's servers were ordered to stop
	seeded  []int64   // Zooid servers that may have data
	ended   []stoppedServer
}

// Time limits for commands and servers.
const (
	stopTimeout  = 2 * time.Minute // for a -stop command
	startTimeout = 2 * time.Minute // for the Zooid server, until it serves
)

func (r *switchRun) run(ctx context.Context, s cli.Streams) (code int, err error) {
	if r.server, err = config.Load(r.words[2], nil); err != nil {
		return switchRefused, errors.New(runbook.Text(err))
	}
	if r.seed != "" && len(r.others()) == 0 {
		return exitUsage, fmt.Errorf("-seed is for an ensemble, and %s names no other server that votes", r.words[2])
	}
	surviveWriting()
	r.says = newSayer(s.Err, "zooid migrate switch")
	return r.says.end(r.carryOn(ctx, s.In, s.Err))
}

// surviveWriting keeps the process from being ended by SIGPIPE when its terminal is lost. Its commands aren't affected.
func surviveWriting() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// carryOn carries out the switch, or continues or undoes one that was cut short.
func (r *switchRun) carryOn(ctx context.Context, stdin io.Reader, stderr io.Writer) (int, error) {
	o := apache.ImportOptions{Dir: r.server.Storage.DataDir, LogDir: r.server.Storage.DataLogDir}
	if r.seed != "" {
		o.Voters = voters(r.server)
		o.Copy = func(snapshot string, digest uint64, stay bool) error { return r.seeds(ctx, snapshot, digest, stay) }
	}
	if err := r.undoable(); err != nil {
		return switchRefused, err
	}
	copied, follows, end, err := r.begin()
	if err != nil {
		return switchRefused, err
	}
	defer func() { // its error matters only where the end is awaited
		_ = end()
	}()
	before, err := r.openJournal()
	if err != nil {
		return switchRefused, err
	}
	if r.journal != nil {
		defer r.journal.Close()
	}
	if err := r.sameServer(before); err != nil {
		return switchRefused, err
	}
	if before.Step != stepRelease { // then servers may run
		held, err := proof.Hold(o.Dir, o.LogDir)
		if err != nil {
			return switchRefused, r.unlessDone(fmt.Errorf("make a data directory in %s: %w", o.Dir, err))
		}
		r.held = held
		defer held.Release()
	}
	switch {
	case r.undo:
		return r.undoLast(ctx, before, &o)
	case before.Step == stepRelease && r.check:
		return switchRefused, errors.New("an earlier try had begun to release the new servers. Run the command without -check to resume it")
	case before.Step == stepRelease:
		return r.release(ctx, before, stderr)
	}
	if before.Step != "" && !r.check {
		if err := dropOf(o.Dir, before.Try); err != nil {
			return switchRefused, err
		}
	}
	if err := r.free(&o); err != nil {
		return switchRefused, r.unlessDone(err)
	}
	follows(ctx)
	if before.Step != "" && !r.check {
		stopped, err := r.stillStopped(ctx, copied, before)
		if err != nil {
			return switchRefused, err
		}
		if stopped {
			return r.goOn(ctx, copied, end, before, &o, stdin, stderr)
		}
	}
	if err := r.await(ctx, copied); err != nil {
		return switchRefused, err
	}
	if err := r.rehearse(copied, o); err != nil {
		return switchRefused, err
	}
	tellNoForm(r.says.say, noFormLater(r.server))
	if r.seed == "" && r.server.Quorum.Distributed {
		r.says.say("without -seed, clients' writes are on one server's disk only, until a second server joins")
	}
	if r.check {
		return switchDone, nil
	}
	r.says.say("The data of Apache's servers goes to " + r.own().String())
	if err := r.ask(ctx, stdin, copied); err != nil {
		return switchRefused, err
	}
	if err := r.await(ctx, copied); err != nil {
		return switchRefused, err
	}
	if err := r.free(&o); err != nil { // a server can't have begun there, but a person may have put files
		return switchRefused, err
	}
	at := r.mark(ctx, copied)
	e := copied.Ensemble()
	return r.carryOut(ctx, copied, end, &stopPlan{
		Ensemble: e, At: at, Before: proof.Probe(ctx, allPorts(&e)),
	}, &o, stderr)
}

// carryOut stops the ensemble, makes the new servers' data, and starts them.
func (r *switchRun) carryOut(ctx context.Context, copied *follow.Follower, end func() error, s *stopPlan,
	o *apache.ImportOptions, stderr io.Writer) (int, error) {
	if err := ctx.Err(); err != nil {
		return switchRefused, errors.New("interrupted; nothing was changed")
	}
	if err := copied.Status().Ended; err != nil { // it has said so, and would be found only after the stop
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	s.Server = r.own()
	if err := r.journal.Begin(r.try, stepStop, s); err != nil {
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	signal.Ignore(syscall.SIGHUP) // from here on it continues without its terminal, and so do its commands
	r.stopped = time.Now()
	made, err := r.takeOver(ctx, copied, end, s, o)
	if err == nil {
		err = r.stillClosed(ctx, s)
	}
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil {
		err = r.journal.Begin(r.try, stepRelease, releasePlan{
			Zxid: made.Zxid, Stopped: r.stopped, Servers: r.ended, Seeded: r.seed != "", Server: r.own(),
		})
	}
	if err != nil {
		return switchRefused, fmt.Errorf("%w\nTo undo: start Apache's servers again. They have all data, and nothing was started on the Zooid server%s",
			err, r.dropAll(ctx, o.Dir))
	}
	return r.releaseAll(ctx, made.Zxid, stderr)
}

// free returns an error if the directories hold data that isn't of this command.
func (r *switchRun) free(o *apache.ImportOptions) error {
	m, err := proof.FindMark(o.Dir)
	if err == nil && m != nil {
		err = fmt.Errorf("import into %s: it has unreleased data of another switch (try %s, %s). Undo that switch, or remove its data: zooid migrate seed -drop %s",
			o.Dir, m.Try, m.By, terminal.Quoted(r.words[2]))
	}
	if err != nil {
		return err
	}
	return o.Free()
}

// begin opens the copy. follows starts to follow the ensemble, until end is called, which closes the copy.
func (r *switchRun) begin() (copied *follow.Follower, follows func(context.Context), end func() error, err error) {
	dial, err := r.dialer()
	if err != nil {
		return nil, nil, nil, err
	}
	o := r.options(dial, r.says.say)
	o.Look = r.check
	if copied, err = follow.Open(o); err != nil {
		return nil, nil, nil, err
	}
	var cancel func()
	done := make(chan error, 1)
	follows = func(ctx context.Context) {
		ctx, cancel = context.WithCancel(ctx)
		go func() { done <- copied.Run(ctx) }()
	}
	return copied, follows, sync.OnceValue(func() error {
		if cancel == nil { // Run closes the copy
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			return copied.Run(ended)
		}
		cancel()
		return <-done
	}), nil
}

// awaitPoll is the time between two checks.
const awaitPoll = 20 * time.Millisecond

// checkFailuresMax is how many attempts in a row to follow a leader may fail before -check ends. They last for half a
// minute, which is longer than an election.
const checkFailuresMax = 20

// await waits until the copy may take over.
func (r *switchRun) await(ctx context.Context, copied *follow.Follower) error {
	asked := false
	for {
		s := copied.Status()
		err := switchover.Ready(&s, r.undigested)
		switch {
		case err == nil:
			r.says.say("caught up: " + s.String())
			return nil
		case errors.Is(err, switchover.ErrFinal):
			return err
		case r.check && s.Failed >= checkFailuresMax:
			return fmt.Errorf("after %d attempts, %w", s.Failed, err)
		case errors.Is(err, switchover.ErrUndigested) && !asked:
			// A session that begins and ends makes transactions, which bring digests.
			asked = true
			if _, err := r.config(ctx); err != nil {
				return err
			}
			r.says.say("waiting for a transaction with a digest. Versions before 3.6 send none: if the wait doesn't end, give -without-digests")
		}
		r.says.show(s.String())
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted; nothing was changed: %w", err)
		case <-time.After(awaitPoll):
		}
	}
}

// rehearse makes the data directory from the current copy, and removes it.
func (r *switchRun) rehearse(copied *follow.Follower, o apache.ImportOptions) error {
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	o.Stage = func(what string) { r.says.show("rehearsal: " + what) }
	began := time.Now()
	var made *apache.Made
	var large files.LargeZnodes
	shortest := int32(0)
	err := copied.View(func(s *files.State, epoch int64) (err error) {
		for _, timeout := range s.Sessions { // any order: takes the minimum
			if shortest == 0 || timeout < shortest {
				shortest = timeout
			}
		}
		if made, err = o.Make(s, epoch); err != nil {
			return err
		}
		return s.Znodes(large.Note)
	})
	if err == nil {
		err = made.Rehearse()
	}
	runtime.GC() // frees the tree that was read back, which is outside Go's heap and doesn't hasten a collection
	if err != nil {
		return fmt.Errorf("the rehearsal of the import failed, and nothing was changed: %w", err)
	}
	r.says.say(fmt.Sprintf("rehearsed the import: %d znodes and %d sessions took %.1f s; the shortest session timeout is %.1f s",
		made.Znodes, made.Sessions, time.Since(began).Seconds(), float64(shortest)/1000))
	if text := large.String(); text != "" {
		r.says.say(text)
	}
	return nil
}

// ask asks the operator to agree.
func (r *switchRun) ask(ctx context.Context, stdin io.Reader, copied *follow.Follower) error {
	e := copied.Ensemble()
	r.says.say(fmt.Sprintf("Next: Apache's servers %v are stopped, by this command or when it asks you to; don't stop them earlier. Until the Zooid server is started, you can undo this by starting them again.",
		ids(&e)))
	if r.yes {
		return nil
	}
	r.says.say("Once the stop begins, this command continues even if the terminal is lost (run it in tmux or screen to see its end). Type yes to stop them:")
	return agreed(ctx, stdin)
}

func ids(e *follow.Ensemble) (all []int64) {
	for i := range e.Members {
		all = append(all, e.Members[i].ID)
	}
	return all
}

// foundsAlone orders the Zooid server to found its ensemble with the imported data, without waiting for the others of
// its server lines: by switching, the operator has decided that this data counts, and clients wait. With seeds, the
// first voters are known already.
func (r *switchRun) foundsAlone() error {
	if r.seed != "" || !r.server.Quorum.Distributed {
		return nil
	}
	return newensemble.OrderFounding(r.server.Storage.DataDir, "zooid migrate switch",
		"clients move from Apache to this server's data")
}

// file returns the file that w is or wraps, or nil. A started server inherits the file, and may write to it as long as
// it runs.
func file(w io.Writer) io.Writer {
	if f := terminal.FileOf(w); f != nil {
		return f
	}
	return nil // no *os.File, with which the command's output would be closed
}

// A sayer reports to the operator, from any goroutine.
type sayer struct {
	command string

	mu   sync.Mutex
	w    io.Writer
	line *terminal.Progress
	log  io.WriteCloser // gets everything too; nil for none
}

func newSayer(w io.Writer, command string) *sayer {
	return &sayer{w: w, line: terminal.NewProgress(w), command: command}
}

// logTo makes s append to a file all that it says.
func (s *sayer) logTo(path string) error {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write this command's log: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = log
	return nil
}

// end reports the error with which a command ends. It returns the exit code without the error.
func (s *sayer) end(code int, err error) (int, error) {
	if err != nil {
		s.say(s.command + ": " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		s.log.Close()
	}
	return code, nil
}

func (s *sayer) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.End()
	line := time.Now().Format(time.DateTime) + " " + terminal.Visible(serverid.Text(text))
	fmt.Fprintln(s.w, line)
	if s.log != nil {
		fmt.Fprintln(s.log, line)
	}
}

// show shows current activity, only on a terminal.
func (s *sayer) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.Due() {
		s.line.Show(text)
	}
}
