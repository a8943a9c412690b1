// Package watch records which connection watches which path. Watches are local to a server: they aren't replicated, and
// end with their connection.
//
// # Kinds
//
// A watcher (a connection) has a set of kinds of watch on a path. Apache has two tables, one of data watches and one of
// child watches. Here one record per path and watcher says in which of the two the watches would be:
//
//	kind         left by                  data table  child table  after firing
//	Data         exists, getData          yes                      gone
//	Child        getChildren                          yes          gone
//	Persistent   addWatch PERSISTENT      yes         yes          stays
//	Recursive    addWatch ..._RECURSIVE   yes                      stays
//
// # What fires
//
//	event                the path itself                     its ancestors
//	NodeCreated          Data, Persistent, Recursive         Recursive
//	NodeDataChanged      Data, Persistent, Recursive         Recursive
//	NodeDeleted          Data, Child, Persistent, Recursive  Recursive
//	NodeChildrenChanged  Child, Persistent
//
// A watcher is notified of an event once, even if several of its watches fire.
//
// # Order
//
// The order of every result depends only on the calls made: first the watchers of a path, in the order in which they
// began to watch it, then those of its parent, and so on up to the root.
package watch
