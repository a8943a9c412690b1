package moving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// A crowd says how many clients there are, with one session each, and what they do.
type crowd struct {
	java, kazoo, golang, load, recipes int

	pause     time.Duration // mean, of a steady client's session between two steps
	perSecond float64       // requests of a client of the load; 0 means no bound
	rounds    float64       // in a second, of a client of the recipes; 0 means no bound
}

var (
	few  = crowd{java: 1, kazoo: 1, golang: 1, load: 8, recipes: 4, pause: 5 * time.Millisecond}
	many = crowd{java: 72, kazoo: 40, golang: 68, load: 12, recipes: 8, pause: 4 * time.Second, perSecond: 5, rounds: 2}
)

func (c crowd) sessions() int { return c.java + c.kazoo + c.golang + c.load + c.recipes }

// clients are those of many kinds that go on through a switch.
type clients struct {
	t        *testing.T
	sessions int
	file     bytes.Buffer
	journal  *history.Journal
	load     *traffic.Load
	recipes  *traffic.Recipes
	ended    chan error
	steady   []*steady
	golang   *goClients
}

// patientSessions has the sessions of a test time out after a minute at least: some clients give up after four thirds
// of the timeout without a server, and Apache takes longer than 20 seconds to start on a busy machine.
func patientSessions(t *testing.T) {
	before := *timeout
	t.Cleanup(func() { *timeout = before })
	*timeout = max(before, time.Minute)
}

func startClients(t *testing.T, addrs []string, seed uint64, n crowd) *clients {
	t.Helper()
	c := &clients{t: t, sessions: n.sessions(), ended: make(chan error, 2)}
	connect := strings.Join(addrs, ",")
	pause, patience := fmt.Sprint(n.pause.Milliseconds()), fmt.Sprint(timeout.Milliseconds())
	c.steady = []*steady{
		startSteady(t,
			"java", append(javaProgram(t, javaClient(t), "Steady"), connect, "java", strconv.Itoa(n.java), pause, patience)...),
		startSteady(t, kazoo(t), "testdata/steady.py", connect, "kazoo", strconv.Itoa(n.kazoo), pause, patience),
	}
	for _, s := range c.steady {
		s.await("ready")
	}
	c.golang = startGo(t, connect, n.golang, n.pause)
	c.journal = history.NewJournal(&c.file)
	c.load = &traffic.Load{Addrs: addrs, Journal: c.journal, Root: "/load", Clients: n.load, Requests: 1 << 30,
		Duration: 24 * time.Hour, Outstanding: 2,
		TTL: true, OneModePerPath: true, Seed: seed, Timeout: *timeout, PerSecond: n.perSecond}
	c.recipes = &traffic.Recipes{Addrs: addrs, Journal: c.journal, Root: "/recipes", Clients: n.recipes, Rounds: 1 << 30,
		Duration: 24 * time.Hour,
		Timeout:  *timeout, PerSecond: n.rounds}
	go func() { c.ended <- c.load.Run() }()
	go func() { c.ended <- c.recipes.Run() }()
	return c
}

// underWay waits until the load is.
func (c *clients) underWay() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	z, err := zk.Open(ctx, strings.Join(c.load.Addrs[:3], ","), zk.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer z.Close()
	for ready := false; !ready || c.load.Sent() < 300; time.Sleep(10 * time.Millisecond) {
		if _, ready, err = z.Exists(ctx, "/recipes/counter"); err != nil && !zk.Retryable(err) {
			c.t.Fatal(err)
		}
	}
}

// goOn waits until the clients are all connected to servers, and the load has gone on. The long form goes on for
// *switchTime/2 at least.
func (c *clients) goOn(servers []*server) {
	c.t.Helper()
	before := c.load.Sent()
	if !testing.Short() {
		time.Sleep(*switchTime / 2)
	}
	c.attended(servers)
	if !awaited(func() bool { return c.load.Sent() >= before+goOnRequests }) {
		c.t.Fatalf("the load has sent only %d requests", c.load.Sent()-before)
	}
}

// goOnRequests is how many requests the load goes on for: those of about three seconds on a quiet machine.
const goOnRequests = 3000

// lossWords are in what a client says if an acknowledged write is lost or was done twice, or if two had a lock.
var lossWords = []string{
	"the counter", " items instead of ", " is lost", "two hold", "heard twice", "lock's znode", "the beat went",
	"a watch saw the versions",
}

// final marks a test that fails by what a client says, if slowness can't be the cause: that ends sessions.
func final(t *testing.T, said string) {
	t.Helper()
	for _, gone := range []string{"xpired", "became", "LOST"} {
		if strings.Contains(said, gone) {
			return
		}
	}
	if slices.ContainsFunc(lossWords, func(word string) bool { return strings.Contains(said, word) }) {
		verdict.Final(t, verdict.Checker)
	}
}

// keep writes a history to a file that stays, for zooid check, and says where.
func keep(events []byte) string {
	file, err := os.CreateTemp("", "zooid-history-*")
	if err == nil {
		_, err = file.Write(events)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Sprintf("its history isn't kept: %v", err)
	}
	return "its history is kept in " + file.Name()
}

// judge ends the clients, and asks each, and the checker, what they have seen.
func (c *clients) judge(version string) {
	t := c.t
	t.Helper()
	c.load.End()
	c.recipes.End()
	for range cap(c.ended) {
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	}
	if told, err := c.golang.end(); err != nil {
		final(t, err.Error())
		t.Errorf("go: %v", err)
	} else {
		t.Log("go done:", told)
	}
	for _, s := range c.steady {
		io.WriteString(s.in, "end\n")
		if line := s.line(); !strings.HasPrefix(line, "done:") {
			final(t, line)
			t.Errorf("%s: %s\n%.3000s", s.cmd.Path, line, s.errors.String())
		} else {
			t.Log(filepath.Base(s.cmd.Path), line)
		}
	}
	if err := c.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	events := c.file.Bytes()
	h, err := history.Read(bytes.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	o := check.Apache(version)
	o.ExtendedTypes, o.Quiesced = true, true
	r := check.Check(h, o)
	var b bytes.Buffer
	r.Print(&b, h)
	t.Log(b.String())
	if !r.OK() {
		verdict.Final(t, verdict.Checker)
		t.Errorf("%d violations; %s", len(r.Violations)+r.Dropped, keep(events))
	}
	for _, e := range h.Events {
		if e.Kind == history.KindConnected && e.Session == 0 {
			t.Errorf("a session has expired: %+v", e)
		}
	}
}

// javaClient returns the class path of Apache's own client.
func javaClient(t *testing.T) string {
	t.Helper()
	jars := filepath.Join(filepath.Dir(filepath.Dir(classPath(t, "3.9.5"))), "apache-3.9")
	if _, err := os.Stat(jars); err != nil {
		t.Fatalf("Apache's client isn't installed (%v); run test/compat/install.sh", err)
	}
	return filepath.Join(jars, "*")
}

func kazoo(t *testing.T) string {
	t.Helper()
	cache := filepath.Dir(filepath.Dir(classPath(t, "3.9.5")))
	python := filepath.Join(cache, "kazoo", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("kazoo isn't installed (%v); run test/compat/install.sh", err)
	}
	return python
}

// A steady client is a program of testdata's.
type steady struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Reader
	errors bytes.Buffer
}

func startSteady(t *testing.T, program string, args ...string) *steady {
	t.Helper()
	s := &steady{t: t, cmd: exec.Command(program, args...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.lines, s.cmd.Stderr = bufio.NewReader(out), &s.errors
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	return s
}

// line returns the next line of output, or why there is none.
func (s *steady) line() string {
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return "it ended: " + err.Error()
	}
	return strings.TrimSpace(line)
}

func (s *steady) await(what string) {
	s.t.Helper()
	if line := s.line(); line != what {
		s.t.Fatalf("%v said %q; want %q\n%.3000s", s.cmd.Args, line, what, s.errors.String())
	}
}

// mark returns the longest time that a write of one of the sessions took since the last mark.
func (s *steady) mark() time.Duration {
	s.t.Helper()
	io.WriteString(s.in, "mark\n")
	line := s.line()
	ms, err := strconv.Atoi(strings.TrimPrefix(line, "longest "))
	if err != nil {
		s.t.Fatalf("%s said %q\n%.3000s", s.cmd.Path, line, s.errors.String())
	}
	return time.Duration(ms) * time.Millisecond
}

// mark is that of all steady clients.
func (c *clients) mark() time.Duration {
	c.t.Helper()
	longest := c.golang.mark()
	for _, s := range c.steady {
		longest = max(longest, s.mark())
	}
	return longest
}
