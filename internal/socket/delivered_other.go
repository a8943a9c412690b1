//go:build !linux

package socket

import "net"

// Delivered returns false: the number is unknown on these systems.
func Delivered(net.Conn) (n uint64, ok bool) { return 0, false }
