package peer

import (
	"errors"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestOwner: the directory of a server of an ensemble is refused to the others, until the ensemble gets a new id.
func TestOwner(t *testing.T) {
	t.Parallel()
	dir := disk(t, storage.NewMemFS())
	for _, step := range []struct {
		id, cluster uint64
		refused     bool
	}{{2, 7, false}, {1, 7, true}, {2, 7, false}, {1, 8, false}, {2, 8, true}, {1, 8, false}} {
		err := own(dir, step.cluster, step.id)
		var copied *CopiedError
		if errors.As(err, &copied) != step.refused || (err != nil) != step.refused {
			t.Errorf("server %d of cluster %d: %v", step.id, step.cluster, err)
		} else if step.refused && (copied.Self != step.id || copied.Owner != 3-step.id) {
			t.Errorf("server %d of cluster %d is told %v", step.id, step.cluster, err)
		}
	}
	if err := dir.Keep(ownerName, []byte("cluster 8\nserver x\n")); err != nil {
		t.Fatal(err)
	}
	var damage *storage.DamageError
	if err := own(dir, 8, 1); !errors.As(err, &damage) || !strings.Contains(err.Error(), "server.kept") {
		t.Errorf("a damaged file: %v", err)
	}
}
