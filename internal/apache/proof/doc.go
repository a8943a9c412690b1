// Package proof has what the commands of a move know, and from whom, before they act: that a server has stopped, that
// what arrives belongs to this try, that nobody else writes into a directory, that it is the new server that serves.
// Silence, names and emptiness prove nothing: what can't be seen is reported as not known.
package proof
