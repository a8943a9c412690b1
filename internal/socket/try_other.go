//go:build !unix

package socket

import "net"

// TryWriter returns nil: there is no write here that never waits.
func TryWriter(net.Conn) func([]byte) int { return nil }
