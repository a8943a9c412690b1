//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
)

// A returnRun is a run of zooid migrate return, which puts Apache's observers in Zooid's place.
type returnRun struct {
	returnFlags
	program *Program
	try     proof.Try

	server  *config.Config
	says    *sayer
	journal *proof.Journal
	whole   atomic.Bool // the log of the server of ZOOCFG is complete; see stopFirst
	held    *proof.Held // that server's directories, once it has stopped
	plan    returnPlan  // for the journal
	stopped time.Time   // when Zooid's servers were told to stop
}

func (r *returnRun) run(ctx context.Context, s cli.Streams) (int, error) {
	surviveWriting()
	r.says = newSayer(s.Err, "zooid migrate return")
	return r.says.end(r.carryOn(ctx, s.In, s.Err))
}

// carryOn carries out the return to Apache.
func (r *returnRun) carryOn(ctx context.Context, stdin io.Reader, stderr io.Writer) (_ int, err error) {
	if r.server, err = config.LoadAny(r.file, nil); err != nil {
		return switchRefused, err
	}
	before, err := r.openJournal() // before it listens, since another run would hold the ports
	if err != nil {
		return switchRefused, err
	}
	defer r.journal.Close()
	if err := r.listen(r.server, r.program); err != nil {
		return switchRefused, err
	}
	defer socket.CloseListener(r.o.Election)
	defer socket.CloseListener(r.o.Quorum)
	r.o.Whole = r.whole.Load
	defer func() {
		if r.held != nil {
			err = errors.Join(err, r.held.Release())
		}
	}()
	if before.Step != "" {
		if code, done, err := r.goOn(ctx, before, stderr); done {
			return code, err
		}
	}
	lead := r.lead()
	defer lead.end()
	if err := r.await(ctx, lead); err != nil {
		return switchRefused, err
	}
	if err := r.survey(); err != nil {
		return switchRefused, err
	}
	if r.plan.Before, err = r.reach(ctx); err != nil {
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	if r.check {
		return switchDone, nil
	}
	r.says.say(fmt.Sprintf("Next: Zooid's servers %d are stopped by this command; don't stop them earlier. Until Apache's servers are started, you can undo this by starting them again.",
		r.zooids()))
	if !r.yes {
		r.says.say("Type yes to stop them:")
		if err := agreed(ctx, stdin); err != nil {
			return switchRefused, err
		}
		if err := r.await(ctx, lead); err != nil {
			return switchRefused, err
		}
	}
	if err := r.journal.Begin(r.try, stepStop, r.plan); err != nil {
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	signal.Ignore(syscall.SIGHUP)
	err = r.stopFirst(ctx)
	if err == nil {
		err = r.stopWhole(ctx)
	}
	if err == nil {
		err = r.handOver(ctx, lead)
	}
	if err != nil {
		return switchRefused, r.undone(err)
	}
	return r.startApache(ctx, stderr)
}

// undone says how to undo the steps before an error.
func (r *returnRun) undone(err error) error {
	return fmt.Errorf("%w\nTo undo: start Zooid's servers %d again. They have all data, and no Apache server has served. To feed the observers again, run zooid migrate back",
		err, r.zooids())
}

// survey reports the data that Apache can't represent, and takes the ensemble's membership from it.
func (r *returnRun) survey() error {
	t, _, err := txnlog.Newest(txnlog.Options{Dirs: r.o.Dirs, Reconfigure: r.program.Reconfigure})
	if err != nil {
		return fmt.Errorf("check for data that Apache can't represent: %w", err)
	}
	now := apache.Survey(t)
	tellNoForm(r.says.say, now.Lines())
	text, _ := t.Membership().Members()
	return r.takeMembers(text)
}

// agreed returns an error unless the operator types yes.
func agreed(ctx context.Context, stdin io.Reader) error {
	if line, err := terminal.ReadLine(ctx, stdin); err == nil && strings.TrimSpace(line) == "yes" {
		return nil
	}
	return errors.New("nothing was changed: the answer wasn't yes")
}

// zooids returns the ids of the Zooid servers.
func (r *returnRun) zooids() []int64 {
	if len(r.server.Quorum.Members.Servers) == 0 {
		return []int64{1}
	}
	return idsOf(r.server.Quorum.Members.Servers)
}

// A leadership leads the observers in the background.
type leadership struct {
	end      func() // hands over, once the server has stopped
	finished chan struct{}
	done     back.Done // valid once finished is closed
	err      error

	mu      sync.Mutex
	now     back.Progress
	history []moment // the server's zxids over time, the earliest first
}

// A moment is the server's zxid at some time.
type moment struct {
	at   time.Time
	zxid int64
}

// behindMax is how far the observers may be behind when Zooid is stopped: they answer twice a second.
const behindMax = 3 * time.Second

// lead starts to lead the observers.
func (r *returnRun) lead() *leadership {
	ctx, cancel := context.WithCancel(context.Background()) // so that an interrupt doesn't end it before Zooid has stopped
	l := &leadership{end: cancel, finished: make(chan struct{})}
	o := r.o
	o.Say, o.Held = r.says.say, true
	o.Watch = func(p back.Progress) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.now = p
		l.history = append(l.history, moment{time.Now(), p.Answer.Zxid})
		for len(l.history) > 1 && time.Since(l.history[1].at) > behindMax {
			l.history = l.history[1:]
		}
	}
	go func() {
		defer close(l.finished)
		l.done, l.err = back.Run(ctx, o)
	}()
	return l
}

// ready returns why the observers can't replace Zooid now, or their hosts if they can.
func (l *leadership) ready(observers []int64) (hosts map[int64]string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.now.Mode {
	case "leader", "standalone":
	case "":
		return nil, errors.New("the Zooid server in the zoo.cfg doesn't answer")
	default:
		return nil, fmt.Errorf("%w: the Zooid server in the zoo.cfg is a %s. Run the command on the leader's machine (see zooid status), or make this server the leader: stop the others, the leader last, then start them again",
			errOther, l.now.Mode)
	}
	if len(l.history) == 0 || time.Since(l.history[0].at) < behindMax {
		return nil, errors.New("the observers haven't been watched long enough yet")
	}
	hosts = map[int64]string{}
	for _, id := range observers {
		at := slices.IndexFunc(l.now.Observers, func(p back.Peer) bool { return p.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("observer %d isn't connected", id)
		}
		p := l.now.Observers[at]
		if p.Zxid < l.history[0].zxid {
			return nil, fmt.Errorf("observer %d is at zxid %#x; Zooid was at %#x %v ago", id, uint64(p.Zxid),
				uint64(l.history[0].zxid), behindMax)
		}
		if time.Since(p.At) > behindMax {
			return nil, fmt.Errorf("observer %d hasn't answered for %v", id, behindMax)
		}
		hosts[id] = p.Host
	}
	return hosts, nil
}

// errOther marks errors that waiting doesn't resolve.
var errOther = errors.New("the observers can't replace Zooid")

// await waits until the observers may take over.
func (r *returnRun) await(ctx context.Context, l *leadership) error {
	told := ""
	for {
		hosts, err := l.ready(r.observers)
		switch {
		case err == nil:
			r.plan.Hosts = hosts
			r.says.say(fmt.Sprintf("the observers %d have all data", r.observers))
			return nil
		case errors.Is(err, errOther):
			return err
		case err.Error() != told && !strings.Contains(err.Error(), "zxid"): // a zxid in the text changes all the time
			told = err.Error()
			r.says.say("waiting: " + told)
		}
		r.says.show(err.Error())
		select {
		case <-l.finished:
			return fmt.Errorf("nothing was changed: %w", l.err)
		case <-ctx.Done():
			return errors.New("interrupted; nothing was changed")
		case <-time.After(awaitPoll):
		}
	}
}

// stopWhole stops the rest of Zooid's servers.
func (r *returnRun) stopWhole(ctx context.Context) error {
	if err := r.journal.Begin(r.try, stepWhole, r.plan); err != nil {
		return err
	}
	r.stopped = time.Now()
	return r.stopRest(ctx)
}

// handOver stops the observers. By then they hold the same data as the stopped Zooid servers.
func (r *returnRun) handOver(ctx context.Context, l *leadership) error {
	l.end()
	<-l.finished
	if l.err != nil {
		return l.err
	}
	if l.done.Members != r.plan.Members {
		return fmt.Errorf("a reconfig changed the Zooid ensemble in the meantime, from\n%s\nto\n%s", r.plan.Members,
			l.done.Members)
	}
	for _, id := range r.observers {
		if !slices.Contains(l.done.Observers, id) {
			return fmt.Errorf("observer %d has disconnected; the observers that have all data are %d", id, l.done.Observers)
		}
	}
	r.says.say(l.done.String())
	r.plan.Zxid, r.plan.Digest = l.done.End, digestLine(&l.done)
	return r.stopObservers(ctx)
}

// stopObservers stops the observers, whose files must have the digest of the plan.
func (r *returnRun) stopObservers(ctx context.Context) error {
	want := r.plan.Digest
	if err := r.journal.Begin(r.try, stepObservers, r.plan); err != nil {
		return err
	}
	return r.each(ctx, r.observers, func(ctx context.Context, id int64) error {
		said, err := runFor(ctx, r.stopObserver, stopTimeout, r.apache(id))
		if err != nil {
			return fmt.Errorf("stop observer %d: %w", id, err)
		}
		lines := strings.Split(strings.ReplaceAll(said, "\r", ""), "\n")
		if !slices.Contains(lines, want) {
			return fmt.Errorf("the files of observer %d don't match Zooid's data: want the line %q from zooid migrate digest, but the command printed %q. zooid export writes them again",
				id, want, said)
		}
		return nil
	})
}

// each calls do for all servers at once.
func (r *returnRun) each(ctx context.Context, ids []int64, do func(context.Context, int64) error) error {
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { errs[i] = do(ctx, id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// apache returns the environment of a command for an Apache server.
func (r *returnRun) apache(id int64) []string {
	return []string{fmt.Sprintf("ZK_ID=%d", id), "ZK_HOST=" + r.plan.Hosts[id]}
}

// startApache starts the Apache ensemble. It can be repeated.
func (r *returnRun) startApache(ctx context.Context, stderr io.Writer) (int, error) {
	if ctx.Err() != nil {
		return switchRefused, r.undone(errInterrupted)
	}
	if err := r.stillStopped(ctx); err != nil {
		return switchRefused, r.undone(err)
	}
	if err := r.journal.Begin(r.try, stepStart, r.plan); err != nil {
		return switchRefused, r.undone(err)
	}
	r.says.say("last step, which starting Zooid again doesn't undo: " + r.start)
	err := r.each(ctx, r.observers, func(ctx context.Context, id int64) error {
		cmd := operatorCommand(ctx, r.start, r.apache(id))
		cmd.Stdout, cmd.Stderr = file(stderr), file(stderr)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("start the Apache server %d: %w", id, err)
		}
		return nil
	})
	if err != nil {
		return switchSilent, fmt.Errorf("%w. Start it by hand, with the zoo.cfg of the ensemble. Its files are complete. Don't start Zooid's servers now; run the same command again to resume from here",
			err)
	}
	r.says.say(fmt.Sprintf("Apache's servers %d were started, %.1f s after the order to stop Zooid. Check that they serve (srvr), and make sure that nothing restarts Zooid's servers.",
		r.observers, time.Since(r.stopped).Seconds()))
	if err := r.journal.End(r.try, stepServe); err != nil {
		return switchSilent, fmt.Errorf("the return is done, but its journal doesn't say so: %w. Run the same command again, to record it",
			err)
	}
	return switchDone, nil
}
