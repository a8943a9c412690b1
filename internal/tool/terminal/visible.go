// Package terminal tells programs about their output: whether it is a terminal, its width, and which text could control
// it or deceive its reader.
package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text with U+FFFD in place of each character that controls a terminal
// or deceives its reader: control characters other than line ends and tabs, and
// characters that reorder others or take no space. All text from a server, a file or a
// command line goes through Visible on its way to a terminal.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if Steers(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
}

// OneLine is Visible for text that has no lines, such as a name.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if Steers(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// Steers reports whether r is a control character, ends a line, or is a Unicode format character:
// direction marks, tags, characters that take no space. Two that join letters and emoji in honest
// text are exempt.
func Steers(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c'
	return r != joiner && r != nonJoiner && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// VisibleJSON returns JSON with such characters escaped, which changes nothing for a
// JSON parser.
func VisibleJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return Steers(r) && r != '\n' }) {
		return text
	}
	var b []byte
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case !Steers(r) || r == '\n':
			b = append(b, text[:n]...)
		case r > 0xffff:
			r -= 0x10000 // a pair of surrogates
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b
}

// Quoted returns a path as it is written in a shell command.
func Quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@%", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
