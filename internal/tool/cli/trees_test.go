package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/zk"
)

// model is a subtree , naively: what is at each path.
type model map[string]string // data and ACL, by path relative to the root

// grow makes a random subtree below root, with all that is hard to carry in a file.
func grow(t *testing.T, c *zk.Client, root string, r *rand.Rand, size int) {
	t.Helper()
	data := [][]byte{
		nil, {}, []byte("plain"), []byte("two\nlines\n"), []byte(" leading and trailing "), []byte("\ttab: {[\"'#&*!|>%@`"),
		[]byte("true"), []byte("0123"), []byte("~"), []byte("---\n...\n"), []byte("a\r\nb"), {0, 1, 2, 0xff, 0xfe},
		[]byte("\ufeffbom\u0085\u2028"),
		[]byte("ünïcödé 漢字 🐘"), []byte(strings.Repeat("long ", 3000)), []byte("\x1b[31m"), []byte("a: b\n  - c"),
		[]byte("\n"),
	}
	names := []string{
		"a", "b-c", "b", "with space", "ünïcödé", "_data", "..x", "#", "'quote'", `back\slash`, "-v", "true", "a=b,c",
	}
	acls := [][]zk.ACL{zk.WorldACL(zk.PermAll),
		{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}},
			{Perms: zk.PermRead, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}}},
		{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "u:hash="}},
			{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}}}
	paths := []string{root}
	if _, err := c.Create(t.Context(), root, []byte("top"), zk.ModePersistent, acls[0]); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		mode := zk.ModePersistent
		if r.IntN(20) == 0 {
			mode = zk.ModeContainer
		}
		path := subtree.Join(paths[r.IntN(len(paths))], names[r.IntN(len(names))])
		_, err := c.Create(t.Context(), path, data[i%len(data)], mode, acls[r.IntN(len(acls))])
		if errors.Is(err, zk.ErrNodeExists) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
}

// read reads a subtree one call at a time; order is that of the visits.
func read(t *testing.T, c *zk.Client, root string) (m model, order []string) {
	t.Helper()
	m = model{}
	var visit func(path string)
	visit = func(path string) {
		data, _, err := c.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		acl, _, err := c.GetACL(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		children, _, err := c.Children(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		m[strings.TrimPrefix(path, root)] = fmt.Sprintf("%t %q %s", data == nil, data, subtree.ACLText(acl))
		order = append(order, path)
		slices.Sort(children)
		for _, name := range children {
			visit(subtree.Join(path, name))
		}
	}
	visit(root)
	return m, order
}

func sameModel(t *testing.T, what string, want, got model) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if want[path] != got[path] {
			t.Errorf("%s: %q is\n%s, want\n%s", what, path, got[path], want[path])
		}
	}
	if len(want) != len(got) {
		t.Errorf("%s: %d znodes, want %d", what, len(got), len(want))
	}
}

// onServers runs a test on Zooid, and with ZOOID_COMPAT=1 on Apache.
func onServers(t *testing.T, test func(t *testing.T, address string)) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"zooid": startZooid, "apache": startApache} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// must runs a command that has to succeed.
func (v *session) must(t *testing.T, words ...string) string {
	t.Helper()
	for i := range words {
		words[i] = quote(words[i])
	}
	out := v.run(t, strings.Join(words, " "))
	if v.s.exit != 0 {
		t.Fatalf("%s: %s", strings.Join(words, " "), out)
	}
	return out
}

// TestCopiesAreIdentical takes random trees through every format and every kind of
// copy, and compares what arrives, read one znode at a time.
func TestCopiesAreIdentical(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		v.must(t, "addauth", "digest", "super:test") // sees ACLs whole
		if err := c.AddAuth(t.Context(), "digest", []byte("super:test")); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(3) {
			root := fmt.Sprintf("/src%d", seed)
			grow(t, c, root, rand.New(rand.NewPCG(seed, 1)), 250)
			want, _ := read(t, c, root)
			for _, file := range []string{"x.json", "x.yaml", "x.tar", "x.json.gz", "x.tgz"} {
				file := filepath.Join(t.TempDir(), file)
				v.must(t, "export", root, file)
				v.must(t, "import", file, "/copy/deep")
				got, _ := read(t, c, "/copy/deep")
				sameModel(t, file, want, got)
				if out := v.must(t, "import", file, "/copy/deep"); !strings.HasPrefix(out, "0 created, 0 changed") {
					t.Errorf("a second import of %s wrote: %s", file, out)
				}
				v.must(t, "deleteall", "/copy")
			}
			v.must(t, "cp", root, "/copy")
			got, _ := read(t, c, "/copy")
			sameModel(t, "cp", want, got)
			v.must(t, "mv", "/copy", "/moved")
			got, _ = read(t, c, "/moved")
			sameModel(t, "mv", want, got)
			v.must(t, "diff", root, "/moved")
			v.must(t, "deleteall", "/moved")
		}
	})
}

// TestMirrorConverges makes random trees alike, whatever the target was.
func TestMirrorConverges(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		v.must(t, "addauth", "digest", "super:test")
		if err := c.AddAuth(t.Context(), "digest", []byte("super:test")); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(4) {
			from, to := fmt.Sprintf("/from%d", seed), fmt.Sprintf("/to%d", seed)
			grow(t, c, from, rand.New(rand.NewPCG(seed, 2)), 200)
			grow(t, c, to, rand.New(rand.NewPCG(seed, 3)), 200)
			want, _ := read(t, c, from)
			v.must(t, "mirror", "-delete", "-yes", from, address+to)
			got, _ := read(t, c, to)
			sameModel(t, "mirror", want, got)
			v.must(t, "diff", from, to)
			if out := v.must(t, "mirror", "-delete", from, to); out != "0 created, 0 changed, 0 deleted\n" {
				t.Errorf("a second mirror wrote: %s", out)
			}
		}
	})
}

// TestMoveInSteps moves more than one transaction takes.
func TestMoveInSteps(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	grow(t, c, "/big", rand.New(rand.NewPCG(1, 4)), 50)
	p := c.Pipeline()
	var last zk.Future[zk.Created]
	for i := range moveAtOnce {
		last = p.Create(t.Context(), fmt.Sprintf("/big/n%04d", i), []byte("x"), zk.ModePersistent, zk.WorldACL(zk.PermAll))
	}
	if _, err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.must(t, "setAcl", "-R", "/big", "world:anyone:cdrwa")
	want, _ := read(t, c, "/big")
	out := v.must(t, "mv", "/big", "/there")
	if !strings.Contains(out, "too large for one transaction") {
		t.Errorf("it was not moved in steps: %s", out)
	}
	got, _ := read(t, c, "/there")
	sameModel(t, "mv", want, got)
	if _, there, err := c.Exists(t.Context(), "/big"); err != nil || there {
		t.Errorf("the source is there: %t, %v", there, err)
	}
}

// TestWalkOrder compares walks with a naive visit, in full, cut at a depth, pruned
// and ended early.
func TestWalkOrder(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	for seed := range uint64(5) {
		root := fmt.Sprintf("/w%d", seed)
		r := rand.New(rand.NewPCG(seed, 5))
		grow(t, c, root, r, 400)
		_, want := read(t, c, root)
		depthMax, pruned, most := r.IntN(4), want[r.IntN(len(want))], 1+r.IntN(len(want))
		depth := func(path string) int { return strings.Count(path, "/") - 1 }
		for _, k := range []struct {
			what   string
			adjust func(*subtree.Walk)
			keep   func(string) bool
		}{
			{"all", func(*subtree.Walk) {}, func(string) bool { return true }},
			{"data", func(w *subtree.Walk) { w.Data = true }, func(string) bool { return true }},
			{"depth", func(w *subtree.Walk) { w.DepthMax = depthMax }, func(p string) bool { return depth(p) <= depthMax }},
		} {
			w := v.s.walk(c, root)
			k.adjust(&w)
			var got []string
			if err := w.Each(t.Context(), func(n *subtree.Znode) error {
				if n.Depth != depth(n.Path) || n.Path != root && n.Name != n.Path[strings.LastIndex(n.Path, "/")+1:] {
					t.Errorf("%s: depth %d, name %q", n.Path, n.Depth, n.Name)
				}
				got = append(got, n.Path)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			expect := slices.DeleteFunc(slices.Clone(want), func(p string) bool { return !k.keep(p) })
			if !slices.Equal(got, expect) {
				t.Errorf("seed %d, %s: got %q, want %q", seed, k.what, got, expect)
			}
		}
		var got []string
		w := v.s.walk(c, root)
		for n, err := range w.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n.Path)
			n.Prune = n.Path == pruned
			if len(got) == most {
				break
			}
		}
		expect := slices.DeleteFunc(slices.Clone(want), func(p string) bool { return strings.HasPrefix(p, pruned+"/") })
		if expect = expect[:min(most, len(expect))]; !slices.Equal(got, expect) {
			t.Errorf("seed %d, pruned at %q: got %q, want %q", seed, pruned, got, expect)
		}
	}
}

// TestWalkEndsWithItsContext cancels a walk halfway.
func TestWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	grow(t, c, "/w", rand.New(rand.NewPCG(1, 6)), 300)
	ctx, cancel := context.WithCancel(t.Context())
	visits := 0
	err := v.s.walk(c, "/w").Each(ctx, func(*subtree.Znode) error {
		if visits++; visits == 50 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after %d visits: %v", visits, err)
	}
}
