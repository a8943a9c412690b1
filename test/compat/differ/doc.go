// Package differ runs the same script on a real Apache ZooKeeper and on Zooid and compares everything visible: every
// reply, Stat, error code, watch event and closed connection.
//
// A script is a list of steps (step.go), each a request with its arguments or an act on a connection, written one
// per line (script.go):
//
//	0 connect how="new" timeout=300000
//	0 create path="~/a" data="x" acl=["31 world anyone"] flags=0
//	1 getData path="~/a" watch=true
//
// "~" stands for the script's own root, a new znode, so that many scripts can share a server. A generator
// (generate.go) makes scripts from a seed. A run (run.go) plays a script on one server, request by request, and
// records what it sees as fields (reply.go); compare.go compares two runs. Results that no server guarantees are
// omitted:
//
//	zxids      compared by equality and order within a script
//	times      checked on each side: one per zxid, none before its czxid's
//	sessions   compared by equality
//	children, identities, ACL entries, the events of a closeSession   sorted
//
// In addition to the random scripts there are those of every.go: a table of generators for each operation, whose
// scripts have the servers for themselves, so that the zxids of replies are compared too.
//
// A difference is either listed in docs/protocol.md (known.go), or it is shrunk (shrink.go) and printed as a script,
// which "-script file" runs again.
package differ
