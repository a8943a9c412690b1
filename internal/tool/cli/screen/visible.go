package screen

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// cleaned returns v with texts made visible (see terminal.Visible). Only the shell's own colours stay.
func (o *Output) cleaned(v []any) []any {
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

// keepColours is terminal.Visible, but keeps the codes that Paint writes: Paint itself
// makes what it paints visible.
func (o *Output) keepColours(text string) string {
	if !o.Colours || !strings.Contains(text, ColourEnd) {
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
		for _, code := range []string{
			ColourEnd, Red.Begin(), Green.Begin(), Yellow.Begin(), Blue.Begin(), Magenta.Begin(), Bold.Begin(),
		} {
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

// VisibleWriter makes visible a text that is written in parts, and prints it line by line.
type VisibleWriter struct {
	O    *Output
	line []byte
}

// Write prints the lines that p completes, and keeps the rest.
func (w *VisibleWriter) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	if end := bytes.LastIndexByte(w.line, '\n'); end >= 0 {
		w.O.Printf("%s", w.line[:end+1])
		w.line = append(w.line[:0], w.line[end+1:]...)
	}
	return len(p), nil
}
