package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// plant creates znodes, "path" or "path=data"; a path that ends in ! is ephemeral.
func plant(t *testing.T, c *zk.Client, znodes ...string) {
	t.Helper()
	for _, text := range znodes {
		path, data, _ := strings.Cut(text, "=")
		mode := zk.ModePersistent
		if strings.HasSuffix(path, "!") {
			path, mode = strings.TrimSuffix(path, "!"), zk.ModeEphemeral
		}
		if _, err := c.Create(t.Context(), path, []byte(data), mode, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
}

// refuses runs a line that must fail with a text and change nothing below root.
func (v *session) refuses(t *testing.T, c *zk.Client, root, line, text string) {
	t.Helper()
	before, _ := read(t, c, root)
	out := v.run(t, line)
	if v.s.exit != exitFailed || !strings.Contains(out, text) {
		t.Errorf("%s: exit code %d, %q; want %q", line, v.s.exit, out, text)
	}
	after, _ := read(t, c, root)
	sameModel(t, line, before, after)
}

// TestMirrorRefuses names places that overlap by other names, and sources that would
// empty the target.
func TestMirrorRefuses(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c := open(t, address)
		_, port, _ := strings.Cut(address, ":")
		other := "localhost:" + port
		plant(t, c, "/r", "/r/app", "/r/app/a=1", "/r/app/b", "/r/app/b/c=2", "/r/app/b/d", "/r/eph!", "/r/bare")
		v := newSession(t, address)
		for _, cmd := range []string{"mirror -delete -yes ", "mirror -dry-run "} {
			v.refuses(t, c, "/r", cmd+"/r/app "+other+"/r/app", "one lies within the other")
			v.refuses(t, c, "/r", cmd+"/r/app/b "+other+"/r/app", "one lies within the other")
			v.refuses(t, c, "/r", cmd+"/r/app "+other+"/r/app/b/x", "one lies within the other")
			v.refuses(t, c, "/r", cmd+other+"/r/app "+address+"/r", "one lies within the other")
			v.refuses(t, c, "/r", cmd+"/r/eph /r/app", "the source is ephemeral")
			v.refuses(t, c, "/r", cmd+"/r/none /r/app", "does not exist")
		}
		v.refuses(t, c, "/r", "cp /r/app "+other+"/r/app/b/x", "the target lies within the source")
		v.refuses(t, c, "/r", "mv /r/app "+other+"/r/app/b/x", "the target lies within the source")
		v.refuses(t, c, "/r", "cp /r/eph /r/copy", "the source is ephemeral")
		v.refuses(t, c, "/r", "mirror -delete /r/bare /r/app", "it would delete 4 of the target's 5 znodes")
		v.refuses(t, c, "/r", "mirror -delete -dry-run /r/bare /r/app", "it would delete 4 of the target's 5 znodes")
		v.must(t, "mirror", "-delete", "-dry-run", "-yes", "/r/bare", "/r/app")

		below := newSession(t, address+"/r")
		below.refuses(t, c, "/r", "mirror -delete -yes /app "+other+"/r", "one lies within the other")
		below.refuses(t, c, "/r", "mirror -delete -yes /app "+address+"/r/app/b", "one lies within the other")
		below.must(t, "mirror", "/app", address+"/app")
		if _, there, err := c.Exists(t.Context(), "/app/b/c"); err != nil || !there {
			t.Errorf("mirror from below a chroot to beside it: %t, %v", there, err)
		}
	})
}

// TestMirrorToAnother shows that places of two ensembles may have the same path.
func TestMirrorToAnother(t *testing.T) {
	t.Parallel()
	here, there := startZooid(t), startZooid(t)
	c, d, v := open(t, here), open(t, there), newSession(t, here)
	plant(t, c, "/app", "/app/a=1")
	plant(t, d, "/app", "/app/b=2")
	v.must(t, "mirror", "-delete", "-yes", "/app", there+"/app")
	want, _ := read(t, c, "/app")
	got, _ := read(t, d, "/app")
	sameModel(t, "mirror", want, got)
	v.must(t, "mv", "/app/a", there+"/app/a2")
}

// TestMirrorAsksForMuch reaches both limits of what mirror deletes unasked.
func TestMirrorAsksForMuch(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	plant(t, c, "/from", "/to")
	var ops []zk.MultiOp
	add := func(path string) {
		if ops = append(ops, zk.CreateOp(path, nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))); len(ops) < 500 {
			return
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		ops = nil
	}
	for i := range 10_000 {
		add(fmt.Sprintf("/from/n%05d", i))
		add(fmt.Sprintf("/to/n%05d", i))
	}
	for i := range mirrorDeletesMax {
		add(fmt.Sprintf("/to/x%05d", i))
	}
	v.must(t, "mirror", "-dry-run", "-delete", "/from", "/to")
	plant(t, c, "/to/y")
	if out := v.run(t, "mirror -delete /from /to"); !strings.Contains(out,
		"it would delete 1001 of the target's 11002 znodes") {
		t.Errorf("got %q", out)
	}
	asked := ""
	v.s.ask = func(prompt string) (string, error) { asked = prompt; return "y", nil }
	if out := v.run(t, "mirror -delete /from /to"); !strings.Contains(out, "it would delete") ||
		!strings.Contains(asked, "1001 of") {
		t.Errorf("asked %q, answered y: %q", asked, out)
	}
	v.s.ask = func(string) (string, error) { return "yes\n", nil }
	if out := v.must(t, "mirror", "-delete", "/from", "/to"); out != "0 created, 0 changed, 1001 deleted\n" {
		t.Errorf("answered yes: %q", out)
	}
}

// TestMirrorAndEphemerals keeps what stands where the source has ephemeral znodes,
// and refuses to delete what has some below it.
func TestMirrorAndEphemerals(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		plant(t, c, "/from", "/from/leader!=me", "/from/a=1", "/to", "/to/leader=was", "/to/leader/x=deep", "/to/gone",
			"/to/b!")
		if out := v.must(t, "mirror", "-delete", "-yes", "/from", "/to"); !strings.Contains(out,
			"1 created, 0 changed, 1 deleted\n") ||
			!strings.Contains(out, "2 znodes in the target, where the source has ephemeral ones, stay as they are") {
			t.Errorf("got %q", out)
		}
		if got, _ := read(t, c, "/to"); len(got) != 5 || !strings.Contains(got["/leader"], "was") ||
			!strings.Contains(got["/leader/x"], "deep") {
			t.Errorf("the target is %q", got)
		}
		plant(t, c, "/to/gone", "/to/gone/eph!")
		v.refuses(t, c, "/to", "mirror -delete -yes /from /to", "/to/gone/eph is ephemeral in the target and can't be replaced")
		plant(t, c, "/from/b=1")
		v.refuses(t, c, "/to", "mirror /from /to", "/to/b is ephemeral in the target and can't be replaced")
	})
}

// TestMoveRefuses keeps what a move would lose, in one transaction and in steps.
func TestMoveRefuses(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		for _, k := range []struct {
			root string
			many int
		}{{"/small", 3}, {"/large", moveAtOnce}} {
			plant(t, c, k.root, k.root+"/zz", k.root+"/q")
			p := c.Pipeline()
			var last zk.Future[zk.Created]
			for i := range k.many {
				last = p.Create(t.Context(), fmt.Sprintf("%s/n%d", k.root, i), nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
			}
			if _, err := last.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			plant(t, c, k.root+"/zz/eph!")
			v.refuses(t, c, k.root, "mv "+k.root+" /moved", "is ephemeral and belongs to the session")
			v.must(t, "delete", k.root+"/zz/eph")
			v.must(t, "create", "-s", k.root+"/q/item-")
			v.must(t, "create", "-s", k.root+"/q/item-")
			v.must(t, "delete", k.root+"/q/item-0000000000")
			v.refuses(t, c, k.root, "mv "+k.root+" /moved", "the sequence numbers below "+k.root+"/q would restart")
			v.must(t, "delete", k.root+"/q/item-0000000001")
			v.must(t, "setquota", "-n", "100000", k.root+"/zz")
			v.refuses(t, c, k.root, "mv "+k.root+" /moved", k.root+"/zz has a quota")
			if _, there, err := c.Exists(t.Context(), "/moved"); err != nil || there {
				t.Fatalf("a refused move left something: %t, %v", there, err)
			}
			want, _ := read(t, c, k.root)
			out := v.must(t, "mv", "-lossy", k.root, "/moved")
			for _, said := range []string{"sequence numbers restart below 2 znodes", "all are persistent"} {
				if !strings.Contains(out, said) {
					t.Errorf("mv -lossy says %q, without %q", out, said)
				}
			}
			got, _ := read(t, c, "/moved")
			sameModel(t, "mv -lossy", want, got)
			v.must(t, "deleteall", "/moved")
			v.must(t, "delquota", k.root+"/zz")
		}
	})
}

// TestCopyOfReadOnlyParents copies a subtree whose parents admit no children, and
// values as large as a request may be.
func TestCopyOfReadOnlyParents(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		plant(t, c, "/from", "/from/a", "/from/a/b", "/from/a/b/c=1", "/from/z")
		// This fits a request of its own, 56 bytes beside it, but not one with the 18 of a transaction more.
		large := strings.Repeat("x", zk.DefaultMaxRequestBytes-65)
		if _, err := c.Set(t.Context(), "/from/z", []byte(large), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		v.must(t, "setAcl", "-R", "/from", "world:anyone:ra")
		want, _ := read(t, c, "/from")
		for _, line := range []string{"cp /from /copy", "mirror /from /mirror", "mirror /from /mirror"} {
			v.must(t, strings.Fields(line)...)
			got, _ := read(t, c, strings.Fields(line)[2])
			sameModel(t, line, want, got)
		}
	})
}

// TestHiddenACLsCantBeCompared takes no masked digest for equal to another.
func TestHiddenACLsCantBeCompared(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		plant(t, c, "/from", "/from/a=new", "/to", "/to/a=old")
		v.must(t, "setAcl", "/from/a", "digest:bob:one=:cdrwa,world:anyone:rcdw")
		v.must(t, "setAcl", "/to/a", "digest:bob:two=:cdrwa,world:anyone:rcdw")
		for _, line := range []string{
			"mirror /from /to", "mirror -dry-run /from /to", "mirror /from /third", "diff /from /to", "mv /from /third",
		} {
			v.refuses(t, c, "/to", line, "the server hides a part of the ACL of /")
		}
		if _, there, err := c.Exists(t.Context(), "/third"); err != nil || there {
			t.Errorf("a refused mirror left something: %t, %v", there, err)
		}
		v.must(t, "mirror", "-noacl", "/from", "/to")
	})
}

// TestMirrorRefusesAcrossServers names the same ensemble by different servers of it,
// which needn't have heard of a session that has just begun at another.
func TestMirrorRefusesAcrossServers(t *testing.T) {
	t.Parallel()
	servers := strings.Split(zktest.Start(t, zktest.Options{Servers: 3}).Connect(), ",")
	c := open(t, strings.Join(servers, ","))
	plant(t, c, "/r", "/r/a=1", "/r/b")
	for i, from := range servers {
		v := newSession(t, from)
		for range 3 {
			v.refuses(t, c, "/r", "mirror -delete -yes /r/b "+servers[(i+1)%3]+"/r", "one lies within the other")
		}
	}
}
