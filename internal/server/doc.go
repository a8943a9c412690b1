// Package server is one Zooid server: it recovers the data directory, listens for clients, reads
// and writes their connections, and watches the disk and the memory. Package replica decides what
// each client gets and in which order, and package quorum makes the servers agree on it.
package server
