//go:build !unix

package socket

import "net"

// SetBacklog leaves the system's limit.
func SetBacklog(net.Listener, int) {}
