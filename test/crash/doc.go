// Package crash injects faults: real processes on real disks and sockets are
// killed, frozen, cut off and starved while clients record everything they see,
// and the whole recording is then checked against every promise (package
// check). docs/testing.md says which faults there are, and how to run them
// again.
//
// The files, from the bottom up: a [Server] is one process (process.go), an
// [Ensemble] holds the folders and configurations of several (ensemble.go), a
// [Proxy] is a network that can be told to misbehave (proxy.go). A [Load] is a set
// of clients (load.go), with a [Pulse] on each server that measures how long writes
// are interrupted (pulse.go). A [Collector] reads the servers' logs (collect.go),
// and a [Run] combines all of these and ends in a verdict (run.go).
package crash
