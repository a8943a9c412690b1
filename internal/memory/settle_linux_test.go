package memory

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"
	"testing/fstest"
	"unsafe"
)

// TestSettle: after the start the program's own pages that nobody needs are the system's
// again, and the program goes on.
func TestSettle(t *testing.T) {
	root := os.DirFS("/")
	list := programPages(root)
	if len(list) == 0 {
		t.Skip("the system tells nothing of mappings")
	}
	sum, size := 0, uintptr(0)
	for _, m := range list {
		size += m.to - m.from
		for at := m.from; at < m.to; at += 4096 {
			sum += int(*(*byte)(unsafe.Add(unsafe.Pointer(nil), at)))
		}
	}
	before := residentFiles(t)
	Settle(root)
	after := residentFiles(t)
	if before < int(size)/2 {
		t.Skipf("of %d bytes that were read %d are resident", size, before)
	}
	if after > before-before/5 {
		t.Errorf("%d bytes of files are resident, %d before: nothing was given back (%d)", after, before, sum)
	}
}

// residentFiles returns how many bytes of this process's memory are a file's.
func residentFiles(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	kb := 0
	if _, rest, ok := bytes.Cut(text, []byte("RssFile:")); !ok {
		t.Skip("the system doesn't tell how much of files is resident")
	} else if _, err := fmt.Sscan(string(rest), &kb); err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// TestProgramPages: what is changed or can be written to is never given back, as it would be
// lost.
func TestProgramPages(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00aa4000 r-xp 00000000 fe:00 9978195                            /bin/zooid
Size:               6800 kB
Anonymous:             0 kB
00aa4000-01162000 r--p 006a4000 fe:00 9978195                            /bin/zooid
Anonymous:             0 kB
01162000-011b2000 rw-p 00d62000 fe:00 9978195                            /bin/zooid
Anonymous:             0 kB
7f9778b71000-7f9778b97000 r--p 00000000 fe:00 326269                     /lib/libc.so.6
Anonymous:             8 kB
7f9778c71000-7f9778c97000 r--p 00000000 00:00 0                          [vvar]
Anonymous:             0 kB
`
	root := fstest.MapFS{"proc/self/smaps": {Data: []byte(smaps)}}
	want := []mapping{{0x400000, 0xaa4000}, {0xaa4000, 0x1162000}}
	if got := programPages(root); !reflect.DeepEqual(got, want) {
		t.Errorf("given back: %x, want %x", got, want)
	}
	if got := programPages(fstest.MapFS{}); got != nil {
		t.Errorf("given back where nothing is told: %x", got)
	}
}
