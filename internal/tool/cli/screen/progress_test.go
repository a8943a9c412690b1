package screen

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// TestProgressLine shows what the line says, and that it fits.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	o := New(&out, &errs)
	o.ErrTerm, o.Terminal, o.Period = true, true, 0
	p := o.Progress("copy").Of(200)
	if o.Progress("a part of it") != nil {
		t.Error("two lines at once")
	}
	p.Add(50)
	if got := p.text(10 * time.Second); got != "copy: 50 of 200 znodes, 25 %, 5/s, 30s left" {
		t.Errorf("with a total: %q", got)
	}
	p.Of(20)
	if got := p.text(10 * time.Second); got != "copy: 50 znodes, 5/s" {
		t.Errorf("beyond the total: %q", got)
	}
	errs.Reset()
	o.Printf("result\n")
	o.W.Flush()
	if errs.String() != "\r\x1b[K" {
		t.Errorf("the line wasn't wiped before a result: %q", errs.String())
	}
	p.Add(1)
	errs.Reset()
	p.End()
	p.End()
	if errs.String() != "\r\x1b[K" {
		t.Errorf("the line wasn't wiped once at the end: %q", errs.String())
	}
	if got := cut("mirror /ä: 50 znodes", 9); got != "50 znodes" {
		t.Errorf("cut: %q", got)
	}
	out.Reset()
	o.Row("%-60s%-60s", "ä", "b")
	o.W.Flush()
	if want := "ä" + strings.Repeat(" ", 59) + "b" + strings.Repeat(" ", widthDefault-62) + "…\n"; out.String() != want {
		t.Errorf("a row that is too long: %q, want %q", out.String(), want)
	}
	var none *Progress
	none.Of(1).OfTree(context.Background(), nil, "/").Add(1)
	none.End()
}
