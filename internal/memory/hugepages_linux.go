package memory

import "golang.org/x/sys/unix"

// wantHugePages asks for huge pages where the system has them to give
// (/sys/kernel/mm/transparent_hugepage/enabled is madvise or always).
func wantHugePages(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }
