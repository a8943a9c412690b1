package serverid

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestBothWays checks that each server has one id in each form, none of them what raft reserves, and that session ids,
// which begin with the last byte, are those of the myid.
func TestBothWays(t *testing.T) {
	seen := map[uint64]int64{}
	for _, myid := range []int64{0, 1, 254, 255, 256, 1 << 62, math.MaxInt64} {
		raft := Raft(myid)
		if raft == 0 || raft >= math.MaxUint64-1 {
			t.Errorf("server %d has the id %d, which raft reserves", myid, raft)
		}
		if MyID(raft) != myid || byte(raft) != byte(myid) {
			t.Errorf("server %d has the id %d, which is that of server %d", myid, raft, MyID(raft))
		}
		if other, taken := seen[raft]; taken {
			t.Errorf("servers %d and %d both have the id %d", other, myid, raft)
		}
		seen[raft] = myid
	}
	if got := MyIDs([]uint64{1, 2, Raft(0)}); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("MyIDs: %d, want 0, 1, 2", got)
	}
}

func TestText(t *testing.T) {
	text := fmt.Sprintf("server %d follows server %d at %v", Raft(0), Raft(3), []uint64{1, Raft(0)})
	if want := "server 0 follows server 3 at [1 0]"; Text(text) != want {
		t.Errorf("%q, want %q", Text(text), want)
	}
}
