//go:build unix

package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
)

// The steps of a return in its journal, which is in Zooid's dataDir, in addition to those that a switch has too.
//
//	stop        some of Zooid's servers are stopped, while the rest serves
//	whole       the log of this command's server is complete from now on; the rest is stopped
//	observers   the observers have all data, and are stopped
//	start       Apache's servers are started. The only way back is a switch
const (
	stepWhole     = "whole"
	stepObservers = "observers"
	stepStart     = "start"
)

// returnPlan holds the data for continuing from a step.
type returnPlan struct {
	Hosts  map[int64]string      // of the observers
	Before map[string]proof.Port // the Zooid servers' ports before the first stop
	Zxid   int64                 // of the leader when the others had stopped; from stepObservers on, of its log's end
	Digest string                // the line of the observers' digest, from stepObservers on
	// Members is the ensemble's membership in the server's data; "" for a standalone server.
	Members string
}

// The files of a return in Zooid's dataDir.
const (
	returnJournal = "return.journal"
	returnLog     = "return.log"
)

// openJournal opens the journal and the log. before is the step that an earlier try was at; its Step is "" if there is
// nothing to continue.
func (r *returnRun) openJournal() (before proof.Record, err error) {
	dir := r.server.Storage.DataDir
	if err := r.says.logTo(filepath.Join(dir, returnLog)); err != nil {
		return before, err
	}
	var records []proof.Record
	if r.journal, records, err = proof.OpenJournal(filepath.Join(dir, returnJournal)); err != nil {
		return before, err
	}
	if len(records) > 0 {
		if before = records[len(records)-1]; before.Done {
			r.says.say(fmt.Sprintf("an earlier return (%s) has succeeded: it started Apache's servers at %s. If they serve, don't start Zooid's servers; nothing is left to do. This run waits for Zooid's, for another return",
				before.Try, before.At.Format(time.DateTime)))
			return proof.Record{}, nil
		}
	}
	return before, nil
}

// observersPatience is how long the observers may take to connect when a return continues.
const observersPatience = 2 * time.Minute

// goOn continues a return that was cut short. done is false if the return must begin again because Zooid serves again.
func (r *returnRun) goOn(ctx context.Context, before proof.Record,
	stderr io.Writer) (code int, done bool, err error) {
	var p returnPlan
	if err := json.Unmarshal(before.Data, &p); err != nil {
		return switchRefused, true, fmt.Errorf("read the journal: %w", err)
	}
	r.says.say(fmt.Sprintf("an earlier try (%s, %s) was cut short in step %s", before.Try, before.At.Format(time.DateTime),
		before.Step))
	if r.check && before.Step == stepStart {
		return switchRefused, true, errors.New("it had begun to start Apache's servers. Run the command without -check to resume it")
	}
	if err := r.takeMembers(p.Members); err != nil {
		return switchRefused, true, err
	}
	if _, err := r.o.Ask(ctx); err == nil {
		if before.Step == stepStart {
			return switchRefused, true, errors.New("it had begun to start Apache's servers, but the Zooid server answers: stop all Zooid servers and make sure that nothing restarts them. If no Apache server serves, and none has served since, remove " +
				filepath.Join(r.server.Storage.DataDir, returnJournal))
		}
		r.says.say("the Zooid server answers: starting over")
		return 0, false, nil
	}
	if r.check {
		return switchRefused, true, errors.New("run the command without -check to resume it")
	}
	if before.Step == stepStop {
		return switchRefused, true, fmt.Errorf("the Zooid server doesn't answer, and its log may be incomplete. Start the Zooid servers %d again, then run this command again",
			r.zooids())
	}
	if err := r.othersStopped(ctx); err != nil {
		return switchRefused, true, err
	}
	signal.Ignore(syscall.SIGHUP)
	r.plan, r.stopped = p, time.Now()
	r.whole.Store(true)
	if before.Step == stepStart {
		if err = r.hold(); err == nil {
			err = r.unserved(before.Step)
		}
		if err != nil {
			return switchRefused, true, err
		}
		code, err := r.startApache(ctx, stderr)
		return code, true, err
	}
	r.says.say(fmt.Sprintf("resuming from there. To undo instead, interrupt this command and start the Zooid servers %d again",
		r.zooids()))
	if before.Step == stepObservers {
		if err = r.stopRest(ctx); err == nil {
			err = r.unserved(before.Step)
		}
		if err == nil {
			err = r.stopObservers(ctx)
		}
	} else if err = r.stopWhole(ctx); err == nil {
		err = r.unserved(before.Step)
	}
	if err == nil && before.Step == stepWhole {
		r.o.Stopped = true
		lead := r.lead()
		defer lead.end()
		if err = r.observersBack(ctx, lead); err == nil {
			err = r.handOver(ctx, lead)
		}
	}
	if err != nil {
		return switchRefused, true, r.undone(err)
	}
	code, err = r.startApache(ctx, stderr)
	return code, true, err
}

// takeMembers takes the Zooid servers from the membership in their data. The zoo.cfg may have an older one: a server
// uses a new membership even if it can't write its files. Servers that the zoo.cfg doesn't name would then keep serving
// next to Apache's.
func (r *returnRun) takeMembers(text string) error {
	if r.plan.Members = text; text == "" {
		return nil
	}
	m, err := config.ParseMembers(text)
	if err != nil {
		return fmt.Errorf("read the membership in the Zooid server's data: %w", err)
	}
	if _, ok := m.Find(r.server.Quorum.MyID); !ok {
		return fmt.Errorf("the Zooid server %d of the zoo.cfg isn't a member of its ensemble %d", r.server.Quorum.MyID,
			idsOf(m.Servers))
	}
	r.server.Quorum.Members = m
	return nil
}

// unserved returns an error if Zooid's servers have run since a step at which a return was cut short. They don't answer
// now, but may have served in between, as after an undo. What they acknowledged then may be missing on the observers,
// or in this server's log. A server that serves has been elected, and its term begins an epoch in its log. The caller
// holds the directories.
func (r *returnRun) unserved(step string) error {
	t, _, err := txnlog.Newest(txnlog.Options{Dirs: r.o.Dirs, Reconfigure: r.program.Reconfigure})
	if err != nil {
		return fmt.Errorf("check whether Zooid has served since: %w", err)
	}
	was, is := r.plan.Zxid, t.LastZxid()
	if is == was || step == stepWhole && is>>32 == was>>32 {
		return nil
	}
	err = fmt.Errorf("the Zooid servers have served since: the log was at zxid %#x then, and ends at %#x",
		uint64(was), uint64(is))
	if step == stepStart {
		return fmt.Errorf("%w. Apache's servers may have served, too. Compare them (zooid migrate compare), decide which are to continue, and keep the others stopped. For Zooid's, remove %s",
			err, filepath.Join(r.server.Storage.DataDir, returnJournal))
	}
	return fmt.Errorf("%w. Start all Zooid servers, then run this command again; it starts over", err)
}

// reach returns what is known about the other Zooid servers' ports before they are stopped. It fails for a server whose
// stop couldn't be seen later: if a port doesn't answer now, its silence later proves nothing.
func (r *returnRun) reach(ctx context.Context) (map[string]proof.Port, error) {
	before := map[string]proof.Port{}
	for i := range r.server.Quorum.Members.Servers {
		m := &r.server.Quorum.Members.Servers[i]
		if m.ID == r.server.Quorum.MyID {
			continue
		}
		at := quorumPorts(m)
		open := false
		for address, port := range proof.Probe(ctx, at) { // any of them
			before[address] = port
			open = open || port == proof.Open
		}
		if !open && !slices.Contains(r.word, m.ID) {
			return nil, fmt.Errorf("nothing answers on the ports %v of the Zooid server %d, so it couldn't be seen that it stops. Start it, or let it be reached; or if you know that it has stopped and nothing starts it, give -stopped %[2]d",
				at, m.ID)
		}
	}
	return before, nil
}

// stillStopped returns an error unless the other Zooid servers are still known to have stopped: something may have
// started them again, and a majority of them would serve without this command's server.
func (r *returnRun) stillStopped(ctx context.Context) error {
	for i := range r.server.Quorum.Members.Servers {
		m := &r.server.Quorum.Members.Servers[i]
		if m.ID == r.server.Quorum.MyID {
			continue
		}
		if err := r.ended(m, proof.Probe(ctx, quorumPorts(m)), slices.Contains(r.word, m.ID)); err != nil {
			return err
		}
	}
	return nil
}

// othersStopped returns an error if another Zooid server runs although this command's server, which was stopped last,
// doesn't. Such servers were started since. They may have served without this one, and have entries that its log lacks.
func (r *returnRun) othersStopped(ctx context.Context) error {
	for i := range r.server.Quorum.Members.Servers {
		m := &r.server.Quorum.Members.Servers[i]
		if m.ID == r.server.Quorum.MyID {
			continue
		}
		for address, port := range proof.Probe(ctx, quorumPorts(m)) { // any of them
			if port == proof.Open {
				return fmt.Errorf("the Zooid server %d runs (%s), but the one in the zoo.cfg doesn't: others may have served without it since. Start all Zooid servers, then run this command again; it starts over",
					m.ID, address)
			}
		}
	}
	return nil
}

func quorumPorts(m *config.Member) (at []string) {
	for _, a := range m.Addrs {
		at = append(at, net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)))
	}
	return at
}

// observersBack waits until the observers are connected again.
func (r *returnRun) observersBack(ctx context.Context, l *leadership) error {
	ctx, cancel := context.WithTimeout(ctx, observersPatience)
	defer cancel()
	for {
		missing := l.missing(r.observers)
		if len(missing) == 0 {
			return nil
		}
		r.says.show(fmt.Sprintf("waiting for the observers %d", missing))
		select {
		case <-l.finished:
			return l.err
		case <-ctx.Done():
			return fmt.Errorf("the observers %d haven't reconnected", missing)
		case <-time.After(awaitPoll):
		}
	}
}

// missing returns the observers that aren't connected.
func (l *leadership) missing(observers []int64) (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	connected := map[int64]bool{}
	for _, p := range l.now.Observers {
		connected[p.ID] = true
	}
	for _, id := range observers {
		if !connected[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// leads is how long the server must lead after the first stops: a leader that hears no majority resigns sooner.
const leads = 3 * time.Second

// leadsPatience is how long that may take.
const leadsPatience = time.Minute

// parts divides the Zooid servers other than this command's: first holds so many that each majority of the rest needs
// this command's server, and those without a vote. If possible, it includes the servers that the operator has confirmed
// to have stopped (-stopped): otherwise the rest would be no majority.
func (r *returnRun) parts() (first, rest []config.Member) {
	var down, voting []config.Member
	voters := 0
	for _, m := range r.server.Quorum.Members.Servers {
		switch {
		case m.Observer && m.ID != r.server.Quorum.MyID:
			first = append(first, m)
		case !m.Observer:
			voters++
			switch {
			case m.ID == r.server.Quorum.MyID:
			case slices.Contains(r.word, m.ID):
				down = append(down, m)
			default:
				voting = append(voting, m)
			}
		}
	}
	voting = append(down, voting...)
	n := min(max(voters-1, 0)/2, len(voting))
	return append(first, voting[:n]...), voting[n:]
}

// stopFirst stops so many Zooid servers that each majority of the rest needs this command's server, and waits until
// that server is known to lead still. From then on its log has every acknowledged write, whichever server leads. So
// neither the order in which the rest stops matters, nor the time that this takes. Clients are served meanwhile.
func (r *returnRun) stopFirst(ctx context.Context) error {
	first, _ := r.parts()
	if err := r.stopAll(ctx, first); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leadsPatience)
	defer cancel()
	var since time.Time
	for {
		a, err := r.o.Ask(ctx)
		leading := err == nil && (a.Mode == "leader" || a.Mode == "standalone")
		switch {
		case !leading:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		if leading && (time.Since(since) > leads || a.Mode == "standalone") {
			r.plan.Zxid = a.Zxid
			r.whole.Store(true)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Zooid server in the zoo.cfg lost the leadership when others stopped; its mode is %q", a.Mode)
		case <-time.After(awaitPoll):
		}
	}
}

// stopRest stops the other Zooid servers, and this command's server last. It then holds the directories of that server.
// This shows that the server has stopped, and keeps it from being started meanwhile.
func (r *returnRun) stopRest(ctx context.Context) error {
	_, rest := r.parts()
	if err := r.stopAll(ctx, rest); err != nil {
		return err
	}
	own := config.Member{ID: r.zooids()[0]}
	if m, ok := r.server.Quorum.Members.Find(r.server.Quorum.MyID); ok {
		own = m
	}
	if err := r.stopAll(ctx, []config.Member{own}); err != nil {
		return err
	}
	return r.hold()
}

// hold takes the directories of this command's server, which shows that it has stopped.
func (r *returnRun) hold() error {
	held, err := proof.Hold(r.o.Dirs...)
	for end := time.Now().Add(closePatience); err != nil && time.Now().Before(end); held, err = proof.Hold(r.o.Dirs...) {
		time.Sleep(awaitPoll)
	}
	if err != nil {
		return fmt.Errorf("the Zooid server in the zoo.cfg should have stopped, but a process uses its directory: %w", err)
	}
	r.held = held
	return nil
}

// stopAll stops Zooid servers at once.
func (r *returnRun) stopAll(ctx context.Context, servers []config.Member) error {
	members := map[int64]*config.Member{}
	var ids []int64
	for i := range servers {
		members[servers[i].ID] = &servers[i]
		ids = append(ids, servers[i].ID)
	}
	return r.each(ctx, ids, func(ctx context.Context, id int64) error { return r.stopOne(ctx, members[id]) })
}

// closePatience is how long a killed process may take to close its files and ports.
const closePatience = 2 * time.Second

// stopOne runs the operator's command for a Zooid server.
func (r *returnRun) stopOne(ctx context.Context, m *config.Member) error {
	at := quorumPorts(m)
	word := slices.Contains(r.word, m.ID)
	if _, err := runFor(ctx, r.stop, stopTimeout, zooidServer(m)); err != nil {
		if err = fmt.Errorf("stop the Zooid server %d: %w", m.ID, err); !word || ctx.Err() != nil {
			return err
		}
		r.says.say(err.Error() + ". It has stopped by the operator's word (-stopped)") // its machine may be dead
	}
	after := proof.Probe(ctx, at)
	for end := time.Now().Add(closePatience); time.Now().Before(end) && slices.ContainsFunc(at,
		func(address string) bool { return after[address] == proof.Open }); after = proof.Probe(ctx, at) {
		time.Sleep(awaitPoll)
	}
	// The locked directories show that this command's own server has stopped.
	return r.ended(m, after, m.ID == r.server.Quorum.MyID || word)
}

// ended returns an error unless a Zooid server is known to have stopped: none of its ports is open, and one that was
// open before the first stop is closed. The exit of the stop command isn't enough, nor is a port's silence. known says
// that the stop is known otherwise.
func (r *returnRun) ended(m *config.Member, after map[string]proof.Port, known bool) error {
	for address, port := range after { // any of them
		switch {
		case port == proof.Open:
			return fmt.Errorf("the Zooid server %d was reported stopped, but something listens on its port %s", m.ID, address)
		case port == proof.Closed && r.plan.Before[address] == proof.Open:
			known = true
		}
	}
	if known || len(after) == 0 {
		return nil
	}
	return fmt.Errorf("the Zooid server %d was reported stopped, but its ports %v can't be checked any more. If you know that it has stopped and nothing starts it, give -stopped %[1]d",
		m.ID, quorumPorts(m))
}
