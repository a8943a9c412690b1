//go:build !linux

package peer

import "syscall"

// endUnacked does nothing where the kernel has no such bound; writeTimeout ends
// the connection later.
func endUnacked(_, _ string, _ syscall.RawConn) error { return nil }
