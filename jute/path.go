package jute

import (
	"fmt"
	"unicode/utf8"
)

// A PathError says what is wrong with a path, and where.
type PathError struct {
	Path   string
	Offset int // byte offset of the offending character or component
	Reason string
}

// Error returns the path, the place and the reason.
func (e *PathError) Error() string {
	return fmt.Sprintf("invalid path %q at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// CheckPath reports whether p may name a znode: it begins with a slash, doesn't
// end with one (unless it is "/"), has no empty, "." or ".." component, and no
// character that Apache refuses: controls, surrogates and everything beyond the
// Basic Multilingual Plane, the private-use area, U+FFF0 to U+FFFF. Invalid
// UTF-8 is refused for the same reason (Apache reads it as U+FFFD). The error
// is nil or a *PathError.
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
