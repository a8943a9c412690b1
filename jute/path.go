package jute

import (
	"fmt"
	"unicode/utf8"
)

// A PathError says what is wrong with a path, and at which byte.
type PathError struct {
	Path   string
	Offset int // byte offset of the offending character or component
	Reason string
}

// Error returns the path, the byte and the reason.
func (e *PathError) Error() string {
	return fmt.Sprintf("invalid path %q at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// CheckPath returns nil if p is a valid path of a znode, and otherwise a *PathError. A valid path begins with a slash,
// doesn't end with one (unless it is "/"), and has no empty, "." or ".." component. It has no character that Apache
// refuses: control characters, surrogates, characters beyond the Basic Multilingual Plane, those of the private-use
// area, and U+FFF0 to U+FFFF. Invalid UTF-8 is refused too, since Apache decodes it as U+FFFD. The path of a sequential
// create may also end in a slash; check it with a digit appended.
func CheckPath(p string) error {
	switch {
	case p == "":
		return &PathError{p, 0, "it is empty"}
	case p[0] != '/':
		return &PathError{p, 0, "it must start with a slash"}
	case p == "/":
		return nil
	case p[len(p)-1] == '/':
		return &PathError{p, len(p) - 1, "it must not end with a slash"}
	}
	begin := 1 // of the current component
	for i := 1; i < len(p); {
		if c := p[i]; c < utf8.RuneSelf {
			if c == '/' {
				if reason := badComponent(p[begin:i]); reason != "" {
					return &PathError{p, begin, reason}
				}
				begin = i + 1
			} else if c < 0x20 || c == 0x7f {
				return &PathError{p, i, fmt.Sprintf("control character U+%04X", c)}
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(p[i:])
		if r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return &PathError{p, i, fmt.Sprintf("character U+%04X is not allowed", r)}
		}
		i += n
	}
	if reason := badComponent(p[begin:]); reason != "" {
		return &PathError{p, begin, reason}
	}
	return nil
}

func badComponent(c string) string {
	switch c {
	case "":
		return "empty component"
	case ".", "..":
		return "relative component " + c
	}
	return ""
}
