// Package doctor examines a server's configuration, files, machine and peers, before the server is
// started and while it runs, and says what to do about each finding. It changes nothing, except that it
// writes, syncs and removes a file in the log's directory to measure the disk.
package doctor
