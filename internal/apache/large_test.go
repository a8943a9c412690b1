package apache

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
)

var large = flag.Int("migrate.znodes", 20_000, "znodes that TestLarge imports and exports; 1000000 is what the figures are of")

// TestLarge imports and exports many znodes and prints the times.
func TestLarge(t *testing.T) {
	t.Parallel()
	apache := t.TempDir()
	open := jute.WorldACL(jute.PermAll)
	data := make([]byte, 100)
	began := time.Now()
	digest, err := files.Write(apache, &files.Content{
		Zxid: 1 << 32, Epoch: 1, Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, z := range some()[:4] {
				if err := visit(z.path, z.data, z.acl, &z.stat); err != nil {
					return err
				}
			}
			for i := range *large {
				dir := fmt.Sprintf("/d%d", i/1000)
				if i%1000 == 0 {
					if err := visit(dir, data, open, &files.Stat{Cversion: 999}); err != nil {
						return err
					}
					continue
				}
				st := files.Stat{Czxid: int64(i), Mzxid: int64(i), Pzxid: int64(i), Ctime: 1, Mtime: 1}
				if err := visit(fmt.Sprintf("%s/znode-%07d", dir, i), data, open, &st); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("written in %v", time.Since(began))
	dir := filepath.Join(t.TempDir(), "data")
	began = time.Now()
	o := ImportOptions{Apache: files.Options{Dir: apache}, Dir: dir}
	o.Stage = func(what string) { t.Logf("%6.2f s %s", time.Since(began).Seconds(), what) }
	done, err := Import(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d znodes imported in %v", done.Znodes, time.Since(began))
	if done.Digest != digest || done.Znodes != *large+4 {
		t.Errorf("%+v", done)
	}
	began = time.Now()
	back, err := Export(ExportOptions{Dirs: []string{dir}, To: filepath.Join(t.TempDir(), "apache")})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("exported in %v", time.Since(began))
	if back.Digest != digest {
		t.Errorf("digest %#x instead of %#x", back.Digest, digest)
	}
}
