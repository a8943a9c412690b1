package terminal

import (
	"fmt"
	"io"
	"time"
)

// ProgressEvery is the time between two changes of a Progress, long enough that they cost nothing.
const ProgressEvery = 200 * time.Millisecond

// A Progress is a line on a terminal that shows how far the work is. Without a terminal it
// shows nothing. Its methods are for one goroutine at a time.
type Progress struct {
	w     io.Writer
	is    bool // w is a terminal
	stage string
	shown bool
	last  time.Time
}

// NewProgress returns a progress line on w, which shows nothing yet.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, is: Is(w)} }

// ProgressOn returns a progress line on w, which the caller says is a terminal.
func ProgressOn(w io.Writer) *Progress { return &Progress{w: w, is: true} }

// Stage shows the current stage of the work.
func (p *Progress) Stage(what string) {
	p.stage = what
	p.Show(what)
}

// Due reports whether the line hasn't changed for ProgressEvery.
func (p *Progress) Due() bool { return time.Since(p.last) >= ProgressEvery }

// Detail shows how far the stage is, if Due.
func (p *Progress) Detail(format string, args ...any) {
	if p.is && p.Due() {
		p.Show(p.stage + ": " + fmt.Sprintf(format, args...))
	}
}

// Show puts a text on the line, cut to the width of the terminal.
func (p *Progress) Show(text string) {
	if !p.is {
		return
	}
	p.last, p.shown = time.Now(), true
	text = OneLine(text)
	width := Columns(p.w)
	if runes := []rune(text); width > 1 && len(runes) >= width {
		text = string(runes[:width-1])
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
}

// End wipes the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
