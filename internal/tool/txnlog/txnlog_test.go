package txnlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// serve runs a server on dirs while do talks to it.
func serve(t *testing.T, snapCount int, dirs []string, do func(c *zk.Client)) {
	t.Helper()
	s, err := server.Open(server.Options{
		DataDir: dirs[0], LogDir: dirs[len(dirs)-1], Listen: []string{"127.0.0.1:0"}, Serving: server.Serving{
			SnapCount: snapCount,
		},
		Settings: tree.Settings{ExtendedTypes: true, FeatureLevel: tree.FeatureLevelMax},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addrs()[0].String(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do(c)
}

var (
	anyone  = zk.WorldACL(zk.PermAll)
	oddPath = "/odd-\u202eelif-\u00e9"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vary matches what differs from run to run.
var vary = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`session 0x[0-9a-f]+`), "session S"},
	{regexp.MustCompile(`owner 0x[1-9a-f][0-9a-f]*`), "owner S"},
	{regexp.MustCompile(`digest 0x[0-9a-f]+`), "digest D"},
}

func normal(text string) string {
	for _, v := range vary {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// shown runs Show and fails on an error.
func shown(t *testing.T, o Options) string {
	t.Helper()
	var out strings.Builder
	must(t, Show(&out, o))
	return out.String()
}

// TestTransactions: each transaction of a log is shown with its zxid, operation, path and result, in one directory and
// in two.
func TestTransactions(t *testing.T) {
	t.Parallel()
	const want = `0x200000001  TIME  session S  createSession timeout 10000 ms: ok
0x200000002  TIME  session S  cxid 1  create "/a" 5 bytes: ok
0x200000003  TIME  session S  cxid 2  create "/a/n-0000000000" sequential 0 bytes: ok
0x200000004  TIME  session S  cxid 3  create "/e" ephemeral 0 bytes: ok
0x200000005  TIME  session S  cxid 4  setData "/a" version 7 1 bytes: BadVersion
0x200000006  TIME  session S  cxid 5  multi: ok
    create2 "/m" 0 bytes: ok
    delete "/m" version 0: ok
0x200000007  TIME  session S  cxid 6  multi: NodeExists
    create2 "/m" 0 bytes: taken back
    create2 "/a" 0 bytes: NodeExists
    delete "/m": not tried
0x200000008  TIME  session S  cxid 7  create "/odd-\u202eelif-é" 0 bytes: ok
0x200000009  TIME  session S  cxid 8  delete "/none": NoNode
0x20000000a  TIME  session S  cxid 9  closeSession: ok
    delete "/e"
`
	for _, dirs := range [][]string{{t.TempDir()}, {t.TempDir(), t.TempDir()}} {
		serve(t, 0, dirs, func(c *zk.Client) {
			ctx := t.Context()
			create := func(path, data string, mode zk.CreateMode) {
				_, err := c.Create(ctx, path, []byte(data), mode, anyone)
				must(t, err)
			}
			create("/a", "hello", zk.ModePersistent)
			create("/a/n-", "", zk.ModePersistentSequential)
			create("/e", "", zk.ModeEphemeral)
			if _, err := c.Set(ctx, "/a", []byte("x"), 7); !errors.Is(err, zk.ErrBadVersion) {
				t.Error(err)
			}
			_, err := c.Multi(ctx, zk.CreateOp("/m", nil, zk.ModePersistent, anyone), zk.DeleteOp("/m", 0))
			must(t, err)
			if _, err := c.Multi(ctx, zk.CreateOp("/m", nil, zk.ModePersistent, anyone),
				zk.CreateOp("/a", nil, zk.ModePersistent, anyone), zk.DeleteOp("/m", -1)); err == nil {
				t.Error("a multi that can't be done")
			}
			create(oddPath, "", zk.ModePersistent)
			if err := c.Delete(ctx, "/none", -1); !errors.Is(err, zk.ErrNoNode) {
				t.Error(err)
			}
		})
		o := Options{Dirs: dirs}
		text := shown(t, o)
		if got := normal(text); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		o.From, o.To = 0x200000005, 0x200000006
		if got := shown(t, o); strings.Count(got, "\n") != 4 || !strings.Contains(text, got) {
			t.Errorf("a range of two shows\n%s", got)
		}
		o = Options{Dirs: dirs, JSON: true, Data: true}
		lines := strings.Split(strings.TrimSpace(shown(t, o)), "\n")
		var all []transaction
		for _, line := range lines {
			var tx transaction
			must(t, json.Unmarshal([]byte(line), &tx))
			all = append(all, tx)
		}
		if len(all) != 10 || string(all[1].Data) != "hello" || all[6].Result != "NodeExists" || len(all[6].Operations) != 3 ||
			all[7].Path != oddPath || all[9].Deleted[0] != "/e" {
			t.Errorf("as JSON: %s", lines)
		}
		if strings.Contains(lines[7], "\u202e") {
			t.Errorf("JSON holds a character that turns a terminal's line round: %q", lines[7])
		}
	}
}

// TestFromSnapshots: where snapshots have taken the place of the log's beginning, what came after the oldest one has
// results.
func TestFromSnapshots(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir()}
	for round := range 6 {
		serve(t, 10, dirs, func(c *zk.Client) {
			for i := range 30 {
				_, err := c.Create(t.Context(), fmt.Sprintf("/r%d-%d", round, i), nil, zk.ModePersistent, anyone)
				must(t, err)
			}
		})
	}
	indexes, err := storage.SnapshotIndexes(storage.OS{}, dirs[0])
	must(t, err)
	if len(indexes) == 0 {
		t.Fatal("no snapshot was written")
	}
	text := shown(t, Options{Dirs: dirs})
	for _, path := range []string{"/r5-0", "/r5-29"} {
		if !regexp.MustCompile(`(?m)^0x7\S+ .* create "` + path + `" 0 bytes: ok$`).MatchString(text) {
			t.Errorf("no result of the create of %s in\n%s", path, text)
		}
	}
	if strings.Contains(text, "#") {
		t.Errorf("a note: %s", text)
	}
	from := shown(t, Options{Dirs: dirs, From: 0x700000001})
	if !strings.HasPrefix(from, "0x700000001 ") || !strings.HasSuffix(text, from) {
		t.Errorf("from the last start on:\n%s\nof\n%s", from, text)
	}
	var snapshot strings.Builder
	must(t, ShowSnapshot(&snapshot, Options{Dirs: dirs}))
	if got := normal(snapshot.String()); !strings.HasPrefix(got, "# snapshot at entry ") || !strings.Contains(got, "\n\"/r0-0\"  czxid 0x200000002  mzxid 0x200000002  pzxid 0x200000002  ctime TIME  mtime TIME  version 0  cversion 0  aversion 0  owner 0x0  children 0  bytes 0\n") {
		t.Errorf("the snapshot shows\n%s", got)
	}
}

// files returns what a directory holds.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(b)
		return err
	}))
	return all
}

// one returns the only file of a suffix in dir, or the last one.
func one(t *testing.T, dir, suffix string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(names) == 0 {
		t.Fatalf("no file *%s: %v", suffix, err)
	}
	slices.Sort(names)
	return names[len(names)-1]
}

// TestRepair: a batch cut short is taken off and kept, and the server goes on with what was before it. Anything else is
// refused, and nothing changed.
func TestRepair(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve(t, 0, []string{dir}, func(c *zk.Client) {
		for i := range 20 {
			_, err := c.Create(t.Context(), fmt.Sprintf("/n%d", i), make([]byte, 2000), zk.ModePersistent, anyone)
			must(t, err)
		}
		var out strings.Builder
		if err := Repair(&out, dir); err == nil || !strings.Contains(err.Error(), "stop the server first") {
			t.Errorf("beside a server: %v", err)
		}
	})
	segment := one(t, dir, ".log")
	whole, err := os.ReadFile(segment)
	must(t, err)
	var out strings.Builder
	must(t, Repair(&out, dir))
	if !strings.Contains(out.String(), "nothing to repair") {
		t.Errorf("a whole log: %s", out.String())
	}

	// The last batch with entries, and no trace of those that followed it.
	var ends []int
	for off := 0; off+8 <= len(whole); off += 512 {
		if bytes.HasPrefix(whole[off:], []byte("FLZ1")) && whole[off+5] > 3 {
			ends = append(ends, off)
		}
	}
	last := ends[len(ends)-1]
	torn := append(slices.Clone(whole[:last+700]), make([]byte, len(whole)-last-700)...)
	must(t, os.WriteFile(segment, torn, 0o600))
	out.Reset()
	must(t, Repair(&out, dir))
	aside, err := os.ReadFile(fmt.Sprintf("%s.torn-%d", segment, last))
	if err != nil || !bytes.HasPrefix(aside, whole[last:last+700]) || !strings.Contains(out.String(), "is taken off") {
		t.Errorf("%d bytes kept of the torn batch, %v; %s", len(aside), err, out.String())
	}
	must(t, Show(&out, Options{Dirs: []string{dir}}))
	serve(t, 0, []string{dir}, func(c *zk.Client) {
		names, _, err := c.Children(t.Context(), "/")
		must(t, err)
		if len(names) != 20 { // with /zookeeper; one create was torn off
			t.Errorf("the server has %q", names)
		}
	})

	// A flipped bit in the middle.
	b, err := os.ReadFile(segment)
	must(t, err)
	b[ends[3]+200] ^= 1
	must(t, os.WriteFile(segment, b, 0o600))
	before := files(t, dir)
	var damage *storage.DamageError
	if err := Repair(&out, dir); !errors.As(err, &damage) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a damaged log: %v", err)
	}
	if after := files(t, dir); !sameFiles(before, after) {
		t.Error("a refused repair has changed files")
	}
}

func sameFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

// harmless reports whether a terminal shows a text as it is.
func harmless(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }) < 0
}

// TestDamagedFiles flips bits, cuts and swaps parts of a log and its snapshots: whatever is there, nothing panics, what
// is printed is harmless, and no file is changed.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve(t, 10, []string{dir}, func(c *zk.Client) {
		for i := range 40 {
			_, err := c.Create(t.Context(), fmt.Sprintf("%s%d", oddPath, i), []byte("\x1b]0;\x07"), zk.ModePersistent, anyone)
			must(t, err)
		}
	})
	serve(t, 0, []string{dir}, func(c *zk.Client) {
		_, err := c.Create(t.Context(), "/last", nil, zk.ModePersistent, anyone)
		must(t, err)
	})
	rng := rand.New(rand.NewPCG(1, 2))
	var names []string
	for name := range files(t, dir) {
		if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".snap") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		name := filepath.Join(dir, names[rng.IntN(len(names))])
		was, err := os.ReadFile(name)
		must(t, err)
		b := slices.Clone(was)
		used := max(min(len(b), 64<<10), 1)
		switch at := rng.IntN(used); rng.IntN(4) {
		case 0:
			b = b[:at]
		case 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			copy(b[at:], b[rng.IntN(used):][:min(512, len(b)-used)])
		default:
			for i := range b[at:min(at+8, len(b))] {
				b[at+i] = 0xff
			}
		}
		must(t, os.WriteFile(name, b, 0o600))
		before := files(t, dir)
		for _, o := range []Options{{}, {JSON: true, Data: true}, {From: 0x200000010}} {
			o.Dirs = []string{dir}
			var out bytes.Buffer
			err := errors.Join(Show(&out, o), ShowSnapshot(&out, o))
			if !harmless(out.String()) {
				t.Fatalf("%+v: not harmless: %q (%v)", o, out.String(), err)
			}
		}
		if !sameFiles(before, files(t, dir)) {
			t.Fatal("showing has changed files")
		}
		must(t, os.WriteFile(name, was, 0o600))
	}
}

// TestHostileEntries shows entries that no server writes, in frames whose checksums are right.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 15 {
		dir := t.TempDir()
		d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 7, SegmentSize: 1 << 16})
		must(t, err)
		var term uint64 = 1
		for i := range 20 {
			data := hostile(rng, round)
			index := uint64(i + 1)
			e := &raftpb.Entry{Index: &index, Term: new(term), Data: data, Type: raftpb.EntryNormal.Enum()}
			hard := &raftpb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(index - 1)}
			must(t, d.Log().Append(hard, []*raftpb.Entry{e}, true))
			if rng.IntN(5) == 0 {
				term++
			}
		}
		must(t, d.Close())
		for _, o := range []Options{{}, {JSON: true, Data: true}} {
			o.Dirs = []string{dir}
			var out bytes.Buffer
			if err := Show(&out, o); err != nil || !harmless(out.String()) {
				t.Fatalf("%v, %q", err, out.String())
			}
		}
	}
}

// hostile returns an entry that is wrong in some way.
func hostile(rng *rand.Rand, round int) []byte {
	head := make([]byte, digestHead)
	if round%3 == 0 {
		b := make([]byte, rng.IntN(100))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return b
	}
	batch := tree.AppendBatchHeader(head, rng.Int64()-rng.Int64())
	ops := []jute.Op{
		jute.OpCreate, jute.OpCreateTTL, jute.OpSetData, jute.OpDelete, jute.OpMulti, jute.OpReconfig, jute.OpSetACL,
		jute.OpDeleteContainer,
		jute.OpCreateSession, jute.OpCloseSession, tree.OpAttach, tree.OpExpire, tree.OpEnter, tree.OpMembers, tree.OpChange,
		12345,
	}
	for range 1 + rng.IntN(4) {
		q := jute.CreateRequest{
			Path: "/\x1b[2J\u009b\u202e" + strings.Repeat("x", rng.IntN(50)), Data: []byte("\x1b"),
			ACL: jute.WorldACL(jute.PermAll), Flags: jute.CreateMode(rng.IntN(9) - 1),
		}
		body := q.Append(nil)
		body = body[:rng.IntN(len(body)+1)]
		batch = tree.AppendRecord(batch,
			&tree.Request{Op: ops[rng.IntN(len(ops))], Session: int64(rng.IntN(3)), Cnx: 1, Seq: 1, Body: body})
	}
	return batch
}

// TestHeldBytesMax: of entries that the log doesn't say to be committed only so many bytes are held back; the others
// are shown as such.
func TestHeldBytesMax(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &reader{out: printer{w: &out}, expected: map[uint64]uint64{}, begun: true}
	const size = 8 << 20
	for i := range uint64(heldBytesMax/size + 2) {
		must(t, r.step(storage.LogStep{Entries: []storage.LoggedEntry{{Index: i + 1, Term: 1, Data: make([]byte, size)}}}))
		if r.heldBytes > heldBytesMax {
			t.Fatalf("%d bytes are held", r.heldBytes)
		}
	}
	if len(r.held) != heldBytesMax/size || r.applied != 2 {
		t.Errorf("%d entries are held, %d shown", len(r.held), r.applied)
	}
}

// TestHugeSegment: a file that pretends to be larger than any segment is damage, and nobody tries to hold it in memory.
func TestHugeSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve(t, 0, []string{dir}, func(*zk.Client) {})
	segment := one(t, dir, ".log")
	huge := filepath.Join(dir, "0000000000000099.log")
	must(t, os.WriteFile(huge, nil, 0o600))
	if err := os.Truncate(huge, 1<<42); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	var damage *storage.DamageError
	for _, path := range []string{huge, segment} {
		must(t, os.Rename(huge, path))
		huge = path
		for _, err := range []error{Show(io.Discard, Options{Dirs: []string{dir}}), Repair(io.Discard, dir)} {
			if !errors.As(err, &damage) {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
	}
}
