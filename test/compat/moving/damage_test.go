package moving

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/zk"
)

var everyCut = flag.Bool("moving.cuts", false, "TestApacheAgrees changes each bit, not one of each byte, and "+
	"cuts at each byte, not at each third one")

// TestApacheAgrees changes one byte after the other of a snapshot and of a log, and cuts them: what Apache loads then
// is loaded as the same, and what it refuses is refused. Only damage behind the znodes of a compressed snapshot is
// another matter. Where its last zxid would be, only 3.9 looks, and Zooid refuses as 3.9 does. Whether Apache notices
// that gzip's data is corrupt depends on how far it has decompressed; Zooid loads it and reports the damage. With
// -short one byte in five is changed, so at each place in a number.
func TestApacheAgrees(t *testing.T) {
	need(t)
	step, loadedMin, refusedMin := 1, 50, 200
	if testing.Short() {
		step, loadedMin, refusedMin = 5, 20, 80
	}
	for _, c := range []struct{ version, compression string }{
		{"3.6.4", ""}, {"3.8.4", "gz"}, {"3.9.5", ""}, {"3.9.5", "snappy"},
	} {
		t.Run(c.version+c.compression, func(t *testing.T) {
			dir := smallTree(t, c.version)
			if c.compression != "" {
				dir = compressedTree(t, dir, c.version, c.compression)
			}
			r := startRestarter(t, c.version)
			loaded, refused, only39, unread := 0, 0, 0, 0
			found, err := filepath.Glob(filepath.Join(dir, "version-2", "*.*"))
			if err != nil || len(found) != 2 {
				t.Fatalf("%q, %v; want a snapshot and a log", found, err)
			}
			for _, file := range found {
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
					state, report, err := files.Load(files.Options{Dir: dir})
					apache := restartCopy(t, r, dir, false)
					damage, older := (*files.DamageError)(nil), c.version < "3.9"
					switch {
					case older && apache.err == nil && errors.As(err, &damage) && damage.Do == files.DoRestartOld:
						only39++
					case apache.err != nil && err == nil && report.Damage != nil:
						unread++
					case (err == nil) != (apache.err == nil):
						t.Errorf("%s %s: Zooid: %v; Apache: %v", filepath.Base(file), what, err, apache.err)
					case err != nil:
						refused++
					default:
						loaded++
						if diff := difference(apache.state, state); diff != "" {
							t.Errorf("%s %s: Apache's restart (-) and what Zooid read (+) differ:\n%s%+v", filepath.Base(file), what, diff,
								report)
						}
					}
				}
				for i := 0; i < len(used); i += step {
					for bit := range 8 {
						if bit == i/step%8 || *everyCut && !reserved(c.compression, i, bit) {
							changed := slices.Clone(whole)
							changed[i] ^= 1 << bit
							try(fmt.Sprintf("with bit %d of byte %d changed", bit, i), changed)
						}
					}
					if i%3 == 0 || *everyCut {
						try(fmt.Sprintf("cut at %d", i), whole[:i])
					}
				}
				os.WriteFile(file, whole, 0o600)
			}
			t.Logf("%d loaded, %d refused, %d more as 3.9 would, %d loaded that are damaged behind the znodes", loaded, refused,
				only39, unread)
			if loaded < loadedMin || refused < refusedMin || only39+unread > 40 {
				t.Error("that is too few that are loaded or refused, or too many that Apache treats otherwise")
			}
		})
	}
}

// reserved reports whether a bit of a compressed snapshot is one that the format reserves: Zooid insists on its value,
// not every version of Apache does.
func reserved(compression string, i, bit int) bool {
	return compression == "gz" && i == 3 && bit >= 5 || compression == "snappy" && i >= 8 && i < 12
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
	if _, err := c.Multi(ctx, zk.CreateOp("/b", nil, zk.ModePersistent, acl),
		zk.SetOp("/a", []byte("more"), -1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, "/b", -1); err != nil {
		t.Fatal(err)
	}
	c.Detach()
	s.kill()
	return dir
}
