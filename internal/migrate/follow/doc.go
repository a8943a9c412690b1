// Package follow keeps a copy of what a running Apache ensemble has. It connects to the leader as an
// observer does (package learner), applies what the leader commits, compares Apache's digest of the
// tree after each transaction, and keeps everything in Apache's own files, from which it goes on
// after a restart, and which zooid import takes.
//
// One goroutine follows the leader and changes the state; clients read it from theirs.
package follow
