// Package cli is Zooid's shell: every command of Apache's zkCli with its flags and its
// output, and further commands for operators. It is a client like any other and works
// with Apache's servers as with Zooid's.
//
// # How a command runs
//
// Main reads its own flags (options.go; package access has those about TLS and
// identities) and makes a shell. A line, or the rest of the command
// line, goes through split (words and quotes), find (the row of the table in
// commands.go) and parse (flags and arguments), and ends in the row's run
// function, which gets a context that an interrupt cancels. Everything printed
// passes through package screen: text for people, one JSON value to a line with -o
// json, colours and progress on a terminal only. A failure is returned as an error, and
// failure.go turns it into zkCli's words and an exit code. lessons.go has the texts of
// help in addition to the table.
//
// # Large trees
//
// Commands that visit a subtree use a walk of package subtree: depth first in the order of the
// names, with some hundred reads under way ahead of the visitor. It holds the names of the siblings
// to come and the results read ahead, not the tree. Two walks side by side make a diff, a walk and
// a writer (a bounded pipeline of writes) make a copy.
//
// # Events
//
// Watches left by get -w and the like are printed between commands, never within
// the output of one. Events of a command's own write are printed right after it: a server
// sends an event before the reply that follows it.
package cli
