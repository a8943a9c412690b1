// Package proof collects facts, with their sources, before the commands of a move act on them: that a server has
// stopped, that an answer belongs to this try, that no other process writes to a directory, that the serving server is
// the new one. Silence, names and emptiness prove nothing: what can't be seen is reported as not known.
package proof
