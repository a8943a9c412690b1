package compare

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// TestPathOrder: paths are in the order in which walks come to them.
func TestPathOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	path := func() string {
		text := ""
		for range rnd.IntN(4) {
			text += "/" + []string{"a", "b", "a-", "a.b", "é", "\x01"}[rnd.IntN(6)]
		}
		return named(text)
	}
	split := func(path string) []string { return strings.Split(strings.TrimSuffix(path, "/"), "/") }
	sign := func(n int) int { return min(max(n, -1), 1) }
	for range 20_000 {
		a, b := path(), path()
		if have, want := sign(comparePaths(a, b)), slices.Compare(split(a), split(b)); have != want {
			t.Fatalf("%q, %q: %d, want %d", a, b, have, want)
		}
	}
}

// scripted is a side whose znodes change each time that they are read again.
type scripted struct {
	first  []*Znode
	later  map[string][]*Znode // by path; the last one stays
	synced int
}

func (s *scripted) All(context.Context) iter.Seq2[*Znode, error] {
	return func(yield func(*Znode, error) bool) {
		for _, z := range s.first {
			if z.Path == "/fails" {
				yield(nil, z.Err)
				return
			}
			if !yield(z, nil) {
				return
			}
		}
	}
}

func (s *scripted) Read(_ context.Context, path string) (*Znode, error) {
	if later := s.later[path]; len(later) > 0 {
		if len(later) > 1 {
			s.later[path] = later[1:]
		}
		return later[0], nil
	}
	for _, z := range s.first {
		if z.Path == path {
			return z, nil
		}
	}
	return nil, nil
}

func (s *scripted) Sync(context.Context) error          { s.synced++; return nil }
func (s *scripted) Zxid(context.Context) (int64, error) { return 0, nil }
func (s *scripted) Files() bool                         { return false }

func (s *scripted) Reach(context.Context, int64, time.Duration) (int64, error) { return 0, nil }

func at(path, data string) *Znode { return &Znode{Path: path, Data: []byte(data)} }

// TestVerdicts: only what stands still on both sides is said to differ.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	a := &scripted{later: map[string][]*Znode{
		"/moves":   {at("/moves", "1"), at("/moves", "2"), at("/moves", "3"), at("/moves", "4")},
		"/created": {at("/created", "")},
	}, first: []*Znode{
		at("/", ""), at("/acl", ""), at("/behind", "new"), at("/differs", "a"), at("/gone", ""), at("/moves", "0"),
		at("/onlya", ""),
		{Path: "/secret", Err: zk.ErrNoAuth}, at("/zookeeper/config", "1"),
	}}
	a.first[1].ACL = []zk.ACL{{Perms: 1, ID: zk.ID{Scheme: "digest", ID: "u:x"}}}
	b := &scripted{later: map[string][]*Znode{
		"/behind": {at("/behind", "old"), at("/behind", "new")},
		"/gone":   {at("/gone", "")},
	}, first: []*Znode{
		at("/", ""), at("/acl", ""), at("/behind", "old"), at("/created", ""), at("/differs", "b"), at("/moves", "z"),
		at("/onlyb", ""), at("/secret", ""),
		at("/zookeeper/config", "2"),
	}}
	have := map[string]Verdict{}
	counts, err := Trees(t.Context(), a, b, Options{Patience: 3 * time.Millisecond, Tell: func(d *Difference) error {
		have[d.Path] = d.Verdict
		return nil
	}})
	want := map[string]Verdict{
		"/differs": Differs, "/moves": Changing, "/onlya": OnlyA, "/onlyb": OnlyB, "/secret": Unreadable,
	}
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%v, %v; want %v", have, err, want)
	}
	if want := (Counts{Compared: 10, Equal: 5, Different: 3, Changing: 1, Unreadable: 1, HiddenACLs: 1}); counts != want {
		t.Errorf("%+v, want %+v", counts, want)
	}
	if a.synced != rounds+1 || b.synced != rounds+1 { // once to see that it can be
		t.Errorf("synced %d and %d times, want %d", a.synced, b.synced, rounds+1)
	}
}

// TestManySuspects: what differs is told as it comes, however much it is, and an error ends it.
func TestManySuspects(t *testing.T) {
	t.Parallel()
	a, b := &scripted{}, &scripted{}
	for n := range 3*suspectsMax + 1 {
		a.first = append(a.first, at(fmt.Sprintf("/n%06d", n), "a"))
	}
	c := &comparison{Options: Options{Tell: func(*Difference) error { return nil }}, a: a, b: b}
	if err := c.walk(t.Context()); err != nil || len(c.suspects) != 1 || c.counts.Different != 3*suspectsMax {
		t.Errorf("%v, %d left, %+v", err, len(c.suspects), c.counts)
	}
	full := errors.New("full")
	if _, err := Trees(t.Context(), a, b, Options{Tell: func(*Difference) error { return full }}); !errors.Is(err, full) {
		t.Errorf("%v, want the error of Tell", err)
	}
	a.first = append(a.first, &Znode{Path: "/fails", Err: full})
	if _, err := Trees(t.Context(), b, a, Options{Tell: func(*Difference) error { return nil }}); !errors.Is(err, full) {
		t.Errorf("%v, want the error of All", err)
	}
}

// TestFields: each field of a znode counts, unless it is ignored.
func TestFields(t *testing.T) {
	t.Parallel()
	a := &Znode{Path: "/a", Data: []byte{}, ACL: zk.WorldACL(zk.PermAll)}
	b := &Znode{Path: "/a", ACL: zk.WorldACL(zk.PermRead)}
	v := reflect.ValueOf(&b.Stat).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(7)
	}
	var have []string
	for _, f := range differing(a, b, nil) {
		have = append(have, f.Name)
	}
	if !slices.Equal(have, fieldNames) {
		t.Errorf("%q, want %q", have, fieldNames)
	}
	ignored, err := ParseIgnored("zxids, times,version,cversion,aversion,ephemeralOwner,dataLength,numChildren,data")
	if fields := differing(a, b, ignored); err != nil || len(fields) != 1 || fields[0].Name != "acl" {
		t.Errorf("%v, %v; want the ACL alone", fields, err)
	}
	if _, err := ParseIgnored("zxid"); err == nil || !strings.Contains(err.Error(), "mzxid") {
		t.Errorf("%v, want the fields that there are", err)
	}
}

// TestDirectories: a directory of Apache's equals the one that is made of it.
func TestDirectories(t *testing.T) {
	t.Parallel()
	theirs, own := t.TempDir(), filepath.Join(t.TempDir(), "own")
	write(t, theirs, "data")
	if _, err := apache.Import(apache.ImportOptions{Apache: files.Options{Dir: theirs}, Dir: own}); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	write(t, other, "other")
	open := func(dir string) Source {
		f, err := OpenFiles(dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		a, b string
		want []string
	}{
		{theirs, own, nil},
		{own, filepath.Join(theirs, files.Version2), nil},
		{own, other, []string{"/a differs"}},
	} {
		var have []string
		counts, err := Trees(t.Context(), open(c.a), open(c.b), Options{Tell: func(d *Difference) error {
			have = append(have, d.Path+" "+string(d.Verdict))
			return nil
		}})
		if err != nil || !slices.Equal(have, c.want) || counts.Compared != 7 {
			t.Errorf("%s, %s: %q, %v, %+v; want %q", c.a, c.b, have, err, counts, c.want)
		}
	}
	f := open(own)
	if z, err := f.Read(t.Context(), "/a"); err != nil || z.Stat.Cversion != 2*5-3 || z.Stat.NumChildren != 3 ||
		z.Stat.DataLength != 4 {
		t.Errorf("/a: %+v, %v", z, err)
	}
	if z, err := f.Read(t.Context(), "/a/e"); err != nil || z.Stat.EphemeralOwner != 0x100000000000001 {
		t.Errorf("/a/e: %+v, %v", z, err)
	}
	if z, err := f.Read(t.Context(), "/a/c"); err != nil || z.Stat.EphemeralOwner != 0 {
		t.Errorf("a container, /a/c: %+v, %v", z, err)
	}
	if _, err := OpenFiles(t.TempDir(), nil, nil); err == nil {
		t.Error("an empty directory is taken")
	}
}

func write(t *testing.T, dir, data string) {
	t.Helper()
	_, err := files.Write(dir, &files.Content{
		Zxid: 0x500000007, Epoch: 5, Sessions: []files.Session{{ID: 0x100000000000001, Timeout: 4000}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
				if err := visit(path, nil, jute.WorldACL(jute.PermAll), &files.Stat{Mzxid: 5}); err != nil {
					return err
				}
			}
			return errors.Join(visit("/a", []byte(data), jute.WorldACL(jute.PermRead), &files.Stat{Cversion: 5}),
				visit("/a/e", nil, nil, &files.Stat{Owner: 0x100000000000001}),
				visit("/a/c", nil, nil, &files.Stat{Owner: files.Owner{Container: true}.Stored()}),
				visit("/a/ttl", nil, nil, &files.Stat{Owner: files.Owner{TTL: 9}.Stored()}))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunningServers: the trees of two servers, while one of them changes.
func TestRunningServers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var clients [2]*zk.Client
	for i := range clients {
		c, err := zk.Open(ctx, zktest.Start(t, zktest.Options{}).Connect(),
			zk.Options{SessionTimeout: zktest.MaxSessionTimeout})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
		for _, path := range []string{"/a", "/a/b", "/a/b/c", "/d"} {
			if _, err := c.Create(ctx, path, []byte(path), zk.ModePersistent, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
	}
	ignored, _ := ParseIgnored("times,zxids")
	run := func() (have []string, counts Counts) {
		counts, err := Trees(ctx, OpenLive(clients[0]),
			OpenLive(clients[1]), Options{Ignored: ignored, Patience: 20 * time.Millisecond, Tell: func(d *Difference) error {
				have = append(have, fmt.Sprint(d.Path, " ", d.Verdict, " ", d.Fields))
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return have, counts
	}
	if have, counts := run(); len(have) != 0 || counts.Compared < 6 {
		t.Errorf("equal servers: %q, %+v", have, counts)
	}
	if _, err := clients[1].Set(ctx, "/a/b", []byte("else"), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := clients[0].Create(ctx, "/d/only", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`/a/b differs [{data "/a/b" "else"} {version 0 1}]`, "/d differs [{cversion 1 0} {numChildren 1 0}]",
		"/d/only only in A []",
	}
	have, _ := run()
	if !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}
