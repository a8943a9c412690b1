//go:build !unix

package server

import "net"

// tryWriter returns nil: there is no write here that never waits.
func tryWriter(net.Conn) func([]byte) int { return nil }
