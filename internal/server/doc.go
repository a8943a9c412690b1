// Package server is one Zooid server: it recovers the data directory, listens for
// clients, reads and writes their connections, and looks after
// the disk and the memory. Package replica decides what each client gets and in which order,
// and package quorum agrees on it with the other servers.
package server
