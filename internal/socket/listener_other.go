//go:build !unix

package socket

import "net"

// CloseListener closes l.
func CloseListener(l net.Listener) error { return l.Close() }
