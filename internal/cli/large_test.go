package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHundredThousand lists, finds, copies and removes 100,000 znodes with the
// progress shown.
func TestHundredThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	onServers(t, func(t *testing.T, address string) {
		const above, below = 100, 1000
		const all = 1 + above + above*below
		var text bytes.Buffer
		fmt.Fprintf(&text, `{"format":"zooid-export-1","root":"/big","znodes":[{"path":"/","data":"top"}`)
		for i := range above {
			fmt.Fprintf(&text, `,{"path":"/d%02d"}`, i)
			for j := range below {
				fmt.Fprintf(&text, `,{"path":"/d%02d/n%03d","data":"%d"}`, i, j, j)
			}
		}
		text.WriteString("]}")
		file := filepath.Join(t.TempDir(), "big.json")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		v := newSession(t, address)
		var results bytes.Buffer
		v.s.out.w = bufio.NewWriter(&results)
		v.s.out.errTerm, v.s.out.period = true, 10*time.Millisecond
		for _, c := range []struct {
			line, progress, out string
			lines               int // of results
		}{
			{"import -unchecked " + file, "import: ", fmt.Sprintf("%d created, 0 changed, 0 the same\n", all), 1},
			{"ls -R /big", "walk /big: ", "/big/d99/n999\n", all},
			{"find -name n500 /big", "walk /big: ", "/big/d00/n500\n", above},
			{"mirror /big " + address + "/copy", "mirror /big ", fmt.Sprintf("%d created, 0 changed, 0 deleted\n", all), 1},
			{"export /big " + file + ".gz", "export /big: ", "exported 100101 znodes to ", 1},
			{"deleteall /copy", "delete: ", "", 0},
		} {
			v.out.Reset()
			results.Reset()
			v.s.line(t.Context(), c.line)
			if n := bytes.Count(results.Bytes(), []byte("\n")); v.s.exit != 0 || n != c.lines || !strings.Contains(results.String(), c.out) {
				t.Errorf("%s: exit code %d; %d lines of results, want %d with %q", c.line, v.s.exit, n, c.lines, c.out)
			}
			if !strings.Contains(v.out.String(), "\r\x1b[K"+c.progress) {
				t.Errorf("%s: no progress was shown", c.line)
			}
		}
	})
}

// TestProgressLine shows what the line says, and that it fits.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	o := newOutput(&out, &errs)
	o.errTerm, o.terminal, o.period = true, true, 0
	p := o.progress("copy").of(200)
	if o.progress("a part of it") != nil {
		t.Error("two lines at once")
	}
	p.add(50)
	if got := p.text(10 * time.Second); got != "copy: 50 of 200 znodes, 25 %, 5/s, 30s left" {
		t.Errorf("with a total: %q", got)
	}
	p.of(20)
	if got := p.text(10 * time.Second); got != "copy: 50 znodes, 5/s" {
		t.Errorf("beyond the total: %q", got)
	}
	errs.Reset()
	o.printf("result\n")
	o.w.Flush()
	if errs.String() != "\r\x1b[K" {
		t.Errorf("the line wasn't wiped before a result: %q", errs.String())
	}
	p.add(1)
	errs.Reset()
	p.end()
	p.end()
	if errs.String() != "\r\x1b[K" {
		t.Errorf("the line wasn't wiped once at the end: %q", errs.String())
	}
	if got := cut("mirror /ä: 50 znodes", 9); got != "50 znodes" {
		t.Errorf("cut: %q", got)
	}
	out.Reset()
	o.row("%-60s%-60s", "ä", "b")
	o.w.Flush()
	if want := "ä" + strings.Repeat(" ", 59) + "b" + strings.Repeat(" ", widthDefault-62) + "…\n"; out.String() != want {
		t.Errorf("a row that is too long: %q, want %q", out.String(), want)
	}
	var none *progress
	none.of(1).ofTree(context.Background(), nil, "/").add(1)
	none.end()
}
