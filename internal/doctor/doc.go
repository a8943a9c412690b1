// Package doctor examines a server's configuration, its files, its machine and its peers,
// before it is started and while it runs, and says of each thing found what to do. It changes nothing but
// for a file that it writes, syncs and removes in the log's directory, to measure the disk.
package doctor
