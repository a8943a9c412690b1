package memory

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dropPages gives back the pages of a file that is mapped and wasn't changed. The runtime's
// own name for the system call is used because the range is none of Go's memory.
func dropPages(from, to uintptr) {
	syscall.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}
