//go:build !invariants && !race

package invariant

import (
	"sync"
	"testing"
	"unsafe"
)

type anyRank struct{}

func (anyRank) Rank() int { return 1 }

// TestFree keeps the checks from costing memory where they aren't compiled in.
func TestFree(t *testing.T) {
	if Checked {
		t.Error("Checked is true")
	}
	var holds struct {
		r Rising
		n int64
	}
	for what, sizes := range map[string][2]uintptr{ // any order: each is a case of its own
		"a Mutex":   {unsafe.Sizeof(Mutex[anyRank]{}), unsafe.Sizeof(sync.Mutex{})},
		"a RWMutex": {unsafe.Sizeof(RWMutex[anyRank]{}), unsafe.Sizeof(sync.RWMutex{})},
		"a Rising":  {unsafe.Sizeof(holds), unsafe.Sizeof(holds.n)},
	} {
		if sizes[0] != sizes[1] {
			t.Errorf("%s takes %d bytes, want %d", what, sizes[0], sizes[1])
		}
	}
}
