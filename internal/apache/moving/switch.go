//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const switchHelp = `usage: zooid migrate switch [flags] ENSEMBLE DIR ZOOCFG

Puts a Zooid server in the place of a running ensemble of Apache ZooKeeper, with all data,
sessions and ephemeral znodes. ENSEMBLE and DIR are as for zooid migrate follow: the copy
in DIR is brought up to date first, or made. ZOOCFG is the Zooid server's zoo.cfg; its
dataDir must have no data of Zooid's.

It refuses to begin unless the copy is caught up and its digests equal the leader's, and
rehearses the import. It says what couldn't go back to Apache. Then Apache's servers are stopped, their logs show that nothing
is missing, the copy becomes the data directory, and the Zooid server is started. Until
that, everything is undone by starting Apache's servers again.

How Apache is stopped:
  -stop COMMAND    run by sh for each server, at once. It must stop the server for good, and
                   then print the server's tail. It gets ZK_ID, ZK_HOST and ZK_AFTER:
                   ssh $ZK_HOST 'systemctl disable --now zookeeper &&
                       zooid migrate tail -after '$ZK_AFTER' /var/lib/zookeeper'
  -tails DIR       you stop the servers, and put what zooid migrate tail prints on each
                   into the file DIR/tail.ID; what to do is said when it is time
  -majority        a majority of the servers is enough; the machines of the others are dead
  -stopped ID,…    these servers have stopped, by your word, where that can't be proved: who has
                   their files open, or whether their ports are closed, can't be seen. What shows
                   that a server runs still counts, and so does its tail

How Zooid is started:
  -start COMMAND   starts the Zooid server, and returns (systemctl start zooid); without it,
                   you start it when you are told to
  -seed COMMAND    ZOOCFG has several servers, and all of them are to have the data before the
                   first client writes. The command is run by sh for each other server that
                   votes, at once, after the data directory is made. It gets ZOOID_ID and
                   ZOOID_HOST, and what zooid migrate seed reads:
                   ssh $ZOOID_HOST zooid migrate seed /etc/zooid/zoo.cfg
                   -start is run for each of the servers then, with the same variables:
                   ssh $ZOOID_HOST systemctl start zooid
                   Without -seed the first server serves alone until others have joined it

  -check           do all that comes before the stop, say how long it will take, and end. DIR
                   isn't written to: what is missing there is kept in memory
  -yes             don't ask before the stop
  -undo            undo a try that was cut short: remove what it has made and not released, here and
                   with -seed on the other machines. Then start Apache's servers
  -without-digests the servers are older than 3.6, or have digests disabled

The flags of zooid migrate follow for the quorum ports (-id, -peer-tls…), and those of
zooid cli for the client ports, are the same here.

exit code: 0 the Zooid server serves, or -check found nothing against it; 1 it wasn't
switched, and how to undo what was done is said; 2 wrong arguments; 3 the Zooid server was
to start and doesn't serve: see its log.
`

// The exit codes of zooid migrate switch.
const (
	switchDone    = 0
	switchRefused = 1
	switchUsage   = 2
	switchSilent  = 3
)

// switchFlags holds the parsed command line.
type switchFlags struct {
	followFlags
	stop, tails, start, seed               string
	majority, check, yes, undo, undigested bool

	server  *config.Config
	held    *proof.Held // the directories of the server, until they are released
	journal *proof.Journal
	says    *sayer
	program *Program
	try     proof.Try
	word    []int64         // Apache's servers that have stopped by the operator's word
	stopped time.Time       // when Apache's servers were ordered to stop
	seeded  []int64         // Zooid servers that may have data
	closed  map[string]bool // election ports of the servers that have stopped
}

// Time limits for commands and servers.
const (
	stopTimeout  = 2 * time.Minute // for a -stop command
	startTimeout = 2 * time.Minute // for the Zooid server, until it serves
	probeTime    = 300 * time.Millisecond
)

// parse parses the arguments. help is true if they ask for the help text.
func (f *switchFlags) parse(args []string) (help bool, err error) {
	f.id = 200
	switches := map[string]func(){
		"peer-tls":          func() { f.peerTLS = true },
		"peer-tls-any-host": func() { f.peerTLS, f.peerAnyHost = true, true },
		"majority":          func() { f.majority = true },
		"check":             func() { f.check = true },
		"adopt":             func() { f.adopt = true },
		"yes":               func() { f.yes = true },
		"undo":              func() { f.undo = true },
		"without-digests":   func() { f.undigested = true },
	}
	f.words, help, err = readFlags(&f.access, args, switches, func(name, value string) (err error) {
		switch name {
		case "stop":
			f.stop = value
		case "tails":
			f.tails = value
		case "start":
			f.start = value
		case "seed":
			f.seed = value
		case "stopped":
			f.word, err = serverIDs(value)
			return err
		case "listen", "super":
			return fmt.Errorf("there is no flag -%s", name)
		default:
			return f.set(name, value)
		}
		return nil
	})
	switch {
	case err != nil || help:
	case len(f.words) != 3:
		err = errors.New("name an ensemble, a directory and a zoo.cfg")
	case !f.check && !f.undo && (f.stop == "") == (f.tails == ""):
		err = errors.New("say how Apache's servers are stopped: -stop or -tails")
	}
	return help, err
}

// runSwitch runs zooid migrate switch, which puts a Zooid server in the place of an ensemble.
func (p *Program) runSwitch(args []string, stdout, stderr io.Writer) int {
	f := switchFlags{program: p, try: proof.NewTry()}
	help, err := f.parse(args)
	if help {
		fmt.Fprint(stdout, switchHelp)
		return switchDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate switch: %v\n\n%s", err, switchHelp)
		return switchUsage
	}
	if f.server, err = config.Load(f.words[2], nil); err != nil {
		fmt.Fprintln(stderr, "zooid migrate switch:", runbook.Text(err))
		return switchRefused
	}
	if f.seed != "" && len(f.others()) == 0 {
		fmt.Fprintf(stderr, "zooid migrate switch: -seed is for an ensemble, and %s names no other server that votes\n",
			f.words[2])
		return switchUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	surviveWriting()
	f.says = &sayer{w: stderr, line: terminal.NewProgress(stderr)}
	code, err := f.run(ctx, os.Stdin, stderr)
	if err != nil {
		f.says.say("zooid migrate switch: " + err.Error())
	}
	f.says.close()
	return code
}

// surviveWriting keeps the process from being ended by SIGPIPE when its terminal is lost. Its commands aren't affected.
func surviveWriting() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// run carries out the switch, or goes on with one that was cut short, or undoes it.
func (f *switchFlags) run(ctx context.Context, stdin io.Reader, stderr io.Writer) (int, error) {
	o := apache.ImportOptions{Dir: f.server.Storage.DataDir, LogDir: f.server.Storage.DataLogDir}
	if f.seed != "" {
		o.Voters = voters(f.server)
		o.Copy = func(snapshot string, digest uint64, stay bool) error { return f.seeds(ctx, snapshot, digest, stay) }
	}
	copied, follows, end, err := f.begin()
	if err != nil {
		return switchRefused, err
	}
	defer func() { // its error matters only where the end is awaited
		_ = end()
	}()
	before, err := f.openJournal()
	if err != nil {
		return switchRefused, err
	}
	if f.journal != nil {
		defer f.journal.Close()
	}
	if before.Step != stepRelease { // then servers may run
		held, err := proof.Hold(o.Dir, o.LogDir)
		if err != nil {
			return switchRefused, fmt.Errorf("make a data directory in %s: %w", o.Dir, err)
		}
		f.held = held
		defer held.Release()
	}
	switch {
	case f.undo:
		return f.undoLast(ctx, before, &o)
	case before.Step == stepRelease && f.check:
		return switchRefused, errors.New("an earlier try has begun to release the new servers. Run the command without -check: it goes on")
	case before.Step == stepRelease:
		return f.release(ctx, before, stderr)
	}
	if before.Step != "" && !f.check {
		if err := dropOf(o.Dir, before.Try); err != nil {
			return switchRefused, err
		}
	}
	if err := f.free(&o); err != nil {
		return switchRefused, err
	}
	follows(ctx)
	defer debug.SetGCPercent(debug.SetGCPercent(importGCPercent))
	if before.Step != "" && !f.check {
		stopped, err := f.stillStopped(ctx, copied, before)
		if err != nil {
			return switchRefused, err
		}
		if stopped {
			return f.goOn(ctx, copied, end, before, &o, stdin, stderr)
		}
	}
	if err := f.await(ctx, copied); err != nil {
		return switchRefused, err
	}
	if err := f.rehearse(copied, o); err != nil {
		return switchRefused, err
	}
	tellNoForm(f.says.say, noFormLater(f.server))
	if f.seed == "" && f.server.Quorum.Distributed {
		f.says.say("without -seed, what clients write is on the disk of one server until a second one has joined it")
	}
	if f.check {
		return switchDone, nil
	}
	if err := f.ask(ctx, stdin, copied); err != nil {
		return switchRefused, err
	}
	if err := f.await(ctx, copied); err != nil {
		return switchRefused, err
	}
	if err := f.free(&o); err != nil { // a server can't have begun there, but a person may have put files
		return switchRefused, err
	}
	at := f.mark(ctx, copied)
	e := copied.Ensemble()
	return f.carryOut(ctx, copied, end, &stopPlan{Ensemble: e, At: at, Before: proof.Probe(ctx, allPorts(&e))}, &o, stderr)
}

// carryOut stops the ensemble, makes the new servers' data, and starts them.
func (f *switchFlags) carryOut(ctx context.Context, copied *follow.Follower, end func() error, s *stopPlan,
	o *apache.ImportOptions, stderr io.Writer) (int, error) {
	if err := ctx.Err(); err != nil {
		return switchRefused, errors.New("interrupted; nothing was changed")
	}
	if err := f.journal.Begin(f.try, stepStop, s); err != nil {
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	signal.Ignore(syscall.SIGHUP) // from here on it goes on without its terminal, and so do its commands
	f.stopped = time.Now()
	made, err := f.takeOver(ctx, copied, end, s, o)
	if err == nil {
		err = f.stillClosed(ctx, s)
	}
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil {
		err = f.journal.Begin(f.try, stepRelease, releasePlan{Zxid: made.Zxid, Stopped: f.stopped})
	}
	if err != nil {
		return switchRefused, fmt.Errorf("%w\nTo undo: start Apache's servers again. They have everything, and nothing was begun on the Zooid server%s",
			err, f.dropAll(ctx, o.Dir))
	}
	return f.releaseAll(ctx, made.Zxid, stderr)
}

// free returns an error if the directories hold data that isn't of this command.
func (f *switchFlags) free(o *apache.ImportOptions) error {
	m, err := proof.FindMark(o.Dir)
	if err == nil && m != nil {
		err = fmt.Errorf("import into %s: it has data of another switch (try %s, %s) that wasn't released. Undo that one, or remove its data: zooid migrate seed -drop %s",
			o.Dir, m.Try, m.By, terminal.Quoted(f.words[2]))
	}
	if err != nil {
		return err
	}
	return o.Free()
}

// begin opens the copy. follows starts to follow the ensemble, until end is called, which closes the copy.
func (f *switchFlags) begin() (copied *follow.Follower, follows func(context.Context), end func() error, err error) {
	dial, err := f.dialer()
	if err != nil {
		return nil, nil, nil, err
	}
	o := f.options(dial, f.says.say)
	o.Look = f.check
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

// await waits until the copy may take over.
func (f *switchFlags) await(ctx context.Context, copied *follow.Follower) error {
	asked := false
	for {
		s := copied.Status()
		err := switchover.Ready(&s, f.undigested)
		switch {
		case err == nil:
			f.says.say("caught up: " + s.String())
			return nil
		case errors.Is(err, switchover.ErrFinal):
			return err
		case errors.Is(err, switchover.ErrUndigested) && !asked:
			// A session that begins and ends makes transactions, which bring digests.
			asked = true
			if _, err := f.config(ctx); err != nil {
				return err
			}
			f.says.say("waiting for a transaction with a digest. Versions before 3.6 send none; if this doesn't end: -without-digests")
		}
		f.says.show(s.String())
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted; nothing was changed: %w", err)
		case <-time.After(awaitPoll):
		}
	}
}

// rehearse makes the data directory from the current copy, and removes it.
func (f *switchFlags) rehearse(copied *follow.Follower, o apache.ImportOptions) error {
	o.Stage = func(what string) { f.says.show("rehearsal: " + what) }
	began := time.Now()
	var made *apache.Made
	var large largeZnodes
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
		return s.Znodes(large.note)
	})
	if err == nil {
		err = made.Rehearse()
	}
	if err != nil {
		return fmt.Errorf("the rehearsal of the import failed, and nothing was changed: %w", err)
	}
	f.says.say(fmt.Sprintf("rehearsed the import: %d znodes and %d sessions took %.1f s; the shortest session timeout is %.1f s",
		made.Znodes, made.Sessions, time.Since(began).Seconds(), float64(shortest)/1000))
	if text := large.String(); text != "" {
		f.says.say(text)
	}
	return nil
}

// ask asks the operator to agree.
func (f *switchFlags) ask(ctx context.Context, stdin io.Reader, copied *follow.Follower) error {
	e := copied.Ensemble()
	f.says.say(fmt.Sprintf("Next: Apache's servers %v are stopped, by this command or when it says so; don't stop them before. Until the Zooid server is started, this is undone by starting them again.",
		ids(&e)))
	if f.yes {
		return nil
	}
	f.says.say("Once they are being stopped, it goes on even if this terminal is lost (run it in tmux or screen to see it to its end). Type yes to have them stopped:")
	return agreed(ctx, stdin)
}

func ids(e *follow.Ensemble) (all []int64) {
	for i := range e.Members {
		all = append(all, e.Members[i].ID)
	}
	return all
}

// foundsAlone orders the Zooid server to found its ensemble with the imported data, without waiting for the others of
// its server lines: the operator who switches has decided that this data counts, and clients wait. With seeds, the
// first voters are known already.
func (f *switchFlags) foundsAlone() error {
	if f.seed != "" || !f.server.Quorum.Distributed {
		return nil
	}
	return newensemble.OrderFounding(f.server.Storage.DataDir, "zooid migrate switch",
		"clients move from Apache to this server's data")
}

// file returns w if it is an *os.File, nil otherwise: a started process inherits it, and may write to it for ever.
func file(w io.Writer) *os.File {
	f, _ := w.(*os.File)
	return f
}

// A sayer reports to the operator, from any goroutine.
type sayer struct {
	mu   sync.Mutex
	w    io.Writer
	line *terminal.Progress
	log  io.WriteCloser // gets everything too; nil for none
}

func (s *sayer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		s.log.Close()
	}
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
