//go:build !unix

package socket

import "net"

// SetBacklog does nothing; the system's limit applies.
func SetBacklog(net.Listener, int) {}
