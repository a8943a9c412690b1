package sim

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	flagMutants     = flag.String("sim.mutants", "", "plant the bugs whose names match this expression, one by one, and see whether seeds find them")
	flagMutantSeeds = flag.Int("sim.mutantseeds", 400, "seeds for each planted bug")
)

// A mutant is a bug planted into a copy of a file: no build but its own can hold
// it.
type mutant struct {
	name     string
	file     string // below internal
	old, new string // one occurrence
}

var mutants = []mutant{
	{"ack before sync", "storage/log.go", `if err := s.file.Fdatasync(); err != nil {`, `if err := error(nil); err != nil {`},
	{"vote not persisted", "quorum/loop.go", ` || hs.GetVote() != l.hard.GetVote()`, ``},
	{"vote and term not persisted", "quorum/loop.go", `sync = sync || hs.GetTerm() != l.hard.GetTerm() || hs.GetVote() != l.hard.GetVote()`, ``},
	{"failed write ignored", "quorum/loop.go", `if err := l.disk.Append(hs, m.GetEntries(), sync); err != nil {`, `if err := l.disk.Append(hs, m.GetEntries(), sync); false {`},
	{"broken log goes unnoticed", "quorum/loop.go", `err != nil && l.failed == nil {`, `err != nil && false {`},
	{"sync answered at once", "quorum/loop.go", `l.reads.ask(l, ticket)`, `l.o.State.Synced(ticket)`},
	{"sync does not wait for apply", "quorum/reads.go", `l.applied >= r.readyAt`, `true`},
	{"nothing sent again on a new connection", "quorum/loop.go", `l.o.State.Resend()`, `_ = e`},
	{"snapshot not durable under its name", "storage/snapwrite.go", `if err := w.dir.fs.SyncDir(w.dir.path); err != nil {`, `if err := error(nil); err != nil {`},
	{"segment not durable under its name", "storage/log.go", `if err := l.fs.SyncDir(l.path); err != nil {`, `if err := error(nil); err != nil {`},
	{"refused attach answered twice", "server/connect.go", `c == nil || c.attach == nil`, `c == nil`},
	{"attach sent again", "server/ensemble.go", `case c.attaching:`, `case false:`},
	{"no full timeout under a new leader", "server/lead.go", `r.expiry.heard(s.ID, s.Timeout, now)
			return true
		})
		r.expiry.refresh(now)`, `r.expiry.heard(s.ID, s.Timeout, 0)
			return true
		})`},
	{"expiry overtakes attach", "server/ensemble.go", `r.expiry.touch(q.Session, now) // no end`, `_ = now // no end`},
	{"sessions of followers not heard", "server/ensemble.go", `r.expiry.touch(id, now)`, `_, _ = id, now`},
	{"last packet of a closed connection not reported", "server/connect.go", `r.heardLast = append(r.heardLast, c.session)`, `_ = c`},
	{"write overtakes sync", "server/client.go", `r.held = c.syncing > 0`, `r.held = false`},
	{"read overtakes write", "server/receive.go", `t.c.unanswered.len() > 0 || `, ``},
	{"watch event after the reply", "server/replica.go", `r.fire(&res.Events[i], res.Zxid)`, `defer r.fire(&res.Events[i], res.Zxid)`},
	{"event told to who may not read", "server/replica.go", ` || !r.tree.Permits(ev.ACL, jute.PermRead, c.identities())`, ``},
	{"read with the zxid before", "server/receive.go", `func (r *replica) answer(c *client, out []byte, op *op, xid int32, body []byte) []byte {
	zxid := r.tree.LastZxid()`, `func (r *replica) answer(c *client, out []byte, op *op, xid int32, body []byte) []byte {
	zxid := r.tree.LastZxid() - 1`},
	{"setWatches misses changed data", "server/read.go", `case stat.Mzxid > req.RelativeZxid:`, `case stat.Mzxid < 0:`},
	{"setWatches misses changed children", "server/read.go", `case stat.Pzxid > req.RelativeZxid:`, `case stat.Pzxid < 0:`},
	{"clients stay when a snapshot skips events", "server/ensemble.go", `c.closeAfter("this server was behind`, `_, _ = c, fmt.Sprint("this server was behind`},
	{"expired session keeps its connection", "server/connect.go", `c.closeAfter("its session expired")`, `_ = c`},
	{"ids used again after a restart", "server/ids.go", `uint64(ms)<<24>>8 | server<<56`, `uint64(ms)*0 | server<<56`},
	{"duplicate applied", "tree/session.go", `case q.Seq < s.next:`, `case false:`},
	{"gap applied", "tree/session.go", `case q.Seq > s.next:`, `case false:`},
	{"old connection still writes", "tree/session.go", `case q.Cnx != s.cnx:`, `case false:`},
	{"an ephemeral outlives its session", "tree/session.go", `		if z == 0 {
			break`, `		if z == 0 || t.at(z).last == 0 {
			break`},
	{"sessions lost in a snapshot's digest", "server/snapshot.go", `Digest: r.tree.Digest(),`, `Digest: r.tree.Digest() + 1,`},
	{"zxid used again", "tree/tree.go", `		p.zxid = (p.zxid>>32 + 1) << 32
`, `		p.zxid = p.zxid >> 32 << 32
`},
	{"time goes back", "tree/tree.go", `max(p.time, ms)`, `ms`},
	{"purge of what no snapshot holds", "storage/purge.go", `l.segments[n].last <= index {`, `l.segments[n].last <= index+20 {`},
}

// rare are the bugs that a few hundred seeds may not meet, and why.
var rare = map[string]string{
	"nothing sent again on a new connection":          "a request must be lost with its connection under a client that waits long enough",
	"snapshot not durable under its name":             "the purge that follows makes the name durable, one call later",
	"expiry overtakes attach":                         "a client must come back within the milliseconds in which its session's end is decided",
	"last packet of a closed connection not reported": "a session must end by less than a report early, in a calm world",
	"clients stay when a snapshot skips events":       "a watcher must stay connected to a server that falls behind the log's end",
	"expired session keeps its connection":            "nothing is asked of the connection before its client gives up",
	"gap applied":                                     "a later request must overtake the copy of an earlier one on a new connection",
	"refused attach answered twice":                   "a request to attach is sent once; the check is a second wall",
	"old connection still writes":                     "found by one seed in a hundred",
}

// TestMutants plants the bugs and lets seeds look for them.
func TestMutants(t *testing.T) {
	if *flagMutants == "" {
		t.Skip("give -sim.mutants=. for all, which takes minutes")
	}
	match, err := regexp.Compile(*flagMutants)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	caught, all := 0, 0
	for _, m := range mutants {
		if !match.MatchString(m.name) {
			continue
		}
		all++
		began := time.Now()
		seeds, why := hunt(t, root, m)
		if why != "" {
			caught++
			fmt.Printf("caught    %-48s after %3d seeds, %3.0f s: %s\n", m.name, seeds, time.Since(began).Seconds(), why)
		} else {
			fmt.Printf("survives  %-48s       %3d seeds, %3.0f s\n", m.name, seeds, time.Since(began).Seconds())
			if rare[m.name] == "" {
				t.Errorf("%s was not found", m.name)
			}
		}
	}
	fmt.Printf("%d of %d planted bugs were found\n", caught, all)
}

// hunt builds this package with a bug and runs seeds until one fails; why is
// what it says, "" if none does.
func hunt(t *testing.T, root string, m mutant) (seeds int, why string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(root, "internal", m.file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n == 0 {
		t.Errorf("%s: %s no longer holds %q", m.name, m.file, m.old)
		return 0, ""
	}
	planted := filepath.Join(dir, "planted.go")
	overlay := filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: planted}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{planted: []byte(strings.Replace(string(b), m.old, m.new, 1)), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "sim.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, "./internal/sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", m.name, err, out)
		return 0, ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, bin, "-test.run=^TestUntilFailure$", "-test.timeout=0", fmt.Sprint("-sim.seeds=", *flagMutantSeeds), fmt.Sprint("-sim.seconds=", *flagSeconds), "-sim.from=100000", "-sim.worker=0", fmt.Sprint("-sim.v=", *flagVerbose), fmt.Sprint("-sim.shrink=", *flagShrink))
	out, _ := run.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "smallest ") {
			fmt.Print(line)
		}
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "found after "); ok {
			var n int
			fmt.Sscan(rest, &n)
			_, why, _ := strings.Cut(rest, ": ")
			return n, strings.TrimSpace(why)
		}
	}
	if strings.Contains(string(out), "panic:") {
		return 0, "panic outside of a step"
	}
	return *flagMutantSeeds, ""
}

// TestUntilFailure runs seeds until one fails, for hunt.
func TestUntilFailure(t *testing.T) {
	if *flagWorker < 0 {
		t.Skip("only as a process of TestMutants")
	}
	for i := range *flagSeeds {
		r := Run(NewPlan(*flagFrom+uint64(i), *flagSeconds))
		if r.OK() {
			continue
		}
		first, _, _ := strings.Cut(r.Failure[0], "\n")
		if _, after, ok := strings.Cut(r.Failure[0], "violations of "); ok {
			first, _, _ = strings.Cut(after, "\n")
			first = "checker: " + first
		}
		fmt.Printf("found after %d: %s\n", i+1, first[:min(len(first), 110)])
		if *flagVerbose {
			plan, err := json.Marshal(Shrink(r.Plan, *flagShrink).Plan)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("smallest %s\n", plan)
		}
		return
	}
}
