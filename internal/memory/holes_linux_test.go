package memory

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// flagsAt returns the flags of the mapping that holds the first byte of b, as the system tells them.
func flagsAt(t *testing.T, b []byte) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	at, found := uint64(uintptr(unsafe.Pointer(&b[0]))), false
	for line := range strings.Lines(string(text)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			found = at >= from && at < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && found {
			return strings.Fields(flags)
		}
	}
	t.Skip("the system tells no flags of mappings")
	return nil
}

// TestHolesStay gives parts of huge pages back: the system is told not to make huge pages there again, and to go on
// elsewhere, until there are so many holes that the whole region is better off without.
func TestHolesStay(t *testing.T) {
	t.Parallel()
	o := &OffHeap{}
	defer o.Unmap()
	o.Alloc(firstRegion)
	b := o.Alloc(64 << 20)
	if !slices.Contains(flagsAt(t, b), "hg") {
		t.Skip("the system has no huge pages to ask for")
	}
	o.Release(b[5<<20 : 5<<20+64<<10])
	for at, want := range map[int]string{3 << 20: "hg", 4 << 20: "nh", 5 << 20: "nh", 6 << 20: "hg"} {
		if flags := flagsAt(t, b[at:]); !slices.Contains(flags, want) {
			t.Errorf("with a hole at 5 MiB, at %d MiB: flags %v, want %s", at>>20, flags, want)
		}
	}
	for i := range holedMax {
		if o.Release(b[(8+2*i)<<20:][:64<<10]); i < holedMax-1 && !slices.Contains(flagsAt(t, b[50<<20:]), "hg") {
			t.Errorf("after %d holes what has none asks for no huge pages", i+2)
		}
	}
	if flags := flagsAt(t, b[50<<20:]); !slices.Contains(flags, "nh") {
		t.Errorf("after %d holes: flags %v, want nh", holedMax+1, flags)
	}
}
