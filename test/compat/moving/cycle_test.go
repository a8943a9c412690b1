package moving

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/test/verdict"
)

var (
	cycles  = flag.Int("moving.cycles", 0, "cycles of TestCycles, from Apache to Zooid and back")
	onZooid = flag.Duration("moving.zooid", 10*time.Minute, "how long a cycle stays on Zooid")
	timeout = flag.Duration("moving.timeout", 20*time.Second, "of the sessions; some clients give up after four thirds of it without a server")
)

// TestCycles moves an ensemble of Apache's with 200 clients to Zooid, and back after a while. A leader is killed at
// random moments on either side. No client may lose, double or reorder anything, no session may expire, and watches are
// exact.
func TestCycles(t *testing.T) {
	need(t)
	if *cycles == 0 {
		t.Skip("give -moving.cycles 1: a cycle takes a quarter of an hour")
	}
	program := zooid(t)
	patientSessions(t)
	for n := range *cycles {
		seed := *firstSeed + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { cycleOnce(t, program, seed) })
	}
}

// A cycle is one way there and back.
type cycle struct {
	t    *testing.T
	seed uint64
	rnd  *rand.Rand
	part time.Duration // how long each of the times on Apache lasts, and about how long a leader lives
	e    *ensemble
	z    *zooids
	c    *clients
	back *wayBack // nil if the way back is by export
	at   int      // the Zooid server that the way back is beside
}

func cycleOnce(t *testing.T, program string, seed uint64) {
	version := []string{"3.8.4", "3.9.5"}[seed%2]
	y := &cycle{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), part: *onZooid / 10}
	y.e = startServers(t, version, 3, realLimits, "-Xmx192m", "-Dzookeeper.snapCount=20000")
	y.z = newZooids(t, program, realLimits)
	y.c = startClients(t, slices.Concat(strings.Split(y.e.connect(), ","), y.z.addrs), seed, many)
	t.Cleanup(y.keep)
	y.c.underWay()
	y.c.attended(y.e.servers)
	y.say("%d sessions are on Apache %s", many.sessions(), version)
	y.there()
	y.stay()
	if y.back != nil {
		y.live()
	} else {
		began := y.begin()
		y.z.back(y.e)
		y.measured("from Zooid to Apache by export", began)
	}
	y.whole(y.e.servers)
	y.say("Apache is whole")
	time.Sleep(y.part / 2)
	y.killApache()
	time.Sleep(y.part / 2)
	y.c.attended(y.e.servers)
	y.say("the clients end")
	y.c.judge(version)
}

func (y *cycle) say(format string, args ...any) {
	y.t.Helper()
	y.t.Logf("%s seed %d: %s", time.Now().Format(time.TimeOnly), y.seed, fmt.Sprintf(format, args...))
}

// some is a random time from a half to three halves of d.
func (y *cycle) some(d time.Duration) time.Duration {
	return d/2 + time.Duration(y.rnd.Int64N(int64(d)))
}

// begin is the begin of a move whose time without writes is measured.
func (y *cycle) begin() time.Time {
	y.t.Helper()
	y.c.mark()
	return time.Now()
}

func (y *cycle) measured(what string, began time.Time) {
	y.t.Helper()
	time.Sleep(3 * time.Second) // the slowest client is back then, as a rule
	y.say("MOVED %s: %.2f s without a write; the longest write took %.2f s", what, y.c.golang.gap(began).Seconds(),
		y.c.mark().Seconds())
}

var connections = regexp.MustCompile("Connections: ([0-9]+)")

// attended waits until servers have as many connections as there are sessions: nobody has left or can't come.
func (c *clients) attended(servers []*server) {
	c.t.Helper()
	for end := time.Now().Add(startPatience); ; time.Sleep(100 * time.Millisecond) {
		n := 0
		for _, s := range servers {
			if found := connections.FindStringSubmatch(word(s.addr, "srvr")); found != nil {
				one, _ := strconv.Atoi(found[1])
				n += one - 1 // without the one that asks
			}
		}
		if n >= c.sessions {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("there are only %d connections of %d sessions", n, c.sessions)
			return
		}
	}
}

// whole waits until all servers serve.
func (y *cycle) whole(servers []*server) {
	y.t.Helper()
	for _, s := range servers {
		y.e.awaitServing(s)
	}
}

// killApache kills Apache's leader at a random moment, and starts it again.
func (y *cycle) killApache() {
	y.t.Helper()
	time.Sleep(y.some(y.part / 2))
	killed := y.e.leader()
	y.say("Apache's leader, server %d, is killed", killed+1)
	y.e.servers[killed].kill()
	time.Sleep(y.some(3 * time.Second))
	y.e.start(killed)
	y.whole(y.e.servers)
	y.say("Apache is whole again")
}

// there moves everything to Zooid, while a follower goes on that was begun before.
func (y *cycle) there() {
	t := y.t
	t.Helper()
	dir, out := filepath.Join(t.TempDir(), "copy"), newOutput(t)
	follow := exec.Command(y.z.program, "migrate", "follow", "-listen", freeport.Address(t), y.e.connect(), dir)
	follow.Stdout, follow.Stderr = out.file, out.file
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { follow.Process.Kill() })
	y.killApache()
	time.Sleep(y.part / 2)
	follow.Process.Signal(os.Interrupt)
	if err := follow.Wait(); err != nil {
		t.Fatalf("zooid migrate follow: %v\n%s", err, out.text())
	}
	stop := y.stopApache()
	began := y.begin()
	t.Log(y.z.takeOverBy(y.e, dir, stop))
	y.measured("from Apache to Zooid", began)
	y.z.join(1)
	y.z.join(2)
	y.say("three Zooid servers serve")
}

// stay spends the time on Zooid, whose leader is killed now and then. Apache's observers may follow meanwhile.
func (y *cycle) stay() {
	y.t.Helper()
	end := time.Now().Add(*onZooid)
	if y.seed%3 != 0 || *longestStop > 0 {
		y.follow()
	}
	for n := 1; ; n++ {
		next := y.some(y.part * 2)
		if n == 1 {
			next /= 2 // so that there is one in the short form
		}
		if time.Until(end) < next {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(next)
		leader := y.z.leader()
		y.say("Zooid's leader, server %d, is killed", leader+1)
		y.z.servers[leader].kill()
		time.Sleep(y.some(3 * time.Second))
		y.z.join(leader)
		y.whole(y.z.servers[:])
		y.say("Zooid is whole again")
	}
}

// follow makes Apache's servers observers of Zooid. They have other client ports meanwhile, as those are in the
// clients' connect string.
func (y *cycle) follow() {
	t := y.t
	t.Helper()
	y.at = y.rnd.IntN(3)
	w := &wayBack{t: t, program: y.z.program, limits: realLimits, config: y.z.config(y.at), quorum: freeport.Address(t),
		election: freeport.Address(t),
		zooid:    y.z.servers[y.at], lead: &server{}, apache: &ensemble{
			t: t, version: y.e.version, options: y.e.options, configs: y.e.configs, quorum: y.e.quorum,
		}}
	for _, s := range y.e.servers {
		if err := os.RemoveAll(filepath.Join(s.dir, "version-2")); err != nil {
			t.Fatal(err)
		}
		w.apache.servers = append(w.apache.servers, &server{addr: freeport.Address(t), dir: s.dir, output: s.output})
	}
	w.startLead()
	w.configure(true)
	for i := range w.apache.servers {
		w.apache.start(i)
	}
	y.back = w
	y.reached()
	y.say("Apache's servers follow as observers, beside Zooid's server %d", y.at+1)
}

// reached waits until all observers have what Zooid has now.
func (y *cycle) reached() {
	y.t.Helper()
	w := y.back
	at := func(s *server) int64 {
		n, _ := strconv.ParseInt(zxidOf(s), 0, 64)
		return n
	}
	for end := time.Now().Add(startPatience); ; time.Sleep(100 * time.Millisecond) {
		want, all := at(y.z.servers[y.at]), true
		for _, s := range w.apache.servers {
			for have := at(s); (want == 0 || have < want) && all; have = at(s) {
				if time.Now().After(end) {
					y.t.Fatalf("Zooid is at %#x, an observer at %#x\n%s\n%.3000s", want, have, w.lead.output, s.output)
				}
				if want == 0 {
					all = false
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		if all {
			return
		}
	}
}

// lead has the server lead that the way back is beside.
func (y *cycle) lead() {
	y.t.Helper()
	for {
		leader := y.z.leader()
		if leader == y.at {
			return
		}
		third := 3 - leader - y.at
		y.say("server %d leads; it hands over to server %d", leader+1, y.at+1)
		y.z.servers[third].stop() // so that there is only one left to hand over to
		y.z.servers[leader].stop()
		y.z.join(third)
		y.z.join(leader)
		y.whole(y.z.servers[:])
	}
}

// byHand stops Zooid's servers, and then what leads the observers.
func (y *cycle) byHand() (began time.Time) {
	t, w := y.t, y.back
	t.Helper()
	for n := 1; ; n++ {
		y.lead()
		y.reached()
		began = y.begin()
		y.z.stop(y.at)
		w.lead.stop()
		t.Log(w.lead.output)
		if w.lead.cmd.ProcessState.ExitCode() == 0 &&
			strings.Contains(w.lead.output.String(), "the observers [1 2 3] have all data") {
			return began
		}
		if n == 5 || !strings.Contains(w.lead.output.String(), "only the leader's log is complete") {
			t.Fatalf("zooid migrate back: %v\n%.3000s", w.lead.cmd.ProcessState, w.apache.servers[0].output)
		}
		y.say("another has become the leader in the last moment: Zooid starts again")
		for i := range y.z.servers {
			y.z.start(i)
		}
		y.whole(y.z.servers[:])
		w.startLead()
	}
}

// live makes an ensemble of the observers.
func (y *cycle) live() {
	t, w := y.t, y.back
	t.Helper()
	var began time.Time
	if *longestStop > 0 {
		began = y.byReturn()
	} else {
		began = y.byHand()
	}
	stopped := time.Since(began)
	for _, s := range w.apache.servers {
		s.kill()
		if out := s.output.String(); strings.Contains(out, "igests are not matching") ||
			strings.Contains(out, "Digest mismatch") {
			verdict.Final(t, verdict.Digest)
			t.Errorf("Apache finds another digest:\n%.3000s", out)
		}
	}
	var all sync.WaitGroup
	for _, s := range w.apache.servers {
		all.Go(func() {
			if out, err := exec.Command(y.z.program, "migrate", "compare", y.z.place(y.at), s.dir).CombinedOutput(); err != nil {
				verdict.Final(t, verdict.Digest)
				t.Errorf("zooid migrate compare: %v\n%s", err, out)
			}
		})
	}
	all.Wait()
	compared := time.Since(began)
	for i, s := range w.apache.servers {
		s.addr = y.e.servers[i].addr
	}
	w.configure(false)
	for i := range y.e.servers {
		y.e.start(i)
	}
	y.e.await()
	y.say("after the order: %.2f s until the observers had everything, %.2f s until the trees were compared, %.2f s until Apache's ensemble served",
		stopped.Seconds(), compared.Seconds(), time.Since(began).Seconds())
	y.measured("from Zooid to Apache, whose observers had followed", began)
}

// keep keeps what happened if the test has failed.
func (y *cycle) keep() {
	if !y.t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("zooid-cycle-%d-", y.seed))
	if err != nil {
		y.t.Log(err)
		return
	}
	y.c.journal.Flush()
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			y.t.Log(err)
		}
	}
	write("history", y.c.file.Bytes())
	for i, s := range y.c.steady {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		write(fmt.Sprintf("client%d.err", i+1), s.errors.Bytes())
	}
	for i, s := range y.e.servers {
		s.kill()
		write(fmt.Sprintf("apache%d.out", i+1), s.output.Bytes())
		os.CopyFS(filepath.Join(dir, fmt.Sprintf("apache%d", i+1)), os.DirFS(s.dir))
	}
	for i, s := range y.z.servers {
		if s != nil {
			s.kill()
			write(fmt.Sprintf("zooid%d.out", i+1), s.output.Bytes())
			os.CopyFS(filepath.Join(dir, fmt.Sprintf("zooid%d", i+1)), os.DirFS(s.dir))
		}
	}
	if first, err := os.ReadFile(filepath.Join(y.z.dir, "log1")); err == nil {
		write("zooid1-first.out", first)
	}
	if y.back != nil {
		write("back.out", y.back.lead.output.Bytes())
	}
	y.t.Logf("the files are kept in %s", dir)
}
