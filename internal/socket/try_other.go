//go:build !unix

package socket

import "net"

// TryWriter returns nil: non-blocking writes aren't implemented here.
func TryWriter(net.Conn) func([]byte) int { return nil }
