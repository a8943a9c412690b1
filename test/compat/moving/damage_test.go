package moving

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/zk"
)

// TestApacheAgrees changes one byte after the other of a snapshot and of a log, and cuts them: what
// Apache loads then is loaded as the same, and what it refuses is refused.
func TestApacheAgrees(t *testing.T) {
	need(t)
	for _, version := range []string{"3.6.4", "3.9.5"} {
		t.Run(version, func(t *testing.T) {
			dir := smallTree(t, version)
			r := startRestarter(t, version)
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
					apache := restartCopy(t, r, dir)
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
					if i%3 == 0 {
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
