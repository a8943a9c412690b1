package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/test/crash"
)

const (
	// memoryCeiling is how much a server may take under attack. Its data takes
	// part of that: attackers write bytesPerSecond.
	memoryCeiling = 2 << 30
	// memoryPercent and memoryBeside are what a server with a memory.limit may take of it, and beside it: the program
	// and what Go's runtime keeps.
	memoryPercent = 110
	memoryBeside  = 64 << 20
	// memoryKill is how much makes the judge end a server, before the kernel ends
	// something else.
	memoryKill = 2 * memoryCeiling
	// linesPerSecond is how many lines a server may log under attack, beside
	// linesFree of them: more would fill the disk and hide what matters.
	linesPerSecond = 20
	linesFree      = 200
	// slowdownMax is how much longer the slowest of a hundred writes of an honest
	// client may take under attack than beside a process that uses as much of the
	// processors as the attacker did, and does nothing else.
	slowdownMax = 3
	// largeCost is how long one request that the limits allow may hold a replica (decision 090). Requests take turns, so
	// a write waits for few of them: perhaps two reads, which may run at once and share the processors, and three writes:
	// the one that is being applied, the one whose turn it is, and one in the write's own entry. All servers apply them,
	// and here they share the processors, too. largeAhead was chosen after runs that took longer than two allow; nothing
	// proves that it is the most.
	largeCost  = 20 * time.Millisecond
	largeAhead = 5
	// aloneTime is for how long the honest clients are alone before each attack, and
	// besideTime for how long they are beside such a process after it, if times are judged;
	// aloneShort is the former if none are.
	aloneTime  = time.Second
	aloneShort = aloneTime / 5
	besideTime = 4 * time.Second
	// preparation is what attacks need that prepare for long.
	preparation = time.Minute
	// attackSlack is how much longer than its budget an attack may take on a busy
	// machine, preparation included.
	attackSlack = 5 * time.Minute
	// hurryAfter is how long after its budget an attacker gets an honest process's
	// priority, so that it comes to its end on a busy machine.
	hurryAfter = 5 * time.Second
	// trialsMax is how often an attack is tried on a busy machine, as long as each
	// time something goes wrong that the machine may cause as well.
	trialsMax = 6
	// attackNice is the attacker's priority: it stands for other machines, and
	// must not take the processor from the servers and the honest clients.
	attackNice  = "19"
	samplePause = 50 * time.Millisecond
	// downTime is for how long a server is down that is restarted under attack.
	downTime = time.Second
)

// programVariable tells the test binary to be the attacker.
const programVariable = "ZOOID_HOSTILE_PROGRAM"

// A judge holds servers, honest clients and what came of the attacks.
type judge struct {
	t       *testing.T
	run     *crash.Run
	peers   []string
	cluster uint64
	seed    uint64
	ceiling int64           // bytes that a server may take
	alone   []time.Duration // writes of honest clients without an attack
	rows    []row
}

// A row is what an attack did to the honest clients and the servers.
type row struct {
	attack   string
	writes   []time.Duration
	share    float64         // processors that the attacker used itself
	beside   []time.Duration // writes beside a process that uses as much
	memory   int64           // bytes, of the largest server
	lines    int
	attacker string
	large    bool // as of the attack
}

// newJudge starts servers and honest clients.
func newJudge(t *testing.T, servers int, of needs, seed uint64) *judge {
	o := crash.RunOptions{
		Options: crash.Options{Servers: servers, Config: defaultConfig()},
		Seed:    seed, Pinned: 2, Roaming: 2, Outstanding: 8, Pause: 10 * time.Millisecond, Pulses: true, Strangers: true,
	}
	ceiling := int64(memoryCeiling)
	if of.memory > 0 {
		o.Config["memory.limit"] = fmt.Sprint(of.memory)
		ceiling = of.memory/100*memoryPercent + memoryBeside
	}
	if of.sessions > 0 {
		o.Config["limits.address"] = fmt.Sprintf("sessions=%d", of.sessions)
	}
	if of.metrics > 0 {
		o.Config["metricsProvider.className"], o.Config["metricsProvider.httpHost"] = config.PrometheusProvider, "127.0.0.1"
		o.Config["metricsProvider.httpPort"] = fmt.Sprint(of.metrics)
	}
	if of.descriptors > 0 {
		for range servers {
			o.Hosts = append(o.Hosts, "127.0.0.1")
			o.Wraps = append(o.Wraps, []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, of.descriptors), "sh"})
		}
	}
	j := &judge{t: t, run: crash.Begin(t, o), seed: seed, ceiling: ceiling}
	for _, s := range j.run.Servers {
		j.peers = append(j.peers, s.Peer)
		// Should memory run out before the judge notices, a server is to go first.
		os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.Pid()), []byte("1000"), 0o644)
	}
	cluster, err := storage.ReadIdentity(storage.OS{}, j.run.Servers[0].Data(), j.run.Servers[0].LogDir())
	if err != nil {
		t.Fatal(err)
	}
	j.cluster = cluster
	return j
}

// defaultConfig is what Apache's sample and a default server have.
func defaultConfig() map[string]string {
	return map[string]string{
		"tickTime": "2000", "initLimit": "10", "syncLimit": "5", "maxClientCnxns": "60", "quorum.secret": ensembleSecret,
	}
}

// ensembleSecret is what the servers, and attackers from inside, know.
const ensembleSecret = "known to servers and to nobody else"

// lonely is for how long the honest clients are alone before an attack.
func lonely() time.Duration {
	if *long {
		return aloneTime
	}
	return aloneShort
}

// A trial is what can be held against servers and honest clients after an attack.
type trial struct {
	took   time.Duration
	others float64  // share of the processors that others than servers, clients and attacker used
	wrong  []string // what only the attack can have caused
	// late is what a machine that keeps the servers waiting causes as well, if no more is
	// known about it: another leader, or no progress.
	late  string
	ended bool // a server has ended
}

// busy reports whether the machine was busy with other things.
func (x *trial) busy() bool { return x.others > crash.OthersMax }

// try runs an attack and judges it. It reports false if the servers are of no use
// any more.
//
// What is late on a machine that does nothing else is the attack's doing. On a busy one
// it is if it comes with each attack, and never in the same time without one: the attack
// is tried again until one trial shows that it isn't so.
func (j *judge) try(a *attack, budget time.Duration) bool {
	j.t.Helper()
	began := time.Now()
	time.Sleep(lonely())
	j.alone = append(j.alone, j.writes(began, time.Now())...)
	if a.long {
		budget = max(budget, preparation)
	}
	for n := 1; ; n++ {
		x := j.trial(a, budget)
		for _, what := range x.wrong {
			j.fail(a, what)
		}
		switch {
		case x.ended:
			return false
		case x.late == "":
			return true
		case !x.busy():
			j.fail(a, x.late)
			return true
		case n == trialsMax:
			j.fail(a, fmt.Sprintf("%s; so it was in %d trials, and never without the attack", x.late, n))
			return true
		}
		j.t.Logf("attack %s, trial %d: %s; others use %.2f of the processors", a.name, n, x.late, x.others)
		if late := j.without(a, x.took); late != "" {
			j.t.Logf("without the attack: %s", late)
			return true
		}
	}
}

// without waits as long as an attack took, and returns what was late meanwhile.
func (j *judge) without(a *attack, d time.Duration) (late string) {
	if a.inside {
		return "" // it ends in time by itself, or not
	}
	leader, began := j.leader(), time.Now()
	time.Sleep(d)
	return j.late(leader, began)
}

// late returns what is late since a time at which a server led.
func (j *judge) late(leader int, since time.Time) string {
	writes := 0
	for _, p := range j.run.Pulses {
		writes += p.Beats(since, time.Now())
	}
	if writes == 0 {
		return "the honest clients wrote nothing meanwhile"
	}
	if now := j.leader(); now != leader {
		return fmt.Sprintf("server %d led, and now server %d does", leader+1, now+1)
	}
	return ""
}

// trial runs an attack once.
func (j *judge) trial(a *attack, budget time.Duration) (x trial) {
	j.t.Helper()
	leader := j.leader()
	var sizes []int
	for _, s := range j.run.Servers {
		sizes = append(sizes, strings.Count(s.Log(), "\n"))
	}
	began, others := time.Now(), j.run.Others()
	r := row{attack: a.name, large: a.large}
	var begun time.Time
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.attacker, r.share, begun, err = j.attack(a, budget)
	}()
	if a.restart {
		j.restart((leader + 1) % len(j.run.Servers))
	}
	memory := j.sample(over)
	x.took, x.others = time.Since(began), others()
	r.memory = memory // once the attacker doesn't write to r any more
	if begun.IsZero() {
		begun = began
	} else {
		j.rows = append(j.rows, row{attack: a.name + " (before)", writes: j.writes(began, begun), large: true})
	}
	r.writes = j.writes(begun, time.Now())
	for i, s := range j.run.Servers {
		r.lines = max(r.lines, strings.Count(s.Log(), "\n")-sizes[i])
	}
	if *long && !a.inside {
		r.beside = j.beside(r.share)
	}
	j.rows = append(j.rows, r)
	switch {
	case err == nil:
	case a.inside && strings.Contains(err.Error(), errNotInside.Error()):
		x.late = err.Error()
	default:
		x.wrong = append(x.wrong, err.Error())
	}
	for _, s := range j.run.Servers {
		if !s.Running() {
			x.wrong, x.ended = append(x.wrong, fmt.Sprintf("server %d has ended", s.ID)), true
			return x
		}
	}
	if r.memory > j.ceiling {
		x.wrong = append(x.wrong,
			fmt.Sprintf("a server took %d MiB; at most %d are allowed", r.memory>>20, j.ceiling>>20))
	}
	if most := linesFree + int(x.took.Seconds()*linesPerSecond); r.lines > most {
		x.wrong = append(x.wrong, fmt.Sprintf("a server logged %d lines in %v; at most %d are allowed",
			r.lines, x.took.Round(time.Second), most))
	}
	if a.inside {
		j.run.WaitAnswered(10)
		return x
	}
	x.late = j.late(leader, began)
	return x
}

// leader is the index of the server that leads.
func (j *judge) leader() int {
	i, err := j.run.Leader()
	if err != nil {
		j.t.Error(err)
	}
	return i
}

// fail fails the test and says how to see it again.
func (j *judge) fail(a *attack, what string) {
	j.t.Helper()
	j.t.Errorf("attack %s, seed %d: %s; "+
		"replay: make hostile HOSTILE='-hostile.servers %d -hostile.attack %s -hostile.seed %d'",
		a.name, j.seed, what, len(j.run.Servers), a.name, j.seed)
}

// beside returns what honest clients' writes take beside a process that uses so many
// processors at the attacker's priority.
func (j *judge) beside(share float64) []time.Duration {
	j.t.Helper()
	defer keepBusy(j.t, share)()
	began := time.Now()
	time.Sleep(besideTime)
	return j.writes(began, time.Now())
}

// writes returns the durations of the honest clients' writes between two times.
func (j *judge) writes(from, to time.Time) (list []time.Duration) {
	for _, p := range j.run.Pulses {
		list = append(list, p.Durations(from, to)...)
	}
	return list
}

// output is what an attacker says, after the line by which it tells that it has prepared itself.
type output struct {
	said  bytes.Buffer
	begun time.Time
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	rest, begins := bytes.CutPrefix(b, []byte(begunLine))
	if begins {
		o.begun = time.Now()
	}
	o.said.Write(rest)
	return len(b), nil
}

// attack runs the attacker as a process of its own, and returns what it says, how many processors it used, and when it
// had prepared itself, if it says so. The error is what it says against the servers.
func (j *judge) attack(a *attack, budget time.Duration) (said string, share float64, begun time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), budget+attackSlack)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return "", 0, begun, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", attackNice, self, "-attack", a.name, "-seed", fmt.Sprint(j.seed),
		"-clients", strings.Join(j.run.Addrs(), ","), "-peers", strings.Join(j.peers, ","), "-for", budget.String(),
		"-cluster", fmt.Sprint(j.cluster))
	if secret := server.SecretOf(ensembleSecret); a.inside {
		cmd.Args = append(cmd.Args, "-secret", hex.EncodeToString(secret[:]))
	}
	cmd.Env = append(os.Environ(), programVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out output
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return "", 0, begun, err
	}
	hurry := time.AfterFunc(budget+hurryAfter, func() { renice(cmd.Process.Pid, 0) })
	err = cmd.Wait()
	hurry.Stop()
	if p := cmd.ProcessState; p != nil {
		share = (p.UserTime() + p.SystemTime()).Seconds() / time.Since(began).Seconds()
	}
	said, begun = strings.TrimSpace(out.said.String()), out.begun
	if ctx.Err() != nil {
		return said, share, begun, fmt.Errorf("the attacker did not end within %v", budget+attackSlack)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return said, share, begun, fmt.Errorf("the attacker says: %s %s", said, tail(errs.String()))
	}
	return said, share, begun, err
}

// renice gives all threads of a process a priority, where this process may: a higher
// one only root can give.
func renice(pid, nice int) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			syscall.Setpriority(syscall.PRIO_PROCESS, id, nice)
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// restart kills a server while it is attacked, and starts it again. It must come
// back as what it was.
func (j *judge) restart(server int) {
	j.t.Helper()
	time.Sleep(downTime) // until the attacker has begun
	j.run.Down(server)
	j.run.Servers[server].Kill()
	time.Sleep(downTime)
	j.run.Restart(server)
	j.run.Up(server)
	for _, s := range j.run.Servers {
		if strings.Contains(s.Log(), lostSign) {
			j.t.Errorf("server %d took server %d, which restarted, for one that has lost its data", s.ID, server+1)
		}
	}
}

// lostSign is what a leader says that takes a server's vote away.
const lostSign = "a server has lost its data directory"

// sample returns the most memory that any server took until over is closed. A server
// that takes more than the machine can spare is killed.
func (j *judge) sample(over <-chan struct{}) (most int64) {
	for {
		for _, s := range j.run.Servers {
			if !s.Running() {
				continue
			}
			n := s.Memory()
			if most = max(most, n); n > memoryKill {
				s.Signal(syscall.SIGKILL)
			}
		}
		select {
		case <-over:
			return most
		case <-time.After(samplePause):
		}
	}
}

// report prints what the honest clients felt.
func (j *judge) report() {
	j.t.Helper()
	j.t.Logf("what honest clients' writes took, seed %d, %d servers:\n%s", j.seed, len(j.run.Servers),
		table(j.alone, j.rows))
}

func table(alone []time.Duration, rows []row) string {
	base := percentile(alone, 0.99)
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %7s %9s %9s %9s %6s %5s %9s %6s %8s %6s  %s\n",
		"attack", "writes", "p50", "p99", "max", "x p99", "CPUs", "beside", "x p99", "MiB", "lines", "attacker")
	for _, r := range append([]row{{attack: "(none)", writes: alone}}, rows...) {
		p50, p99, most := percentile(r.writes, 0.5), percentile(r.writes, 0.99), percentile(r.writes, 1)
		beside, times := "-", "-"
		if p := percentile(r.beside, 0.99); p > 0 {
			beside, times = short(p).String(), fmt.Sprintf("%.1f", float64(p99)/float64(p))
		}
		fmt.Fprintf(&b, "%-18s %7d %9v %9v %9v %6.1f %5.2f %9s %6s %8d %6d  %s\n", r.attack, len(r.writes),
			short(p50), short(p99), short(most), float64(p99)/float64(max(base, 1)), r.share, beside, times,
			r.memory>>20, r.lines, r.attacker)
	}
	return b.String()
}

// A tally is what honest clients felt in all rounds. A second in which the disk or another program holds all up
// decides nothing in it.
type tally struct {
	alone []time.Duration
	rows  []row // one for each attack
}

// add adds a round.
func (y *tally) add(j *judge) {
	y.alone = append(y.alone, j.alone...)
	for _, r := range j.rows {
		i := slices.IndexFunc(y.rows, func(have row) bool { return have.attack == r.attack })
		if i < 0 {
			i = len(y.rows)
			y.rows = append(y.rows, row{attack: r.attack, large: r.large})
		}
		have := &y.rows[i]
		have.writes, have.beside = append(have.writes, r.writes...), append(have.beside, r.beside...)
		have.share = max(have.share, r.share)
		have.memory, have.lines = max(have.memory, r.memory), max(have.lines, r.lines)
	}
}

// judge prints what was felt, and fails the test for an attack under which honest clients waited too long.
func (y *tally) judge(t *testing.T, servers int) {
	t.Helper()
	t.Logf("what honest clients' writes took in all rounds, %d servers:\n%s", servers, table(y.alone, y.rows))
	alone := percentile(y.alone, 0.99)
	for _, r := range y.rows {
		base := max(alone, percentile(r.beside, 0.99))
		bound := writeBound(r.large, base, servers)
		if p99 := percentile(r.writes, 0.99); p99 > bound {
			t.Errorf("attack %s: the slowest of a hundred writes of honest clients took %v, more than %v, with %v without an attack; "+
				"replay: make hostile HOSTILE='-long -hostile.servers %d -hostile.attack %s'",
				r.attack, short(p99), short(bound), short(base), servers, r.attack)
		}
	}
}

// writeBound returns how long the slowest of a hundred writes may take under an attack, which may be one by large
// requests, if it takes base without.
func writeBound(large bool, base time.Duration, servers int) time.Duration {
	bound := slowdownMax * base
	if large {
		bound = max(bound, base+largeAhead*largeCost*time.Duration(servers))
	}
	return bound
}

// TestWriteBound: only attacks by large requests may cost more than three times the time without them, and not if that
// is longer.
func TestWriteBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		large      bool
		base, want time.Duration
	}{
		{false, 5 * time.Millisecond, 15 * time.Millisecond},
		{true, 5 * time.Millisecond, 305 * time.Millisecond},
		{true, 200 * time.Millisecond, 600 * time.Millisecond},
	} {
		if got := writeBound(c.large, c.base, 3); got != c.want {
			t.Errorf("%t: %v, want %v", c.large, got, c.want)
		}
	}
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// percentile returns the q-th part of a list in order.
func percentile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
