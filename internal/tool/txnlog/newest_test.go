package txnlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

// TestNewest: the state after the last entry, of a server that runs and of one that has stopped.
func TestNewest(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	znodes := func() (n int) {
		t.Helper()
		newest, _, err := Newest(Options{Dirs: dirs})
		must(t, err)
		newest.Znodes(func(z *tree.Foreign) bool {
			if strings.HasPrefix(z.Path, "/z") && z.Path != "/zookeeper" && !strings.HasPrefix(z.Path, "/zookeeper/") {
				n++
			}
			return true
		})
		return n
	}
	serve(t, 20, dirs, func(c *zk.Client) {
		for i := range 50 {
			_, err := c.Create(t.Context(), fmt.Sprintf("/z%d", i), nil, zk.ModePersistent, anyone)
			must(t, err)
		}
		if n := znodes(); n != 50 {
			t.Errorf("%d znodes while the server runs, want 50", n)
		}
	})
	if n := znodes(); n != 50 {
		t.Errorf("%d znodes, want 50", n)
	}
	if _, _, err := Newest(Options{Dirs: []string{t.TempDir()}}); err == nil ||
		!strings.Contains(err.Error(), "there are no log segments") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, _, err := Newest(Options{Dirs: dirs[:1]}); err == nil ||
		!strings.Contains(err.Error(), "name it after dataDir") {
		t.Errorf("without dataLogDir: %v", err)
	}
	segment := one(t, dirs[1], ".log")
	b, err := os.ReadFile(segment)
	must(t, err)
	b[len(b)/16] ^= 1
	b[600] ^= 1
	must(t, os.WriteFile(segment, b, 0o600))
	_, _, err = Newest(Options{Dirs: dirs})
	if damage := (*storage.DamageError)(nil); !errors.As(err, &damage) ||
		filepath.Base(damage.File) != filepath.Base(segment) {
		t.Errorf("a damaged log: %v", err)
	}
}
