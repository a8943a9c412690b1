package crash

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/verdict"
)

// superUser may read every znode, for the dump at the end.
const superUser = "super:crash"

// root is the znode below which a run works.
const root = "/crash"

// RunOptions configure a Run, apart from the faults, which the test causes.
type RunOptions struct {
	Options
	Seed uint64
	// Pinned is the number of clients pinned to each server, Roaming the number of
	// those that may use all servers.
	Pinned, Roaming int
	Outstanding     int           // per client
	Pause           time.Duration // between two requests of a client
	Pulses          bool          // one on each server
	// AnsweredMin is the least number of requests that must be answered for the run to count.
	AnsweredMin int64
	// Allowed are answers that the load may get although no client should.
	Allowed []jute.Code
	// Strangers says that other clients write to the servers, outside the load's
	// root. Their requests aren't recorded or judged.
	Strangers bool
	// DeliveryMax, if not 0, is how long a reply may take from a server to the journal (check.Options).
	DeliveryMax time.Duration
	// Expiring says that sessions may expire, because service is interrupted for longer than they last.
	Expiring bool
	// DiskFills says that the disk of a server alone fills up: until there is room, sessions begin without the log, and
	// end with the process.
	DiskFills bool
}

// loadBodyMax is more than the length of any request of a Load.
const loadBodyMax = 64 << 10

// A Run is a set of servers under recorded load, with a verdict at the end.
type Run struct {
	*Ensemble
	Load   *Load
	Pulses []*Pulse

	t          testing.TB
	o          RunOptions
	file       *os.File
	journal    *history.Journal
	collectors []*Collector
	began      time.Time
	outages    [][]outage // by server
}

// outage is an interval in which a server's clients may lose their connections.
type outage struct{ from, to time.Time }

const (
	// outageSlack is added to an outage's end, for clients that connect meanwhile.
	outageSlack = time.Second
	// noticeMax is how much later than an outage's end a client may find out that a
	// connection from before the outage has ended.
	noticeMax = time.Minute
)

// explains reports whether a connection may have ended because of the outage.
func (o outage) explains(b broken) bool {
	switch {
	case b.found.Before(o.from):
		return false
	case o.to.IsZero(), b.found.Before(o.to.Add(outageSlack)):
		return true
	}
	return b.began.Before(o.from) && b.found.Before(o.to.Add(noticeMax))
}

// Begin starts the servers and the load. Verdict must be called to end the run.
func Begin(t testing.TB, o RunOptions) *Run {
	t.Helper()
	o.Config = maps.Clone(o.Config)
	if o.Config == nil {
		o.Config = map[string]string{}
	}
	o.Config["DigestAuthenticationProvider.superDigest"] = traffic.DigestID(superUser).ID
	file, err := os.Create(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Ensemble: Start(t, o.Options), t: t, o: o, file: file, journal: history.NewJournal(file), began: time.Now()}
	t.Cleanup(func() { file.Close() })
	for _, s := range r.Servers {
		c := NewCollector(s.ID)
		if o.Strangers {
			c.BodyMax = loadBodyMax
		}
		r.collectors = append(r.collectors, c)
	}
	r.outages = make([][]outage, len(r.Servers))
	r.Load = &Load{Journal: r.journal, Root: root, Outstanding: o.Outstanding, Pause: o.Pause, Seed: o.Seed}
	addrs := r.Addrs()
	for i := range addrs {
		for range o.Pinned {
			r.Load.Addrs = append(r.Load.Addrs, addrs[i:i+1])
		}
	}
	for i := range o.Roaming {
		k := i % len(addrs)
		r.Load.Addrs = append(r.Load.Addrs, slices.Concat(addrs[k:], addrs[:k]))
	}
	if err := r.Load.Start(); err != nil {
		t.Fatalf("start the load: %v", err)
	}
	t.Cleanup(r.Load.Stop)
	if o.Pulses {
		for i, addr := range addrs {
			p, err := StartPulse(r.journal, addr, root, i)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
			r.Pulses = append(r.Pulses, p)
		}
	}
	return r
}

// Down records that from now on a server's clients may lose their connections.
// Up ends that.
func (r *Run) Down(server int) {
	r.outages[server] = append(r.outages[server], outage{from: time.Now()})
}

// Up undoes Down.
func (r *Run) Up(server int) {
	list := r.outages[server]
	list[len(list)-1].to = time.Now()
}

// Disturbed returns how many connections of clients pinned to a server, and of
// its pulse, ended while nothing was done to that server, with an example.
func (r *Run) Disturbed() (n int, example string) {
	count := func(server int, who string, breaks []broken) {
		for _, b := range breaks {
			if !slices.ContainsFunc(r.outages[server], func(o outage) bool { return o.explains(b) }) {
				n++
				example = fmt.Sprintf("%s of server %d at %s UTC", who, server+1, b.found.UTC().Format("15:04:05.000"))
			}
		}
	}
	for client := range r.o.Pinned * len(r.Servers) {
		count(client/r.o.Pinned, fmt.Sprintf("client %d", client), r.Load.breaks(client))
	}
	for _, p := range r.Pulses {
		breaks, _ := p.broken()
		count(p.Server, "the pulse", breaks)
	}
	return n, example
}

// Collect reads the log of a killed server. The log of a single server is
// committed as it is.
func (r *Run) Collect(server int) {
	r.t.Helper()
	if err := r.collectors[server].Read(r.Servers[server].dirs(), len(r.Servers) == 1); err != nil {
		r.t.Fatal(err)
	}
}

// Restart starts a server that is down and returns how long it took until it served.
func (r *Run) Restart(server int) time.Duration {
	r.t.Helper()
	began := time.Now()
	if err := r.Servers[server].Start(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Servers[server].Ready(); err != nil {
		r.t.Fatal(err)
	}
	return time.Since(began)
}

// WaitAnswered waits until n more requests have been answered.
func (r *Run) WaitAnswered(n int64) {
	r.t.Helper()
	from, deadline := r.Load.Count().Answered, time.Now().Add(restPatience)
	for r.Load.Count().Answered < from+n {
		if time.Now().After(deadline) {
			r.t.Fatalf("fewer than %d requests were answered within %v", n, restPatience)
		}
		time.Sleep(readyPause)
	}
}

// Verdict ends the run: the clients come to rest, all servers are killed and
// started again, every server's tree is compared with the history, and the
// history is checked against every promise. It returns the clients' observations and the
// checker's report. Every violation has failed the test already.
func (r *Run) Verdict() (Count, *check.Report) {
	r.t.Helper()
	r.awaitEnough()
	r.Load.Stop()
	for _, p := range r.Pulses {
		p.Stop()
	}
	count := r.Load.Count()
	for _, code := range r.o.Allowed {
		delete(count.Refused, code)
	}
	took := time.Since(r.began)
	if err := r.Load.Rest(); err != nil {
		r.t.Fatal(err)
	}
	for i := range r.Servers {
		r.Servers[i].Kill()
		r.Collect(i)
	}
	if err := r.startAll(); err != nil {
		r.t.Fatalf("start the servers for the last time: %v", err)
	}
	if err := r.Load.Rest(); err != nil {
		r.t.Fatal(err)
	}
	for _, s := range r.Servers {
		if err := dump(s.Addr, int32(s.ID), r.dumpRoot(), r.journal); err != nil {
			r.t.Fatal(err)
		}
	}
	r.Load.Drop()
	whole := 0 // logs read from their first entry
	for i, s := range r.Servers {
		if code := s.Stop(); code != 0 {
			r.t.Errorf("server %d ended with code %d on SIGTERM", s.ID, code)
		}
		if err := r.collectors[i].Read(s.dirs(), true); err != nil {
			r.t.Fatal(err)
		}
		if r.collectors[i].Record(r.journal) {
			whole++
		}
	}
	r.t.Logf("the logs of %d of %d servers were read from their first entry", whole, len(r.Servers))
	r.t.Logf("%d requests answered and %d lost with a connection in %v; %d connections ended", count.Answered, count.Lost,
		took.Round(time.Millisecond), count.Breaks)
	switch {
	case count.Err != nil:
		r.t.Errorf("the load failed: %v", count.Err)
	case len(count.Refused) > 0:
		r.t.Errorf("requests were answered with errors that no client deserves: %v", count.Refused)
	case count.Expired > 0 && !r.o.Expiring && !r.o.DiskFills:
		r.t.Errorf("%d sessions expired; none was to", count.Expired)
	case count.Answered < r.o.AnsweredMin:
		r.t.Errorf("only %d requests were answered, fewer than %d: the run proves too little", count.Answered, r.o.AnsweredMin)
	}
	for _, p := range r.Pulses {
		_, wrong := p.broken()
		wrong = slices.DeleteFunc(wrong, func(answer string) bool {
			return slices.ContainsFunc(r.o.Allowed, func(code jute.Code) bool { return strings.HasSuffix(answer, code.Error()) })
		})
		if len(wrong) > 0 {
			r.t.Errorf("%d writes of the pulse on server %d failed; the first: %s", len(wrong), p.Server+1, wrong[0])
		}
	}
	return count, r.judge(whole > 0)
}

// awaitEnough gives a slow machine time until so many requests are answered that the
// run counts.
func (r *Run) awaitEnough() {
	for deadline := time.Now().Add(restPatience); r.Load.Count().Answered < r.o.AnsweredMin; time.Sleep(readyPause) {
		if time.Now().After(deadline) {
			return // Verdict tells
		}
	}
}

// judge checks the recorded history.
func (r *Run) judge(exact bool) *check.Report {
	r.t.Helper()
	if err := r.journal.Flush(); err != nil {
		r.t.Fatal(err)
	}
	b, err := os.ReadFile(r.file.Name())
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := history.Parse(b)
	if err != nil {
		r.t.Fatal(err)
	}
	if !exact {
		// Part of the log was purged unread. The clients' view alone can't tell which
		// unanswered writes a tree must show.
		h.Servers = nil
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.Kind == history.KindDump })
	}
	o := check.Options{ExtendedTypes: true, ViolationsMax: 10, DeliveryMax: r.o.DeliveryMax}
	o.LocalSessions = r.o.DiskFills
	if r.o.Strangers {
		o.Under = root
		leaveOutStrangers(h)
	}
	report := check.Check(h, o)
	var text strings.Builder
	report.Print(&text, h)
	r.t.Logf("the checker's report:\n%s", &text)
	if !report.OK() || exact && report.Undecided > 0 {
		kept := keep(b)
		verdict.Final(r.t, verdict.Checker)
		r.t.Errorf("the history breaks promises; it is kept in %s, see it with: zooid check -ttl %s", kept, kept)
	}
	return report
}

// dumpRoot returns the znode at which the dump of the trees begins.
func (r *Run) dumpRoot() string {
	if r.o.Strangers {
		return root
	}
	return "/"
}

// leaveOutStrangers removes the requests of unrecorded sessions from the logs:
// none of them concerns the load's root, and they may take up gigabytes.
func leaveOutStrangers(h *history.History) {
	ours := map[int64]bool{0: true}
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == history.KindConnected {
			ours[e.Session] = true
		}
	}
	for i := range h.Servers {
		l := &h.Servers[i]
		l.Entries = slices.DeleteFunc(l.Entries, func(e history.Entry) bool { return !ours[e.Session] })
	}
}

// keep stores a history in a file that outlives the test.
func keep(b []byte) string {
	f, err := os.CreateTemp("", "zooid-crash-history-")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err.Error()
	}
	return f.Name()
}

// discard receives and drops the records of a dump's own connection.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// dump records every znode of a server at rest, from a path on, read by the
// super user over a session of its own. Servers at rest may still elect a
// leader, which ends connections that have no session yet: dump starts over
// until it has read everything.
func dump(addr string, server int32, from string, j *history.Journal) error {
	c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Digest: superUser}, addr)
	for deadline := time.Now().Add(restPatience); ; time.Sleep(redialPause) {
		found, err := readAll(c, server, from)
		if err == nil {
			for _, e := range found {
				j.Record(e)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dump server %d: %w", server, err)
		}
	}
}

// readAll reads every znode from a path on, over a new connection.
func readAll(c *traffic.Client, server int32, from string) (found []history.Event, err error) {
	if err := c.Connect(); err != nil {
		return nil, err
	}
	defer c.Close()
	sync := jute.PathRequest{Path: "/"}
	if _, err := c.Do(jute.OpSync, sync.Append(nil)); err != nil {
		return nil, err
	}
	for paths := []string{from}; len(paths) > 0; {
		path := paths[0]
		paths = paths[1:]
		q := jute.PathWatchRequest{Path: path}
		data, err := c.Do(jute.OpGetData, q.Append(nil))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		list, err := c.Do(jute.OpGetChildren, q.Append(nil))
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		if data.Err != jute.OK || list.Err != jute.OK {
			return nil, fmt.Errorf("read %s: %v, %v", path, data.Err, list.Err)
		}
		found = append(found,
			history.Event{
				Kind: history.KindDump, Conn: server, Zxid: data.Zxid, Body: append(jute.AppendString(nil, path), data.Body...),
			})
		for _, name := range jute.NewDecoder(list.Body).Strings() {
			paths = append(paths, strings.TrimSuffix(path, "/")+"/"+name)
		}
	}
	return found, nil
}

// connect tries until c is connected: an ensemble that elects a leader turns
// away clients that have no session yet.
func connect(c *traffic.Client) error {
	for deadline := time.Now().Add(restPatience); ; time.Sleep(redialPause) {
		err := c.Connect()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// percentiles formats durations for people.
func percentiles(list []time.Duration) string {
	if len(list) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(list))
	at := func(q float64) time.Duration {
		return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, max %v of %d", at(0.50), at(0.99), at(1), len(list))
}
