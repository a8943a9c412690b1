// Package differ runs the same script on a real Apache ZooKeeper and on Zooid and compares all that can be seen:
// every reply, Stat, error code, watch event and end of a connection.
//
// A script is a list of steps (step.go), each a request with its arguments or an act on a connection, written one
// per line (script.go):
//
//	0 connect how="new" timeout=300000
//	0 create path="~/a" data="x" acl=["31 world anyone"] flags=0
//	1 getData path="~/a" watch=true
//
// "~" stands for the script's own root, a fresh znode, so that many scripts share a server. A generator
// (generate.go) draws scripts from a seed. A run (run.go) plays one on one server, request by request, and records
// what is seen as fields (reply.go); compare.go compares two recordings. What no server promises is left out:
//
//	zxids      compared by equality and order within a script
//	times      checked on each side: one per zxid, none before its czxid's
//	sessions   compared by equality
//	children, identities, ACL entries, the events of a closeSession   sorted
//
// A difference is either one of those that docs/protocol.md lists (known.go), or it is shrunk (shrink.go) and printed
// as a script that "-script file" runs again.
package differ
