// Package watch records which connection watches which path. It is local to a server:
// watches are not replicated, and die with their connection.
//
// # Kinds
//
// A watcher (a connection) holds a set of kinds on a path. Apache keeps two
// tables, of data and of child watches; here one record per path and watcher
// says in which of them it would stand:
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
// A watcher hears of an event once, however many of its watches fire.
//
// # Order
//
// Every result is in an order that depends on the calls made and on nothing
// else: the watchers of a path in the order in which they began to wait on it,
// then those of its parent, and so on up.
package watch
