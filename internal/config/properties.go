package config

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one logical line of a Java properties file.
type property struct {
	key   string
	value string
	line  int  // number of its first natural line, from 1
	last  int  // number of its last natural line
	wide  bool // holds a raw byte above 0x7f, which Java reads as ISO-8859-1
}

// parseProperties reads text as java.util.Properties.load does: ISO-8859-1 bytes, comments of # or !, a backslash at a
// line's end continues it, key and value parted by =, : or blanks, escapes \t \n \r \f \uXXXX. Key and value are then
// trimmed at both ends as Apache trims them. Order and duplicates are kept. The only ill-formed text is a bad \u.
func parseProperties(text []byte) ([]property, *Error) {
	var all []property
	lines := lineScanner{text: text, line: 1}
	for {
		raw, first, last, ok := lines.next()
		if !ok {
			return all, nil
		}
		p := property{line: first, last: last}
		key, value := splitProperty(raw)
		var err error
		if p.key, err = unescape(key); err == nil {
			p.value, err = unescape(value)
		}
		if err != nil {
			return nil, &Error{Code: "ZD-1008", Line: first, Problem: err.Error()}
		}
		p.key, p.value = trimJava(p.key), trimJava(p.value)
		for _, b := range raw {
			p.wide = p.wide || b > 0x7f
		}
		all = append(all, p)
	}
}

// Properties reads text as java.util.Properties.load does; if a key is there twice the last value counts. The
// error is an *Error that names the line.
func Properties(text []byte) (map[string]string, error) {
	all, bad := parseProperties(text)
	if bad != nil {
		return nil, bad
	}
	values := make(map[string]string, len(all))
	for _, p := range all {
		values[p.key] = p.value
	}
	return values, nil
}

// PropertyLine is one key with its value, and the number of the line in which it begins, from 1.
type PropertyLine struct {
	Key, Value string
	Line       int
}

// PropertyLines reads text as Properties does, but as UTF-8, and keeps the order and duplicates.
func PropertyLines(text []byte) ([]PropertyLine, error) {
	all, bad := parseProperties(text)
	if bad != nil {
		return nil, bad
	}
	lines := make([]PropertyLine, 0, len(all))
	for _, p := range all {
		if p.wide {
			p.key, p.value = utf8Again(p.key), utf8Again(p.value)
		}
		lines = append(lines, PropertyLine{p.key, p.value, p.line})
	}
	return lines, nil
}

// utf8Again returns the UTF-8 text whose bytes were read as ISO-8859-1; other text stays as it is.
func utf8Again(text string) string {
	var b []byte
	for _, r := range text {
		if r > 0xff {
			return text // an escape, \uXXXX
		}
		b = append(b, byte(r))
	}
	if !utf8.Valid(b) {
		return text
	}
	return string(b)
}

// lineScanner joins natural lines into logical ones, dropping comments and blank lines.
type lineScanner struct {
	text []byte
	pos  int
	line int // number of the natural line at pos
}

// step goes over the byte at pos, or the line end there (\n, \r or \r\n count as one).
func (s *lineScanner) step(eol bool) {
	if !eol {
		s.pos++
		return
	}
	if s.text[s.pos] == '\r' && s.pos+1 < len(s.text) && s.text[s.pos+1] == '\n' {
		s.pos++
	}
	s.pos++
	s.line++
}

// next returns the next logical line, escapes not yet undone, and the natural lines it spans. A comment sign counts
// wherever the logical line is still empty, so also after a line that held a lone backslash; so does Java.
func (s *lineScanner) next() (logical []byte, first, last int, ok bool) {
	skipping, continued, escaped := true, false, false
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		eol := c == '\n' || c == '\r'
		if skipping && (isBlank(c) || eol && !continued) {
			s.step(eol)
			continue
		}
		skipping, continued = false, false
		switch {
		case len(logical) == 0 && (c == '#' || c == '!'):
			for s.pos < len(s.text) && s.text[s.pos] != '\n' && s.text[s.pos] != '\r' {
				s.pos++
			}
			skipping = true
		case !eol:
			if len(logical) == 0 {
				first = s.line
			}
			last = s.line
			logical = append(logical, c)
			escaped = c == '\\' && !escaped
			s.pos++
		default:
			atEnd := s.pos+1 == len(s.text)
			s.step(eol)
			skipping = true
			if len(logical) == 0 {
				break
			}
			if !escaped {
				return logical, first, last, true
			}
			logical = logical[:len(logical)-1]
			if atEnd { // Java returns the line so far, even an empty one
				return logical, first, last, true
			}
			continued, escaped = true, false
		}
	}
	ok = len(logical) > 0
	if escaped {
		logical = logical[:len(logical)-1]
	}
	return logical, first, last, ok
}

// isBlank reports whether c is one of the three bytes that count as blanks in a properties file.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// splitProperty splits a logical line at the first unescaped separator: blanks, with at most one = or : among them.
func splitProperty(line []byte) (key, value []byte) {
	i := 0
	for i < len(line) && line[i] != '=' && line[i] != ':' && !isBlank(line[i]) {
		if line[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(line))
	key = line[:i]
	for seen := false; i < len(line); i++ {
		if c := line[i]; (c == '=' || c == ':') && !seen {
			seen = true
		} else if !isBlank(c) {
			break
		}
	}
	return key, line[i:]
}

// unescape undoes the backslashes of a key or value. Java's strings are of UTF-16 units, one for each ISO-8859-1 byte
// and each \u escape.
func unescape(raw []byte) (string, error) {
	units := make([]uint16, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			units = append(units, uint16(c))
			continue
		}
		i++
		if i == len(raw) {
			break
		}
		switch raw[i] {
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		case 'u':
			unit, err := hexUnit(raw[i+1:])
			if err != nil {
				return "", err
			}
			i += 4
			units = append(units, unit)
		default:
			units = append(units, uint16(raw[i]))
		}
	}
	return string(utf16.Decode(units)), nil
}

// hexUnit reads the four hex digits after \u.
func hexUnit(digits []byte) (uint16, error) {
	bad := fmt.Errorf(`a \u needs four hexadecimal digits after it; write \\ for a backslash itself`)
	if len(digits) < 4 {
		return 0, bad
	}
	var unit uint16
	for _, c := range digits[:4] {
		v := strings.IndexByte("0123456789abcdef", c|0x20)
		if v < 0 || c < '0' {
			return 0, bad
		}
		unit = unit<<4 | uint16(v)
	}
	return unit, nil
}

// trimJava trims the same characters as String.trim: all up to and including the space character.
func trimJava(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}
