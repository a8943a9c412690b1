//go:build !linux

package socket

import "net"

// Delivered returns false: it isn't known here.
func Delivered(net.Conn) (n uint64, ok bool) { return 0, false }
