package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/terminal"
)

// cleaned makes texts visible. In them only the shell's own colours stay.
func (o *output) cleaned(v []any) []any {
	out := make([]any, len(v))
	for i, one := range v {
		switch x := one.(type) {
		case string:
			out[i] = o.keepColours(x)
		case []byte:
			out[i] = terminal.Visible(string(x))
		case error:
			out[i] = terminal.Visible(x.Error())
		case fmt.Stringer:
			out[i] = terminal.Visible(x.String())
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
		return terminal.Visible(text)
	}
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '\x1b')
		if at < 0 {
			break
		}
		b.WriteString(terminal.Visible(text[:at]))
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
	return b.String() + terminal.Visible(text)
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
