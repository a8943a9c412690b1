package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// output is where a shell prints. It is used by one goroutine at a time: the one
// that holds the shell's turn.
type output struct {
	w        *bufio.Writer // results; flushed after each command
	errs     io.Writer     // messages, errors, progress
	json     bool          // results as JSON, one value to a line
	colours  bool          // w is a terminal that shows them
	terminal bool          // w is a terminal
	errTerm  bool          // errs is a terminal
}

// outputBuffer is large enough that listings are written in few calls.
const outputBuffer = 64 << 10

func newOutput(out, errs io.Writer) *output {
	o := &output{w: bufio.NewWriterSize(out, outputBuffer), errs: errs}
	o.terminal, o.errTerm = isTerminal(out), isTerminal(errs)
	o.colours = o.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return o
}

// isTerminal reports whether w is a terminal, or another character device.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// printf prints a part of a result in text form.
func (o *output) printf(format string, v ...any) { fmt.Fprintf(o.w, format, v...) }

// value prints v as JSON on one line.
func (o *output) value(v any) {
	e := json.NewEncoder(o.w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("cli: a result that JSON can't express: " + err.Error())
	}
}

// show prints v in JSON, or has text print it.
func (o *output) show(v any, text func()) {
	if o.json {
		o.value(v)
		return
	}
	text()
}

// messagef prints a line that is not part of a result, in order with the results.
func (o *output) messagef(format string, v ...any) {
	o.w.Flush()
	fmt.Fprintf(o.errs, format+"\n", v...)
}

// notef is messagef for what JSON output says otherwise.
func (o *output) notef(format string, v ...any) {
	if !o.json {
		o.messagef(format, v...)
	}
}

// A colour is a terminal's code for one.
type colour string

const (
	red     colour = "31"
	green   colour = "32"
	yellow  colour = "33"
	blue    colour = "1;34"
	magenta colour = "35"
)

// paint returns text in a colour, if colours are on.
func (o *output) paint(c colour, text string) string {
	if !o.colours || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// printable returns data as a result shows it. On a terminal control characters
// are replaced, so that no znode's content can move the cursor or worse; elsewhere
// the bytes are left alone.
func (o *output) printable(data []byte) string {
	if !o.terminal {
		return string(data)
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return utf8.RuneError
	}, string(data))
}

// name returns a path or a name as a result shows it.
func (o *output) name(path string) string { return o.printable([]byte(path)) }
