// Package crash is where Zooid is hurt: real processes on real disks and
// sockets are killed, frozen, cut off and starved while clients record
// everything they see, and the whole recording is then checked against every
// promise (package check). docs/testing.md tells what is done to it, and how to
// do it again.
//
// The files, from the bottom up: a [Server] is one process (process.go), an
// [Ensemble] is the folders and configurations of several (ensemble.go), a
// [Proxy] is a network that can be told to misbehave (proxy.go). A [Load] is the
// clients (load.go), with a [Pulse] on each server that measures how long writes
// stop (pulse.go). A [Collector] reads what the servers' logs hold (collect.go),
// and a [Run] puts these together and ends in a verdict (run.go).
package crash
