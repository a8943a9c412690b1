package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns text without what steers a terminal or deceives who reads it:
// control characters but line ends and tabs, and characters that change the order of
// others or take no place. U+FFFD stands for each. All text that comes from a
// server, a file or a command line goes through it on its way to a terminal.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
}

// oneLine is visible for what has no lines, such as a name.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// steers reports whether r is a control character, ends a line, or is a format
// character of Unicode: marks of direction, tags, what takes no place. Two of those
// join letters and emoji in honest text.
func steers(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c'
	return r != joiner && r != nonJoiner && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// visibleJSON returns JSON with such characters escaped, which changes nothing for
// who reads it as JSON.
func visibleJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return steers(r) && r != '\n' }) {
		return text
	}
	var b []byte
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case !steers(r) || r == '\n':
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

// cleaned makes texts visible. In them only the shell's own colours stay.
func (o *output) cleaned(v []any) []any {
	out := make([]any, len(v))
	for i, one := range v {
		switch x := one.(type) {
		case string:
			out[i] = o.keepColours(x)
		case []byte:
			out[i] = visible(string(x))
		case error:
			out[i] = visible(x.Error())
		case fmt.Stringer:
			out[i] = visible(x.String())
		default:
			out[i] = one
		}
	}
	return out
}

// keepColours is visible, but for the codes that paint writes: paint itself makes
// what it paints visible.
func (o *output) keepColours(text string) string {
	if !o.colours || !strings.Contains(text, colourEnd) {
		return visible(text)
	}
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '\x1b')
		if at < 0 {
			break
		}
		b.WriteString(visible(text[:at]))
		text = text[at:]
		n := 0
		for _, code := range []string{colourEnd, red.begin(), green.begin(), yellow.begin(), blue.begin(), magenta.begin()} {
			if strings.HasPrefix(text, code) {
				n = len(code)
			}
		}
		b.WriteString(text[:n])
		if n == 0 {
			b.WriteRune(utf8.RuneError)
			n = 1
		}
		text = text[n:]
	}
	return b.String() + visible(text)
}

// visibleWriter makes text visible that is written in parts: a line at a time.
type visibleWriter struct {
	o    *output
	line []byte
}

func (w *visibleWriter) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	if end := bytes.LastIndexByte(w.line, '\n'); end >= 0 {
		w.o.printf("%s", w.line[:end+1])
		w.line = append(w.line[:0], w.line[end+1:]...)
	}
	return len(p), nil
}
