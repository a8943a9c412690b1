package sim

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// Stats count a World's actions.
type Stats struct {
	Faults           map[Kind]int
	Frames           int // between servers
	Connects         int // of clients
	Requests         int
	Replies          int
	Events           int // notifications
	Expired          int // sessions refused
	Entries          int // of the log
	Syncs            int
	Elections        int
	SnapshotsWritten int
	SnapshotsSent    int
	Installs         int
	Resumed          int // snapshots that went on where an earlier transfer had broken off
	Broken           int // transfers of snapshots that broke off
	Outlived         int // snapshots that were removed while they were sent
	Deposed          int // snapshots whose sender led no more when they had arrived
	Superseded       int // connections between servers that a newer one ended
	Overfull         int // connections between servers that ended because the send queue was full
	Unwritten        int // connections between servers that ended because nothing could be written
	Torn             int // connections between servers that ended with a part of what was sent on them
	FailStops        int // processes that stopped because of their disk
	Refused          int // starts refused because of a damaged disk
	Forgot           int // promises lost with a damaged disk
	Doubled          int // messages that arrived twice
	Throttled        int // writes refused for lack of room
	Reaped           int // TTL znodes removed when their time was over
	Emptied          int // containers removed when their last child was gone
	Paced            int // times that a client had to wait because of a limit on requests per second
	Panics           int // servers that stopped at an entry that their program can't apply
	Skipped          int // times that a server skipped such an entry
	Ruleless         int // servers that stopped for a rule that their program doesn't have
	Outdated         int // times that input waited because the server couldn't tell whether the session was alive
	Untold           int // times that a write waited until its client knew that an earlier one was refused
	ReadOnly         int // replies of servers without a quorum
	Entered          int // local sessions that wrote
	Unknown          int // local sessions refused by a server that didn't know them
	Faded            int // local sessions that their server ended because they were silent
	Confined         int // ephemeral znodes refused to local sessions
	Upgraded         int // local sessions that created one
	Healed           int // diverged replicas that took the others' state
	Joins            int // servers that joined with an empty disk
	Reconfigs        int // changes of membership
	Staged           int // of these, those asked for at feature level 2 or above
	Changes          int // of these, those in force and answered
	Dropped          int // of these, those given up
	Majorities       int // times that M1 was checked
	Absent           int // votes given to servers that had not begun yet
	Promotions       int // servers that became voters
	Guests           int // servers that weren't members and followed at the end
	Duplicates       int // requests that arrived again
	Gaps             int // requests that arrived before an earlier one
	Moved            int // requests of connections that their session had left
	Restored         int // times that a snapshot replaced everything
	Recovered        int // new ensembles of a survivor's data
	Unrecovered      int // times that no survivor had everything, and the lost disks came back
	Former           int // disks of a former ensemble that came back
	Foundings        int // ensembles founded
	WithData         int // of these, those founded with a standalone server's data
	Waits            int // rounds of questions after which it wasn't clear how to begin
	Overtaken        int // servers that had founded one without an elected leader, and joined another
	Strangers        int // connections refused because the peer holds another lineage
	LongApplies      int // entries whose Apply took long
	LongLoads        int // snapshots of peers whose loading took long
	GivenUp          int // processes that ended because a write didn't
	Hangups          int // of connections, after which nothing of them was left
	QuotaCreates     int // znodes created within a quota's hard limit
	QuotaRefusals    int // creates refused for a quota
	Audits           int // disks checked as after a power cut
	Checked          int // replies and notifications checked
	Undecided        int
}

// A Result is the outcome of one World.
type Result struct {
	Plan      Plan
	Failure   []string // empty if all is well
	Hash      uint64   // of everything that happened
	Steps     int
	Simulated int64 // ns
	Stats     Stats
	Took      time.Duration
	History   *history.History
}

// OK reports whether nothing was wrong.
func (r *Result) OK() bool { return len(r.Failure) == 0 }

// Limits for the end of a World, after the last fault.
const (
	// livePatience is how long it may take until all servers agree and answer.
	livePatience = 30 * second
	// inspectPatience is how long it may take to read everything.
	inspectPatience = 60 * second
	stepsMax        = 50_000_000
)

// Run runs a World to its end. Only one may run in a process at a time.
func Run(p Plan) *Result { return RunLogged(p, nil) }

// RunLogged is Run with a writer for the servers' logs and the faults; nil for
// none.
func RunLogged(p Plan, log io.Writer) *Result {
	began := time.Now()
	defer seedRaft(p.Seed)()
	w := newWorld(p, &timeline{})
	w.log = log
	if p.Twin {
		w.pair(log)
	}
	w.run()
	if w.twin != nil && !w.ended {
		w.twin.run()
	}
	res := &Result{
		Plan: p, Hash: w.hash, Steps: w.steps, Simulated: w.now, Stats: w.stats, History: &w.history,
	}
	if len(w.failure) == 0 {
		w.verdict()
	}
	if w.twin != nil && len(w.failure) == 0 {
		w.twin.verdict()
		w.stats.Checked += w.twin.stats.Checked
	}
	res.Failure, res.Stats = w.failure, w.stats
	res.Took = time.Since(began)
	return res
}

// seedRaft makes raft draw its random numbers from the seed until done is called.
func seedRaft(seed uint64) (done func()) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	reader := rand.Reader
	rand.Reader = randv2.NewChaCha8(key)
	return func() { rand.Reader = reader }
}

func newWorld(p Plan, t *timeline) *World {
	w := &World{
		timeline: t,
		plan:     p, netDice: dice(p.Seed, "net"), diskDice: dice(p.Seed, "disk"), faultDice: dice(p.Seed, "nemesis"),
		auditDice: dice(p.Seed, "audit"), besideDice: dice(p.Seed, "beside"),
		callDice: dice(p.Seed, "calls"), queueDice: dice(p.Seed, "queues"),
		ledger: ledger{
			leaders: map[uint64]uint64{}, since: map[uint64]int64{}, owners: map[int64]place{}, begun: map[int64]place{},
			over: map[int64]bool{}, ended: map[int64]int64{}, packets: map[int64]packet{}, ages: ages{},
		},
		descent: descent{
			founded: map[uint64]*quorum.Founding{}, first: map[uint64][]quorum.Entry{}, former: map[uint64]uint64{},
		},
		stats: Stats{Faults: map[Kind]int{}}, electorate: map[uint64]bool{}, dismissed: map[uint64]bool{},
	}
	if !p.wrongClocks() {
		w.history.WallStart = wallStart // lets the checker compare the servers' times with its own
	}
	w.history.Servers = []history.ServerLog{{Server: 1}}
	n := p.Servers + p.Spare + 1
	w.cuts, w.cutFrom, w.cutTo, w.links = make([][]int, n), make([][]int64, n), make([][]int64, n), make([][]*link, n)
	for i := range n {
		w.cuts[i], w.cutFrom[i], w.cutTo[i], w.links[i] = make([]int, n), make([]int64, n), make([]int64, n), make([]*link, n)
	}
	for i := 1; i < n; i++ {
		s := &host{w: w, id: uint64(i), index: i, rate: p.Drift[i-1], level: tree.FeatureLevelMax, program: 1}
		if slices.Contains(p.Old, i) {
			s.level = levelFirst
		}
		s.disk = disk{fs: storage.NewMemFS(), w: w, s: s}
		w.servers = append(w.servers, s)
	}
	for _, a := range w.servers {
		for _, b := range w.servers {
			w.links[a.index][b.index] = &link{w: w, from: a, to: b, at: b, backoff: backoffMin}
		}
	}
	for _, s := range w.servers[:p.Servers] {
		if p.Begins { // by faults of the kind Begin
			continue
		}
		s.installed, s.config = true, w.firstMembers()
		w.after(between(w.netDice, 0, 100*millisecond), s.start)
	}
	w.elects(w.firstMembers())
	w.operator, w.restorer, w.lists = newOperator(w), newRestorer(w), map[[32]byte][]byte{}
	w.keeping = newKeeper(w)
	for i := range p.Clients {
		c := newClient(w, i)
		w.clients = append(w.clients, c)
		w.after(second+between(c.dice, 0, second), c.connect)
	}
	w.clients = append(w.clients, w.operator)
	if p.Spare > 0 {
		w.after(second, w.operator.connect)
	} else {
		w.operator.task = resting
	}
	if p.Begins {
		w.advise()
	}
	for _, f := range p.Faults {
		w.at(f.At, func() {
			if !w.healed {
				w.inflict(f)
			}
		})
	}
	return w
}

// run lets the World run its course: faults, healing, agreement, inspection.
func (w *World) run() {
	w.until(w.plan.End, func() bool { return false })
	w.heal()
	round := func(t task, patience int64, what string) bool {
		for _, c := range w.clients {
			if c == w.operator && w.plan.Spare == 0 {
				continue
			}
			c.task = t
			if c.conn == nil {
				c.again(c.reconnectPause()) // it may have meant to stay away
			}
			c.work()
		}
		for from := w.now; from > 0; from = w.repaired(from) {
			w.until(from+patience, w.quiet)
		}
		if !w.ended && !w.quiet() {
			w.fail("liveness: %d s after %s, %s", patience/second, what, w.unquiet())
		}
		return !w.ended
	}
	if !round(settling, livePatience, "the last fault") || !round(settling, livePatience, "the first sync") {
		return
	}
	w.until(w.now+reapPatience+second, w.reaped) // what stays longer is reported
	for _, s := range slices.Concat(w.members(), w.guests()) {
		c := newClient(w, len(w.clients))
		c.mix, c.only, c.user, c.paths = nil, s, "", []string{root}
		w.clients = append(w.clients, c)
		c.connect()
	}
	for _, c := range w.clients {
		if c.only != nil {
			c.task = inspecting
		}
	}
	w.until(w.now+inspectPatience, w.atRest)
	if !w.ended && !w.quiet() {
		w.fail("liveness: %d s after the end, %s", inspectPatience/second, w.unquiet())
	}
	w.agree()
	w.hangUpAll()
}

// repaired returns when an operator last replaced a damaged disk, once the ensemble could spare it, if that was after a
// time and isn't over yet; else 0.
func (w *World) repaired(after int64) int64 {
	if w.ended || w.repairedAt <= after || w.quiet() {
		return 0
	}
	return w.repairedAt
}

// until runs events until a time, or until done returns true; it calls done a
// few times a second.
func (w *World) until(t int64, done func() bool) {
	ask := w.now
	for !w.ended && len(w.queue) > 0 && w.queue[0].at <= t {
		if w.queue[0].at >= ask {
			if done() {
				return
			}
			ask = w.queue[0].at + 100*millisecond
		}
		w.step()
		if w.steps > stepsMax {
			w.fail("more than %d events", stepsMax)
		}
	}
}

// heal ends all faults and starts all servers that are down.
func (w *World) heal() {
	w.healed, w.doom = true, 0
	for a := range w.cuts {
		for b, cut := range w.cuts[a] {
			if cut > 0 {
				w.cuts[a][b], w.cutTo[a][b] = 0, w.now
			}
		}
	}
	clear(w.loss)
	clear(w.double)
	for _, s := range w.servers {
		for _, state := range []*state{&s.dark, &s.unnamed, &s.secret, &s.stranger, &s.astray} {
			state.end(w)
		}
	}
	w.operator.commands = nil
	w.restorer.giveUpRestoring()
	w.upgradeAll()
	w.newestPrograms()
	for _, s := range w.servers {
		s.disk.fs.LieAboutSync = false
		s.disk.fs.Budget, s.disk.slow, s.disk.cutIn, s.disk.errorIn = 0, 0, 0, 0
		s.drag, s.disk.hung.log, s.disk.hung.files = 0, 0, 0
		s.goesOn()
		if s.pausing > 0 {
			s.pausing = 1
			s.resume()
		}
		if s.life == nil && s.installed { // a copied directory's servers stay down until now
			w.lastFault = max(w.lastFault, w.now)
		}
		s.start()
		s.replace()
		s.leaveFormer()
	}
	for _, s := range w.members() {
		s.installed, s.stopped = true, false
		s.configure(false)
	}
}

// quiet reports whether all servers are at the same entry and no client wants
// anything.
func (w *World) quiet() bool { return w.unquiet() == "" }

// atRest reports whether the World is quiet and has been for so long that all clients know
// the last changes: a container may have been removed, or a session ended, just now.
func (w *World) atRest() bool {
	if n := len(w.ledger.entries); n != w.restEntries || !w.quiet() {
		w.restEntries, w.restSince = n, w.now
		return false
	}
	return w.now-w.restSince >= restPause
}

// restPause is longer than any message is under way once no packet is lost.
const restPause = second

func (w *World) unquiet() string {
	for _, s := range w.members() {
		if s.life == nil || s.life.rep == nil {
			return fmt.Sprintf("server %d doesn't run", s.id)
		}
		if index, _, _ := s.life.rep.Position(); index != uint64(len(w.ledger.entries)) {
			return fmt.Sprintf("server %d is at entry %d of %d", s.id, index, len(w.ledger.entries))
		}
		m, _ := find(w.wanted, s.id)
		if votes := slices.Contains(w.voters, s.id); votes == m.Observer || s.wiped || len(w.leaving) > 0 {
			return fmt.Sprintf("server %d is to be a member as decided (observer: %t), its vote counts: %t, it has not joined: %t",
				s.id, m.Observer, votes, s.wiped)
		}
	}
	for _, s := range w.guests() {
		if index, _, _ := s.life.rep.Position(); index != uint64(len(w.ledger.entries)) {
			return fmt.Sprintf("server %d, which is no member and runs, is at entry %d of %d", s.id, index, len(w.ledger.entries))
		}
	}
	if w.stats.Faults[Diverge] > 0 { // a server that diverged may still be asking the others
		if list := w.disagreements(); len(list) > 0 {
			return list[0]
		}
	}
	for _, id := range w.voters {
		if _, ok := find(w.wanted, id); !ok {
			return fmt.Sprintf("the vote of server %d counts, which has left", id)
		}
	}
	if id := w.levelsBehind(); id != 0 {
		return fmt.Sprintf("the highest feature level is not in force at server %d", id)
	}
	if behind := w.rulesBehind(); behind != "" {
		return behind
	}
	for _, c := range w.clients {
		if c.task != resting {
			state := "not connected"
			if c.conn != nil {
				state = fmt.Sprintf("connected to server %d (%t, %t), %d requests under way", c.server.id, c.connected, c.greeted,
					len(c.pending))
			}
			return fmt.Sprintf("client %d is not done: it is %s", c.index, state)
		}
		if c.conn != nil && c.conn.l.ended { // it isn't told of a power cut
			return fmt.Sprintf("client %d has not noticed that server %d ended", c.index, c.server.id)
		}
	}
	return ""
}

// agree compares the final content of all servers.
func (w *World) agree() {
	w.stats.Guests += len(w.guests())
	for _, text := range w.disagreements() {
		w.fail("%s", text)
	}
}

// disagreements says which servers hold something else than the first. It leaves out a server that
// an entry made diverge if the log has no leader's digest from after that entry: it can't know yet.
func (w *World) disagreements() (list []string) {
	var first *host
	var want string
	for _, s := range slices.Concat(w.members(), w.guests()) {
		if s.life == nil || s.diverged && s.twistedAt > w.ledger.vouched {
			continue
		}
		index, zxid, digest := s.life.rep.Position()
		have := fmt.Sprintf("entry %d, zxid %#x, digest %016x", index, zxid, digest)
		if first == nil {
			first, want = s, have
		} else if have != want {
			list = append(list, fmt.Sprintf("server %d ends at %s, server %d at %s", s.id, have, first.id, want))
		}
	}
	return list
}

// verdict checks the history.
func (w *World) verdict() {
	opt := check.Options{ExtendedTypes: w.plan.TTL, Quiesced: true, ViolationsMax: failuresMax}
	opt.LocalSessions, opt.EphemeralsRefused = w.plan.Local, w.plan.Local && !w.plan.Upgrading
	rep := check.Check(&w.history, opt)
	if len(w.plan.Faults) > 0 || w.plan.ReadOnly {
		// A read-only session ends with its connection. And a follower answers its
		// clients while the leader, which may not hear of it, ends their sessions.
		rep.Violations = slices.DeleteFunc(rep.Violations, func(v check.Violation) bool { return v.Rule == check.S3 })
	}
	if w.plan.ReadOnly {
		// The history doesn't say which connections are read-only, and those may be answered (ledger.answers).
		rep.Violations = slices.DeleteFunc(rep.Violations, func(v check.Violation) bool { return v.Rule == check.X10 })
	}
	w.stats.Checked += rep.Writes + rep.Reads + rep.Notifications
	w.stats.Undecided += rep.Undecided
	if !rep.OK() {
		var b strings.Builder
		rep.Print(&b, &w.history)
		w.fail("%s", b.String())
	}
}
