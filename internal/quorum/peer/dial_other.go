//go:build !linux

package peer

import "syscall"

// endUnacked does nothing on systems whose kernel has no such timeout. There writeTimeout
// ends the connection, later.
func endUnacked(_, _ string, _ syscall.RawConn) error { return nil }
