package tree

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// copied builds a tree of what another one hands out.
func copied(t *testing.T, from *Tree) *Tree {
	t.Helper()
	b := NewBuilder(Options{Key: [16]byte{1}})
	from.sessions.All(func(s Session) bool {
		if err := b.AddSession(s.ID, s.Timeout, s.Passwd); err != nil {
			t.Fatal(err)
		}
		return true
	})
	places := map[string]uint32{"": RootPlace}
	from.Znodes(func(z *Foreign) bool {
		if z.Path == "/" {
			b.Root(z)
			return true
		}
		parent, name, _ := splitPath(z.Path)
		if parent == "/" {
			parent = ""
		}
		z.Parent, z.Name = places[parent], name
		place, err := b.Add(z)
		if err != nil {
			t.Fatalf("%s: %v", z.Path, err)
		}
		places[strings.Clone(z.Path)] = place
		return true
	})
	built, err := b.Finish(1, 1, from.LastZxid(), from.Time())
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// listing is everything that Znodes, reads and sessions tell of a tree.
func listing(t *Tree) string {
	var b bytes.Buffer
	t.Znodes(func(z *Foreign) bool {
		fmt.Fprintf(&b, "%+v\n", *z)
		reply, _ := t.AppendGetACL(nil, z.Path, []jute.ID{{Scheme: "super"}})
		fmt.Fprintf(&b, "%x\n", reply)
		reply, _ = t.AppendGetData(nil, z.Path, []jute.ID{{Scheme: "super"}})
		fmt.Fprintf(&b, "%x\n", reply)
		return true
	})
	t.sessions.All(func(s Session) bool {
		fmt.Fprintln(&b, s.ID, s.Timeout, s.Passwd, t.sessions.EphemeralPaths(s.ID, math.MaxInt))
		return true
	})
	fmt.Fprintln(&b, t.NodeCount(), t.ApproximateDataSize(), t.EphemeralsCount(), t.totals.reapable, t.LastZxid(),
		t.Time(), t.quotas.paths)
	return b.String()
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		w := newWalker(t, 100+seed)
		for range 400 {
			w.step()
		}
		built := copied(t, w.tree)
		if broken := invariants(built); broken != "" {
			t.Fatalf("seed %d: %s", seed, broken)
		}
		if built.Digest() != built.RecomputeDigest() {
			t.Fatalf("seed %d: the digest isn't that of the state", seed)
		}
		// The order of a session's znodes may differ, as it does in files of other servers.
		if want, have := sortedOwners(listing(w.tree)), sortedOwners(listing(built)); want != have {
			t.Fatalf("seed %d: copied\n%s\nfrom\n%s", seed, have, want)
		}
		again, err := load(drain(built, chunkSize))
		if err != nil {
			t.Fatal(err)
		}
		if listing(again) != listing(built) {
			t.Fatalf("seed %d: a snapshot of the copy holds something else", seed)
		}
	}
}

// sortedOwners leaves the order of sessions' znodes out of a listing.
func sortedOwners(listing string) string {
	lines := strings.Split(listing, "\n")
	for i, line := range lines {
		if at := strings.LastIndex(line, "] ["); at >= 0 && !strings.HasPrefix(line, "{") {
			lines[i] = line[:at] + fmt.Sprint(len(strings.Fields(line[at:])))
		}
	}
	return strings.Join(lines, "\n")
}

// TestForeignFamilyOfOneMulti: a znode and its children that one multi has created have one zxid, and the znode's count
// of children comes along.
func TestForeignFamilyOfOneMulti(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Options{})
	place, err := b.Add(&Foreign{Parent: RootPlace, Name: "a", Czxid: 5, Mzxid: 5, Pzxid: 5, Created: 3})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.tree.stat(b.tree.at(place)); s.Cversion != 6 || s.Pzxid != 5 {
		t.Errorf("three children that came and went are a cversion of %d; pzxid %d", s.Cversion, s.Pzxid)
	}
}

func TestForeignIsRefused(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Options{})
	if err := b.AddSession(7, 100, [jute.PasswdSize]byte{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{0, 7, -1 << 63} {
		if err := b.AddSession(id, 100, [jute.PasswdSize]byte{}); err == nil {
			t.Errorf("a session %#x was added", id)
		}
	}
	if err := b.AddSession(8, -1, [jute.PasswdSize]byte{}); err == nil {
		t.Error("a session with a timeout of -1 ms was added")
	}
	if err := b.AddSession(9<<32, 0, [jute.PasswdSize]byte{}); err != nil {
		t.Errorf("a session without a timeout: %v", err)
	}
	owned, err := b.Add(&Foreign{Parent: RootPlace, Name: "owned", Owner: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		z    Foreign
		says string
	}{
		{Foreign{Parent: 0, Name: "a"}, "parent isn't there"},
		{Foreign{Parent: 9, Name: "a"}, "parent isn't there"},
		{Foreign{Parent: 1 << 31, Name: "a"}, "parent isn't there"},
		{Foreign{Parent: RootPlace}, "name"},
		{Foreign{Parent: RootPlace, Name: "a/b"}, "name"},
		{Foreign{Parent: owned, Name: "a"}, "ephemeral"},
		{Foreign{Parent: RootPlace, Name: "owned"}, "twice"},
		{Foreign{Parent: RootPlace, Name: "a", Owner: 9}, "session 0x9"},
		{Foreign{Parent: RootPlace, Name: "a", TTL: -1}, "TTL"},
		{Foreign{Parent: RootPlace, Name: "a", TTL: jute.TTLMax + 1}, "TTL"},
	} {
		if _, err := b.Add(&c.z); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: the error is %v; want one about %q", c.z, err, c.says)
		}
	}
	if _, err := b.Finish(1, 1, 1, 1); err == nil || !strings.Contains(err.Error(), "/zookeeper") {
		t.Errorf("a tree without /zookeeper: the error is %v", err)
	}
}
