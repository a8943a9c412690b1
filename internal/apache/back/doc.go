// Package back keeps Apache servers up to date with a Zooid server, so that an ensemble can go back to them. It reads
// the log in the server's data directory while the server writes it, turns each request into the transaction that
// Apache would have made of it, and leads observers: Apache servers that receive every transaction and have no vote.
//
//	log ─▶ storage.Tail ─▶ source: tree.Apply ─▶ record ─▶ files.State ─▶ Leader ─▶ observers
//
// Each znode that a request has changed is compared between the tree and Apache's state after the transaction. If a
// request has no form as a transaction, the state is rebuilt and the observers get a snapshot of it.
package back
