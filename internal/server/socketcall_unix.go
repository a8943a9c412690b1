//go:build unix && (!linux || race)

package server

import (
	"errors"
	"syscall"
)

// These are the ordinary calls: the race detector takes what is written by them and
// read for an order of what came before and after.

func readNow(fd uintptr, b []byte) (int, syscall.Errno) { return call(syscall.Read(int(fd), b)) }

func writeNow(fd uintptr, b []byte) (int, syscall.Errno) { return call(syscall.Write(int(fd), b)) }

func call(n int, err error) (int, syscall.Errno) {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	return n, errno
}
