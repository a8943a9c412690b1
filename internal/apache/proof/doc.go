// Package proof collects what the commands of a move know, and from which source, before they act: that a server has
// stopped, that an answer belongs to this try, that no other process writes into a directory, that the serving server
// is the new one. Silence, names and emptiness prove nothing: anything that can't be seen is reported as not known.
package proof
