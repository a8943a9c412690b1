package moving

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/zk"
)

var everyCut = flag.Bool("moving.cuts", false, "TestApacheAgrees cuts at each byte, not at each third one")

// TestApacheAgrees changes one byte after the other of a snapshot and of a log, and cuts them: what
// Apache loads then is loaded as the same, and what it refuses is refused.
func TestApacheAgrees(t *testing.T) {
	need(t)
	for _, c := range []struct{ version, compression string }{{"3.6.4", ""}, {"3.8.4", "gz"}, {"3.9.5", ""}, {"3.9.5", "snappy"}} {
		t.Run(c.version+c.compression, func(t *testing.T) {
			dir := smallTree(t, c.version)
			if c.compression != "" {
				dir = compressedTree(t, dir, c.version, c.compression)
			}
			r := startRestarter(t, c.version)
			loaded, refused := 0, 0
			files, err := filepath.Glob(filepath.Join(dir, "version-2", "*.*"))
			if err != nil || len(files) != 2 {
				t.Fatalf("%q, %v; want a snapshot and a log", files, err)
			}
			for _, file := range files {
				whole, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				used := whole
				for len(used) > 0 && used[len(used)-1] == 0 {
					used = used[:len(used)-1]
				}
				try := func(what string, content []byte) {
					if err := os.WriteFile(file, content, 0o600); err != nil {
						t.Fatal(err)
					}
					state, report, err := apachefiles.Load(apachefiles.Options{Dir: dir})
					apache := restartCopy(t, r, dir, false)
					switch {
					case (err == nil) != (apache.err == nil):
						t.Errorf("%s %s: Zooid: %v; Apache: %v", filepath.Base(file), what, err, apache.err)
					case err != nil:
						refused++
					default:
						loaded++
						if diff := difference(apache.state, state); diff != "" {
							t.Errorf("%s %s: Apache's restart (-) and what Zooid read (+) differ:\n%s%+v", filepath.Base(file), what, diff, report)
						}
					}
				}
				for i := range used {
					changed := slices.Clone(whole)
					changed[i] ^= 1 << (i % 8)
					try(fmt.Sprintf("with byte %d changed", i), changed)
					if i%3 == 0 || *everyCut {
						try(fmt.Sprintf("cut at %d", i), whole[:i])
					}
				}
				os.WriteFile(file, whole, 0o600)
			}
			t.Logf("%d loaded, %d refused", loaded, refused)
			if loaded < 50 || refused < 200 {
				t.Error("that is too few of one kind")
			}
		})
	}
}

// compressedTree makes of a data directory another one with a compressed snapshot of everything there, and a short log.
func compressedTree(t *testing.T, dir, version, compression string) string {
	t.Helper()
	s := startApache(t, version, dir, "-Dzookeeper.snapshot.compression.method="+compression)
	c := open(t, s, zk.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.Create(ctx, "/c", []byte("data"), zk.ModeContainer, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	c.Detach()
	s.kill()
	snapshots, err := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*."+compression))
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("%q, %v; want one snapshot", snapshots, err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "version-2", "log.*"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("%q, %v; want two logs", logs, err)
	}
	slices.SortFunc(logs, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	alone := t.TempDir()
	for _, file := range []string{snapshots[0], logs[1]} {
		whole, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(filepath.Join(alone, "version-2"), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(alone, "version-2", filepath.Base(file)), whole, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return alone
}

// smallTree makes a data directory with one snapshot and one short log.
func smallTree(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	s := startApache(t, version, dir)
	c := open(t, s, zk.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	acl := []zk.ACL{{Perms: 31, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	if _, err := c.Create(ctx, "/a", []byte("data"), zk.ModePersistent, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/a/e", nil, zk.ModeEphemeral, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Multi(ctx, zk.CreateOp("/b", nil, zk.ModePersistent, acl), zk.SetOp("/a", []byte("more"), -1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, "/b", -1); err != nil {
		t.Fatal(err)
	}
	c.Detach()
	s.kill()
	return dir
}
