package files

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/zooid-project/zooid/jute"
)

// A logBuilder makes a log as Apache writes it.
type logBuilder struct{ b []byte }

func newLog() *logBuilder {
	b := binary.BigEndian.AppendUint32(nil, logMagic)
	return &logBuilder{jute.AppendLong(jute.AppendInt(b, 2), 0)}
}

// add appends a transaction; digest 0 is none.
func (l *logBuilder) add(op jute.Op, session, zxid int64, body []byte, digest uint64) *logBuilder {
	r := jute.AppendLong(jute.AppendInt(jute.AppendLong(nil, session), 7), zxid)
	r = append(jute.AppendInt(jute.AppendLong(r, 1_700_000_000_000+zxid), int32(op)), body...)
	if digest != 0 {
		r = binary.BigEndian.AppendUint64(jute.AppendInt(r, DigestVersion), digest)
	}
	l.b = jute.AppendLong(l.b, int64(adler32.Checksum(r)))
	l.b = append(jute.AppendBuffer(l.b, r), logMark)
	return l
}

func createBody(path, data string, ephemeral bool, cversion int32) []byte {
	b := jute.AppendBuffer(jute.AppendString(nil, path), []byte(data))
	b = jute.AppendBool(jute.AppendACLs(b, jute.WorldACL(jute.PermAll)), ephemeral)
	return jute.AppendInt(b, cversion)
}

// emptyTree is what a new server has.
func emptyTree() *Content {
	return &Content{Znodes: func(visit func(string, []byte, []jute.ACL, *Stat) error) error {
		for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			if err := visit(path, []byte{}, jute.WorldACL(jute.PermAll), &Stat{}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// apacheDir makes a data directory with the snapshot of an empty tree and a log.
func apacheDir(t testing.TB, logs map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := Write(dir, emptyTree()); err != nil {
		t.Fatal(err)
	}
	for name, log := range logs {
		if err := os.WriteFile(filepath.Join(dir, Version2, name), log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, dir string) (*State, *Report) {
	t.Helper()
	s, r, err := Load(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if r.Mismatch != nil {
		t.Fatalf("%+v", r.Mismatch)
	}
	return s, r
}

func paths(s *State) (all []string) {
	s.Znodes(func(z *Znode) error {
		all = append(all, z.Path)
		return nil
	})
	return all[4:]
}

// TestKnownAnswers holds password, digest and checksum to values that Apache computed.
func TestKnownAnswers(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint64]string{
		0x1: "054cc74a37327db215e702e20c73f005", 0x0100000000000000: "f22acd4a97e69d6d20a49bb638eadb38",
		0x01018a3d5c7b0000: "6786732268f5797b1db94939f1271203", 0xffffffffffffffff: "20f62cb5648dc2d771471c8a2486a9ee",
	} {
		if passwd := Passwd(int64(id)); hex.EncodeToString(passwd[:]) != want {
			t.Errorf("the password of %#x is %x, Apache's %s", id, passwd, want)
		}
	}
	if root, zk := NodeDigest("", nil, &Stat{}), NodeDigest("/zookeeper", nil, &Stat{}); root != 68323592 ||
		zk != 1303661912 || NodeDigest("/zookeeper/quota", nil, &Stat{}) != 0 {
		t.Errorf("digests %d and %d", root, zk)
	}
	s, _ := load(t, apacheDir(t, nil))
	if s.Digest() != 0x51c6d660 {
		t.Errorf("the digest of an empty tree is %#x", s.Digest())
	}
	log := newLog().add(jute.OpCreateSession, 0x0100000000000000, 1, jute.AppendInt(nil, 30000), 0x51c6d660)
	s, r := load(t, apacheDir(t, map[string][]byte{"log.1": log.b}))
	if r.Compared != 1 || s.Sessions[0x0100000000000000] != 30000 || s.Zxid != 1 {
		t.Errorf("%+v, sessions %v, zxid %d", r, s.Sessions, s.Zxid)
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	none := func(int64) bool { return false }
	for _, c := range []struct {
		stored     uint64
		emulate353 bool
		known      bool
		want       Owner
	}{
		{0, false, false, Owner{}},
		{1 << 63, false, false, Owner{Container: true}},
		{1 << 63, true, false, Owner{Container: true}},
		{0xff00000000000001, false, false, Owner{TTL: 1}},
		{0xff0000ffffffffff, false, false, Owner{TTL: 1<<40 - 1}},
		{0xff00000000000001, false, true, Owner{Session: -0xffffffffffffff}},
		{0xff01000000000001, false, false, Owner{Session: -0xfeffffffffffff}},
		{0x8000000000001000, true, false, Owner{TTL: 0x1000}},
		{0x8000000000001000, false, false, Owner{Session: -0x7ffffffffffff000}},
		{0x0100000000000001, true, true, Owner{Session: 0x0100000000000001}},
	} {
		known := none
		if c.known {
			known = func(int64) bool { return true }
		}
		have := readOwner(int64(c.stored), c.emulate353, known)
		if have != c.want {
			t.Errorf("%#x, emulate353 %t: %+v, want %+v", c.stored, c.emulate353, have, c.want)
		}
		if !c.emulate353 && uint64(have.Stored()) != c.stored {
			t.Errorf("%#x is stored as %#x", c.stored, have.Stored())
		}
	}
}

// TestReplay: transactions of all versions, and those that a fuzzy snapshot has already.
func TestReplay(t *testing.T) {
	t.Parallel()
	old := createBody("/old", "x", false, 0)
	old = old[:len(old)-4] // 3.4's first logs have no cversion
	container := jute.AppendInt(jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, "/c"), nil), nil), 6)
	ttl := jute.AppendLong(
		jute.AppendInt(jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, "/t"), nil), jute.WorldACL(1)), 7), 5000)
	multi := func(ops ...[]byte) []byte {
		b := jute.AppendInt(nil, int32(len(ops)))
		for _, op := range ops {
			b = append(b, op...)
		}
		return b
	}
	sub := func(op jute.Op, body []byte) []byte { return jute.AppendBuffer(jute.AppendInt(nil, int32(op)), body) }
	set := func(path, data string, version int32) []byte {
		return jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), []byte(data)), version)
	}
	closing := jute.AppendStrings(nil, []string{"/e1"})
	log := newLog().
		add(jute.OpCreateSession, 5, 1, jute.AppendInt(nil, 4000), 0).
		add(jute.OpCreate, 5, 2, createBody("/a", "1", false, 1), 0).
		add(jute.OpCreate, 5, 3, old, 0).
		add(jute.OpCreate2, 5, 4, createBody("/e1", "", true, 3), 0).
		add(jute.OpCreate, 5, 5, createBody("/e2", "", true, 4), 0).
		add(jute.OpSetData, 5, 6, set("/a", "2", 1), 0).
		add(jute.OpCreate, 5, 7, createBody("/a", "again", false, 5), 0). // as if a snapshot had it
		add(jute.OpDelete, 5, 8, jute.AppendString(nil, "/nothing"), 0).
		add(jute.OpCreateContainer, 5, 9, container, 0).
		add(jute.OpCreateTTL, 5, 10, ttl, 0).
		add(jute.OpMulti, 5, 11,
			multi(sub(jute.OpCreate, createBody("/m", "", false, 8)), sub(jute.OpSetData, set("/m", "m", 1)),
				sub(jute.OpCheck, set("/m", "", 1)[:10])), 0).
		add(jute.OpMulti, 5, 12,
			multi(sub(jute.OpCreate, createBody("/never", "", false, 9)), sub(opError, jute.AppendInt(nil, -101))), 0).
		add(opError, 5, 13, jute.AppendInt(nil, -110), 0).
		add(jute.OpSetACL, 5, 14, jute.AppendInt(jute.AppendACLs(jute.AppendString(nil, "/a"), jute.WorldACL(1)), 1), 0).
		add(jute.OpCloseSession, 5, 15, closing, 0)
	s, r := load(t, apacheDir(t, map[string][]byte{"log.1": log.b}))
	if want := []string{"/a", "/old", "/c", "/t", "/m"}; !slices.Equal(paths(s), want) {
		t.Errorf("%q, want %q", paths(s), want)
	}
	a, root := s.find("/a"), s.find("/")
	if string(a.Data) != "2" || a.Stat.Version != 1 || a.Stat.Aversion != 1 || a.Stat.Mzxid != 6 ||
		a.ACL.List[0].Perms != 1 {
		t.Errorf("/a is %+v", a)
	}
	if root.Stat.Cversion != 8 || root.Stat.Pzxid != 15 || s.Zxid != 15 || s.Time != 1_700_000_000_015 ||
		len(s.Sessions) != 0 || r.Transactions != 15 {
		t.Errorf("root %+v, zxid %d, %+v", root.Stat, s.Zxid, r)
	}
	if o := s.Owner(s.find("/t"), false); o.TTL != 5000 || s.find("/c").Stat.Owner != ownerContainer ||
		string(s.find("/m").Data) != "m" {
		t.Errorf("TTL %+v", o)
	}
}

// TestLogEnds: what ends a log, and what is damage, as Apache has it.
func TestLogEnds(t *testing.T) {
	t.Parallel()
	one := newLog().add(jute.OpCreate, 5, 1, createBody("/a", "1", false, 1), 0)
	two := *one
	two.b = slices.Clone(one.b)
	two.add(jute.OpCreate, 5, 2, createBody("/b", "1", false, 2), 0)
	next := newLog().add(jute.OpCreate, 5, 3, createBody("/c", "1", false, 3), 0)
	far := newLog().add(jute.OpCreate, 5, 9, createBody("/c", "1", false, 3), 0)
	changed := func(at int, b byte) []byte {
		log := slices.Clone(two.b)
		log[len(one.b)+at] = b
		return log
	}
	both := []string{"/a", "/b"}
	for name, c := range map[string]struct {
		logs  map[string][]byte
		paths []string // nil: refused
		torn  bool
		gap   bool
		says  string
	}{
		"whole": {map[string][]byte{"log.1": two.b}, both, false, false, ""},
		"zeros": {
			map[string][]byte{"log.1": append(slices.Clone(two.b), make([]byte, 5000)...)}, both, false, false, "",
		},
		"some zeros": {map[string][]byte{"log.1": append(slices.Clone(two.b), 0, 0, 0)}, both, true, false, ""},
		"cut":        {map[string][]byte{"log.1": two.b[:len(two.b)-1]}, both[:1], true, false, ""},
		"no mark":    {map[string][]byte{"log.1": changed(len(two.b)-len(one.b)-1, 'C')}, both[:1], true, false, ""},
		"cut, and another": {
			map[string][]byte{"log.1": two.b[:len(two.b)-1], "log.3": next.b}, []string{"/a", "/c"}, true, true, "",
		},
		"another": {
			map[string][]byte{"log.1": two.b, "log.3": next.b}, []string{"/a", "/b", "/c"}, false, false, "",
		},
		"a gap": {
			map[string][]byte{"log.1": two.b, "log.9": far.b}, []string{"/a", "/b", "/c"}, false, true, "",
		},
		"a gap behind the snapshot": {
			map[string][]byte{"log.3": next.b}, []string{"/c"}, false, true, "",
		},
		"empty, newest": {map[string][]byte{"log.1": two.b, "log.3": nil}, both, false, false, ""},
		"empty, not newest": {
			map[string][]byte{"log.1": nil, "log.3": next.b}, nil, false, false, "log.1 is damaged at offset 0: it is empty",
		},
		"short header": {map[string][]byte{"log.1": two.b[:10]}, nil, false, false, "shorter than a log's header"},
		"magic":        {map[string][]byte{"log.1": append([]byte{1}, two.b[1:]...)}, nil, false, false, "ZKLG"},
		"checksum": {
			map[string][]byte{"log.1": changed(7, 1)}, nil, false, false, fmt.Sprintf("offset %d: the checksum", len(one.b)),
		},
		"data": {
			map[string][]byte{"log.1": changed(40, 0xff)}, nil, false, false, fmt.Sprintf("offset %d: the checksum", len(one.b)),
		},
		"length negative": {map[string][]byte{"log.1": changed(8, 0xff)}, nil, false, false, "a record of -"},
		"length beyond": {
			map[string][]byte{"log.1": changed(8, 0x01)}, nil, false, false, "beyond the end of the file",
		},
		"length at the limit": {map[string][]byte{"log.1": changed(8, 0x41)}, nil, false, false, "a record of"},
		"length too long":     {map[string][]byte{"log.1": changed(9, 0x01)}, both[:1], true, false, ""},
		"unknown type":        {map[string][]byte{"log.1": newLog().add(99, 5, 1, nil, 0).b}, nil, false, false, "type 99"},
		"short transaction": {
			map[string][]byte{"log.1": newLog().add(jute.OpSetData, 5, 1, []byte{1}, 0).b}, nil, false, false, "type 5",
		},
		"names that aren't": {
			map[string][]byte{"log.1": two.b, "log.x": nil, "log.3.bak": nil, "log": nil}, both, false, false, "",
		},
	} {
		dir := apacheDir(t, c.logs)
		s, r, err := Load(Options{Dir: dir})
		if c.paths == nil {
			if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want damage with %q", name, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(paths(s), c.paths) || len(r.Torn) > 0 != c.torn || len(r.Gaps) > 0 != c.gap {
			t.Errorf("%s: %q, %+v", name, paths(s), r)
		}
	}
}

// TestLogsEndEarlier: it is told that no log reaches the snapshot.
func TestLogsEndEarlier(t *testing.T) {
	t.Parallel()
	log := newLog()
	for zxid := range int64(3) {
		log.add(opError, 5, zxid+1, jute.AppendInt(nil, -110), 0)
	}
	for name, ends := range map[string]int64{"snapshot.3": 0, "snapshot.4": 3} {
		dir := apacheDir(t, map[string][]byte{"log.1": log.b})
		from := filepath.Join(dir, Version2, "snapshot.0")
		if err := os.Rename(from, filepath.Join(filepath.Dir(from), name)); err != nil {
			t.Fatal(err)
		}
		if _, r := load(t, dir); r.LogsEnd != ends || r.Uncovered != 0 || len(r.Gaps) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestOversizeRecord: a record larger than Apache reads by default is read.
func TestOversizeRecord(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 3<<20)
	log := newLog().add(jute.OpCreate, 5, 1, createBody("/a", large, false, 1), 0)
	s, _ := load(t, apacheDir(t, map[string][]byte{"log.1": log.b}))
	if z := s.find("/a"); z == nil || len(z.Data) != len(large) {
		t.Errorf("/a is %v", z != nil)
	}
}

// TestSnapshots: the newest that is whole is taken, compressed or not.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	plain, err := os.ReadFile(filepath.Join(apacheDir(t, nil), Version2, "snapshot.0"))
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(plain)
	w.Close()
	snappy := slices.Clone(snappyHeader)
	for _, part := range [][]byte{plain[:100], plain[100:]} {
		snappy = jute.AppendBuffer(snappy, s2.EncodeSnappy(nil, part))
	}
	bare := plain[:len(plain)-digestBytes]
	flipped := slices.Clone(plain)
	flipped[len(plain)-20] ^= 1
	for name, c := range map[string]struct {
		files map[string][]byte
		taken string // "" if refused
		says  string
	}{
		"plain":              {map[string][]byte{"snapshot.5": plain}, "snapshot.5", ""},
		"gzip":               {map[string][]byte{"snapshot.5.gz": zipped.Bytes()}, "snapshot.5.gz", ""},
		"snappy":             {map[string][]byte{"snapshot.5.snappy": snappy}, "snapshot.5.snappy", ""},
		"without digest":     {map[string][]byte{"snapshot.5": bare}, "snapshot.5", ""},
		"two":                {map[string][]byte{"snapshot.5": plain, "snapshot.10": bare}, "snapshot.10", ""},
		"newest is cut":      {map[string][]byte{"snapshot.5": plain, "snapshot.6": plain[:80]}, "snapshot.5", ""},
		"newest is flipped":  {map[string][]byte{"snapshot.5": plain, "snapshot.6": flipped}, "snapshot.5", ""},
		"newest is unzipped": {map[string][]byte{"snapshot.5": plain, "snapshot.6.gz": plain}, "snapshot.5", ""},
		"snappy is cut": {
			map[string][]byte{"snapshot.5": plain, "snapshot.6.snappy": snappy[:len(snappy)-9]}, "snapshot.5", "",
		},
		"unfinished":  {map[string][]byte{"snapshot.5": plain, "snapshot.6.tmp": nil}, "snapshot.5", ""},
		"all flipped": {map[string][]byte{"snapshot.6": flipped}, "", "snapshot.6 is damaged at offset"},
		"all cut":     {map[string][]byte{"snapshot.6": plain[:80]}, "", "snapshot.6 is damaged at offset 75"},
		"none":        {nil, "", "there is no snapshot"},
	} {
		dir := filepath.Join(t.TempDir(), Version2)
		os.Mkdir(dir, 0o700)
		for file, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, r, err := Load(Options{Dir: dir})
		switch {
		case c.taken == "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		case c.taken != "" &&
			(err != nil || filepath.Base(r.Snapshot) != c.taken ||
				len(r.Passed) != len(c.files)-1 && !strings.Contains(name, "unfinished") && name != "two"):
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
	if _, _, err := Load(Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "version-2") {
		t.Errorf("no version-2: %v", err)
	}
}

// TestEveryByte: a snapshot or log with one byte changed, or cut, is refused or read as the same or
// less, and never ends the program.
func TestEveryByte(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short")
	}
	t.Parallel()
	log := newLog().add(jute.OpCreateSession, 5, 1, jute.AppendInt(nil, 4000), 0).
		add(jute.OpCreate, 5, 2, createBody("/a", "1", false, 1), 0).add(jute.OpCloseSession, 5, 3, nil, 0)
	dir := apacheDir(t, map[string][]byte{"log.1": log.b})
	want, _ := load(t, dir)
	refused, less := 0, 0
	for _, name := range []string{"snapshot.0", "log.1"} {
		path := filepath.Join(dir, Version2, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, content []byte) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, _, err := Load(Options{Dir: dir})
			if err != nil {
				if damage := (*DamageError)(nil); !errors.As(err, &damage) || damage.File != path && damage.File != "" ||
					damage.Do == "" {
					t.Errorf("%s %s: %v", name, what, err)
				}
				refused++
				return
			}
			for p := range s.nodes {
				if want.nodes[p] == nil {
					t.Errorf("%s %s: a znode %q that never was", name, what, p)
				}
			}
			if !maps.Equal(s.Sessions, want.Sessions) || s.Digest() != want.Digest() {
				less++
				if name == "snapshot.0" {
					t.Errorf("%s %s: another state", name, what)
				}
			}
		}
		for i := range whole {
			for _, bit := range []byte{1, 0x80} {
				changed := slices.Clone(whole)
				changed[i] ^= bit
				try(fmt.Sprintf("with byte %d changed", i), changed)
			}
			try(fmt.Sprintf("cut at %d", i), whole[:i])
		}
		os.WriteFile(path, whole, 0o600)
	}
	if refused < 500 || less < 20 {
		t.Errorf("%d refused, %d with less", refused, less)
	}
}

// TestWriteLoad: what is written is read, with all its fields.
func TestWriteLoad(t *testing.T) {
	t.Parallel()
	stat := Stat{Czxid: 1, Mzxid: 2, Pzxid: 3, Ctime: 4, Mtime: 5, Version: -6, Cversion: 7, Aversion: 8, Owner: 5}
	acl := []jute.ACL{{Perms: 3, ID: jute.ID{Scheme: "ip", ID: "10.0.0.1"}}}
	base := emptyTree().Znodes
	c := &Content{Zxid: 3<<32 | 9, Epoch: 4, Sessions: []Session{{5, 1234}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *Stat) error) error {
			return errors.Join(base(visit), visit("/x", nil, acl, &stat), visit("/y", []byte("y"), nil, &Stat{}))
		}}
	dir := t.TempDir()
	digest, err := Write(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	s, r := load(t, dir)
	x, y := s.find("/x"), s.find("/y")
	if x == nil || x.Stat != stat || x.Data != nil || !slices.Equal(x.ACL.List, acl) || string(y.Data) != "y" ||
		len(y.ACL.List) != 0 {
		t.Errorf("/x is %+v, /y %+v", x, y)
	}
	if s.Zxid != c.Zxid || r.Epoch != 4 || s.Sessions[5] != 1234 || s.Digest() != digest || r.Compared != 1 {
		t.Errorf("zxid %#x, sessions %v, %+v", s.Zxid, s.Sessions, r)
	}
	if _, err := Write(dir, c); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("written over: %v", err)
	}
	c.Epoch = 2
	if _, err := Write(t.TempDir(), c); err == nil || !strings.Contains(err.Error(), "epoch") {
		t.Errorf("an epoch before the zxid's: %v", err)
	}
}

func TestEpochFiles(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"7": "", "7\n": "", "": "want an epoch", "-1": "want an epoch", "x": "want an epoch",
		"2147483647": "want an epoch", strings.Repeat("1", epochFileMax+1): "more than a number",
	} {
		dir := apacheDir(t, map[string][]byte{acceptedEpoch: []byte(text)})
		_, r, err := Load(Options{Dir: dir})
		if says == "" && (err != nil || r.Epoch != 7) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, %+v", text, err, r)
		}
	}
}

// TestOrphans: an ephemeral znode without a session is left out, as Apache deletes it at the start.
func TestOrphans(t *testing.T) {
	t.Parallel()
	log := newLog().add(jute.OpCreate, 5, 1, createBody("/e", "", true, 1), 0)
	s, r := load(t, apacheDir(t, map[string][]byte{"log.1": log.b}))
	if len(paths(s)) != 0 || r.Orphans != 1 || s.find("/").Stat.Pzxid != 1 {
		t.Errorf("%q, %+v", paths(s), r)
	}
}

// TestQuotaStats: the stats of a quota are counted anew.
func TestQuotaStats(t *testing.T) {
	t.Parallel()
	log := newLog()
	for i, c := range [][2]string{
		{"/a", "12345"}, {"/a/b", "67"}, {"/ab", "x"}, {"/zookeeper/quota/a", ""},
		{"/zookeeper/quota/a/zookeeper_limits", "count=3,bytes=-1"},
		{"/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0"},
	} {
		log.add(jute.OpCreate, 5, int64(i+1), createBody(c[0], c[1], false, int32(i+1)), 0)
	}
	s, _ := load(t, apacheDir(t, map[string][]byte{"log.1": log.b}))
	if z := s.find("/zookeeper/quota/a/zookeeper_stats"); string(z.Data) != "count=2,bytes=7" {
		t.Errorf("the stats are %q", z.Data)
	}
}

func TestLargeFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length uint32
		says   string
	}{"negative": {1 << 31, "a length of -"}, "beyond the limit": {DataBytesMax + 1, "at most"}, "at the limit": {
		DataBytesMax, "the file ends",
	}} {
		b := binary.BigEndian.AppendUint32(nil, snapshotMagic)
		b = append(jute.AppendLong(jute.AppendInt(b, 2), -1), make([]byte, 8)...)
		b = binary.BigEndian.AppendUint32(b, c.length)
		if _, _, _, err := readSnapshot(bytes.NewReader(b), nil); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSnappyBlocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		block []byte
		says  string
	}{
		"compressed beyond the limit": {binary.BigEndian.AppendUint32(nil, snappyBlockMax+1), "at most"},
		"raw beyond the limit": {
			jute.AppendBuffer(nil, binary.AppendUvarint(nil, snappyBlockMax+1)), "doesn't decompress",
		},
		"empty":   {jute.AppendBuffer(nil, []byte{}), "doesn't decompress"},
		"cut":     {[]byte{0, 0, 0, 9, 1}, "cut short"},
		"garbage": {jute.AppendBuffer(nil, []byte{5, 0xff, 0xff}), "decompress"},
	} {
		r, err := decompressed(bytes.NewReader(append(slices.Clone(snappyHeader), c.block...)), suffixSnappy)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for _, c := range []struct {
		at   int
		with byte
		ok   bool
	}{{11, 2, true}, {11, 0, false}, {8, 0x80, false}, {15, 2, true}, {7, 1, false}} {
		head := slices.Clone(snappyHeader)
		head[c.at] = c.with
		if _, err := decompressed(bytes.NewReader(head), suffixSnappy); (err == nil) != c.ok {
			t.Errorf("a header with byte %d %#x: %v", c.at, c.with, err)
		}
	}
}

// TestBehindDigest: a snapshot that is damaged only where Apache before 3.9 doesn't look is refused, as 3.9 refuses it,
// and what is said then leads on with an older Apache.
func TestBehindDigest(t *testing.T) {
	t.Parallel()
	plain, err := os.ReadFile(filepath.Join(apacheDir(t, nil), Version2, "snapshot.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{8, zxidBytes - 1, zxidBytes} {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		w.Write(append(slices.Clone(plain), make([]byte, more)...))
		w.Close()
		dir := filepath.Join(t.TempDir(), Version2)
		os.Mkdir(dir, 0o700)
		if err := os.WriteFile(filepath.Join(dir, "snapshot.5.gz"), zipped.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(Options{Dir: dir})
		if damage := (*DamageError)(nil); !errors.As(err, &damage) || damage.Do != DoRestartOld {
			t.Errorf("%d bytes behind the digest: %v", more, err)
		}
	}
}

// TestCompressedEnds: of a compressed snapshot Apache reads no more than it needs, and an end within what older
// versions don't write is none; of a plain one it wants every byte.
func TestCompressedEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: there is one goroutine")
	}
	t.Parallel()
	digest, err := os.ReadFile(filepath.Join(apacheDir(t, nil), Version2, "snapshot.0"))
	if err != nil {
		t.Fatal(err)
	}
	whole := jute.AppendLong(slices.Clone(digest), 5)
	whole = jute.AppendString(jute.AppendLong(whole, int64(adler32.Checksum(whole))), "/")
	bare := len(digest) - digestBytes // the first seal's end
	for n := range len(whole) + 1 {
		left := n - bare
		want := left >= 0 && left < 20 || left >= 33 && left < 41 || left == 54
		for name, r := range map[string]io.Reader{
			"ends": bytes.NewReader(whole[:n]),
			"ends too early": io.MultiReader(bytes.NewReader(whole[:n]),
				iotest.ErrReader(io.ErrUnexpectedEOF)),
			"is followed by another checksum": io.MultiReader(bytes.NewReader(whole[:n]),
				iotest.ErrReader(gzip.ErrChecksum)),
			"goes on": bytes.NewReader(append(slices.Clone(whole[:n]), make([]byte, 100)...)),
			"is damaged": io.MultiReader(bytes.NewReader(whole[:n]),
				iotest.ErrReader(flate.CorruptInputError(1))),
			"is followed by what isn't a trailer": io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(gzip.ErrHeader)),
		} {
			_, end, _, err := readSnapshot(r, nil)
			want, damaged := want, false
			switch name {
			case "goes on":
				want, damaged = left >= digestBytes-5, true // the mark's length is 0 then
			case "is followed by another checksum", "is damaged", "is followed by what isn't a trailer":
				want, damaged = left >= 0 && left < 20 || left >= 33, true
			}
			if err == nil && damaged != (end.damage != nil) {
				t.Errorf("a snapshot of %d bytes that %s behind %d of them: %v is reported", len(whole), name, n, end.damage)
			}
			older := err == nil || errors.Is(err, errLastZxid) // what Apache before 3.9 takes
			if (err == nil) != want || left >= digestBytes && !older ||
				err == nil && end.there != (left >= digestBytes || name == "goes on") {
				t.Errorf("a snapshot of %d bytes that %s behind %d of them: %v, %+v", len(whole), name, n, err, end)
			}
		}
		sealed := left == 0 || left == digestBytes || left == digestBytes+zxidBytes
		if _, err := readFile(t, whole[:n]); (err == nil) != sealed {
			t.Errorf("a plain one of %d bytes that ends behind %d of them: %v", len(whole), n, err)
		}
		if _, _, _, err := readSnapshot(io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(fs.ErrClosed)),
			nil); err == nil {
			t.Errorf("an error of the disk's behind %d bytes is passed over", n)
		}
	}
	for _, end := range []int{bare, len(digest), len(whole)} { // the last seal's mark
		for _, c := range []struct {
			mark string
			ok   bool
		}{
			{"\x00\x00\x00\x01.", true}, {"\x00\x00\x00\x00/", true}, {"\xff\xff\xff\xff/", true}, {"\x00\x00\x00\x02/", false},
			{"\xff\xff\xff\xfe/", false},
		} {
			marked := append(slices.Clone(whole[:end-5]), c.mark...)
			if _, _, _, err := readSnapshot(bytes.NewReader(marked), nil); (err == nil) != c.ok {
				t.Errorf("compressed, ending at %d with %q: %v", end, c.mark, err)
			}
			if _, err := readFile(t, marked); err == nil {
				t.Errorf("plain, ending at %d with %q: it is taken", end, c.mark)
			}
			// Behind the digest's seal only Apache 3.9 would read on, and find another checksum than it computes.
			short := end == len(digest) && (c.mark[3] == 0 || c.mark[3] == 0xff)
			if _, _, _, err := readSnapshot(bytes.NewReader(append(marked, whole[end:]...)), nil); err == nil &&
				end < len(whole) && !short {
				t.Errorf("with %q within, at %d: it is taken", c.mark, end)
			}
		}
	}
}

// readFile reads an uncompressed snapshot.
func readFile(t *testing.T, content []byte) (*State, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.5")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadSnapshot(path)
}

func TestSnapshotsTried(t *testing.T) {
	t.Parallel()
	for _, broken := range []int{snapshotsTried - 1, snapshotsTried} {
		dir := apacheDir(t, nil)
		whole, err := os.ReadFile(filepath.Join(dir, Version2, "snapshot.0"))
		if err != nil {
			t.Fatal(err)
		}
		whole[20] ^= 1 // its end looks right
		for i := range broken {
			os.WriteFile(filepath.Join(dir, Version2, fmt.Sprintf("snapshot.%x", i+1)), whole, 0o600)
		}
		_, r, err := Load(Options{Dir: dir})
		if broken < snapshotsTried && (err != nil || r.SnapshotZxid != 0) ||
			broken == snapshotsTried && (err == nil || !strings.Contains(err.Error(), "snapshot.64 is damaged")) {
			t.Errorf("behind %d others: %v", broken, err)
		}
	}
}

func TestSnapshotTail(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join(apacheDir(t, nil), Version2, "snapshot.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{1, 5, tailBytesMax - digestBytes, tailBytesMax, 10 * tailBytesMax} {
		long := append(slices.Clone(whole), make([]byte, more)...)
		if _, err := readFile(t, long); err == nil || !strings.Contains(err.Error(), "want \"\\x00\\x00\\x00\\x01/\"") {
			t.Errorf("%d bytes more: %v", more, err)
		}
		_, end, _, err := readSnapshot(bytes.NewReader(long), nil)
		if more > zxidBytes && (err != nil || end.damage == nil) || err == nil && !end.there {
			t.Errorf("%d bytes more, compressed: %v, %+v", more, err, end)
		}
	}
	bare := whole[:len(whole)-digestBytes]
	seal := func(b []byte) []byte {
		return jute.AppendString(jute.AppendLong(b, int64(adler32.Checksum(b))), "/")
	}
	for _, with := range [][]byte{whole, bare} {
		if _, _, _, err := readSnapshot(bytes.NewReader(seal(jute.AppendLong(slices.Clone(with), 5))),
			nil); err != nil {
			t.Errorf("with the last zxid: %v", err)
		}
	}
}

// TestFuzzySnapshot: a snapshot that was written while transactions were applied has some of them
// already, and its znodes are of different instants.
func TestFuzzySnapshot(t *testing.T) {
	t.Parallel()
	b := binary.BigEndian.AppendUint32(nil, snapshotMagic)
	b = append(jute.AppendLong(jute.AppendInt(b, 2), -1), make([]byte, 8)...) // no sessions, no ACLs
	node := func(path string, acl int64, stat Stat) {
		b = jute.AppendLong(jute.AppendBuffer(jute.AppendString(b, path), []byte("snapshot")), acl)
		b = stat.append(b)
	}
	const unknown = 7 // an ACL that was new when the list of them was written already
	node("", openACL, Stat{Cversion: 5, Pzxid: 9})
	node("/zookeeper", openACL, Stat{})
	node("/zookeeper/config", openACL, Stat{})
	node("/zookeeper/quota", openACL, Stat{})
	node("/taken", openACL, Stat{Czxid: 9}) // it was its session's when that closed, and was created anew since
	node("/new", unknown, Stat{Czxid: 4, Mzxid: 6, Pzxid: 4, Version: 1})
	b = jute.AppendString(b, "/")
	b = jute.AppendString(jute.AppendLong(b, int64(adler32.Checksum(b))), "/")
	set := func(data string, version int32) []byte {
		return jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, "/new"), []byte(data)), version)
	}
	log := newLog().
		add(jute.OpCreate, 5, 2, createBody("/gone", "", false, 1), 0).
		add(jute.OpDelete, 5, 3, jute.AppendString(nil, "/gone"), 0).
		add(jute.OpCreate, 5, 4, createBody("/new", "first", false, 2), 0).
		add(jute.OpSetData, 5, 6, set("second", 1), 0).
		add(jute.OpCloseSession, 6, 7, jute.AppendStrings(nil, []string{"/taken"}), 0)
	dir := apacheDir(t, map[string][]byte{"snapshot.1": b, "log.2": log.b})
	s, r := load(t, dir)
	if r.SnapshotZxid != 1 || !slices.Equal(paths(s), []string{"/new"}) {
		t.Fatalf("%q, %+v", paths(s), r)
	}
	if root := s.find("/"); root.Stat.Pzxid != 9 || root.Stat.Cversion != 5 {
		t.Errorf("the root is %+v; pzxid and cversion don't go back", root.Stat)
	}
	z := s.find("/new")
	if z.Stat.Czxid != 4 || z.Stat.Version != 1 || string(z.Data) != "second" || len(z.ACL.List) != 1 ||
		z.ACL.List[0].Perms != jute.PermAll {
		t.Errorf("/new is %+v", z)
	}
	// Without the create nobody knows the ACL.
	os.Remove(filepath.Join(dir, Version2, "log.2"))
	if _, _, err := Load(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "/new") {
		t.Errorf("a znode without an ACL: %v", err)
	}
}
