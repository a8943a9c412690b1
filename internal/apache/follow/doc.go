// Package follow keeps a copy of the data of a running Apache ensemble. It connects to the leader as an observer does
// (package learner), applies what the leader commits, and compares Apache's digest of the tree after each transaction.
// It stores everything in Apache's own files, from which it continues after a restart, and which zooid import accepts.
//
// One goroutine follows the leader and changes the state; clients read it from theirs.
package follow
