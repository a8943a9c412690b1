package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/terminal"
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

	period    time.Duration // between changes of the progress line
	failed    error         // the first error of writing results
	line      *progress     // the work under way, nil for none
	lineShown bool          // its line stands on the terminal

	spoken atomic.Bool // something was printed since it was set to false
}

// outputBuffer is large enough that listings are written in few calls.
const outputBuffer = 64 << 10

func newOutput(out, errs io.Writer) *output {
	o := &output{errs: errs, period: progressPeriod}
	o.w = bufio.NewWriterSize(belowLine{o, out}, outputBuffer)
	o.terminal, o.errTerm = terminal.Is(out), terminal.Is(errs)
	o.colours = terminal.Colours(out)
	return o
}

// belowLine is out, the progress line wiped before anything is written there.
type belowLine struct {
	o   *output
	out io.Writer
}

func (b belowLine) Write(p []byte) (int, error) {
	if b.o.terminal {
		b.o.wipeLine()
	}
	b.o.spoken.Store(true)
	n, err := b.out.Write(p)
	if err != nil && b.o.failed == nil {
		b.o.failed = err
	}
	return n, err
}

// flush writes out the results so far, and returns the first error that any of them
// had: what wasn't printed wasn't done.
func (o *output) flush() error {
	o.w.Flush() // belowLine keeps its error
	if o.failed == nil {
		return nil
	}
	return advise(fmt.Errorf("write the results: %w", o.failed), "what was printed is not whole; what the command has changed stays")
}

// wipeLine takes the progress line off the terminal; it comes back by itself.
func (o *output) wipeLine() {
	if o.lineShown {
		o.lineShown = false
		o.errf("\r\x1b[K")
	}
}

// row prints a line of a table, on a terminal only what fits, with … for the rest: the
// left columns say most, and a table that wraps says nothing.
func (o *output) row(format string, v ...any) {
	line := o.name(fmt.Sprintf(format, v...))
	if r := []rune(line); o.terminal && len(r) > o.width() {
		line = string(r[:max(o.width()-1, 0)]) + "…"
	}
	o.printf("%s\n", line)
}

// width returns how many columns the terminal of errs has.
func (o *output) width() int {
	if n := terminal.Columns(o.errs); n > 0 {
		return n
	}
	return widthDefault
}

// widthDefault is the width of a terminal that doesn't tell.
const widthDefault = 80

// printf prints a part of a result in text form. The format is the shell's own; what
// v has may come from other clients, and is made visible on a terminal.
func (o *output) printf(format string, v ...any) {
	if o.terminal {
		v = o.cleaned(v)
	}
	fmt.Fprintf(o.w, format, v...)
}

// errf is printf for messages and errors, which have a stream of their own.
func (o *output) errf(format string, v ...any) {
	if o.errTerm {
		v = o.cleaned(v)
	}
	o.spoken.Store(true)
	fmt.Fprintf(o.errs, format, v...)
}

// value prints v as JSON on one line.
func (o *output) value(v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("cli: a result that JSON can't express: " + err.Error())
	}
	_, _ = o.w.Write(terminal.VisibleJSON(text.Bytes())) // flush tells the error
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
	o.wipeLine()
	if o.json {
		o.errJSON(messageJSON{fmt.Sprintf(format, v...)})
		return
	}
	o.errf(format+"\n", v...)
}

type messageJSON struct {
	Message string `json:"message"`
}

// errJSON prints v as JSON among the errors.
func (o *output) errJSON(v any) {
	errs := newOutput(o.errs, o.errs)
	errs.value(v)
	errs.w.Flush()
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

func (c colour) begin() string { return "\x1b[" + string(c) + "m" }

// colourEnd ends any of them.
const colourEnd = "\x1b[0m"

// paint returns text in a colour, if colours are on.
func (o *output) paint(c colour, text string) string {
	if !o.colours || text == "" {
		return text
	}
	return c.begin() + terminal.Visible(text) + colourEnd
}

// printable returns data as a result shows it; see visible.
func (o *output) printable(data []byte) string {
	if !o.terminal {
		return string(data)
	}
	return terminal.Visible(string(data))
}

// name returns a path or a name as a result shows it: on a terminal, on one line.
func (o *output) name(path string) string {
	if !o.terminal {
		return path
	}
	return terminal.OneLine(path)
}
