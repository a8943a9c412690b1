// Package zooid is the front door of a coordination service that speaks Apache
// ZooKeeper's client protocol; it holds no code, only the tests of the house
// rules (deps_test.go, tidy_test.go).
//
//	jute              records, op codes, error codes, framing: both ends of the wire
//	zk                the Go client; zk/recipe its recipes, zktest servers inside a test
//	internal/auth     identities of connections, and ACLs
//	internal/tree     the replicated state: znodes, sessions, quotas; pure
//	internal/watch    which connection watches which path; local to a server; pure
//	internal/storage  the data directory: log, snapshots, recovery, purge
//	internal/quorum   raft: agrees on opaque entries
//	internal/replica  a server's copy of the service: order of requests, sessions, events; pure
//	internal/treeload  trees of snapshots
//	internal/fourletter  the four-letter words
//	internal/server   listeners, connections; assembles the above
//	internal/config   zoo.cfg to plain structs
//	internal/metrics  one registry for mntr, admin commands and Prometheus
//	internal/keystore TLS key and trust stores, Java's kinds too
//	internal/sasl     DIGEST-MD5 and the login file that configures it
//	internal/tool/cli      the shell
//	internal/proof/sim      ensembles on virtual time, network and disks
//	internal/proof/check    the naive model and the checker of the order rules
//	internal/tool/bench    the load generator
//	cmd/zooid         one binary for all of it
//	test/             real clients, a real Apache server, processes and disks
//
// ARCHITECTURE.md is the map in prose.
package zooid
