package memory

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dropPages releases unmodified pages of a mapped file. It uses the raw system call because the range isn't Go memory.
func dropPages(from, to uintptr) {
	syscall.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}
