// Package server is one Zooid server: it recovers the data directory, listens for
// clients, reads and writes their connections, and looks after
// the disk and the memory. What it serves, to whom and in which order is decided by
// package replica, and agreed on with the other servers by package quorum.
package server
