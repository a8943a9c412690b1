package moving

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/test/verdict"
)

var (
	histories = flag.Int("moving.histories", 40, "histories in all; half of them with -short")
	firstSeed = flag.Uint64("moving.seed", 1, "of the first history")
)

func TestMain(m *testing.M) {
	code := m.Run()
	removeBuilt()
	os.Exit(code)
}

func need(t *testing.T) {
	t.Helper()
	if os.Getenv("ZOOID_COMPAT") == "" {
		t.Skip("set ZOOID_COMPAT=1 (make compat): this needs Java and Apache's jars")
	}
}

// both are the versions with which each way to lose data is tried.
var both = []string{"3.8.4", "3.9.5"}

// withEach runs a test with each of some versions.
func withEach(t *testing.T, versions []string, try func(t *testing.T, version string)) {
	t.Helper()
	need(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { try(t, version) })
	}
}

// TestHistories makes histories on real servers, takes their files at random instants, and compares what Apache makes
// of them with what Zooid does: the trees by their digests, and each reply of a full read-out of a server on them.
func TestHistories(t *testing.T) {
	need(t)
	program := zooid(t)
	all := *histories
	if testing.Short() {
		all /= 2
	}
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			share := all / len(versions)
			if i < all%len(versions) {
				share++
			}
			playHistories(t, program, version, *firstSeed+uint64(i)*1_000_000, share)
		})
	}
}

// compressions are what the servers write snapshots with, one after the other.
var compressions = []string{"", "gz", "snappy"}

// writesBetween is how many writes there are between two instants at least.
const writesBetween = 50

// exportEach says that one history in so many is exported again, too.
const exportEach = 4

func playHistories(t *testing.T, program, version string, seed uint64, count int) {
	y := &judgement{program: program, restarter: startRestarter(t, version)}
	var seen struct{ broken, torn, digests, wrong int }
	const perServer = 10
	for done := 0; done < count; {
		dir := t.TempDir()
		rnd := rand.New(rand.NewPCG(seed, uint64(done)))
		compression := compressions[done/perServer%len(compressions)]
		s := startApache(t, version, dir, fmt.Sprintf("-Dzookeeper.snapCount=%d", 30+rnd.IntN(300)),
			"-Dzookeeper.snapshot.compression.method="+compression)
		l := startLoad(s.addr, seed+uint64(done), false)
		begun := 0
		for n := 0; n < perServer && done < count; n++ {
			l.goOn(t, writesBetween)
			time.Sleep(time.Duration(100+rnd.IntN(500)) * time.Millisecond)
			taken := filepath.Join(t.TempDir(), "taken")
			s.freeze(t, taken)
			l.held.Lock() // the processors are needed
			found, wrong := y.judge(t, taken, done%exportEach == 0)
			l.held.Unlock()
			if found == nil { // the server has only begun
				if n, begun = n-1, begun+1; begun > 100 {
					t.Fatalf("there is no log after %d looks; the clients did %d writes\n%s", begun, l.writes, s.output)
				}
				continue
			}
			if wrong {
				seen.wrong++
			}
			seen.digests += found.Compared
			seen.torn += len(found.Torn)
			seen.broken += len(found.Passed)
			done++
			os.RemoveAll(taken)
		}
		l.end()
		s.kill()
		if l.writes < 100 && count >= perServer {
			t.Errorf("the clients did only %d writes", l.writes)
		}
	}
	t.Logf("%d histories; %d snapshots cut short, %d torn logs, %d digests compared; %d times Apache's restart was wrong; %d exported; %d znodes read out, %d left out whose ACL Apache had lost",
		count, seen.broken, seen.torn, seen.digests, seen.wrong, y.exported, y.read, y.lost)
	if y.read < 10*count {
		t.Error("that are too few znodes")
	}
	if seen.digests == 0 && version != "3.5.10" {
		t.Error("no digest of Apache's was compared")
	}
}

// A judgement compares what Apache and Zooid make of directories.
type judgement struct {
	program   string
	restarter *restarter

	read, lost, exported int // znodes and znodes, and directories
}

// judge compares what Apache makes of a directory with what Zooid does; nil if there is no snapshot yet.
// It tells if Apache makes something else of it than of the logs alone, which Zooid agrees with then.
func (y *judgement) judge(t *testing.T, dir string, export bool) (report *files.Report, wrong bool) {
	t.Helper()
	r := y.restarter
	found, _ := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*"))
	logs, _ := filepath.Glob(filepath.Join(dir, "version-2", "log.*"))
	if len(found) == 0 || len(logs) == 0 {
		return nil, false
	}
	state, report, err := files.Load(files.Options{Dir: dir})
	restart := restartCopy(t, r, dir, true)
	if restart.err != nil || err != nil {
		if restart.err == nil || err == nil {
			keepFiles(t, dir)
			t.Fatalf("Apache: %v; Zooid: %v", restart.err, err)
		}
		return report, false
	}
	if report.Mismatch != nil {
		keepFiles(t, dir)
		verdict.Final(t, verdict.Digest)
		t.Fatalf("a digest differs: %+v", *report.Mismatch)
	}
	diff := difference(restart.state, state)
	if diff != "" {
		restart, wrong = fromLogsAlone(t, r, dir), true
		if restart.err != nil || difference(restart.state, state) != "" {
			keepFiles(t, dir)
			verdict.Final(t, verdict.Digest)
			t.Fatalf("Apache's restart (-) and what Zooid read (+) differ:\n%s\nand with the logs alone (%v):\n%s", diff,
				restart.err, difference(restart.state, state))
		}
		t.Logf("Apache's restart (-) differs from what its logs alone lead to (+):\n%s", diff)
	}
	imported := filepath.Join(t.TempDir(), "imported")
	done, err := apache.Import(apache.ImportOptions{Apache: files.Options{Dir: dir}, Dir: imported})
	if err != nil {
		keepFiles(t, dir)
		t.Fatal(err)
	}
	if done.Digest != restart.state.Digest() {
		verdict.Final(t, verdict.Digest)
		t.Fatalf("the imported tree has the digest %#x, Apache's %#x", done.Digest, restart.state.Digest())
	}
	y.serve(t, dir, imported, restart, export)
	os.RemoveAll(imported)
	return report, wrong
}

// ticksOfADay keeps a server of Zooid from ending sessions: they end at multiples of a tick after its start.
const ticksOfADay = "tickTime=86400000\nminSessionTimeout=1000"

// serve compares each reply of a server of Zooid's on an imported directory with those of Apache's restart. If it is
// told to export, so it does with those of Apache on what is exported then.
func (y *judgement) serve(t *testing.T, dir, imported string, restart restarted, export bool) {
	t.Helper()
	want := y.whole(restart.said, restart.state)
	z := startZooid(t, y.program, imported, ticksOfADay)
	have := y.whole(readOut(t, z), restart.state)
	z.stop()
	compareReadOuts(t, want, have)
	y.read, y.lost = y.read+len(want), y.lost+len(restart.said)-1-len(want)
	if export {
		back := filepath.Join(t.TempDir(), "exported")
		command(t, y.program, "export", "-to", back, imported)
		again := restartCopy(t, y.restarter, back, true)
		if again.err != nil {
			keepFiles(t, back)
			t.Errorf("on what was exported: %v", again.err)
		} else {
			compareReadOuts(t, want, y.whole(again.said, restart.state))
		}
		os.RemoveAll(back)
		y.exported++
	}
	if t.Failed() {
		keepFiles(t, dir)
		t.FailNow()
	}
}

// whole leaves out of a read-out what Apache can't tell: znodes whose ACL it has lost, and what is below them.
func (y *judgement) whole(all map[string]string, theirs *files.State) map[string]string {
	all = without(all)
	theirs.Znodes(func(z *files.Znode) error {
		if z.ACL == nil {
			maps.DeleteFunc(all, func(path, _ string) bool { return path == z.Path || strings.HasPrefix(path, z.Path+"/") })
		}
		return nil
	})
	return all
}

// fromLogsAlone has Apache load what it would have without any snapshot but the first, which is of
// the empty tree: the others are fuzzy, and some releases make something else of them than what they had acknowledged.
func fromLogsAlone(t *testing.T, r *restarter, dir string) restarted {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "bare")
	if err := os.CopyFS(bare, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(bare)
	snapshots, _ := filepath.Glob(filepath.Join(bare, "version-2", "snapshot.*"))
	first := 0
	for _, s := range snapshots {
		if name := filepath.Base(s); name == "snapshot.0" || strings.HasPrefix(name, "snapshot.0.") {
			first++
			continue
		}
		if err := os.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	if first != 1 {
		t.Fatalf("%d of %d snapshots are of the empty tree", first, len(snapshots))
	}
	return restartCopy(t, r, bare, true)
}

// restarted is what Apache has after a restart.
type restarted struct {
	state *files.State
	said  map[string]string // a read-out
	err   error
}

// restartCopy has Apache load a copy of a directory, and reads the snapshot that it writes then, and all
// that it tells clients if they are to ask.
func restartCopy(t *testing.T, r *restarter, dir string, asked bool) restarted {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "restarted")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied)
	logs, _ := filepath.Glob(filepath.Join(copied, "version-2", "log.*"))
	for _, log := range logs {
		// Before 3.8 Apache doesn't start on a newest log without a byte; a crash leaves one.
		if st, err := os.Stat(log); err == nil && st.Size() == 0 {
			os.Remove(log)
		}
	}
	before := names(t, copied)
	began := time.Now().Add(-time.Hour)
	for name := range before {
		os.Chtimes(filepath.Join(copied, "version-2", name), began, began)
	}
	var said map[string]string
	if asked {
		addr, end, err := r.serve(t, copied)
		if err != nil {
			return restarted{err: err}
		}
		said = readOut(t, &server{addr: addr})
		end()
	} else if err := r.restart(t, copied); err != nil {
		return restarted{err: err}
	}
	newest := ""
	for name := range names(t, copied) {
		file := filepath.Join(copied, "version-2", name)
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if st.ModTime().After(began.Add(time.Minute)) && strings.HasPrefix(name, "snapshot") {
			newest = file
		}
	}
	state, err := files.ReadSnapshot(newest)
	if err != nil {
		t.Fatalf("Apache's snapshot after its restart can't be read: %v", err)
	}
	return restarted{state: state, said: said}
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "version-2"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, e := range entries {
		all[e.Name()] = true
	}
	return all
}

// difference tells how two states differ, "" if they don't.
func difference(want, have *files.State) string {
	var b bytes.Buffer
	a, z := listing(want), listing(have)
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if z[path] != a[path] && !lost(a[path], z[path]) {
			fmt.Fprintf(&b, "- %q %.300s\n+ %q %.300s\n", path, a[path], path, z[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(z)) {
		if _, ok := a[path]; !ok {
			fmt.Fprintf(&b, "+ %q %.300s\n", path, z[path])
		}
	}
	if !reflect.DeepEqual(want.Sessions, have.Sessions) {
		fmt.Fprintf(&b, "- sessions %v\n+ sessions %v\n", want.Sessions, have.Sessions)
	}
	if want.Zxid != have.Zxid || want.Digest() != have.Digest() {
		fmt.Fprintf(&b, "- zxid %#x digest %#x\n+ zxid %#x digest %#x\n", want.Zxid, want.Digest(), have.Zxid, have.Digest())
	}
	if b.Len() > 4000 {
		b.Truncate(4000)
	}
	return b.String()
}

// lost reports whether two listings differ in an ACL alone that Apache has lost, as versions
// before 3.9.4 may of a znode that was created while the snapshot was written.
func lost(theirs, zooid string) bool {
	before, after, found := strings.Cut(theirs, lostACL)
	return found && strings.HasPrefix(zooid, before) && strings.HasSuffix(zooid, after)
}

const lostACL = " ACL lost "

func listing(s *files.State) map[string]string {
	all := map[string]string{}
	s.Znodes(func(z *files.Znode) error {
		acl := lostACL
		if z.ACL != nil {
			acl = fmt.Sprint(z.ACL.List)
		}
		all[z.Path] = fmt.Sprintf("%+v %s null=%t %x", z.Stat, acl, z.Data == nil, z.Data)
		return nil
	})
	return all
}

// keepFiles keeps a directory that a test has failed on.
func keepFiles(t *testing.T, dir string) {
	t.Helper()
	to := filepath.Join(os.TempDir(), fmt.Sprintf("zooid-moving-%d", time.Now().UnixNano()))
	if err := os.CopyFS(to, os.DirFS(dir)); err == nil {
		t.Logf("the files are kept in %s", to)
	}
}
