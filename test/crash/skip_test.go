package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/verdict"
)

// plantedPath is that of the znode whose set panics.
const plantedPath = "/planted"

// buildPlanted compiles cmd/zooid with a bug: applying a set of plantedPath does what bug says when the
// znode has been changed and nothing else has. The compiler takes a changed copy of one
// source file for it, so nothing of the bug is in the program that people get.
func buildPlanted(t testing.TB, bug string, imports ...string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const line = "r.Stat, r.Err = t.writeData(path, data, version, q, r)\n"
	file := filepath.Join(root, "internal", "tree", "apply.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), line); n != 1 {
		t.Fatalf("%s has %d lines %q; the bug belongs behind one", file, n, line)
	}
	bug = fmt.Sprintf("if path == %q {\n\t%s\n}\n", plantedPath, bug)
	planted := strings.Replace(string(text), line, line+bug, 1)
	for _, name := range imports {
		planted = strings.Replace(planted, "import (\n", fmt.Sprintf("import (\n\t%q\n", name), 1)
	}
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, "apply.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir,
		"zooid")
	if err := os.WriteFile(changed, []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/zooid")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build cmd/zooid with a bug: %v\n%s", err, out)
	}
	return program
}

// TestEntryThatPanics has an entry that panics stop three servers under load, five times.
// Each time operators decide that the servers go on without it, by the command in the
// servers' message: with one server that was down, as the message says, with servers killed
// meanwhile, with one that never got the entry, and with one whose decision is about another
// entry. The last time one server gets a program that applies the entry, and the decisions
// are taken back. Nothing that was acknowledged is lost, and the servers come to the same
// state.
func TestEntryThatPanics(t *testing.T) {
	seed, rng := hurtful(t)
	o := RunOptions{
		Options: Options{Servers: 3, Program: buildPlanted(t, `panic("planted")`)}, Seed: seed,
		Pinned: 2, Roaming: 4, Outstanding: 8, AnsweredMin: 500, Strangers: true, Expiring: true,
	}
	// A server that is left alone is to turn its clients away soon, which then ask the others.
	o.Config = map[string]string{"syncLimit": "10"}
	b := &breakdown{Run: Begin(t, o), t: t, rng: rng}
	write(t, b.Servers[0].Addr, plantedPath)
	for i, decide := range []func(){b.down, b.asTold, b.killed, b.named, b.differently} {
		b.WaitAnswered(100)
		decide()
		for !b.ready() {
			b.sentAgain()
		}
		for _, s := range b.Servers {
			write(t, s.Addr, fmt.Sprintf("/after-%d-%d", i, s.ID))
		}
		b.skipped()
	}
	b.WaitAnswered(100)
	b.mended(Build(t))
	b.WaitAnswered(100)
	b.Verdict()
	b.sameState()
}

// A breakdown is a Run whose servers stop at an entry.
type breakdown struct {
	*Run
	t   *testing.T
	rng *rand.Rand

	entry   string // index, term and hash, as the servers' message says
	command string // the command of the message
	said    []int  // bytes of each server's log before the present step
}

// ready waits until all servers serve. It returns false if they have stopped at another entry.
func (b *breakdown) ready() bool {
	for _, s := range b.Servers {
		if _, err := s.Ready(); err != nil {
			all := breakdownMessage.FindAllStringSubmatch(b.since(s), -1)
			if len(all) == 0 || all[len(all)-1][1] == b.entry {
				b.t.Fatal(err)
			}
			return false
		}
	}
	return true
}

// sentAgain has operators decide about one more entry, which has the same request: when the leader stopped, the server
// of its client lived on for a moment, and sent it to the next leader.
func (b *breakdown) sentAgain() {
	b.t.Logf("the request of entry %s is in the log again", b.entry)
	for _, s := range b.Servers {
		s.Kill()
	}
	b.mark()
	b.entry = ""
	b.start(b.Servers...)
	b.stopped(b.Servers...)
	for _, s := range b.Servers {
		b.decide(s)
	}
	b.start(b.Servers...)
}

// asTold starts the servers again, which changes nothing, and then does what their
// message says: stop all servers, run the command on each of them, and start them.
func (b *breakdown) asTold() {
	b.stop(b.Servers...)
	b.mark()
	b.start(b.Servers...)
	b.stopped(b.Servers...)
	for _, s := range b.Servers {
		b.decide(s)
	}
	b.start(b.Servers...)
}

// killed kills a server between the decisions, and others while they agree.
func (b *breakdown) killed() {
	b.stop(b.Servers...)
	first, second, third := b.deal()
	b.decide(first)
	b.decide(second)
	b.start(first, second)
	b.waits(first)
	first.Kill()
	b.decide(third)
	b.start(third)
	b.again(second)
	b.start(first)
	for range 3 {
		moment(b.rng, 300*time.Millisecond)
		b.again(b.Servers[b.rng.IntN(len(b.Servers))])
	}
}

// differently has one server's decision be about another entry. That server stops and says
// so, and the others skip nothing. Moved elsewhere, as the message says, and decided anew it
// is as the others'.
func (b *breakdown) differently() {
	b.stop(b.Servers...)
	first, second, other := b.deal()
	b.decide(first)
	b.decide(second)
	b.decide(other)
	skips, err := storage.Skips(storage.OS{}, other.LogDir(), 0)
	if err != nil || len(skips) == 0 {
		b.t.Fatalf("server %d has %d decisions, %v", other.ID, len(skips), err)
	}
	skip := skips[len(skips)-1]
	skip.Hash = storage.HashEntry([]byte("another entry"))
	if err := storage.WriteSkip(storage.OS{}, other.LogDir(), skip); err != nil {
		b.t.Fatal(err)
	}
	b.start(b.Servers...)
	file := b.decision(other)
	if code, err := other.Exit(endPatience); err != nil || code != 1 ||
		!b.says(other, "the decision in "+file+" is about an entry") || !b.says(other,
		"Move the file elsewhere, and decide again") {
		b.t.Fatalf("server %d has decided otherwise; it ended with code %d (%v) and said:\n%s", other.ID, code, err,
			other.LogEnd())
	}
	b.waits(first)
	b.waits(second)
	if err := os.Rename(file, filepath.Join(b.t.TempDir(), "elsewhere")); err != nil {
		b.t.Fatal(err)
	}
	b.decide(other)
	b.start(other)
}

// down has one server be down while the others stop and operators decide. It has no report
// then, and can't decide before it has come to the entry, beside the others.
func (b *breakdown) down() {
	first, second, late := b.deal()
	late.Kill()
	b.stop(first, second)
	b.decide(first)
	b.decide(second)
	b.start(first, second)
	b.waits(first)
	b.waits(second)
	if text, ok := b.run(late); ok || !strings.Contains(text, "there is no report of an entry") ||
		!strings.Contains(text, "If it stops at the same entry as the others, run this again") {
		b.t.Fatalf("server %d has not come to the entry, and decides: %s", late.ID, text)
	}
	b.start(late)
	if code, err := late.Exit(endPatience); err != nil || code != 1 {
		b.t.Fatalf("server %d ended with code %d (%v); its log ends:\n%s", late.ID, code, err, late.LogEnd())
	}
	b.brokeDown(late)
	b.decide(late)
	b.start(late)
}

// named has one server be down while the others stop and operators decide. The entry is named on it.
func (b *breakdown) named() {
	first, second, late := b.deal()
	late.Kill()
	b.stop(first, second)
	b.decide(first)
	_, place, ok := strings.Cut(b.decide(second), "-entry ")
	if !ok {
		b.t.Fatal("the command doesn't say how to name the entry")
	}
	late.zooid(b.t, "skip-entry", "-yes", "-why", "it never got the entry", "-entry", strings.TrimSpace(place),
		late.config())
	b.start(b.Servers...)
}

// mended has two servers wait for a decision about an entry that the third one applies with another program. Told so,
// the operators take the decisions back, and all run that program.
func (b *breakdown) mended(program string) {
	first, second, third := b.deal()
	b.stop(b.Servers...)
	b.decide(first)
	b.decide(second)
	third.program = program
	b.mark()
	b.start(b.Servers...)
	third.awaitLog(b.t, "a peer waits for a decision to skip an entry that this server has applied")
	for _, s := range b.Servers {
		s.Kill()
		s.program = program
	}
	b.withdraw(first)
	b.withdraw(second)
	b.start(b.Servers...)
	for _, s := range b.Servers {
		if _, err := s.Ready(); err != nil {
			b.t.Fatal(err)
		}
		if got := s.zooid(b.t, "cli", "-server", s.Addr, "get", plantedPath); strings.TrimSpace(got) != "x" {
			b.t.Errorf("server %d has %q in the znode whose set panicked", s.ID, got)
		}
		if b.tells(s, skippedSign) {
			b.t.Errorf("server %d skips the entry", s.ID)
		}
	}
}

// withdraw takes a server's decision back.
func (b *breakdown) withdraw(s *Server) {
	b.t.Helper()
	text := s.zooid(b.t, "skip-entry", "-yes", "-withdraw", s.config())
	if !strings.Contains(text, "is no longer skipped here") {
		b.t.Fatal(text)
	}
}

// deal returns the servers in some order.
func (b *breakdown) deal() (first, second, third *Server) {
	order := b.rng.Perm(len(b.Servers))
	return b.Servers[order[0]], b.Servers[order[1]], b.Servers[order[2]]
}

// mark notes where the servers' logs end.
func (b *breakdown) mark() {
	b.said = b.said[:0]
	for _, s := range b.Servers {
		b.said = append(b.said, len(s.Log()))
	}
}

// since is what a server has said since the last mark.
func (b *breakdown) since(s *Server) string { return s.Log()[b.said[s.ID-1]:] }

func (b *breakdown) says(s *Server, text string) bool { return strings.Contains(b.since(s), text) }

// tells reports whether a server has said a text of the entry at which the servers stop.
func (b *breakdown) tells(s *Server, text string) bool {
	for line := range strings.Lines(b.since(s)) {
		if strings.Contains(line, text) && strings.Contains(line, " index="+b.index()+" ") {
			return true
		}
	}
	return false
}

// index is that of the entry at which the servers stop.
func (b *breakdown) index() string {
	index, _, _ := strings.Cut(b.entry, " ")
	return index
}

// stop asks for the set that panics and waits until servers have stopped at it.
func (b *breakdown) stop(servers ...*Server) {
	b.t.Helper()
	b.mark()
	b.entry = ""
	b.set()
	b.stopped(servers...)
}

// set asks for the set that panics.
func (b *breakdown) set() {
	b.t.Helper()
	c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Timeout: sessionTimeout}, b.Addrs()...)
	q := jute.SetDataRequest{Path: plantedPath, Data: []byte("x"), Version: -1}
	for deadline := time.Now().Add(startPatience); ; time.Sleep(readyPause) {
		err := c.Connect()
		if err == nil {
			call, err := c.Do(jute.OpSetData, q.Append(nil))
			if err == nil {
				b.t.Fatalf("the set that panics is answered: %v", call.Err)
			}
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal(err)
		}
	}
}

// lonelyPause is how long a server may take to stop when others have: alone it doesn't
// learn that the entry is committed.
const lonelyPause = 2 * time.Second

// stopped waits until servers have stopped at the entry, each at least once since the last
// mark. If those that have don't stay up long enough to bring another to it, the operator
// decides there, so that they wait at the entry, and takes the decisions back.
func (b *breakdown) stopped(servers ...*Server) {
	b.t.Helper()
	have, lack := b.ended(servers, lonelyPause)
	for deadline := time.Now().Add(startPatience); len(have) == 0; {
		if time.Now().After(deadline) {
			b.t.Fatal("no server has stopped at the entry")
		}
		have, lack = b.ended(servers, lonelyPause)
	}
	if len(lack) == 0 {
		return
	}
	b.t.Logf("%d of %d servers have stopped at entry %s; they decide and wait for the others", len(have), len(servers),
		b.entry)
	for _, s := range have {
		b.decide(s)
	}
	b.start(have...)
	for _, s := range lack {
		if still, _ := b.ended([]*Server{s}, startPatience); len(still) == 0 {
			b.t.Fatalf("server %d has not stopped at entry %s, and others wait at it; its log ends:\n%s", s.ID, b.entry,
				s.LogEnd())
		}
	}
	for _, s := range have {
		s.Kill()
		b.withdraw(s)
	}
	b.mark()
}

// ended waits for servers to end, for some time each. have ended, all at the entry, and
// lack have not.
func (b *breakdown) ended(servers []*Server, patience time.Duration) (have, lack []*Server) {
	b.t.Helper()
	for _, s := range servers {
		code, err := s.Exit(patience)
		if err != nil {
			lack = append(lack, s)
			continue
		}
		if code != 1 {
			b.t.Fatalf("server %d ended with code %d; its log ends:\n%s", s.ID, code, s.LogEnd())
		}
		b.brokeDown(s)
		have = append(have, s)
	}
	return have, lack
}

// decision is the file of a server's decision about the entry.
func (b *breakdown) decision(s *Server) string {
	return filepath.Join(s.LogDir(), "entry-"+b.index()+".skip")
}

// breakdownMessage is that of a server that stops at an entry, in its log.
var breakdownMessage = regexp.MustCompile(`apply log entry (\d+ of term \d+ \(SHA-256 [0-9a-f]{64}\)): it panicked: .*planted.*` +
	`Otherwise an operator may decide that the ensemble goes on without the entry: stop all servers, run '(zooid [^']*)' on each of them, and start them`)

// brokeDown takes in the message of a server that has stopped at an entry; it must be the
// same entry at each server and each time.
func (b *breakdown) brokeDown(s *Server) {
	b.t.Helper()
	all := breakdownMessage.FindAllStringSubmatch(b.since(s), -1)
	if len(all) == 0 {
		b.t.Fatalf("server %d ended, and not at an entry; its log ends:\n%s", s.ID, s.LogEnd())
	}
	for _, m := range all {
		if b.entry == "" {
			b.entry, b.command = m[1], m[2]
		}
		if b.entry != m[1] || b.command != m[2] {
			b.t.Fatalf("server %d stopped at entry %s and names %q, another at entry %s, with %q", s.ID, m[1], m[2], b.entry,
				b.command)
		}
	}
}

// run runs the command of the message on a server's machine and answers its question with
// yes. ok is false if it fails.
func (b *breakdown) run(s *Server) (text string, ok bool) {
	words := strings.Fields(b.command)
	for i, word := range words {
		switch word {
		case "REASON":
			words[i] = "a bug of this version"
		case "zoo.cfg":
			words[i] = filepath.Join(s.Folder, "zoo.cfg")
		}
	}
	cmd := exec.Command(s.program, words[1:]...)
	cmd.Stdin = strings.NewReader("yes\n")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// decide has the operator decide on a server, and returns what the command says.
func (b *breakdown) decide(s *Server) string {
	b.t.Helper()
	text, ok := b.run(s)
	if !ok || !strings.Contains(text, "entry "+b.index()+" of term") || !strings.Contains(text, "is to be skipped here") {
		b.t.Fatalf("%q on server %d, stopped at entry %s, says:\n%s", b.command, s.ID, b.entry, text)
	}
	return text
}

func (b *breakdown) start(servers ...*Server) {
	b.t.Helper()
	for _, s := range servers {
		if err := s.Start(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// again kills a server and starts it again.
func (b *breakdown) again(s *Server) {
	b.t.Helper()
	s.Kill()
	b.start(s)
}

// waits holds that a server says that it waits for another's decision, and neither skips the
// entry nor serves.
func (b *breakdown) waits(s *Server) {
	b.t.Helper()
	for deadline := time.Now().Add(startPatience); !b.tells(s,
		"nothing is applied from this entry on until all members have decided to skip it"); time.Sleep(readyPause) {
		if time.Now().After(deadline) || !s.Running() {
			b.t.Fatalf("server %d doesn't say that it waits; its log ends:\n%s", s.ID, s.LogEnd())
		}
	}
	if mode, err := s.Mode(); err == nil && mode != "" {
		b.t.Errorf("server %d is %s, and another has not decided", s.ID, mode)
	}
	if b.tells(s, skippedSign) {
		b.t.Errorf("server %d skips the entry, and another has not decided", s.ID)
	}
}

const skippedSign = "a log entry is skipped, as all members have decided"

// skipped holds that each server says that it has skipped the entry.
func (b *breakdown) skipped() {
	b.t.Helper()
	for _, s := range b.Servers {
		if !b.tells(s, skippedSign) {
			b.t.Errorf("server %d serves and doesn't say that it has skipped entry %s", s.ID, b.entry)
		}
	}
}

// sameState evaluates the log of each server, all of which are down, up to where all have
// come, and holds the digests of the states against each other and, entry by entry, against
// those that the log tells.
func (b *breakdown) sameState() { sameState(b.t, b.Servers...) }

// sameState is the method, for servers of any test.
func sameState(t testing.TB, servers ...*Server) {
	t.Helper()
	var common uint64
	for _, s := range servers {
		dir, _, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		hard, _, err := dir.Log().InitialState()
		if err := errors.Join(err, dir.Close()); err != nil {
			t.Fatal(err)
		}
		if common == 0 || hard.GetCommit() < common {
			common = hard.GetCommit()
		}
	}
	var states []uint64
	for _, s := range servers {
		digest, err := replay(s, common)
		if err != nil {
			t.Fatalf("evaluate the log of server %d: %v", s.ID, err)
		}
		states = append(states, digest)
	}
	if slices.Min(states) != slices.Max(states) {
		verdict.Final(t, verdict.Digest)
		t.Errorf("after entry %d the states of the servers have the digests %x", common, states)
	}
}

// replay evaluates a server's log up to an entry as the server does, without those that it
// skips, and returns the digest of the state.
func replay(s *Server, upTo uint64) (digest uint64, err error) {
	dir, state, err := s.open()
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	skips, err := dir.Skips()
	if err != nil {
		return 0, err
	}
	applied, _, _ := state.Position()
	list, err := dir.Log().Entries(applied+1, upTo+1, 1<<30)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		entry := quorum.Entry{Term: e.GetTerm(), Index: e.GetIndex()}
		skip := slices.ContainsFunc(skips,
			func(s storage.Skip) bool { return s.Index == entry.Index && s.Hash == storage.HashEntry(e.GetData()) })
		if e.GetType() == raftpb.EntryNormal && !skip {
			entry.Data = e.GetData()
		}
		if err := state.Apply([]quorum.Entry{entry}); err != nil {
			return 0, err
		}
		if state.Doubtful() {
			return 0, fmt.Errorf("entry %d tells of another state than this one", entry.Index)
		}
	}
	index, _, digest := state.Position()
	if index != upTo {
		return 0, fmt.Errorf("it ends at entry %d, not at %d", index, upTo)
	}
	return digest, nil
}
