package sasl

import (
	"bytes"
	"fmt"
	"strings"
)

// Kinds of token in a login file.
const (
	kindEnd  = iota
	kindWord // bare or quoted; JAAS makes no difference
	kindMark // one other character
)

type token struct {
	kind   int
	text   string
	quoted bool
	line   int
}

func (t token) is(mark string) bool { return t.kind == kindMark && t.text == mark }

// String describes the token for an error message. It doesn't show quoted text, which may be a
// password.
func (t token) String() string {
	switch {
	case t.kind == kindEnd:
		return "the end of the file"
	case t.quoted:
		return "a quoted text"
	}
	return fmt.Sprintf("%.64q", t.text)
}

// lexer splits a login file into tokens as Java's StreamTokenizer does with the settings of JAAS.
type lexer struct {
	file string
	text []byte // the rest of the file
	line int
}

func (l *lexer) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", l.file, line, fmt.Sprintf(format, args...))
}

// next returns the next token. At the end of the text, every call returns kindEnd.
func (l *lexer) next() (token, error) {
	if err := l.skipBlank(); err != nil {
		return token{}, err
	}
	if len(l.text) == 0 {
		return token{kind: kindEnd, line: l.line}, nil
	}
	if l.text[0] == '"' {
		return l.quoted()
	}
	n := 0
	for n < len(l.text) && isWordByte(l.text[n]) {
		n++
	}
	kind := kindWord
	if n == 0 {
		kind, n = kindMark, 1
	}
	tok := token{kind: kind, text: string(l.text[:n]), line: l.line}
	l.text = l.text[n:]
	return tok, nil
}

// isWordByte reports whether a bare word may contain c: letters, digits, $ _ - * and dot, and every
// byte of a character outside ASCII.
func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 ||
		strings.IndexByte("$_-*.", c) >= 0
}

// skipBlank skips white space and both kinds of Java comments.
func (l *lexer) skipBlank() error {
	for len(l.text) > 0 {
		switch {
		case l.text[0] == '\n':
			l.line++
			l.text = l.text[1:]
		case l.text[0] <= ' ':
			l.text = l.text[1:]
		case bytes.HasPrefix(l.text, []byte("//")):
			end := bytes.IndexByte(l.text, '\n')
			if end < 0 {
				end = len(l.text)
			}
			l.text = l.text[end:]
		case bytes.HasPrefix(l.text, []byte("/*")):
			end := bytes.Index(l.text[2:], []byte("*/"))
			if end < 0 {
				return l.errorf(l.line, "the comment that begins here has no end")
			}
			l.line += bytes.Count(l.text[:end+2], []byte("\n"))
			l.text = l.text[end+4:]
		default:
			return nil
		}
	}
	return nil
}

// escapes maps the letters that, after a backslash, stand for control characters. After a
// backslash, other characters stand for themselves.
var escapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// quoted reads the text in double quotes at the start of l.text.
func (l *lexer) quoted() (token, error) {
	var b strings.Builder
	for i := 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == '"':
			l.text = l.text[i+1:]
			return token{kind: kindWord, text: b.String(), quoted: true, line: l.line}, nil
		case c == '\n':
			return token{}, l.errorf(l.line, "the quoted text does not end on its line")
		case c == '\\' && i+1 < len(l.text) && l.text[i+1] != '\n':
			i++
			n, c := octal(l.text[i:])
			if n > 0 {
				i += n - 1
				b.WriteRune(rune(c))
			} else if c, ok := escapes[l.text[i]]; ok {
				b.WriteByte(c)
			} else {
				b.WriteByte(l.text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return token{}, l.errorf(l.line, "the quoted text has no end")
}

// octal reads up to three octal digits, the first of three being at most 3, and returns their
// number and the character that they stand for.
func octal(b []byte) (n int, c byte) {
	for n < len(b) && n < 3 && b[n] >= '0' && b[n] <= '7' && (n < 2 || b[0] <= '3') {
		c = c<<3 | (b[n] - '0')
		n++
	}
	return n, c
}
