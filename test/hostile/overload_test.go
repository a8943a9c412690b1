package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/crash"
)

// The tests of overload have a long form, which judges times and needs a machine that does
// nothing else (make overload), and a short one, which judges what doesn't depend on time and
// is a part of make hostile.

var overloadTime = flag.Duration("overload.time", 0, "how long each test of overload measures; 0 is ten minutes for saturation, one for the others, and seconds in the short form")

// overloadShort is how long the short form measures.
const overloadShort = 3 * time.Second

// overload returns how long a test of overload measures, whole in the long form, and whether
// times are judged.
func overload(t *testing.T, whole time.Duration) (d time.Duration, judged bool) {
	t.Helper()
	judged = os.Getenv("ZOOID_OVERLOAD") == "1"
	if !judged && os.Getenv("ZOOID_HOSTILE") != "1" {
		t.Skip("run make overload, on a machine that does nothing else, or make hostile")
	}
	switch {
	case *overloadTime > 0:
		return *overloadTime, judged
	case judged:
		return whole, true
	}
	return overloadShort, false
}

// startServers starts servers whose limits are the default ones.
func startServers(t *testing.T, n int, config map[string]string) []*crash.Server {
	t.Helper()
	all := map[string]string{"tickTime": "2000", "maxClientCnxns": "60"}
	for k, v := range config {
		all[k] = v
	}
	servers := crash.Start(t, crash.Options{Servers: n, Config: all}).Servers
	for _, s := range servers {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

func startOne(t *testing.T, config map[string]string) *crash.Server {
	t.Helper()
	return startServers(t, 1, config)[0]
}

func addresses(servers []*crash.Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}

// A timing is how long something took that began at a time.
type timing struct {
	began time.Time
	took  time.Duration
}

// timings are safe for concurrent use.
type timings struct {
	mu  sync.Mutex
	all []timing
}

func (y *timings) add(began time.Time) {
	took := time.Since(began)
	y.mu.Lock()
	y.all = append(y.all, timing{began, took})
	y.mu.Unlock()
}

// between returns what took how long that began between two times.
func (y *timings) between(from, to time.Time) (list []time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, x := range y.all {
		if !x.began.Before(from) && x.began.Before(to) {
			list = append(list, x.took)
		}
	}
	return list
}

// during returns what took how long that begins while d passes, or longer if the machine is so busy
// that there is nothing.
func (y *timings) during(d time.Duration) []time.Duration {
	began := time.Now()
	time.Sleep(d)
	list := y.between(began, began.Add(d))
	for end := time.Now().Add(attackPatience); len(list) == 0 && time.Now().Before(end); time.Sleep(samplePause) {
		list = y.between(began, time.Now())
	}
	return list
}

// honest are clients of an identity each that ask at a slow, steady pace.
type honest struct {
	timings
	ended atomic.Int32 // connections that ended, or got an error
}

// honestPause is the time between two requests of an honest client.
const honestPause = 20 * time.Millisecond

// newHonestField is newField for clients that wait as long as it takes.
func newHonestField(ctx context.Context, seed uint64, addrs []string) *field {
	f := newField(ctx, seed, addrs, nil)
	f.patience = attackPatience
	return f
}

// beginHonest starts n honest clients, which read and, each fourth time, write.
func beginHonest(t *testing.T, addrs []string, n int) *honest {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	h := &honest{}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	f := newHonestField(ctx, 1, addrs)
	for i := range n {
		c, err := f.connect(f.addr(i), 20_000)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.call(jute.OpAuth, authRecord(fmt.Sprintf("honest%d:x", i))); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/honest%d", i)
		if err := c.create(path, []byte("data"), jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { h.ask(ctx, c, path) })
	}
	return h
}

func (h *honest) ask(ctx context.Context, c *conn, path string) {
	defer c.close()
	c.unpaced = true
	for n := 0; ctx.Err() == nil; n++ {
		op, record := jute.OpGetData, readRecord(path)
		if n%4 == 0 {
			op, record = jute.OpSetData, setRecord(path, "data")
		}
		began := time.Now()
		if code, _, err := c.call(op, record); err != nil || code != jute.OK {
			if ctx.Err() == nil {
				h.ended.Add(1)
			}
			return
		}
		h.add(began)
		time.Sleep(honestPause)
	}
}

// beside returns what takes how long that begins while d passes, beside a process that uses so
// many processors at the attackers' priority.
func (h *honest) beside(t *testing.T, share float64, d time.Duration) []time.Duration {
	t.Helper()
	defer keepBusy(t, share)()
	return h.during(d)
}

// An attacker is a process that attacks, and says how far it is.
type attacker struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	line []byte // that is not whole yet
	said bytes.Buffer
	seen []progress
}

// Write takes what the process prints.
func (a *attacker) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line = append(a.line, b...)
	for {
		line, rest, whole := bytes.Cut(a.line, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if p, ok := parseProgress(string(line)); ok {
			a.seen = append(a.seen, p)
		} else {
			a.said.Write(line)
			a.said.WriteByte('\n')
		}
		a.line = append([]byte(nil), rest...)
	}
}

// attackers are processes with the same attack.
type attackers struct {
	t   *testing.T
	all []*attacker
	end func() // ends them
}

// progressPause is the time between two lines of an attacker's progress.
const progressPause = 100 * time.Millisecond

// startAttack runs an attack in n processes until end is called, or the test ends.
func startAttack(t *testing.T, n int, args ...string) *attackers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y := &attackers{t: t}
	for i := range n {
		a := &attacker{
			cmd: exec.Command("nice",
				append([]string{"-n", attackNice, self, "-seed", fmt.Sprint(i + 1), "-for", "1h", "-tell", progressPause.String()},
					args...)...),
		}
		a.cmd.Env = append(os.Environ(), programVariable+"=1")
		a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		a.cmd.Stdout, a.cmd.Stderr = a, a
		if err := a.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		y.all = append(y.all, a)
	}
	y.end = sync.OnceFunc(func() {
		for _, a := range y.all {
			a.cmd.Process.Kill()
		}
		for i, a := range y.all {
			if a.cmd.Wait(); a.cmd.ProcessState.Exited() {
				t.Errorf("attacker %d has ended by itself: %s", i, tail(a.said.String()))
			}
		}
	})
	t.Cleanup(y.end)
	return y
}

// share returns how many processors they used, all together, from a time on, at which used
// was what they had used before.
func (y *attackers) share(from time.Time, used time.Duration) float64 {
	return (y.used() - used).Seconds() / time.Since(from).Seconds()
}

// used is what they have used of the processors.
func (y *attackers) used() (d time.Duration) {
	for _, a := range y.all {
		d += processorTime(y.t, a.cmd.Process.Pid)
	}
	return d
}

// keepBusy uses so many processors in a process that does nothing else, at the attackers'
// priority, until end is called.
func keepBusy(t *testing.T, share float64) (end func()) {
	t.Helper()
	return startAttack(t, 1, "-busy", fmt.Sprint(share)).end
}

// A pace is what attackers do in a second.
type pace struct{ offered, turnedAway, good, late, errors float64 }

func (p pace) String() string {
	return fmt.Sprintf("offered %.0f requests a second, of which %.0f found no room in a socket; %.0f good replies, %.0f that came too late, %.0f errors",
		p.offered, p.turnedAway, p.good, p.late, p.errors)
}

// begun waits until all attackers have begun: for attackStart, and on a busy machine until each has
// said that it has done something.
func (y *attackers) begun() {
	y.t.Helper()
	time.Sleep(attackStart)
	y.await(func(seen []progress) bool {
		return len(seen) > 0 && (seen[len(seen)-1].Good > 0 || seen[len(seen)-1].Held > 0)
	})
}

// since is pace from a time on until now, or until each attacker has told enough and some good
// replies have come.
func (y *attackers) since(from time.Time) pace {
	y.t.Helper()
	y.await(func(seen []progress) bool {
		first := slices.IndexFunc(seen, func(p progress) bool { return p.At >= from.UnixNano() })
		return first >= 0 && seen[len(seen)-1].Good > seen[first].Good
	})
	return y.pace(from, time.Now())
}

// await waits until it is so with what each attacker has said. Attackers that a busy machine keeps from
// it get the priority of others.
func (y *attackers) await(so func(seen []progress) bool) {
	y.t.Helper()
	began := time.Now()
	for time.Since(began) < attackPatience {
		if !slices.ContainsFunc(y.all, func(a *attacker) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return !so(a.seen)
		}) {
			return
		}
		if time.Since(began) > hurryAfter {
			y.hurry()
		}
		time.Sleep(samplePause)
	}
}

func (y *attackers) hurry() {
	for _, a := range y.all {
		renice(a.cmd.Process.Pid, 0)
	}
}

// pace returns what all attackers together did in a second between two times.
func (y *attackers) pace(from, to time.Time) (p pace) {
	for i, a := range y.all {
		a.mu.Lock()
		seen := slices.DeleteFunc(slices.Clone(a.seen),
			func(p progress) bool { return p.At < from.UnixNano() || p.At > to.UnixNano() })
		a.mu.Unlock()
		if len(seen) < 2 {
			y.t.Fatalf("attacker %d has said %d times in %v how far it is", i, len(seen), to.Sub(from))
		}
		first, last := seen[0], seen[len(seen)-1]
		seconds := time.Duration(last.At - first.At).Seconds()
		p.offered += float64(last.Offered-first.Offered) / seconds
		p.turnedAway += float64(last.TurnedAway-first.TurnedAway) / seconds
		p.good += float64(last.Good-first.Good) / seconds
		p.late += float64(last.Late-first.Late) / seconds
		p.errors += float64(last.Errors-first.Errors) / seconds
	}
	return p
}

// during returns what they do in a second while d passes.
func (y *attackers) during(d time.Duration) pace {
	began := time.Now()
	time.Sleep(d)
	return y.since(began)
}

// held returns how many connections they hold now.
func (y *attackers) held() (n int64) {
	for _, a := range y.all {
		a.mu.Lock()
		if len(a.seen) > 0 {
			n += a.seen[len(a.seen)-1].Held
		}
		a.mu.Unlock()
	}
	return n
}

// slowerMax is how many times as long the slowest of a hundred requests of honest clients may
// take under attack as beside a process that uses as much of the processors as the attackers
// do themselves, which stand for other machines.
const slowerMax = 2

// A comparison is what honest clients' requests took.
type comparison struct {
	alone, attacked []time.Duration
	beside          []time.Duration // such a process, if times are judged
	share           float64         // processors that it used
}

// judge logs what the honest clients felt, and judges it.
func (y *comparison) judge(t *testing.T, h *honest, judged bool) {
	t.Helper()
	if len(y.attacked) == 0 || len(y.alone) == 0 {
		t.Fatalf("the honest clients got %d answers alone, %d under attack", len(y.alone), len(y.attacked))
	}
	say := func(when string, list []time.Duration) (p99 time.Duration) {
		p99 = percentile(list, 0.99)
		t.Logf("honest clients %s: %d requests, p50 %v, p99 %v, max %v: %.2f times the p99 alone", when, len(list),
			short(percentile(list, 0.5)), short(p99), short(percentile(list, 1)),
			float64(p99)/float64(percentile(y.alone, 0.99)))
		return p99
	}
	base := say("alone", y.alone)
	if judged {
		beside := say(fmt.Sprintf("beside a process that uses %.2f processors, as the attackers did", y.share), y.beside)
		base = max(base, beside)
	}
	attacked := say("under attack", y.attacked)
	if judged && attacked > slowerMax*base {
		t.Errorf("the slowest of a hundred requests of honest clients took %v, more than %v times the %v without an attack",
			attacked, slowerMax, base)
	}
	if n := h.ended.Load(); n > 0 {
		t.Errorf("%d honest clients lost their connection or got an error", n)
	}
}

const (
	greedyRounds = 3
	// attackStart is the time from the start of an attacker until it is judged.
	attackStart = 2 * time.Second
	// attackPatience is how long the tests wait until something happens at all.
	attackPatience = 2 * time.Minute
)

// TestOverloadGreedy: one identity asks as fast as it can on many connections, among nineteen
// others. No limit is set: what holds it back is what every server has.
func TestOverloadGreedy(t *testing.T) {
	d, judged := overload(t, time.Minute)
	s := startOne(t, nil)
	h := beginHonest(t, []string{s.Addr}, 19)
	var felt comparison
	rounds := 1
	if judged {
		rounds = greedyRounds
	}
	for range rounds {
		felt.alone = append(felt.alone, h.during(d/time.Duration(rounds))...)
		greedy := startAttack(t, 1, "-attack", "greedy", "-clients", s.Addr)
		greedy.begun()
		began, used := time.Now(), greedy.used()
		felt.attacked = append(felt.attacked, h.during(d/time.Duration(rounds))...)
		felt.share = greedy.share(began, used)
		did := greedy.since(began)
		t.Logf("the greedy one: %v", did)
		if did.good == 0 {
			t.Error("the greedy one got no answer: nobody was attacked")
		}
		greedy.end()
		time.Sleep(attackStart) // its connections end
		if judged {
			felt.beside = append(felt.beside, h.beside(t, felt.share, d/time.Duration(rounds))...)
		}
	}
	felt.judge(t, h, judged)
}

const (
	// silentConnections are held at once, by silentProcesses.
	silentConnections = 20_000
	silentShort       = 2_000 // in the short form
	silentProcesses   = 4
	// silentSpare is how many more are begun, in percent: those that the server ends begin again.
	silentSpare = 5
	// silentMemory is what they may cost the servers, and what more than these may cost in proportion.
	silentMemory = 256 << 20
	// silentPatience is the time until they are all there, and silentLonger how long servers wait for
	// a connect request in the short form: longer, so that none ends before all are there.
	silentPatience = 3 * time.Minute
	silentLonger   = 4 * time.Minute
)

// TestOverloadSilent: thousands of connections say nothing, or lie about what they will say.
func TestOverloadSilent(t *testing.T) {
	d, judged := overload(t, time.Minute)
	want := silentShort
	if judged {
		want = silentConnections
	}
	// One server, if it may have so many open files; else as many as hold them together.
	config := map[string]string{
		"client.portUnification": "true", "ssl.keyStore.location": keyFile(t), "ssl.clientAuth": "none",
	}
	if !judged {
		config["nio.sessionlessCnxnTimeout"] = fmt.Sprint(silentLonger.Milliseconds())
	}
	servers := startServers(t, serversFor(t, want), config)
	h := beginHonest(t, addresses(servers), 19)
	alone, before, sockets := h.during(d), memoryOf(servers), openSockets(t, servers)
	silent := startAttack(t, silentProcesses, "-attack", "silence", "-clients", strings.Join(addresses(servers), ","),
		"-connections", fmt.Sprint(want*(100+silentSpare)/100/silentProcesses))
	most := before
	for began := time.Now(); min(openSockets(t, servers)-sockets, int(silent.held())) < want; time.Sleep(samplePause) {
		if time.Since(began) > silenceStartMany+hurryAfter {
			silent.hurry()
		}
		if most = max(most, memoryOf(servers)); time.Since(began) > silentPatience {
			t.Fatalf("the servers have %d connections of silent clients, who hold %d; want %d", openSockets(t, servers)-sockets,
				silent.held(), want)
		}
	}
	from, to, used := time.Now(), time.Now().Add(max(d, overloadShort)), silent.used()
	least, greatest := silent.held(), int64(0)
	for time.Now().Before(to) {
		least, greatest = min(least, silent.held()), max(greatest, silent.held())
		most = max(most, memoryOf(servers))
		time.Sleep(samplePause)
	}
	share := silent.share(from, used)
	at := openSockets(t, servers) - sockets
	t.Logf("%d servers: silent clients held %d to %d connections, of which the servers had %d at the end; memory before %d MiB, at most %d MiB under attack",
		len(servers), least, greatest, at, before>>20, most>>20)
	if min(int(least), at) < want*9/10 {
		t.Error("at times there were too few silent connections")
	}
	if most-before > silentMemory*max(greatest, silentConnections)/silentConnections {
		t.Errorf("silent connections cost %d MiB", (most-before)>>20)
	}
	felt := comparison{alone: alone, attacked: h.between(from, to), share: share}
	if silent.end(); judged {
		time.Sleep(attackStart) // their connections end
		felt.beside = h.beside(t, felt.share, d)
	}
	felt.judge(t, h, judged)
}

// serversFor returns how many servers can have so many connections, by the limit of open files.
func serversFor(t *testing.T, connections int) int {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max > uint64(connections)*(100+2*silentSpare)/100 {
		return 1
	}
	return 3
}

func memoryOf(servers []*crash.Server) (n int64) {
	for _, s := range servers {
		n += s.Memory()
	}
	return n
}

// openSockets returns how many sockets the servers have. With thousands of them it takes a tenth
// of a second of a processor, which honest clients would feel.
func openSockets(t *testing.T, servers []*crash.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		dir := fmt.Sprintf("/proc/%d/fd", s.Pid())
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if to, _ := os.Readlink(filepath.Join(dir, file.Name())); strings.HasPrefix(to, "socket:") {
				n++
			}
		}
	}
	return n
}
