// Package back keeps Apache servers up to date with a Zooid server, so that an ensemble can go back to them. It reads
// the log of the server's data directory while the server writes it, makes of each request the transaction that Apache
// would have made of it, and leads observers: servers of Apache's that get every transaction and have no vote.
//
//	log ─▶ storage.Tail ─▶ source: tree.Apply ─▶ record ─▶ apachefiles.State ─▶ Leader ─▶ observers
//
// What the tree says of each znode that a request has changed is compared with what Apache's transaction has made of
// it. What has no form as a transaction makes the state anew, and the observers get a snapshot of it.
package back
