package peer

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
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
		p := &Peer{o: Options{ID: step.id, Cluster: step.cluster, Dir: dir, Members: make([]quorum.Member, 3)}}
		err := p.own(0)
		var copied *CopiedError
		if errors.As(err, &copied) != step.refused || (err != nil) != step.refused {
			t.Errorf("server %d of cluster %d: %v", step.id, step.cluster, err)
		} else if step.refused && (copied.Self != step.id || copied.Owner != 3-step.id) {
			t.Errorf("server %d of cluster %d is told %v", step.id, step.cluster, err)
		}
	}
	if err := dir.Keep(keptOwner.name, []byte("cluster 8\nserver x\n")); err != nil {
		t.Fatal(err)
	}
	var damage *storage.DamageError
	if _, err := checkOwner(dir, 8, 1); !errors.As(err, &damage) || !strings.Contains(err.Error(), "server.kept") {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestOwnerWithoutRoom: a server goes on without the file if its disk has no room for it, and writes it later. It
// doesn't if it could promise nothing yet, or if anything else is wrong.
func TestOwnerWithoutRoom(t *testing.T) {
	t.Parallel()
	var fault error
	fs := storage.NewMemFS()
	fs.Hook = func(c storage.Call) error {
		if c.Op == "create" && strings.Contains(c.Name, "server.kept") {
			return fault
		}
		return nil
	}
	dir := disk(t, fs)
	p := &Peer{
		o:         Options{ID: 2, Cluster: 7, Dir: dir, Members: make([]quorum.Member, 3), Log: slog.New(slog.DiscardHandler)},
		transport: &transport{},
	}
	recorded := func() bool {
		b, err := dir.Kept(keptOwner.name)
		return err == nil && strings.HasSuffix(string(b), "\nserver 2\n")
	}
	for _, step := range []struct {
		last  uint64
		fault error
	}{{0, syscall.ENOSPC}, {0, syscall.EDQUOT}, {5, syscall.EIO}, {5, syscall.EROFS}} {
		if fault = step.fault; !errors.Is(p.own(step.last), fault) || !p.ownAgain.IsZero() {
			t.Errorf("after entry %d the server goes on although %v", step.last, fault)
		}
	}
	fault = syscall.ENOSPC
	if err := p.own(5); err != nil || p.ownAgain.IsZero() {
		t.Errorf("without room: %v", err)
	}
	for _, fault = range []error{syscall.ENOSPC, syscall.EIO} { // it is running now
		p.ownAgain = time.Now().Add(-1)
		if p.ownLater(); !p.ownAgain.After(time.Now()) {
			t.Errorf("it isn't tried again after %v", fault)
		}
	}
	fault = nil
	p.ownAgain = time.Now().Add(time.Hour)
	if p.ownLater(); recorded() {
		t.Error("it is tried again before its time")
	}
	p.ownAgain = time.Now().Add(-1)
	if p.ownLater(); !recorded() || !p.ownAgain.IsZero() {
		t.Error("with room, the file isn't written")
	}
	if err := dir.Keep(keptOwner.name, []byte("cluster 7\nserver 1\n")); err != nil {
		t.Fatal(err)
	}
	fault = syscall.ENOSPC
	var copied *CopiedError
	if err := p.own(5); !errors.As(err, &copied) {
		t.Errorf("a copy on a full disk: %v", err)
	}
	fs.Hook = func(storage.Call) error { return syscall.ENOSPC }
	if err := p.own(5); err == nil {
		t.Error("a file that can't be read is passed over")
	}
}
