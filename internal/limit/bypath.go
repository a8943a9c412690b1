package limit

import "strings"

// A ByPath finds the value of a path's nearest ancestor with a value, where the path itself counts. The zero value has
// no values.
type ByPath[T any] struct {
	value *T // nil for none
	below map[string]*ByPath[T]
}

// Set sets the value of a path other than "/".
func (p *ByPath[T]) Set(path string, value *T) {
	for name := range strings.SplitSeq(path[1:], "/") {
		next := p.below[name]
		if next == nil {
			if next = new(ByPath[T]); p.below == nil {
				p.below = map[string]*ByPath[T]{}
			}
			p.below[name] = next
		}
		p = next
	}
	p.value = value
}

// Nearest returns the value of the nearest ancestor with one, or of the path itself, or nil. It reads each byte of the
// path at most once, and stops at the depth of the deepest path with a value: a client may send a path of hundreds of
// thousands of parts.
func (p *ByPath[T]) Nearest(path string) (found *T) {
	if path == "" || path[0] != '/' {
		return nil
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if p = p.below[name]; p == nil {
			break
		}
		if p.value != nil {
			found = p.value
		}
	}
	return found
}
