// Package screen prints the shell's results and messages: text or JSON, and on a terminal colours and a line that
// shows the progress of the work. Nothing that servers hold can control the terminal.
package screen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// Output is where a shell prints. It is used by one goroutine at a time: the one
// that holds the shell's turn.
type Output struct {
	W        *bufio.Writer // results; flushed after each command
	errs     io.Writer     // messages, errors, progress
	JSON     bool          // results as JSON, one value to a line
	Colours  bool          // W is a terminal that shows them
	Terminal bool          // W is a terminal
	ErrTerm  bool          // errs is a terminal

	Period time.Duration      // between changes of the progress line
	failed error              // the first error of writing results
	line   *Progress          // the work under way, nil for none
	shown  *terminal.Progress // the line on the terminal

	Spoken atomic.Bool // something was printed since it was set to false
}

// outputBuffer is large enough that listings are written in few calls.
const outputBuffer = 64 << 10

// New returns an Output that prints to out, and messages and progress to errs.
func New(out, errs io.Writer) *Output {
	o := &Output{errs: errs, Period: terminal.ProgressEvery, shown: terminal.ProgressOn(errs)}
	o.W = bufio.NewWriterSize(belowLine{o, out}, outputBuffer)
	o.Terminal, o.ErrTerm = terminal.Is(out), terminal.Is(errs)
	o.Colours = terminal.Colours(out)
	return o
}

// belowLine writes to out, after it has wiped the progress line.
type belowLine struct {
	o   *Output
	out io.Writer
}

func (b belowLine) Write(p []byte) (int, error) {
	if b.o.Terminal {
		b.o.shown.End() // the next change of the line shows it again
	}
	b.o.Spoken.Store(true)
	n, err := b.out.Write(p)
	if err != nil && b.o.failed == nil {
		b.o.failed = err
	}
	return n, err
}

// Flush writes out the results so far, and returns the first error in writing any of them: a command whose results
// weren't printed has failed.
func (o *Output) Flush() error {
	o.W.Flush() // belowLine keeps its error
	if o.failed == nil {
		return nil
	}
	return advice.Add(fmt.Errorf("write the results: %w", o.failed), "what was printed is not whole; what the command has changed stays")
}

// Row prints a line of a table. On a terminal it cuts off what doesn't fit, with … in
// its place: the left columns say most, and a table that wraps is unreadable.
func (o *Output) Row(format string, v ...any) {
	line := o.Name(fmt.Sprintf(format, v...))
	if r := []rune(line); o.Terminal && len(r) > o.width() {
		line = string(r[:max(o.width()-1, 0)]) + "…"
	}
	o.Printf("%s\n", line)
}

// width returns the number of columns of the terminal of errs.
func (o *Output) width() int {
	if n := terminal.Columns(o.errs); n > 0 {
		return n
	}
	return widthDefault
}

// widthDefault is the assumed width of a terminal that doesn't tell its width.
const widthDefault = 80

// Printf prints a part of a result in text form. The format is the shell's own; v may
// come from other clients, and is made visible on a terminal (see terminal.Visible).
func (o *Output) Printf(format string, v ...any) {
	if o.Terminal {
		v = o.cleaned(v)
	}
	fmt.Fprintf(o.W, format, v...)
}

// Errf is Printf for messages and errors, which have a separate stream.
func (o *Output) Errf(format string, v ...any) {
	if o.ErrTerm {
		v = o.cleaned(v)
	}
	o.Spoken.Store(true)
	fmt.Fprintf(o.errs, format, v...)
}

// Value prints v as JSON on one line.
func (o *Output) Value(v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("cli: a result that JSON can't express: " + err.Error())
	}
	_, _ = o.W.Write(terminal.VisibleJSON(text.Bytes())) // Flush returns the error
}

// Show prints v as JSON, or calls text to print it.
func (o *Output) Show(v any, text func()) {
	if o.JSON {
		o.Value(v)
		return
	}
	text()
}

// Messagef prints a line that is not part of a result, in order with the results.
func (o *Output) Messagef(format string, v ...any) {
	o.W.Flush()
	o.shown.End()
	if o.JSON {
		o.ErrJSON(messageJSON{fmt.Sprintf(format, v...)})
		return
	}
	o.Errf(format+"\n", v...)
}

type messageJSON struct {
	Message string `json:"message"`
}

// ErrJSON prints v as JSON on the stream of errors.
func (o *Output) ErrJSON(v any) {
	errs := New(o.errs, o.errs)
	errs.Value(v)
	errs.W.Flush()
}

// Notef is Messagef for messages whose content JSON output has in another form.
func (o *Output) Notef(format string, v ...any) {
	if !o.JSON {
		o.Messagef(format, v...)
	}
}

// A Colour is a terminal's code for a colour.
type Colour string

const (
	Red     Colour = "31"
	Green   Colour = "32"
	Yellow  Colour = "33"
	Blue    Colour = "1;34"
	Magenta Colour = "35"
	Bold    Colour = "1"
)

// Begin returns the sequence that starts the colour on a terminal.
func (c Colour) Begin() string { return "\x1b[" + string(c) + "m" }

// ColourEnd ends any colour.
const ColourEnd = "\x1b[0m"

// Paint returns text in a colour, if colours are on.
func (o *Output) Paint(c Colour, text string) string {
	if !o.Colours || text == "" {
		return text
	}
	return c.Begin() + terminal.Visible(text) + ColourEnd
}

// Printable returns data as a result shows it; see terminal.Visible.
func (o *Output) Printable(data []byte) string {
	if !o.Terminal {
		return string(data)
	}
	return terminal.Visible(string(data))
}

// Name returns a path or a name as a result shows it: on a terminal, on one line.
func (o *Output) Name(path string) string {
	if !o.Terminal {
		return path
	}
	return terminal.OneLine(path)
}
