package apache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// A znode of Apache's, as tests write it.
type znode struct {
	path string
	data []byte
	acl  []jute.ACL
	stat files.Stat
}

const (
	session  = 0x0100_0000_0000_0007
	lastZxid = 4<<32 | 0x99
)

// some are znodes of all kinds.
func some() []znode {
	open := jute.WorldACL(jute.PermAll)
	kept := files.Stat{
		Czxid: 3<<32 | 1, Mzxid: 3<<32 | 2, Pzxid: lastZxid, Ctime: 111, Mtime: 222, Version: 3, Cversion: 9, Aversion: 4,
	}
	with := func(owner uint64) files.Stat {
		s := kept
		s.Owner, s.Cversion = int64(owner), 0
		return s
	}
	return []znode{
		{"/", []byte{}, open, files.Stat{Cversion: 4, Pzxid: lastZxid}},
		{"/zookeeper", []byte{}, open, files.Stat{}},
		{"/zookeeper/config", []byte("server.1=apache:2888:3888:participant\nversion=100000000"), jute.WorldACL(1),
			files.Stat{Version: -1, Mzxid: 1 << 32}},
		{"/zookeeper/quota", []byte{}, open, files.Stat{}},
		{"/a", []byte("data"), []jute.ACL{{Perms: 5, ID: jute.ID{Scheme: "digest", ID: "u:h="}}}, kept},
		{"/a/null", nil, nil, files.Stat{}},
		{"/a/e", []byte("e"), open, with(session)},
		{"/a/c", nil, open, with(1 << 63)},
		{"/a/t", nil, open, with(0xff00000000001388)},
	}
}

func writeApache(t testing.TB, epoch int64, znodes []znode) string {
	t.Helper()
	dir := t.TempDir()
	_, err := files.Write(dir, &files.Content{
		Zxid: lastZxid, Epoch: epoch, Sessions: []files.Session{{ID: session, Timeout: 30000}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, z := range znodes {
				if err := visit(z.path, z.data, z.acl, &z.stat); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// opened returns the tree in a data directory, as a server finds it.
func opened(t *testing.T, dir, logDir string) *tree.Tree {
	t.Helper()
	cluster, err := storage.ReadIdentity(storage.OS{}, dir, logDir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := storage.Open(storage.Options{Dir: dir, LogDir: logDir, ClusterID: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tr, err := treeload.Newest(d, treeload.Options(cluster, nil, tree.FeatureLevelMax), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestImportIsCleared: an import whose files can't all be moved to their places leaves nothing there, and the next one
// succeeds.
func TestImportIsCleared(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	o := ImportOptions{Apache: files.Options{Dir: writeApache(t, 6, some())}, Dir: dir, LogDir: dir + "log"}
	if err := os.MkdirAll(filepath.Join(o.LogDir, "reserve"), 0o700); err != nil { // no file can be renamed to that
		t.Fatal(err)
	}
	if _, err := Import(o); err == nil || !strings.Contains(err.Error(), "move the data directory to its place") {
		t.Fatal(err)
	}
	if storage.InUse(dir) || storage.InUse(o.LogDir) {
		t.Error("files are left")
	}
	if _, err := Import(o); err != nil {
		t.Error(err)
	}
}

// TestPublish: an export that can't be made durable leaves nothing.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, final := filepath.Join(dir, "made"), filepath.Join(dir, files.Version2)
	for _, failed := range []error{syscall.EIO, nil} {
		if err := os.MkdirAll(filepath.Join(made, "file"), 0o700); err != nil {
			t.Fatal(err)
		}
		err := publish(made, final, func(string) error { return failed })
		_, statErr := os.Lstat(final)
		if !errors.Is(err, failed) || os.IsNotExist(statErr) != (failed != nil) {
			t.Errorf("%v: %v, %v", failed, err, statErr)
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	apache := writeApache(t, 6, some())
	found := contents(t, apache)
	dir := filepath.Join(t.TempDir(), "data")
	done, err := Import(ImportOptions{Apache: files.Options{Dir: apache}, Dir: dir, LogDir: dir + "log"})
	if err != nil {
		t.Fatal(err)
	}
	if done.Zxid != 6<<32 || done.Znodes != len(some()) || done.Sessions != 1 || done.Compared != 1 {
		t.Errorf("%+v", done)
	}
	if !maps.Equal(found, contents(t, apache)) {
		t.Error("Apache's files have changed")
	}
	if left, _ := filepath.Glob(filepath.Join(dir+"*", unfinishedName)); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	tr := opened(t, dir, dir+"log")
	// The zxid is above all that an Apache server of epoch 6 can have given out; the next election begins the next one.
	if tr.LastZxid() != 6<<32 || tr.LastTerm() != importTerm || tr.Time() != 222 {
		t.Errorf("zxid %#x, term %d, time %d", tr.LastZxid(), tr.LastTerm(), tr.Time())
	}
	s, ok := tr.Sessions().Get(session)
	if passwd := files.Passwd(session); !ok || s.Passwd != passwd || s.Timeout != 30000 || s.Scope != tree.Global {
		t.Errorf("the session is %+v", s)
	}
	if paths := tr.Sessions().EphemeralPaths(session, math.MaxInt); !slices.Equal(paths, []string{"/a/e"}) {
		t.Errorf("its znodes are %q", paths)
	}
	stat, _ := tr.Stat("/a")
	want := jute.Stat{
		Czxid: 3<<32 | 1, Mzxid: 3<<32 | 2, Pzxid: lastZxid, Ctime: 111, Mtime: 222, Version: 3, Cversion: 14, Aversion: 4,
		DataLength: 4, NumChildren: 4,
	}
	if stat != want {
		t.Errorf("the Stat of /a is %+v, want %+v", stat, want)
	}
	kinds := map[string]string{}
	tr.Znodes(func(z *tree.Foreign) bool {
		kinds[strings.Clone(z.Path)] = fmt.Sprint(z.Container, z.TTL, z.Owner, z.Data == nil, len(z.ACL))
		return true
	})
	for path, kind := range map[string]string{
		"/a/c": "true 0 0 true 1", "/a/t": "false 5000 0 true 1", "/a/e": fmt.Sprint(false, 0, session, false, 1),
		"/a/null": "false 0 0 true 0", "/zookeeper/config": "false 0 0 false 1",
	} {
		if kinds[path] != kind {
			t.Errorf("%s is %q, want %q", path, kinds[path], kind)
		}
	}
	if text, _ := tr.Membership().Members(); text != "" {
		t.Errorf("the membership is %q, which is Apache's", text)
	}

	if _, err := Import(ImportOptions{Apache: files.Options{Dir: apache}, Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("imported twice: %v", err)
	}
	// Beside Apache's files, too.
	if _, err := Import(ImportOptions{Apache: files.Options{Dir: apache}, Dir: apache}); err != nil {
		t.Error(err)
	}
	opened(t, apache, "")
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dir, files.Version2))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, files.Version2, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// TestInterruptedImport: an import whose process ends while it moves its files to their places leaves a directory on
// which no server starts, and the next import takes back what was moved and starts over.
func TestInterruptedImport(t *testing.T) {
	t.Parallel()
	from := files.Options{Dir: writeApache(t, 4, some())}
	for _, separate := range []bool{false, true} {
		for moved := 0; ; moved++ {
			dir := t.TempDir()
			o := ImportOptions{Apache: from, Dir: dir}
			if separate {
				o.LogDir = t.TempDir()
			}
			ends := cutShort(t, o, moved)
			if !ends {
				if moved < 3 {
					t.Errorf("only %d files are moved", moved)
				}
				break
			}
			if err := proof.Unready(dir, o.LogDir); err == nil {
				t.Errorf("after %d files a server would start", moved)
			}
			if err := o.Free(); err != nil {
				t.Errorf("after %d files: %v", moved, err)
			}
			if _, err := Import(o); err != nil {
				t.Errorf("an import after %d files: %v", moved, err)
				continue
			}
			if err := proof.Unready(dir, o.LogDir); err != nil {
				t.Errorf("after %d files and another import: %v", moved, err)
			}
			if tr := opened(t, dir, o.LogDir); tr.NodeCount() != len(some()) {
				t.Errorf("after %d files and another import there are %d znodes", moved, tr.NodeCount())
			}
			if err := o.Free(); err == nil || !strings.Contains(err.Error(), "in use as a Zooid data directory") {
				t.Errorf("another import would begin: %v", err)
			}
			if err := os.Mkdir(filepath.Join(dir, unfinishedName), 0o700); err != nil { // killed before it is removed
				t.Fatal(err)
			}
			if err := o.Free(); err == nil || !strings.Contains(err.Error(), "the data is complete") {
				t.Errorf("another import would begin: %v", err)
			}
		}
	}
}

// cutShort imports as a process does that ends before it moves the file n to its place, and reports whether there is
// one.
func cutShort(t *testing.T, o ImportOptions, n int) (ends bool) {
	t.Helper()
	whole := o
	whole.Dir = t.TempDir()
	if o.LogDir != "" {
		whole.LogDir = t.TempDir()
	}
	if _, err := Import(whole); err != nil {
		t.Fatal(err)
	}
	var made []string
	for i, dir := range o.dirs() {
		made = append(made, filepath.Join(dir, unfinishedName))
		if err := os.CopyFS(made[i], os.DirFS(whole.dirs()[i])); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { ends = recover() != nil }()
	err := o.place(made, func(from, to string) error {
		if n--; n < 0 {
			panic("the process ends")
		}
		return os.Rename(from, to)
	})
	if err != nil {
		t.Error(err)
	}
	return false
}

// TestForeignNamesStay: the list of an import that was cut short names files of the data directory only.
func TestForeignNamesStay(t *testing.T) {
	t.Parallel()
	o := ImportOptions{Apache: files.Options{Dir: writeApache(t, 4, some())}, Dir: t.TempDir()}
	mine := filepath.Join(t.TempDir(), "mine")
	for path, text := range map[string]string{ // any order: independent files
		mine: "", filepath.Join(o.Dir, unfinishedName, movingName): "../" + filepath.Base(mine) + "\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Import(o); err == nil || !strings.Contains(err.Error(), "isn't of a file of an import") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	apache := writeApache(t, 4, some())
	path := filepath.Join(apache, files.Version2, fmt.Sprintf("snapshot.%x", int64(lastZxid)))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The digest is the 8 bytes before the last seal, which is of all before it.
	b[len(b)-14] ^= 1
	binary.BigEndian.PutUint64(b[len(b)-13:], uint64(adler32.Checksum(b[:len(b)-13])))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	o := ImportOptions{Apache: files.Options{Dir: apache}, Dir: filepath.Join(t.TempDir(), "data")}
	_, err = Import(o)
	if mismatch := (*MismatchError)(nil); !errors.As(err, &mismatch) ||
		!strings.Contains(err.Error(), "-accept-mismatch") {
		t.Fatalf("the error is %v", err)
	}
	if _, err := os.Stat(o.Dir); err == nil {
		t.Error("a directory was made")
	}
	o.AcceptMismatch = true
	if done, err := Import(o); err != nil || done.Mismatch == nil {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func([]znode) []znode
		says   string
	}{
		"a child of an ephemeral": {func(z []znode) []znode {
			return append(z, znode{"/a/e/x", nil, nil, files.Stat{}})
		}, "its parent is ephemeral"},
		"data beyond the limit": {func(z []znode) []znode {
			return append(z, znode{"/large", make([]byte, files.DataBytesMax+1), nil, files.Stat{}})
		}, "at most"},
		"an extended owner that isn't known": {func(z []znode) []znode {
			return append(z, znode{"/x", nil, nil, files.Stat{Owner: -1<<56 | 1<<40}})
		}, ""}, // Apache takes it for the znode of a session that is over
	} {
		apache := t.TempDir()
		_, err := files.Write(apache,
			&files.Content{Zxid: 1, Sessions: []files.Session{{ID: session, Timeout: 1}},
				Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
					for _, z := range c.change(some()) {
						if err := visit(z.path, z.data, z.acl, &z.stat); err != nil {
							return err
						}
					}
					return nil
				}})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "data")
		_, err = Import(ImportOptions{Apache: files.Options{Dir: apache}, Dir: dir})
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if storage.InUse(dir) != (c.says == "") {
			t.Errorf("%s: in use is %t", name, storage.InUse(dir))
		}
	}
}

// TestThereAndBack: what is imported and exported is what it was, but for the configuration.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	apache := writeApache(t, 4, some())
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Import(ImportOptions{Apache: files.Options{Dir: apache}, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	back := filepath.Join(t.TempDir(), "apache")
	done, err := Export(ExportOptions{Dirs: []string{dir}, To: back})
	if err != nil {
		t.Fatal(err)
	}
	if done.Zxid != lastZxid || done.Epoch != 4 || done.TTLs != 1 || done.Strangers != 0 || done.Sessions != 1 ||
		done.Exhausted != nil {
		t.Errorf("%+v", done)
	}
	was, _, err := files.Load(files.Options{Dir: apache})
	if err != nil {
		t.Fatal(err)
	}
	is, report, err := files.Load(files.Options{Dir: back})
	if err != nil {
		t.Fatal(err)
	}
	if was.Digest() != is.Digest() || was.Digest() != done.Digest || !maps.Equal(was.Sessions, is.Sessions) ||
		report.Epoch != 4 {
		t.Errorf("digest %#x instead of %#x, sessions %v, %+v", is.Digest(), was.Digest(), is.Sessions, report)
	}
	if a, b := listed(was), listed(is); !maps.Equal(a, b) {
		t.Errorf("%v\ninstead of\n%v", b, a)
	}
	err = filepath.WalkDir(back, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == back {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %s, which has hashes of passwords: %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	interrupted, asked, to := errors.New("interrupted"), 0, filepath.Join(t.TempDir(), "to")
	if _, err := Export(ExportOptions{Dirs: []string{dir}, To: to, Interrupted: func() error {
		if asked++; asked > 3 { // while the files are written
			return interrupted
		}
		return nil
	}}); !errors.Is(err, interrupted) || asked != 4 {
		t.Errorf("interrupted: %v, asked %d times", err, asked)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an interrupted export leaves its directory: %v", err)
	}
	if _, err := Export(ExportOptions{Dirs: []string{dir}, To: back}); err == nil ||
		!strings.Contains(err.Error(), "already exists") {
		t.Errorf("exported twice: %v", err)
	}
	if _, err := Export(ExportOptions{Dirs: []string{t.TempDir()}, To: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "data directory") {
		t.Errorf("exported nothing: %v", err)
	}
}

func listed(s *files.State) map[string]string {
	all := map[string]string{}
	s.Znodes(func(z *files.Znode) error {
		if z.Path != configPath {
			all[z.Path] = fmt.Sprintf("%+v %v %q %t", z.Stat, z.ACL.List, z.Data, z.Data == nil)
		}
		return nil
	})
	return all
}

// TestExportTells: what Apache has no form for, and what is in the log behind the snapshot.
func TestExportTells(t *testing.T) {
	t.Parallel()
	b := tree.NewBuilder(tree.Options{})
	if err := b.AddSession(session, 1000, [jute.PasswdSize]byte{1}); err != nil {
		t.Fatal(err)
	}
	b.Root(&tree.Foreign{Created: 1 << 31})
	zk, _ := b.Add(&tree.Foreign{Parent: tree.RootPlace, Name: "zookeeper"})
	b.Add(&tree.Foreign{Parent: zk, Name: "quota"})
	b.Add(&tree.Foreign{Parent: zk, Name: "config", Data: []byte("server.1=…")})
	made, err := b.Finish(2, 1, 3<<32|5, 7)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	so := storage.Options{Dir: dir, ClusterID: 9}
	// The directory's key is that of its cluster.
	made = rebuilt(t, made, treeload.Options(so.ClusterID, nil, tree.FeatureLevelMax))
	if err := writeTree(so, made); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	done, err := Export(ExportOptions{Dirs: []string{dir}, To: to, NoDigest: true})
	if err != nil {
		t.Fatal(err)
	}
	if done.Strangers != 1 || !slices.Equal(done.Exhausted, []string{"/"}) || done.Epoch != 3 {
		t.Errorf("%+v", done)
	}
	s, report, err := files.Load(files.Options{Dir: to})
	if err != nil || report.Compared != 0 {
		t.Fatalf("%v, %+v", err, report)
	}
	s.Znodes(func(z *files.Znode) error {
		if z.Path == configPath && len(z.Data) > 0 {
			t.Errorf("the configuration is %q, which is Zooid's", z.Data)
		}
		return nil
	})
}

// rebuilt copies a tree with other options.
func rebuilt(t *testing.T, from *tree.Tree, o tree.Options) *tree.Tree {
	t.Helper()
	b := tree.NewBuilder(o)
	from.Sessions().All(func(s tree.Session) bool { return b.AddSession(s.ID, s.Timeout, s.Passwd) == nil })
	places := map[string]uint32{"": tree.RootPlace}
	from.Znodes(func(z *tree.Foreign) bool {
		if z.Path == "/" {
			b.Root(z)
			return true
		}
		var parent string
		parent, z.Name = files.SplitPath(z.Path)
		z.Parent = places[parent]
		place, err := b.Add(z)
		places[strings.Clone(z.Path)] = place
		return err == nil
	})
	made, err := b.Finish(from.LastTerm(), from.LastIndex(), from.LastZxid(), from.Time())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestRehearse: a rehearsal makes and reads everything, and leaves nothing behind.
func TestRehearse(t *testing.T) {
	t.Parallel()
	state, report, err := files.Load(files.Options{Dir: writeApache(t, 4, some())})
	if err != nil {
		t.Fatal(err)
	}
	state.GoLive()
	state.Complete()
	dir := t.TempDir()
	o := ImportOptions{Dir: dir, LogDir: filepath.Join(dir, "log")}
	for range 2 {
		made, err := o.Make(state, report.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Rehearse(); err != nil {
			t.Fatal(err)
		}
		if err := o.Free(); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	}
	made, err := o.Make(state, report.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	made.Digest++
	if err := made.Rehearse(); err == nil || !strings.Contains(err.Error(), "differs from what was read") {
		t.Errorf("a digest that differs: %v", err)
	}
	if made, err = o.Make(state, report.Epoch); err != nil {
		t.Fatal(err)
	}
	if err := made.Write(); err != nil {
		t.Fatal(err)
	}
	if err := o.Free(); err == nil {
		t.Error("what was written isn't in use")
	}
	if z := opened(t, dir, o.LogDir); z.NodeCount() != made.Znodes || z.Sessions().Count() != made.Sessions {
		t.Errorf("%d znodes and %d sessions; want %+v", z.NodeCount(), z.Sessions().Count(), made.Imported)
	}
}
