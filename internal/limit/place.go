package limit

import (
	"strings"
)

// Root is the znode below which the limits for all servers are stored: a child for each scope, and one for each path. A
// child's data are the text of the limits.
const Root = "/zookeeper/limits"

// A Place is what the limits in a child of Root apply to.
type Place struct {
	Scope Scope
	Path  string // for the scope Path
}

// ParsePlace parses a place: connection, address, identity, or a path.
func ParsePlace(text string) (p Place, ok bool) {
	for s := Connection; s < Path; s++ {
		if text == s.String() {
			return Place{Scope: s}, true
		}
	}
	return Place{Path, text}, strings.HasPrefix(text, "/") && (text == "/" || !strings.HasSuffix(text, "/"))
}

// String returns the place in the form of ParsePlace.
func (p Place) String() string {
	if p.Scope == Path {
		return p.Path
	}
	return p.Scope.String()
}

var escape = strings.NewReplacer("%", "%25", "/", "%2F")

// Znode returns the path of the znode that holds the limits of a place.
func (p Place) Znode() string { return Root + "/" + escape.Replace(p.String()) }

var unescape = strings.NewReplacer("%25", "%", "%2F", "/")

// PlaceOf returns the place of a child of Root. ok is false if the name isn't valid.
func PlaceOf(name string) (p Place, ok bool) {
	p, ok = ParsePlace(unescape.Replace(name))
	return p, ok && p.Znode() == Root+"/"+name
}
