package storage

import (
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestFrameSizeMax appends an entry that is too large for a frame: it is refused with its size, nothing is written, and
// the log goes on.
func TestFrameSizeMax(t *testing.T) {
	d, err := Open(Options{FS: NewMemFS(), Dir: "data", ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Log().Append(nil, []*raftpb.Entry{entry(1, 1, []byte("a"))}, true); err != nil {
		t.Fatal(err)
	}
	huge := make([]byte, frameSizeMax) // never written to, so it takes no memory
	if err := d.Log().Append(nil, []*raftpb.Entry{entry(2, 1, huge)}, true); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Fatalf("an entry of 1 GiB: %v", err)
	}
	if last, err := d.Log().LastIndex(); err != nil || last != 1 {
		t.Errorf("the last entry is %d: %v", last, err)
	}
}
