package limit

import "strings"

// A ByPath finds the value of the nearest ancestor of a path, or of the path itself, that has one.
// The zero value has none.
type ByPath[T any] struct {
	value *T // nil for none
	below map[string]*ByPath[T]
}

// Set gives a path other than "/" a value.
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

// Nearest returns that value, or nil. It looks at each byte of the path at most once, and no further
// than the longest path with a value: a client may send a path of hundreds of thousands of parts.
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
