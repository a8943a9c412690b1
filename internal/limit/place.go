package limit

import (
	"strings"
)

// Root is the znode below which limits are kept that hold on all servers: one child for each
// scope, and one for each path, whose data is the text of the limits.
const Root = "/zookeeper/limits"

// A Place is what one znode below Root is about.
type Place struct {
	Scope Scope
	Path  string // of the scope Path
}

// ParsePlace reads connection, address, identity, or a path.
func ParsePlace(text string) (p Place, ok bool) {
	for s := Connection; s < Path; s++ {
		if text == s.String() {
			return Place{Scope: s}, true
		}
	}
	return Place{Path, text}, strings.HasPrefix(text, "/") && (text == "/" || !strings.HasSuffix(text, "/"))
}

// String is what ParsePlace reads.
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

// PlaceOf returns the place that a child of Root is about; ok is false for one that is about
// none.
func PlaceOf(name string) (p Place, ok bool) {
	p, ok = ParsePlace(unescape.Replace(name))
	return p, ok && p.Znode() == Root+"/"+name
}
