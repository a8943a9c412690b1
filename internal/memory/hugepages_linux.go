package memory

import "golang.org/x/sys/unix"

// wantHugePages asks for huge pages where the system offers them (/sys/kernel/mm/transparent_hugepage/enabled is
// madvise or always), or asks for none.
func wantHugePages(b []byte, want bool) {
	advice := unix.MADV_NOHUGEPAGE
	if want {
		advice = unix.MADV_HUGEPAGE
	}
	unix.Madvise(b, advice)
}
