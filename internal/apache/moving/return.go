//go:build unix

package moving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
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

const returnHelp = `usage: zooid migrate return [flags] -observers ID,ID,… ZOOCFG

Puts Apache servers that follow as observers in the place of Zooid: the way back, as one
command. It leads the observers itself: end zooid migrate back before, which they lose
for a moment. It runs beside the Zooid server of ZOOCFG, which must lead its ensemble, or be
alone.

It refuses to begin unless every observer named is connected and has everything. Then Zooid's
servers are stopped: so many that each majority of the rest needs that of ZOOCFG, which must
still lead for three seconds, while clients are served; the others; that of ZOOCFG last. The
stops may take as long as they like. The observers get the end of its log; they are stopped, and
the digest of each one's files must be Zooid's; and they are started as an ensemble. Until that,
everything is undone by starting Zooid's servers again.

Its steps are in return.journal in Zooid's dataDir. From the stop on, a lost terminal doesn't end
it (run it in tmux or screen to see it to its end). If it was cut short, run it again: it begins
anew if Zooid serves again, and goes on otherwise.

  -quorum, -election, -from, -id, -peer-tls-…, -peer-sasl-…  as for zooid migrate back
  -observers ID,…          all Apache servers of the ensemble to come
  -stop COMMAND            run by sh for each Zooid server, with ZOOID_ID and ZOOID_HOST; it stops
                           the server for good:
                           ssh $ZOOID_HOST systemctl disable --now zooid
  -stop-observer COMMAND   run by sh for each observer, at once, with ZK_ID and ZK_HOST; it stops
                           the server, and then prints the digest of its files:
                           ssh $ZK_HOST 'systemctl stop zookeeper &&
                               zooid migrate digest /var/lib/zookeeper'
  -start COMMAND           run by sh for each of them, at once, with ZK_ID and ZK_HOST; it gives
                           the server the zoo.cfg of the ensemble, and starts it:
                           ssh $ZK_HOST 'cp /etc/zookeeper/ensemble.cfg /etc/zookeeper/zoo.cfg &&
                               systemctl enable --now zookeeper'
  -check                   say if it could begin, and what has no form at Apache, and end
  -yes                     don't ask before the stop

exit code: 0 Apache's servers were started, or -check found nothing against it; 1 it didn't
go back, and how to undo what was done is said; 2 wrong arguments; 3 Apache's servers were to
start, and a command failed.
`

// returnFlags holds the parsed command line.
type returnFlags struct {
	quorum, election                string
	stop, stopObserver, start, file string
	observers                       []int64
	check, yes                      bool

	o       back.Options
	server  *config.Config
	says    *sayer
	program *Program
	try     proof.Try
	journal *proof.Journal
	whole   atomic.Bool      // the log of the server of ZOOCFG has everything; see stopFirst
	held    *proof.Held      // that server's directories, once it has stopped
	hosts   map[int64]string // of the observers
	stopped time.Time        // when Zooid's servers were told to stop
}

// parse parses the arguments. help is true if they ask for the help text.
func (f *returnFlags) parse(args []string) (help bool, err error) {
	var none cli.Access
	from, secure, logins := "", back.PeerTLS{}, back.PeerSASL{}
	switches := map[string]func(){"check": func() { f.check = true }, "yes": func() { f.yes = true }}
	words, help, err := readFlags(&none, args, switches, func(name, value string) (err error) {
		switch name {
		case "quorum":
			f.quorum = value
		case "election":
			f.election = value
		case "from":
			from = value
		case "id":
			f.o.ID, err = strconv.ParseInt(value, 10, 64)
		case "observers":
			for part := range strings.SplitSeq(value, ",") {
				id, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
				if err != nil || slices.Contains(f.observers, id) {
					return fmt.Errorf("-observers %q: want the ids of the Apache servers, each once", value)
				}
				f.observers = append(f.observers, id)
			}
			slices.Sort(f.observers)
		case "stop":
			f.stop = value
		case "stop-observer":
			f.stopObserver = value
		case "start":
			f.start = value
		default:
			if !secure.Set(name, value) && !logins.Set(name, value) {
				return fmt.Errorf("there is no flag -%s", name)
			}
		}
		return err
	})
	if err == nil && !help {
		f.o.From, err = back.Addresses(from)
	}
	if err == nil && !help {
		f.o.TLS, err = secure.Config()
	}
	if err == nil && !help {
		f.o.Logins, err = logins.Logins()
	}
	switch {
	case err != nil || help:
	case f.quorum == "" || f.election == "":
		err = errors.New("name the addresses of -quorum and -election")
	case f.o.ID < 0 || f.o.ID > 254:
		err = fmt.Errorf("-id %d: want 0 to 254", f.o.ID)
	case len(f.observers) == 0:
		err = errors.New("name all Apache servers of the ensemble to come: -observers")
	case !f.check && (f.stop == "" || f.stopObserver == "" || f.start == ""):
		err = errors.New("say how servers are stopped and started: -stop, -stop-observer and -start")
	case len(words) != 1:
		err = errors.New("name the zoo.cfg of a Zooid server")
	default:
		f.file = words[0]
	}
	return help, err
}

// runReturn runs zooid migrate return, which puts Apache's observers in Zooid's place.
func (p *Program) runReturn(args []string, stdout, stderr io.Writer) int {
	f := returnFlags{program: p, try: proof.NewTry()}
	help, err := f.parse(args)
	if help {
		fmt.Fprint(stdout, returnHelp)
		return switchDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate return: %v\n\n%s", err, returnHelp)
		return switchUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	surviveWriting()
	f.says = &sayer{w: stderr, line: terminal.NewProgress(stderr)}
	code, err := f.run(ctx, os.Stdin, stderr)
	if err != nil {
		f.says.say("zooid migrate return: " + err.Error())
	}
	f.says.close()
	return code
}

// run carries out the return to Apache.
func (f *returnFlags) run(ctx context.Context, stdin io.Reader, stderr io.Writer) (_ int, err error) {
	if f.server, err = config.LoadAny(f.file, nil); err != nil {
		return switchRefused, err
	}
	if err := f.o.Prepare(f.server, f.quorum, f.election); err != nil {
		return switchRefused, err
	}
	defer socket.CloseListener(f.o.Election)
	defer socket.CloseListener(f.o.Quorum)
	f.o.Whole = f.whole.Load
	before, err := f.openJournal()
	if err != nil {
		return switchRefused, err
	}
	defer f.journal.Close()
	defer func() {
		if f.held != nil {
			err = errors.Join(err, f.held.Release())
		}
	}()
	if before.Step != "" {
		if code, done, err := f.goOn(ctx, before, stderr); done {
			return code, err
		}
	}
	lead := f.lead()
	defer lead.end()
	if err := f.await(ctx, lead); err != nil {
		return switchRefused, err
	}
	if err := f.survey(); err != nil {
		return switchRefused, err
	}
	if f.check {
		return switchDone, nil
	}
	f.says.say(fmt.Sprintf("Next: Zooid's servers %d are stopped, by this command; don't stop them before. Until Apache's servers are started, this is undone by starting them again.",
		f.zooids()))
	if !f.yes {
		f.says.say("Type yes to have them stopped:")
		if err := agreed(ctx, stdin); err != nil {
			return switchRefused, err
		}
		if err := f.await(ctx, lead); err != nil {
			return switchRefused, err
		}
	}
	if err := f.journal.Begin(f.try, stepStop, returnPlan{Hosts: f.hosts}); err != nil {
		return switchRefused, fmt.Errorf("nothing was changed: %w", err)
	}
	signal.Ignore(syscall.SIGHUP)
	err = f.stopFirst(ctx)
	if err == nil {
		err = f.stopWhole(ctx)
	}
	if err == nil {
		err = f.handOver(ctx, lead)
	}
	if err != nil {
		return switchRefused, f.undone(err)
	}
	return f.startApache(ctx, stderr)
}

// undone says how to undo what was done before an error.
func (f *returnFlags) undone(err error) error {
	return fmt.Errorf("%w\nTo undo: start Zooid's servers %d again. They have everything, and no Apache server has served. Let the observers go on with zooid migrate back",
		err, f.zooids())
}

// survey reports what Apache can't represent.
func (f *returnFlags) survey() error {
	t, _, err := txnlog.Newest(txnlog.Options{Dirs: f.o.Dirs, Reconfigure: f.program.Reconfigure})
	if err != nil {
		return fmt.Errorf("look for what has no form at Apache: %w", err)
	}
	now := apache.Survey(t)
	tellNoForm(f.says.say, noForm(&now))
	return nil
}

// agreed returns an error unless the operator types yes.
func agreed(ctx context.Context, stdin io.Reader) error {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if strings.TrimSpace(line) == "yes" {
			return nil
		}
	case <-ctx.Done():
	}
	return errors.New("nothing was changed: the answer wasn't yes")
}

// zooids returns the ids of the Zooid servers.
func (f *returnFlags) zooids() []int64 {
	if len(f.server.Quorum.Members.Servers) == 0 {
		return []int64{1}
	}
	return idsOf(f.server.Quorum.Members.Servers)
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
func (f *returnFlags) lead() *leadership {
	ctx, cancel := context.WithCancel(context.Background()) // so that an interrupt doesn't end it before Zooid has stopped
	l := &leadership{end: cancel, finished: make(chan struct{})}
	o := f.o
	o.Say = f.says.say
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

// ready returns why the observers can't take Zooid's place now, or their hosts if they can.
func (l *leadership) ready(observers []int64) (hosts map[int64]string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.now.Mode {
	case "leader", "standalone":
	case "":
		return nil, errors.New("the Zooid server of the zoo.cfg doesn't answer")
	default:
		return nil, fmt.Errorf("%w: the Zooid server of the zoo.cfg is a %s. Run the command beside the leader (zooid status), or have this one lead: stop the others but the leader, then the leader, and start them again",
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
		hosts[id] = p.Host
	}
	return hosts, nil
}

// errOther marks errors that don't go away by waiting.
var errOther = errors.New("the observers can't take Zooid's place")

// await waits until the observers may take over.
func (f *returnFlags) await(ctx context.Context, l *leadership) error {
	told := ""
	for {
		hosts, err := l.ready(f.observers)
		switch {
		case err == nil:
			f.hosts = hosts
			f.says.say(fmt.Sprintf("the observers %d have everything", f.observers))
			return nil
		case errors.Is(err, errOther):
			return err
		case err.Error() != told && !strings.Contains(err.Error(), "zxid"): // a zxid in the text changes all the time
			told = err.Error()
			f.says.say("waiting: " + told)
		}
		f.says.show(err.Error())
		select {
		case <-l.finished:
			return fmt.Errorf("nothing was changed: %w", l.err)
		case <-ctx.Done():
			return errors.New("interrupted; nothing was changed")
		case <-time.After(awaitPoll):
		}
	}
}

// stopWhole stops what still runs of Zooid.
func (f *returnFlags) stopWhole(ctx context.Context) error {
	if err := f.journal.Begin(f.try, stepWhole, returnPlan{Hosts: f.hosts}); err != nil {
		return err
	}
	f.stopped = time.Now()
	return f.stopRest(ctx)
}

// handOver stops the observers, which hold the same data as the stopped Zooid servers by then.
func (f *returnFlags) handOver(ctx context.Context, l *leadership) error {
	l.end()
	<-l.finished
	if l.err != nil {
		return l.err
	}
	for _, id := range f.observers {
		if !slices.Contains(l.done.Observers, id) {
			return fmt.Errorf("observer %d isn't connected any more; those that have everything are %d", id, l.done.Observers)
		}
	}
	f.says.say(l.done.String())
	return f.stopObservers(ctx, digestLine(&l.done))
}

// stopObservers stops the observers. want is the line that the digest of each one's files must have.
func (f *returnFlags) stopObservers(ctx context.Context, want string) error {
	if err := f.journal.Begin(f.try, stepObservers, returnPlan{Hosts: f.hosts, Digest: want}); err != nil {
		return err
	}
	return f.each(ctx, f.observers, func(ctx context.Context, id int64) error {
		said, err := runFor(ctx, f.stopObserver, stopTimeout, f.apache(id))
		if err != nil {
			return fmt.Errorf("stop observer %d: %w", id, err)
		}
		lines := strings.Split(strings.ReplaceAll(said, "\r", ""), "\n")
		if !slices.Contains(lines, want) {
			return fmt.Errorf("the files of observer %d aren't Zooid's: want the line %q of zooid migrate digest, and the command printed %q. zooid export makes them anew",
				id, want, said)
		}
		return nil
	})
}

// each calls do for all servers at once.
func (f *returnFlags) each(ctx context.Context, ids []int64, do func(context.Context, int64) error) error {
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { errs[i] = do(ctx, id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// apache returns the environment of a command for an Apache server.
func (f *returnFlags) apache(id int64) []string {
	return []string{fmt.Sprintf("ZK_ID=%d", id), "ZK_HOST=" + f.hosts[id]}
}

// startApache starts the Apache ensemble. It can be repeated.
func (f *returnFlags) startApache(ctx context.Context, stderr io.Writer) (int, error) {
	if ctx.Err() != nil {
		return switchRefused, f.undone(errInterrupted)
	}
	if err := f.journal.Begin(f.try, stepStart, returnPlan{Hosts: f.hosts}); err != nil {
		return switchRefused, f.undone(err)
	}
	f.says.say("last step, which ends the possibility to undo by starting Zooid: " + f.start)
	err := f.each(ctx, f.observers, func(ctx context.Context, id int64) error {
		cmd := operatorCommand(ctx, f.start, f.apache(id))
		cmd.Stdout, cmd.Stderr = file(stderr), file(stderr)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("start the Apache server %d: %w", id, err)
		}
		return nil
	})
	if err != nil {
		return switchSilent, fmt.Errorf("%w. Start it by hand, with the zoo.cfg of the ensemble. Its files are whole. Don't start Zooid's servers now; the same command, run again, goes on from here",
			err)
	}
	if err := f.journal.End(f.try, stepServe); err != nil {
		return switchSilent, err
	}
	f.says.say(fmt.Sprintf("Apache's servers %d were started, %.1f s after the order to stop Zooid. See that they serve (srvr), and that nothing starts Zooid's servers again.",
		f.observers, time.Since(f.stopped).Seconds()))
	return switchDone, nil
}
