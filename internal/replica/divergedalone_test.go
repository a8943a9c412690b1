package replica

import (
	"errors"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestDivergedAlone gives a server alone an entry that was written on another state than its own: it stops, changes
// nothing, and advises to remove nothing. An entry that was written on its own state is applied.
func TestDivergedAlone(t *testing.T) {
	t.Parallel()
	fs := storage.NewMemFS()
	fs.Budget = 64 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	s.client()
	r := s.rep
	entry := func(digest uint64) []quorum.Entry {
		last := r.tree.LastIndex()
		data := proposals.AppendHead(nil, r.tree.Time(), last, digest)
		return []quorum.Entry{{Term: r.tree.LastTerm(), Index: last + 1, Data: data}}
	}
	if err := r.Apply(entry(r.tree.Digest())); err != nil {
		t.Fatalf("an entry that was written on this state: %v", err)
	}
	last, digest := r.tree.LastIndex(), r.tree.Digest()
	err := r.Apply(entry(digest + 1))
	var diverged *quorum.DivergedAloneError
	if !errors.As(err, &diverged) || !strings.Contains(err.Error(), "Remove nothing") ||
		strings.Contains(err.Error(), "myid") {
		t.Fatalf("an entry that was written on another state: %v", err)
	}
	if r.tree.LastIndex() != last || r.tree.Digest() != digest {
		t.Error("it was applied in part")
	}
	if r.Doubtful() {
		t.Error("a server alone has doubts that no other server can end")
	}
}

// TestStopsAtEntry gives a server an entry that it can't read: the error says which files to move, and which to leave.
func TestStopsAtEntry(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	last := s.r.tree.LastIndex()
	err := s.r.Apply([]quorum.Entry{
		{Term: s.r.tree.LastTerm(), Index: last + 1, Data: append(proposals.AppendHead(nil, 0, 0, 0), "damaged"...)},
	})
	if err == nil {
		t.Fatal("the entry was applied")
	}
	for _, says := range []string{"Remove nothing", "move IDENTITY, *.log and *.snap ", "leave myid and PEERSECRET"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error doesn't say %q: %v", says, err)
		}
	}
}
